/* link: linked tasks and drains on the device
 *
 * Modelled (completion.hpp, admission.hpp): a ring of C slots, each with two link words (state, lap, successor, failed) that its laps use
 * in turn. Fetchers own windows of two positions and take them in order. A task B that is linked to the task A before it: its fetcher
 * reads link[A]; DONE for A's lap means B is ready, or is cancelled when A has failed and B's link is not hard; else CAS to WAITING(A's
 * lap, B), and on failure again. The completer of A exchanges link[A] for DONE(A's lap, failed); had it been WAITING(B), it runs B itself
 * next, or makes it ready as one to be cancelled. Only then does it write A's completion entry: that entry lets the slot be used again
 * (BROKEN_ENTRY_FIRST). With one link word a slot, a later lap takes A's failure with it before B's fetcher has looked (BROKEN_ONE_WORD).
 *
 * A cancelled task is completed like any other, as one that has failed. A drain that is linked looks at link[A] when all before it are
 * complete. When A has been reaped before B is placed, the host knows how A has ended: B is no linked task, or one that says that A has
 * failed (BROKEN_REAPED).
 *
 * Every header carries the number of drains before it, modulo EPOCHS. A fetcher passes a task only when the device's epoch is the
 * task's, and a drain besides only when `completed` == its position; every completion adds the slots of its task, behind its entry; a
 * drain's completion then makes the device's epoch its own + 1. EPOCHS must exceed the positions that fetchers own at once, or a task
 * behind EPOCHS drains passes for one before them (BROKEN_EPOCHS).
 *
 * A task of two slots that would cross the end of a window goes to the next; the slot before is padding, which is complete when it is
 * fetched and no earlier, or its lap would never be seen (BROKEN_SKIP_EARLY). The host itself completes second slots.
 *
 * Abstraction: tasks fail, and links are other than hard, with FAILS only, and there each takes one slot. One producer writes whole slots in order and chooses each task's kind (plain, linked, drain) and size (one or two
 * slots); a header names the head before it (in the code: its distance). Every task is tracked. Credit: p - reaped < C. Ready tasks are
 * a set (ready_queue.pml). A host with laps that wrap is in ring.pml; here positions just count up.
 *
 * Properties
 *   assertions   a task starts once; a linked task only after the one before it is complete; a drain only after all before it, and
 *                none behind a drain before that is complete; a task is cancelled if and only if its link is not hard and the one before
 *                has failed or was cancelled
 *   end states   everything completes (no run is endless, so this is progress), also with one fetcher and one worker
 *   completes    the same as LTL (no fairness needed)
 * Mutations: BROKEN_ENTRY_FIRST, BROKEN_STORE, BROKEN_LAP, BROKEN_ONE_WORD, BROKEN_REAPED, BROKEN_NOT_PASSED_ON, BROKEN_EPOCHS,
 *   BROKEN_NO_EPOCH, BROKEN_COUNT, BROKEN_SKIP_EARLY
 */
#ifndef FETCHERS
#define FETCHERS 2
#endif
#ifndef WORKERS
#define WORKERS  2
#endif
#ifndef SLOTS
#define SLOTS    7                /* submitted in all */
#endif
#ifndef C
#define C        4
#endif
#define WINDOW   2
#ifdef BROKEN_EPOCHS
#define EPOCHS   2
#else
#define EPOCHS   (FETCHERS * WINDOW + 1)
#endif
#define NONE     255

#ifdef BROKEN_ONE_WORD
#define WORDS    C
#else
#define WORDS    (2 * C)
#endif

mtype:kind  = { plain, linked, drain, padding };
mtype:state = { waiting, done };

/* the slots: headers, and ghosts of their tasks */
mtype:kind kind[C] = plain;
byte distance[C];                 /* to the head of the task before */
byte epoch[C];
bit two[C];                       /* takes two slots */
bit soft[C];                      /* linked, as a drain perhaps, and not hard */
bit told[C];                      /* the one before has failed, as the host knew */
bit started[C], finished[C];      /* ghost */
bit fell[2 * C];                  /* ghost, by link word: the task failed or was cancelled */
bit entry[C], status[C];          /* completion entries; 1: failed */
byte tail, reaped;
bit last_failed;                  /* of the last task that the host has reaped */
/* device */
byte window;
byte completed, device_epoch;
mtype:state state[WORDS] = done;  /* link words; lap 0 */
byte lap[WORDS], successor[WORDS];
bit failed[WORDS];
bit ready[C], cancelled[C];

