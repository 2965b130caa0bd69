/* ring: the submission ring, with the completion ring as its credit
 *
 * Modelled: two host threads reserve positions under the submission lock and write their slots outside it, every
 * quad at its own time and in any order. Two members of the fetch crew own windows of two positions, taken from one
 * atomic counter, and take the positions of a window in order. Workers run and complete in any order. `reaped`
 * advances in order over completion entries that carry the lap of their position; position p may be reserved only
 * while p - reaped < C. A task takes one slot, or two (head and continuation): the host itself writes the
 * continuation's completion entry when it submits.
 *
 * A continuation counts as complete from then on. So once its head is complete its slot may be written anew before the
 * owner of its window has looked: that owner sees a LATER lap, and must take it for "a continuation, already used".
 * (BROKEN_NO_SKIP waits for ever.) Windows are taken in order so that such an owner is at most one lap behind.
 *
 * With SHRINKS one member may be missing from the next lease's crew. Its window is kept, with the first position not yet
 * taken; the other serves it before any later window, even one it holds already (BROKEN_ORPHAN_LAST: it waits at the
 * frontier while submitted tasks lie behind it).
 *
 * Abstraction: two quads a slot instead of four. Positions count modulo C * LAPS and laps modulo LAPS; LAPS must
 * tell apart the laps -2, -1, 0 and +1 around the one waited for, so 4 is the least, and u32 in the code is plenty.
 * Counting starts so that the first lap is lap 0. The lock is one atomic step; a read that would be repeated is a guard.
 *
 * Two configurations: one producer for ever (the state space closes over all wraps), and with -DSLOTS=n two
 * producers, one of which also writes tasks of two slots, that submit n slots in all.
 *
 * Properties
 *   assertions   a position is reserved only when its slot's last task is complete; a slot is accepted only whole; a
 *                task is accepted once, runs once, and only continuations are skipped
 *   end states   nothing gets stuck: with -DSLOTS every task is complete at the end
 *   moves        every lap is reached again and again (LTL, no fairness needed; one producer)
 * Mutations: BROKEN_CREDIT, BROKEN_HEADER_ONLY, BROKEN_NO_PRECOMPLETE, BROKEN_NO_SKIP; with SHRINKS
 *   BROKEN_ORPHAN, BROKEN_ORPHAN_LAST
 */
#define C       4                 /* slots */
#define LAPS    4
#define P       (C * LAPS)        /* positions, modulo */
#define WINDOW  2
#define NONE    255
#define START   (C * (LAPS - 1))
#ifdef BROKEN_CREDIT
#define CREDIT  (C + 1)
#else
#define CREDIT  C
#endif

#define SLOT(p)      ((p) % C)
#define LAP(p)       (((p) / C + 1) % LAPS)        /* p may be P */
#define PLUS(p, n)   (((p) + (n)) % P)
#define USED         ((tail + P - reaped) % P)
#define REAPABLE     (cqe[SLOT(reaped)] == LAP(reaped))
#define NEWER(l, p)  (((l) + LAPS - LAP(p)) % LAPS == 1)
#ifdef BROKEN_NO_SKIP
#define SEEN(l, p)   ((l) == LAP(p))
#else
#define SEEN(l, p)   ((l) == LAP(p) || NEWER(l, p))
#endif
#ifdef BROKEN_HEADER_ONLY
#define SEEN1(l, p)  true
#else
#define SEEN1(l, p)  SEEN(l, p)
#endif

mtype:kind  = { single, head, continuation };
mtype:phase = { vacant, reserved, fetched };

byte lap0[C] = LAPS - 1;          /* the two quads' laps */
byte lap1[C] = LAPS - 1;
mtype:kind kind[C] = single;      /* carried by quad 0 */
byte cqe[C] = LAPS - 1;           /* completion ring: laps */
byte tail = START;                /* host: next position */
byte reaped = START;              /* host: first position not known to be complete */
byte window = START;              /* device: next window */
byte orphan = NONE;               /* device: a window nobody owns; its first position not yet taken */
mtype:phase phase[C] = vacant;    /* ghost */
byte width[C];                    /* ghost: slots of the fetched task */
#ifdef SLOTS
byte budget = SLOTS;              /* slots still to be submitted */
#define MAY(n)     (budget >= (n) && USED + (n) <= CREDIT)
#define SPEND(n)   budget = budget - (n)
#else
#define MAY(n)     (USED + (n) <= CREDIT)
#define SPEND(n)   skip
#endif

