/* link: linked tasks and drains on the device
 *
 * Modelled (completion.hpp, admission.hpp): a ring of C slots, each with a link word (state, lap, successor). Fetchers own windows of
 * two positions and take them in order. A task B that is linked to the task A before it: its fetcher reads link[A]; DONE for A's lap,
 * or anything of a later lap, means B is ready; else CAS to WAITING(A's lap, B), and on failure again. The completer of A exchanges
 * link[A] for DONE(A's lap); had it been WAITING(B), it runs B itself next. Only then does it write A's completion entry: that entry
 * lets the slot, and so the link word, be used again (BROKEN_ENTRY_FIRST).
 *
 * Every header carries the number of drains before it, modulo EPOCHS. A fetcher passes a task only when the device's epoch is the
 * task's, and a drain besides only when `completed` == its position; every completion adds the slots of its task, behind its entry; a
 * drain's completion then makes the device's epoch its own + 1. EPOCHS must exceed the positions that fetchers own at once, or a task
 * behind EPOCHS drains passes for one before them (BROKEN_EPOCHS).
 *
 * A task of two slots that would cross the end of a window goes to the next; the slot before is padding, which is complete when it is
 * fetched and no earlier, or its lap would never be seen (BROKEN_SKIP_EARLY). The host itself completes second slots.
 *
 * Abstraction: one producer writes whole slots in order and chooses each task's kind (plain, linked, drain) and size (one or two
 * slots); a header names the head before it (in the code: its distance). Every task is tracked. Credit: p - reaped < C. Ready tasks are
 * a set (ready_queue.pml). A host with laps that wrap is in ring.pml; here positions just count up.
 *
 * Properties
 *   assertions   a task starts once; a linked task only after the one before it is complete; a drain only after all before it, and
 *                none behind a drain before that is complete
 *   end states   everything completes (no run is endless, so this is progress), also with one fetcher and one worker
 *   completes    the same as LTL (no fairness needed)
 * Mutations: BROKEN_ENTRY_FIRST, BROKEN_STORE, BROKEN_LAP, BROKEN_LATER, BROKEN_EPOCHS, BROKEN_NO_EPOCH, BROKEN_COUNT,
 *   BROKEN_SKIP_EARLY
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
#define C        4
#define WINDOW   2
#ifdef BROKEN_EPOCHS
#define EPOCHS   2
#else
#define EPOCHS   (FETCHERS * WINDOW + 1)
#endif
#define NONE     255

mtype:kind  = { plain, linked, drain, padding };
mtype:state = { waiting, done };

/* the slots: headers, and ghosts of their tasks */
mtype:kind kind[C] = plain;
byte distance[C];                 /* to the head of the task before */
byte epoch[C];
bit two[C];                       /* takes two slots */
bit started[C], finished[C];      /* ghost */
bit entry[C];                     /* completion entries */
byte tail, reaped;
/* device */
byte window;
byte completed, device_epoch;
mtype:state state[C] = done;      /* link words; lap 0 */
byte lap[C], successor[C];
bit ready[C];

#define LAP(p)     ((p) / C + 1)
#define S(p)       ((p) % C)
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
          kind[S(reaped)] = plain; two[S(reaped)] = 0; distance[S(reaped)] = 0; epoch[S(reaped)] = 0;
          entry[S(reaped)] = 0; started[S(reaped)] = 0; finished[S(reaped)] = 0;
          reaped++
       :: else -> break
       od;
       epoch[S(tail)] = drains;
       if
       :: true ->                               /* one slot */
          distance[S(tail)] = last; last = 1
       :: tail % WINDOW == 0 && tail - reaped < C - 1 && tail + 1 < SLOTS ->
          distance[S(tail)] = last; last = 2;
          two[S(tail)] = 1; entry[S(tail + 1)] = 1; finished[S(tail + 1)] = 1
       :: tail % WINDOW != 0 && tail + 2 < SLOTS ->     /* a task of two slots follows, as soon as there is room */
          kind[S(tail)] = padding; last = (last -> last + 1 : 0);
#ifdef BROKEN_SKIP_EARLY
          entry[S(tail)] = 1;
#endif
          tail++;
          goto padded
       fi;
       if
       :: kind[S(tail)] = plain
       :: distance[S(tail)] != 0 -> kind[S(tail)] = linked
       :: kind[S(tail)] = drain; drains = (drains + 1) % EPOCHS
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
#ifdef BROKEN_LATER
#define IS_DONE    (s == done && l == LAP(A))
#else
#define IS_DONE    (s == done && l == LAP(A) || l > LAP(A))
#endif
#endif
#ifdef BROKEN_STORE
#define UNCHANGED  true
#else
#define UNCHANGED  (state[S(A)] == s && lap[S(A)] == l)
#endif

#ifdef BROKEN_NO_EPOCH
#define EPOCH_COME true
#else
#define EPOCH_COME (epoch[S(p)] == device_epoch)
#endif
#define VISIBLE    (p < tail && tail <= p + C)
#define DUE        (EPOCH_COME && (kind[S(p)] != drain || completed == p))

proctype Fetcher() {
  byte p, l; mtype:state s;
end: do
  :: atomic { window < SLOTS -> p = window; window = window + WINDOW }
     do
     :: atomic {                  /* once this holds it stays so: one step */
          VISIBLE && DUE;
          assert(p >= reaped);
          l = SIZE(p);
          if
          :: kind[S(p)] == padding -> started[S(p)] = 1; goto skipped
          :: kind[S(p)] == plain || kind[S(p)] == drain -> ready[S(p)] = 1; goto next
          :: kind[S(p)] == linked
          fi
        }
        do
        :: atomic { s = state[S(A)]; l = lap[S(A)] }
           atomic {
             if
             :: IS_DONE -> l = SIZE(p); ready[S(p)] = 1; goto next
             :: !IS_DONE && UNCHANGED -> l = SIZE(p); state[S(A)] = waiting; lap[S(A)] = LAP(A); successor[S(A)] = p; goto next
             :: else -> s = 0; l = 0
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
end: do
  :: atomic {
       if
       :: take(0)
       :: take(1)
       :: take(2)
       :: take(3)
       fi;
again: start()
     }
#ifdef BROKEN_ENTRY_FIRST
     entry[S(t)] = 1;
#endif
     atomic {                     /* exchange */
       finished[S(t)] = 1;
       if
       :: state[S(t)] == waiting && lap[S(t)] == LAP(t) -> next = successor[S(t)]
       :: else
       fi;
       state[S(t)] = done; lap[S(t)] = LAP(t); successor[S(t)] = 0
     }
#ifndef BROKEN_ENTRY_FIRST
     entry[S(t)] = 1;
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