#define LAP(p)     ((p) / C + 1)
#define S(p)       ((p) % C)
#define W(p)       ((p) % WORDS)
#define G(p)       ((p) % (2 * C))
#define SIZE(p)    (1 + two[S(p)])
#define A          (p - distance[S(p)])

proctype Producer() {
  byte last, drains;
  do
  :: tail < SLOTS ->
     atomic {
       tail - reaped < C || entry[S(reaped)];
       do
       :: reaped < tail && entry[S(reaped)] ->
          last_failed = (distance[S(reaped)] == NONE -> last_failed : status[S(reaped)]);
          kind[S(reaped)] = plain; two[S(reaped)] = 0; distance[S(reaped)] = 0; epoch[S(reaped)] = 0;
          soft[S(reaped)] = 0; told[S(reaped)] = 0; cancelled[S(reaped)] = 0;
          entry[S(reaped)] = 0; status[S(reaped)] = 0; started[S(reaped)] = 0; finished[S(reaped)] = 0;
          reaped++
       :: else -> break
       od;
       epoch[S(tail)] = drains;
       if
       :: true ->                               /* one slot */
          distance[S(tail)] = last; last = 1
#ifndef FAILS
       :: tail % WINDOW == 0 && tail - reaped < C - 1 && tail + 1 < SLOTS ->
          distance[S(tail)] = last; last = 2;
          two[S(tail)] = 1; entry[S(tail + 1)] = 1; finished[S(tail + 1)] = 1; distance[S(tail + 1)] = NONE
       :: tail % WINDOW != 0 && tail + 2 < SLOTS ->     /* a task of two slots follows, as soon as there is room */
          kind[S(tail)] = padding; distance[S(tail)] = NONE; last = (last -> last + 1 : 0);
#ifdef BROKEN_SKIP_EARLY
          entry[S(tail)] = 1;
#endif
          tail++;
          goto padded
#endif
       fi;
       if
       :: kind[S(tail)] = plain
       :: distance[S(tail)] != 0 -> kind[S(tail)] = linked
       :: kind[S(tail)] = drain; drains = (drains + 1) % EPOCHS
#ifdef FAILS
       :: distance[S(tail)] != 0 -> kind[S(tail)] = linked; soft[S(tail)] = 1
       :: distance[S(tail)] != 0 -> kind[S(tail)] = drain; soft[S(tail)] = 1; drains = (drains + 1) % EPOCHS
#endif
       fi;
       if
       :: kind[S(tail)] != plain && distance[S(tail)] != 0 && tail - distance[S(tail)] < reaped ->
#ifndef BROKEN_REAPED
          told[S(tail)] = soft[S(tail)] && last_failed;
#endif
          if
          :: kind[S(tail)] == linked && !told[S(tail)] -> kind[S(tail)] = plain
          :: else
          fi
       :: else
       fi;
       tail = tail + last;
padded:
       skip
     }
  :: tail == SLOTS -> break
  od
}

#ifdef BROKEN_LAP
#define IS_DONE    (s == done)
#else
#ifdef BROKEN_ONE_WORD
#define IS_DONE    (s == done && l == LAP(A) || l > LAP(A))
#else
#define IS_DONE    (s == done && l == LAP(A))
#endif
#endif
#define HAS_FAILED (state[W(A)] == done && lap[W(A)] == LAP(A) && failed[W(A)])
#ifdef BROKEN_STORE
#define UNCHANGED  true
#else
#define UNCHANGED  (state[W(A)] == s && lap[W(A)] == l)
#endif

#ifdef BROKEN_NO_EPOCH
#define EPOCH_COME true
#else
#define EPOCH_COME (epoch[S(p)] == device_epoch)
#endif
#define VISIBLE    (p < tail && tail <= p + C)
#define DUE        (EPOCH_COME && (kind[S(p)] != drain || completed == p))

