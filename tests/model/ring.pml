/* ring: the submission ring, with the completion ring as its credit
 *
 * Modelled: two host threads reserve positions under the submission lock and write their slots outside it, every
 * quad at its own time and in any order. Two members of the fetch crew own windows of two positions, taken from one
 * atomic counter, and look at the positions of a window in any order. Workers run and complete in any order. `reaped`
 * advances in order over completion entries that carry the lap of their position; position p may be reserved only
 * while p - reaped < C. A task takes one slot, or two (head and continuation): the host writes the continuation's
 * completion entry itself when it submits.
 *
 * Abstraction: two quads a slot instead of four; positions count modulo C * LAPS and laps modulo LAPS, so the model
 * runs for ever and every wrap is met. LAPS must tell apart the laps -2, -1, 0, +1 around the one waited for, so 4 is
 * the least; u32 in the code. Stores of one thread become visible in any order (stronger than any real host).
 * The lock is an atomic step. No busy waiting: a read that would be repeated is a guard.
 *
 * A continuation is complete as soon as it is submitted. So once its head is complete its slot may be written anew
 * before the owner of its window has looked: that owner sees a LATER lap and must take it for "was a continuation,
 * already used" (BROKEN_NO_SKIP: it waits for ever).
 *
 * Properties
 *   assertions   a position is reserved only when the slot's last task is complete; a slot is accepted only whole; every
 *                task is accepted once and run once; only continuations are skipped
 *   end states   no deadlock
 *   moves        every lap is reached again and again: nothing is stuck (LTL, weak fairness)
 */
#define C       4                 /* slots */
#define LAPS    4
#define P       (C * LAPS)        /* positions, modulo */
#define WINDOW  2
#define START   (C * (LAPS - 1))  /* the first lap is lap 0 */
#ifdef SLOTS                      /* so many slots by two producers */
#define PRODUCERS 2
#else                             /* one producer, for ever */
#define SLOTS   2
#define PRODUCERS 1
#define ENDLESS
#endif
#ifdef BROKEN_CREDIT
#define CREDIT  (C + 1)
#else
#define CREDIT  C
#endif

#define SLOT(p)      ((p) % C)
#define LAP(p)       (((p) / C + 1) % LAPS)        /* p may be P */
#define PLUS(p, n)   (((p) + (n)) % P)
#define USED         ((tail + P - reaped) % P)
#define NEWER(l, p)  (((l) + LAPS - LAP(p)) % LAPS == 1)
#define SEEN(l, p)   ((l) == LAP(p) || NEWER(l, p))

mtype:kind  = { single, head, continuation };
mtype:phase = { vacant, reserved, fetched, ran };

byte budget = SLOTS;              /* slots still to be submitted */
byte lap0[C] = LAPS - 1;          /* the two quads' laps */
byte lap1[C] = LAPS - 1;
mtype:kind kind[C] = single;      /* carried by quad 0 */
byte cqe[C] = LAPS - 1;           /* completion ring: laps */
byte tail = START, reaped = START;               /* host: next position, first position not known to be complete */
byte window = START;                    /* device: next window */
mtype:phase phase[C] = vacant;    /* ghost */
byte width[C];                    /* ghost: slots of the fetched task */

proctype Producer(bit pairs) {
  byte p, q; mtype:kind k; bit a, b, c, d;
  do
  :: atomic {                     /* reap, then reserve, under the lock */
       cqe[SLOT(reaped)] == LAP(reaped) || USED + 1 <= CREDIT;
       do
       :: cqe[SLOT(reaped)] == LAP(reaped) -> reaped = PLUS(reaped, 1)
       :: else -> break
       od;
       if
       :: USED + 1 <= CREDIT -> k = single; c = 1; d = 1
       :: pairs && USED + 2 <= CREDIT -> k = head
       fi;
       p = tail; q = PLUS(p, 1);
       assert(phase[SLOT(p)] == vacant);
       phase[SLOT(p)] = reserved;
       tail = q;
       if
       :: k == head -> assert(phase[SLOT(q)] == vacant); phase[SLOT(q)] = reserved; tail = PLUS(q, 1)
       :: else -> q = 0
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
          if :: k == head -> cqe[SLOT(q)] = LAP(q) :: else fi;
#endif
          p = 0; q = 0; k = 0; a = 0; b = 0; c = 0; d = 0; break
        }
     od
  od
}

#ifdef BROKEN_NO_SKIP
#define READABLE(l, p) ((l) == LAP(p))
#else
#define READABLE(l, p) SEEN(l, p)
#endif
#ifdef BROKEN_HEADER_ONLY
#define READABLE1(l, p) true
#else
#define READABLE1(l, p) READABLE(l, p)
#endif

inline accept(n) {
  assert(lap0[SLOT(p)] == LAP(p) && lap1[SLOT(p)] == LAP(p));
  assert(phase[SLOT(p)] == reserved);
  if
  :: n == 2 ->
     assert(lap0[SLOT(p + 1)] == LAP(p + 1) && lap1[SLOT(p + 1)] == LAP(p + 1));
     assert(kind[SLOT(p + 1)] == continuation && phase[SLOT(p + 1)] == reserved);
     phase[SLOT(p + 1)] = fetched
  :: else
  fi;
  width[SLOT(p)] = n;
  phase[SLOT(p)] = fetched
}

proctype Fetcher() {
  byte p; bit newer; mtype:kind k;
  do
  :: atomic { p = window; window = PLUS(window, WINDOW) }
     do
     :: atomic { READABLE(lap0[SLOT(p)], p) -> newer = NEWER(lap0[SLOT(p)], p); k = kind[SLOT(p)] }
        atomic {
          READABLE1(lap1[SLOT(p)], p) ->
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
          :: k == head
          :: k != head && p % WINDOW == 0 -> p++; goto again
          :: k != head && p % WINDOW != 0 -> break
          fi
        }
        lap0[SLOT(p + 1)] == LAP(p + 1);    /* may lie in another's window: it is read here all the same */
        atomic { lap1[SLOT(p + 1)] == LAP(p + 1) -> accept(2); break }
again:  k = 0
     od;
     atomic { k = 0; p = 0 }
  od
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

proctype Workers() {              /* any number of them */
  do
  :: atomic { width[0] > 0 -> complete(0) }
  :: atomic { width[1] > 0 -> complete(1) }
  :: atomic { width[2] > 0 -> complete(2) }
  :: atomic { width[3] > 0 -> complete(3) }
  od
}

init {
  atomic {
    run Producer(1);
    if :: PRODUCERS == 2 -> run Producer(0) :: else fi;
    run Fetcher(); run Fetcher();
    run Workers()
  }
}

ltl moves { ([]<>(reaped == 0)) && ([]<>(reaped == C)) }