proctype Producer(bit pairs) {
  byte p, q; mtype:kind k; bit a, b, c, d;
end: do
  :: atomic {                     /* reap, then reserve, under the lock */
       MAY(1) || REAPABLE;
       do
       :: REAPABLE -> reaped = PLUS(reaped, 1)
       :: else -> break
       od;
       if
       :: MAY(1) -> SPEND(1); k = single; c = 1; d = 1
       :: pairs && MAY(2) -> SPEND(2); k = head
       :: !MAY(1) -> goto end     /* nothing left to submit */
       fi;
       p = tail; tail = PLUS(p, 1);
       assert(phase[SLOT(p)] == vacant);
       phase[SLOT(p)] = reserved;
       if
       :: k == head ->
          q = tail; tail = PLUS(q, 1);
          assert(phase[SLOT(q)] == vacant);
          phase[SLOT(q)] = reserved
       :: else
       fi
     }
     do                           /* write: any order */
     :: !a -> atomic { kind[SLOT(p)] = k; lap0[SLOT(p)] = LAP(p); a = 1 }
     :: !b -> atomic { lap1[SLOT(p)] = LAP(p); b = 1 }
     :: !c -> atomic { kind[SLOT(q)] = continuation; lap0[SLOT(q)] = LAP(q); c = 1 }
     :: !d -> atomic { lap1[SLOT(q)] = LAP(q); d = 1 }
     :: atomic {
          a && b && c && d ->
#ifndef BROKEN_NO_PRECOMPLETE
          if
          :: k == head -> cqe[SLOT(q)] = LAP(q)
          :: else
          fi;
#endif
          p = 0; q = 0; k = 0; a = 0; b = 0; c = 0; d = 0; break
        }
     od
  od
}

inline accept(n) {
  assert(lap0[SLOT(p)] == LAP(p) && lap1[SLOT(p)] == LAP(p) && phase[SLOT(p)] == reserved);
  phase[SLOT(p)] = fetched;
  width[SLOT(p)] = n;
  if
  :: n == 2 ->
     assert(lap0[SLOT(p + 1)] == LAP(p + 1) && lap1[SLOT(p + 1)] == LAP(p + 1));
     assert(phase[SLOT(p + 1)] == reserved && kind[SLOT(p + 1)] == continuation);
     phase[SLOT(p + 1)] = fetched
  :: else
  fi
}

/* one of the two may be missing from the next lease's crew: its window stays in the arena */
#ifdef SHRINKS
#if defined(BROKEN_ORPHAN) || defined(BROKEN_ORPHAN_LAST)
#define ADOPTS     (false)
#else
#define ADOPTS     (orphan != NONE && (p + P - orphan) % P < P / 2 && kept == NONE)
#endif
#define MAY_LEAVE  (number == 1)
#else
#define ADOPTS     (false)
#define MAY_LEAVE  (false)
#endif

proctype Fetcher(byte number) {
  byte p, kept = NONE; bit newer; mtype:kind k;
end: do
  :: atomic {
       if
       :: kept != NONE -> p = kept; kept = NONE                       /* back to what I had */
#ifndef BROKEN_ORPHAN
       :: kept == NONE && orphan != NONE -> p = orphan; orphan = NONE
       :: kept == NONE && orphan == NONE -> p = window; window = PLUS(window, WINDOW)
#else
       :: kept == NONE -> p = window; window = PLUS(window, WINDOW)
#endif
       fi
     }
     do
     :: k = 0;
end_look:
        if
        :: atomic { SEEN(lap0[SLOT(p)], p) -> newer = NEWER(lap0[SLOT(p)], p); k = kind[SLOT(p)] }
        :: atomic { MAY_LEAVE -> orphan = p; p = 0; goto left }
        :: atomic { ADOPTS -> kept = p; p = orphan; orphan = NONE; goto end_next }
        fi;
end_look1:
        atomic {
          SEEN1(lap1[SLOT(p)], p) ->
          if
          :: newer || NEWER(lap1[SLOT(p)], p) -> k = continuation    /* one that was used and overwritten */
          :: else ->
             if
             :: k == continuation                                    /* its head's owner takes it */
             :: k == single -> accept(1)
             :: k == head
             fi
          fi;
          newer = 0;
          if
          :: k != head && p % WINDOW == 0 -> p++; goto end_next
          :: k != head && p % WINDOW != 0 -> break
          :: k == head
          fi
        }
        lap0[SLOT(p + 1)] == LAP(p + 1);      /* may lie in another's window: it is read here all the same */
        atomic { lap1[SLOT(p + 1)] == LAP(p + 1) -> accept(2); break }
end_next: skip
     od;
     atomic { k = 0; p = 0 }
  od;
left: skip
}

inline complete(s) {              /* run, and write the completion entry */
  phase[s] = vacant;
  if
  :: width[s] == 2 -> assert(phase[SLOT(s + 1)] == fetched); phase[SLOT(s + 1)] = vacant
  :: else
  fi;
  width[s] = 0;
  cqe[s] = lap0[s]
}

active proctype Workers() {       /* any number of them */
end: do
  :: atomic { width[0] > 0 -> complete(0) }
  :: atomic { width[1] > 0 -> complete(1) }
  :: atomic { width[2] > 0 -> complete(2) }
  :: atomic { width[3] > 0 -> complete(3) }
  od
}

init {
  atomic {
    run Producer(1); run Fetcher(0); run Fetcher(1);
#ifdef SLOTS
    run Producer(0)
#endif
  }
#ifdef SLOTS
  budget == 0 && phase[0] == vacant && phase[1] == vacant && phase[2] == vacant && phase[3] == vacant
#else
  false                           /* never ends: any deadlock is an invalid end state */
#endif
}

#ifndef SLOTS
ltl moves { []<>(window == 0) }
#endif