proctype Fetcher() {
  byte p, l; mtype:state s; bit f;
end: do
  :: atomic { window < SLOTS -> p = window; window = window + WINDOW }
     do
     :: atomic {                  /* once this holds it stays so: one step */
          VISIBLE && DUE;
          assert(p >= reaped);
          l = SIZE(p);
          if
          :: kind[S(p)] == padding -> started[S(p)] = 1; goto skipped
          :: kind[S(p)] == plain -> ready[S(p)] = 1; goto next
          :: told[S(p)] -> cancelled[S(p)] = 1; ready[S(p)] = 1; goto next
          :: kind[S(p)] == drain && !told[S(p)] -> cancelled[S(p)] = soft[S(p)] && HAS_FAILED; ready[S(p)] = 1; goto next
          :: kind[S(p)] == linked && !told[S(p)]
          fi
        }
        do
        :: atomic { s = state[W(A)]; l = lap[W(A)]; f = HAS_FAILED }
           atomic {
             if
             :: IS_DONE -> l = SIZE(p); cancelled[S(p)] = soft[S(p)] && f; f = 0; ready[S(p)] = 1; goto next
             :: !IS_DONE && UNCHANGED ->
                l = SIZE(p); state[W(A)] = waiting; lap[W(A)] = LAP(A); successor[W(A)] = p; failed[W(A)] = 0; f = 0; goto next
             :: else -> s = 0; l = 0; f = 0
             fi
           }
        od;
skipped:
        atomic { finished[S(p)] = 1; entry[S(p)] = 1 }
        completed++;
next:   atomic {                  /* the slot may be another's by now */
          s = 0; p = p + l; l = 0;
          if
          :: p % WINDOW == 0 || p == SLOTS -> p = 0; break
          :: else
          fi
        }
     od
  od
}

inline start() {
  d_step {
    assert(!started[S(t)] && t >= reaped);
    assert(kind[S(t)] != linked || t - distance[S(t)] < reaped || finished[S(t - distance[S(t)])]);
    assert(cancelled[S(t)] == (soft[S(t)] && fell[G(t - distance[S(t)])]));
    i = reaped;
    do
    :: i < t -> assert(finished[S(i)] || kind[S(t)] != drain && kind[S(i)] != drain); i++
    :: i == t -> break
    od;
    i = 0; started[S(t)] = 1; size = SIZE(t);
    drains = (kind[S(t)] == drain -> epoch[S(t)] : NONE)
  }
}

/* the position in slot s that is in the ring */
inline take(s) { ready[s] -> ready[s] = 0; t = reaped + (s + C - S(reaped)) % C }

proctype Worker() {
  byte t, i, size, drains = NONE, next = NONE;    /* drains: of a drain, its header's count */
  bit fails;
end: do
  :: atomic {
       if
       :: take(0)
       :: take(1)
#if C > 2
       :: take(2)
       :: take(3)
#endif
       fi;
again: start()
     }
#ifdef BROKEN_ENTRY_FIRST
     entry[S(t)] = 1;
#endif
     atomic {                     /* exchange */
       finished[S(t)] = 1;
       if
#ifdef FAILS
       :: fails = 1
#endif
       :: !cancelled[S(t)] -> fails = 0
       fi;
       fell[G(t)] = fails;
       if
       :: state[W(t)] == waiting && lap[W(t)] == LAP(t) -> next = successor[W(t)]
       :: else
       fi;
#ifdef BROKEN_NOT_PASSED_ON
       failed[W(t)] = fails && !cancelled[S(t)];
#else
       failed[W(t)] = fails;
#endif
       state[W(t)] = done; lap[W(t)] = LAP(t); successor[W(t)] = 0;
       if
       :: next != NONE && fails && soft[S(next)] -> cancelled[S(next)] = 1; ready[S(next)] = 1; next = NONE
       :: else
       fi
     }
#ifndef BROKEN_ENTRY_FIRST
     atomic { status[S(t)] = fails; entry[S(t)] = 1; fails = 0 }
#endif
     atomic {
#ifdef BROKEN_COUNT
       completed++;
#else
       completed = completed + size;
#endif
       if
       :: drains == NONE -> goto over
       :: else
       fi
     }
     device_epoch = (drains + 1) % EPOCHS;
over:
     atomic {
       t = 0; size = 0; drains = NONE;
       if
       :: next != NONE -> t = next; next = NONE; goto again
       :: else
       fi
     }
  od
}

init {
  atomic {
    run Producer(); run Fetcher(); run Worker();
#if FETCHERS == 2
    run Fetcher();
#endif
#if WORKERS == 2
    run Worker()
#endif
  }
  completed == SLOTS
}

ltl completes { <>(completed == SLOTS) }
