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
#ifdef SMALL                      /* for liveness: one producer */
#define PRODUCERS 1
#else
#define PRODUCERS 2
#endif
#define C       4                 /* slots */
#define LAPS    4
#define P       (C * LAPS)        /* positions, modulo */
#define WINDOW  2
#ifdef BROKEN_CREDIT
#define CREDIT  (C + 1)
#else
#define CREDIT  C
#endif

#define SLOT(p)      ((p) % C)
#define LAP(p)       (((p) / C + 1) % LAPS)
#define PLUS(p, n)   (((p) + (n)) % P)
#define USED         ((tail + P - reaped) % P)
#define NEWER(l, p)  (((l) + LAPS - LAP(p)) % LAPS == 1)
#define SEEN(l, p)   ((l) == LAP(p) || NEWER(l, p))

mtype:kind  = { single, head, continuation };
mtype:phase = { vacant, reserved, fetched, ran };

byte lap0[C], lap1[C];            /* the two quads' laps */
mtype:kind kind[C] = single;      /* carried by quad 0 */
byte cqe[C];                      /* completion ring: laps */
byte tail, reaped;                /* host: next position, first position not known to be complete */
byte window;                      /* device: next window */
mtype:phase phase[C] = vacant;    /* ghost */
byte width[C];                    /* ghost: slots of the fetched task */

proctype Producer() {
  byte p, q; mtype:kind k; bit a, b, c, d, e;
  do
  :: atomic {                     /* reserve, under the lock */
       if
       :: USED + 1 <= CREDIT -> k = single; c = 1; d = 1; e = 1
       :: USED + 2 <= CREDIT -> k = head
       fi;
       p = tail; q = PLUS(p, 1);
       assert(phase[SLOT(p)] == vacant);
       phase[SLOT(p)] = reserved;
       tail = q;
       if
       :: k == head -> assert(phase[SLOT(q)] == vacant); phase[SLOT(q)] = reserved; tail = PLUS(q, 1)
       :: else
       fi
     }
     do                           /* write: any order */
     :: !a -> atomic { kind[SLOT(p)] = k; lap0[SLOT(p)] = LAP(p); a = 1 }
     :: !b -> atomic { lap1[SLOT(p)] = LAP(p); b = 1 }
     :: !c -> atomic { kind[SLOT(q)] = continuation; lap0[SLOT(q)] = LAP(q); c = 1 }
     :: !d -> atomic { lap1[SLOT(q)] = LAP(q); d = 1 }
     :: !e -> atomic {
#ifndef BROKEN_NO_PRECOMPLETE
          cqe[SLOT(q)] = LAP(q);
#endif
          e = 1 }
     :: a && b && c && d && e -> d_step { p = 0; q = 0; k = 0; a = 0; b = 0; c = 0; d = 0; e = 0 } break
     od
  od
}

proctype Reaper() {               /* whichever host thread looks */
  do
  :: cqe[SLOT(reaped)] == LAP(reaped) -> reaped = PLUS(reaped, 1)
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
     assert(lap0[SLOT(q)] == LAP(q) && lap1[SLOT(q)] == LAP(q) && kind[SLOT(q)] == continuation);
     assert(phase[SLOT(q)] == reserved);
     phase[SLOT(q)] = fetched
  :: else
  fi;
  width[SLOT(p)] = n;
  phase[SLOT(p)] = fetched
}

/* the quads, each at its own time */
inline look() {
  if
  :: atomic { READABLE(lap0[SLOT(p)], p) -> l0 = lap0[SLOT(p)]; k = kind[SLOT(p)] }
     atomic { READABLE1(lap1[SLOT(p)], p) -> l1 = lap1[SLOT(p)] }
  :: atomic { READABLE1(lap1[SLOT(p)], p) -> l1 = lap1[SLOT(p)] }
     atomic { READABLE(lap0[SLOT(p)], p) -> l0 = lap0[SLOT(p)]; k = kind[SLOT(p)] }
  fi
}

proctype Fetcher() {
  byte w, p, q, l0, l1; mtype:kind k; bit first, second;
  do
  :: atomic { w = window; window = PLUS(window, WINDOW) }
     do
     :: atomic {                  /* a position of the window, in either order */
          if
          :: !first && READABLE(lap0[SLOT(w)], w) -> p = w; first = 1
          :: !second && READABLE(lap0[SLOT(w + 1)], w + 1) -> p = w + 1; second = 1
          :: first && second -> first = 0; second = 0; w = 0; break
          fi
        }
        look();
        atomic {
          if
          :: NEWER(l0, p) || NEWER(l1, p) -> k = 0               /* a continuation, used and overwritten */
          :: else ->
             if
             :: k == continuation -> k = 0                       /* its head's owner takes it */
             :: k == single -> accept(1); k = 0
             :: k == head -> q = PLUS(p, 1)
             fi
          fi;
          l0 = 0; l1 = 0
        }
        if                        /* the continuation may lie in another's window: read it here all the same */
        :: k == head ->
           atomic { lap0[SLOT(q)] == LAP(q) }
           atomic { lap1[SLOT(q)] == LAP(q) -> accept(2); k = 0; q = 0; p = 0 }
        :: atomic { else -> p = 0 }
        fi
     od
  od
}

inline complete(s) {
  atomic {
    phase[s] = vacant;
    if
    :: width[s] == 2 -> assert(phase[SLOT(s + 1)] == fetched); phase[SLOT(s + 1)] = vacant
    :: else
    fi;
    width[s] = 0;
    cqe[s] = lap0[s]
  }
}

proctype Workers() {              /* any number of them */
  do
  :: atomic { phase[0] == fetched && width[0] > 0 -> phase[0] = ran }
  :: atomic { phase[1] == fetched && width[1] > 0 -> phase[1] = ran }
  :: atomic { phase[2] == fetched && width[2] > 0 -> phase[2] = ran }
  :: atomic { phase[3] == fetched && width[3] > 0 -> phase[3] = ran }
  :: phase[0] == ran -> complete(0)
  :: phase[1] == ran -> complete(1)
  :: phase[2] == ran -> complete(2)
  :: phase[3] == ran -> complete(3)
  od
}

init {
  atomic {
    run Producer();
    if :: PRODUCERS == 2 -> run Producer() :: else fi;
    run Fetcher(); run Fetcher();
    run Reaper(); run Workers()
  }
}

ltl moves { ([]<>(reaped == 0)) && ([]<>(reaped == C)) }
