/* ring: the submission ring, with the completion ring as its credit
 *
 * Modelled (submission_queue.cpp, ring_slots.hpp, cuda_control.hpp): two host threads reserve positions under a lock and write their
 * slots outside it, every quad at its own time and in any order. Two members of the fetch crew own windows of two positions, taken from
 * one atomic counter, and take the tasks of a window in order. Workers run and complete in any order. `reaped` advances in order over
 * completion entries that carry the lap of their position; position p may be reserved only while p - reaped < C. A task takes one slot,
 * or two (head and continuation): the host itself writes the continuation's completion entry when it submits, and nobody looks at a
 * continuation but through its head. No task crosses the end of a window: the host fills up with padding, which is complete when it is
 * fetched, and no earlier: its slot would be written anew before the owner of its window has looked (BROKEN_SKIP_EARLY).
 *
 * With SHRINKS the next lease's crew is smaller. The windows that are not wholly fetched are kept, with their first position not yet
 * taken, and given out again in ascending order before fresh ones (BROKEN_ORPHAN_LAST: in descending order, so a member waits at the
 * frontier while submitted tasks lie behind it).
 *
 * Abstraction: two quads a slot instead of four. Positions count modulo C * LAPS and laps modulo LAPS; LAPS must tell apart the laps -1,
 * 0 and +1 around the one waited for, and u32 in the code is plenty. Counting starts so that the first lap is lap 0. The lock is one
 * atomic step; a read that would be repeated is a guard.
 *
 * Two configurations: one producer for ever (the state space closes over all wraps), and with -DSLOTS=n two producers, one of which
 * also writes tasks of two slots, that submit n slots in all.
 *
 * Properties
 *   assertions   a position is reserved only when its slot's last task is complete; a slot is accepted only whole; a task is accepted
 *                once and runs once
 *   end states   nothing gets stuck: with -DSLOTS every task is complete at the end
 *   moves        every lap is reached again and again (LTL, no fairness needed; one producer)
 * Mutations: BROKEN_CREDIT, BROKEN_HEADER_ONLY, BROKEN_NO_PRECOMPLETE, BROKEN_SKIP_EARLY; with SHRINKS BROKEN_ORPHAN,
 *   BROKEN_ORPHAN_LAST
 */
#define C       4                 /* slots */
#define LAPS    3
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
#define SEEN(l, p)   ((l) == LAP(p))
#ifdef BROKEN_HEADER_ONLY
#define SEEN1(l, p)  true
#else
#define SEEN1(l, p)  SEEN(l, p)
#endif

mtype:kind  = { single, head, continuation, padding };
mtype:phase = { vacant, reserved, fetched };

byte lap0[C] = LAPS - 1;          /* the two quads' laps */
byte lap1[C] = LAPS - 1;
mtype:kind kind[C] = single;      /* carried by quad 0 */
byte cqe[C] = LAPS - 1;           /* completion ring: laps */
byte tail = START;                /* host: next position */
byte reaped = START;              /* host: first position not known to be complete */
byte window = START;              /* device: next window */
byte at[2];                       /* device: the position that a crew member looks at */
bit looks[2];                     /* it has taken nothing of the task there yet */
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
       :: pairs && MAY(1) && tail % WINDOW != 0 -> SPEND(1); k = padding; c = 1; d = 1
       :: pairs && MAY(2) && tail % WINDOW == 0 -> SPEND(2); k = head
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
#ifdef BROKEN_SKIP_EARLY
          if
          :: k == padding -> cqe[SLOT(p)] = LAP(p)
          :: else
          fi;
#endif
          p = 0; q = 0; k = 0; a = 0; b = 0; c = 0; d = 0; break
        }
     od
  od
}

#define p at[number]
inline accept(n) {
  assert(lap0[SLOT(p)] == LAP(p) && lap1[SLOT(p)] == LAP(p) && phase[SLOT(p)] == reserved && kind[SLOT(p)] != continuation);
  phase[SLOT(p)] = fetched;
  if
  :: k == padding -> phase[SLOT(p)] = vacant; cqe[SLOT(p)] = LAP(p)
  :: else -> width[SLOT(p)] = n
  fi;
  if
  :: n == 2 ->
     assert(lap0[SLOT(p + 1)] == LAP(p + 1) && lap1[SLOT(p + 1)] == LAP(p + 1));
     assert(phase[SLOT(p + 1)] == reserved && kind[SLOT(p + 1)] == continuation);
     phase[SLOT(p + 1)] = fetched
  :: else
  fi;
  p = p + n; k = 0; looks[number] = 1;
  if
  :: p % WINDOW == 0 -> p = NONE; looks[number] = 0
  :: else
  fi
}

/* between two leases, when nobody has a task in hand: the first goes on with the earlier of the two windows */
#define LATER(a, b)  (((a) + P - (b)) % P < P / 2)
inline shrink() {
#ifdef BROKEN_ORPHAN_LAST
  if
  :: LATER(at[1], at[0]) -> orphan = at[0]; at[0] = at[1]
  :: else -> orphan = at[1]
  fi;
#else
  if
  :: LATER(at[0], at[1]) -> orphan = at[0]; at[0] = at[1]
  :: else -> orphan = at[1]
  fi;
#endif
#ifdef BROKEN_ORPHAN
  orphan = NONE;
#endif
  at[1] = NONE
}

proctype Fetcher(bit number) {
  mtype:kind k;
end: do
  :: atomic {
       if
       :: orphan != NONE -> p = orphan; orphan = NONE
       :: orphan == NONE -> p = window; window = PLUS(window, WINDOW)
       fi;
       looks[number] = 1
     }
     do
     :: atomic { p == NONE -> break }
     :: p != NONE ->
end_look:
        if
        :: atomic { SEEN(lap0[SLOT(p)], p) -> looks[number] = 0; k = kind[SLOT(p)] }
#ifdef SHRINKS
        :: atomic { number == 1 && looks[0] && looks[1] -> shrink(); goto left }
#endif
        fi;
end_look1:
        if
        :: atomic { SEEN1(lap1[SLOT(p)], p) && k != head -> accept(1) }
        :: atomic { SEEN1(lap1[SLOT(p)], p) && k == head -> skip }
           lap0[SLOT(p + 1)] == LAP(p + 1);
           atomic { lap1[SLOT(p + 1)] == LAP(p + 1) -> accept(2) }
        fi
     od
  od;
left: skip
}
#undef p

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
