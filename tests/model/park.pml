/* park: lease, gate, park and wake
 *
 * Modelled, device (gate.hpp): W workers run leases. A lease ends at a gate: a word (attempt, firm, closing, count) that changes
 * only by atomics. A worker sets `closing`: some work was done and the lease is over, or the ring looked empty. Or it sets `closing`
 * and `firm`: the host asks, by a slot of the ring that names the lease, or by the word `end`. A worker whose executor is idle arrives
 * by adding one to `count`. The last to arrive stores `left` and zeroes the other gate: two alternate. Any other leaves when all have
 * arrived, or at once when the gate is firm. One for whom that takes too long (somebody runs a long task) reopens by CAS to (attempt
 * + 1, open, 0), which cannot succeed once all have arrived or the gate is firm; those that waited go on. One that arrives at a gate
 * just reopened wipes its arrival out in the same way, at once (BROKEN_STALE: it works on while counted). A lease starts when every
 * worker of the last has gone (stream order; on the CPU: joined).
 *
 * Modelled, host (keeper.cpp): a submitter stores counter and slot, then reads `asleep`, and `left` and `epoch` in either order, with
 * nothing between that drains its store buffer. If asleep, or left == epoch, it starts a lease under the mutex, unless one is running
 * or the loop is held. The keeper sees left == epoch and starts the next lease if work is outstanding; if none is, it sets `asleep`,
 * makes all store buffers drain (membarrier; the submission lock, which it takes to reap, does the same for the counter) and looks
 * once more. With HOLDS the loop is held once: the running lease is asked to end, and held until `resume`, which looks at the
 * outstanding work under the submission lock. With AT_END it is not asked but awaited, for a while, and let go when that is over.
 *
 * Abstraction: a task is four flags; ring and ready queue are one. With STORES=2 the counter drains before the slot, else both at
 * once. Epochs count modulo 2: what a thread reads late it could have read early, so no run is lost; a request that names a lease that
 * has left is void for good. The attempt never wraps: all that counts is whether a worker's is over. "Too long" may be any moment at
 * which an executor is busy. Of two tasks, task 0 ends only after task 1, unless the host wants the lease to end: nothing else may wait
 * for it. GATE_ONLY leaves out the host: two leases, more workers.
 *
 * Properties
 *   assertions   no two leases at once; nobody leaves while executing; `left` is not stored while somebody executes; nobody goes on
 *                in a lease that has left; a gate is zero when its lease starts; nobody is inside while the loop is held
 *   end states   no deadlock: no task unfetched while the keeper sleeps, nobody left behind at a gate, hold returns
 *   completes    every task completes (LTL, weak fairness)
 *   leaves       every lease leaves (LTL, weak fairness)
 * Mutations: BROKEN_NO_MEMBARRIER, BROKEN_NO_RECHECK, BROKEN_REOPEN, BROKEN_STALE, BROKEN_NO_REOPEN,
 *   BROKEN_NO_ZERO, BROKEN_OVERLAP; with HOLDS BROKEN_FIRM, BROKEN_RESUME; with HOLDS and AT_END BROKEN_GIVE_UP; with ONLY_ASLEEP
 *   BROKEN_ASLEEP_LATE
 * Variants that hold: ONLY_LEFT (submitters never read `asleep`), ONLY_ASLEEP (they read nothing else)
 */
#ifndef W
#define W        2
#endif
#ifndef TASKS
#define TASKS    2                /* one submitter each */
#endif
#ifndef STORES
#define STORES   1
#endif
#define EPOCHS   2
#define NONE     255

#define CLOSING       4
#define FIRM          8
#define COUNT(g)      ((g) & 3)
#define IS_CLOSING(g) (((g) & CLOSING) != 0)
#define IS_FIRM(g)    (((g) & FIRM) != 0)

mtype:request = { absent, live, void, complete };

/* host */
byte epoch, left, launched;       /* launched: what the device was given, stored before epoch is */
bit asleep = 1;
bit mutex, running, held;         /* running, held: under the mutex */
bit resumed = 1;
byte end_word = NONE;             /* a lease that shall end */
mtype:request request = absent;   /* the same as a slot of the ring */
byte buffered[TASKS];             /* stores still in the buffer: 2 = counter and slot, 1 = slot */
bit counted[TASKS], slot[TASKS];  /* as memory has them */
/* device */
byte gate[2];                     /* firm, closing, count */
byte since[W];                    /* the attempt a worker has read is: 0 of no interest, 1 the gate's, 2 over */
byte executing[W];                /* task + 1 */
bit fetched[TASKS], done[TASKS];
bit worked;                       /* something was taken since the lease started or was reopened */
byte lease[W];                    /* lease a worker is in, or was in last */
bit inside[W];
bit entered;                      /* ghost: somebody was inside the lease launched last */

#define UNDONE(t)      (counted[t] && !done[t])
#define UNFETCHED(t)   (slot[t] && !fetched[t])
#define ASKED          (request == live || request == void)
#if TASKS == 1
#define OUTSTANDING    (UNDONE(0) || ASKED)
#define VISIBLE        (UNFETCHED(0) || ASKED)
#define ALL_DONE       (done[0] && !ASKED)
#define MAY_END(t)     true
#else
#define OUTSTANDING    (UNDONE(0) || UNDONE(1) || ASKED)
#define VISIBLE        (UNFETCHED(0) || UNFETCHED(1) || ASKED)
#define ALL_DONE       (done[0] && done[1] && !ASKED)
#ifdef AT_END
#define MAY_END(t)     ((t) != 0 || done[1])
#else
#define MAY_END(t)     ((t) != 0 || done[1] || held)
#endif
#endif
#define IN_OTHER(w, e)   (inside[w] && lease[w] != (e))
#if W == 2
#define BUSY             (executing[0] || executing[1])
#define ONLY_IN(e)       (!IN_OTHER(0, e) && !IN_OTHER(1, e))
#define SOMEBODY_INSIDE  (inside[0] || inside[1])
#else
#define BUSY             (executing[0] || executing[1] || executing[2])
#define ONLY_IN(e)       (!IN_OTHER(0, e) && !IN_OTHER(1, e) && !IN_OTHER(2, e))
#define SOMEBODY_INSIDE  (inside[0] || inside[1] || inside[2])
#endif

inline drain_one(t) {
  if
  :: buffered[t] == 2 -> counted[t] = 1; buffered[t] = 1
  :: buffered[t] == 1 -> counted[t] = 1; slot[t] = 1; buffered[t] = 0
  fi
}

inline drain(t) {
  if
  :: buffered[t] > 0 -> counted[t] = 1; slot[t] = 1; buffered[t] = 0
  :: else
  fi
}

/* the submission lock, taken after a submitter had it: its counter is visible */
inline see_counter(t) {
  if
  :: buffered[t] > 0 -> counted[t] = 1
  :: else
  fi
}

inline drain_all() {
  drain(0);
#if TASKS == 2
  drain(1)
#endif
}

inline see_counters() {
  see_counter(0);
#if TASKS == 2
  see_counter(1)
#endif
}

/* under the mutex */
inline note_end() {
  if
  :: running && left == epoch -> running = 0
  :: else
  fi
}

inline launch() {
  atomic { assert(left == epoch && launched == epoch && !running && !held); launched = (epoch + 1) % EPOCHS; entered = 0; running = 1 }
  epoch = launched;
  asleep = 0
}

inline start_if_needed() {
  if
  :: atomic { !running && !held && OUTSTANDING -> skip }
     launch()
  :: atomic { else -> skip }
  fi
}

proctype Submitter(byte t) {
  byte seen;
  buffered[t] = STORES;
#ifndef ONLY_LEFT
  if
  :: asleep -> goto wake
  :: else
  fi;
#endif
#ifdef ONLY_ASLEEP
  goto over;
#else
  if
  :: seen = left;
     if
     :: atomic { seen == epoch -> seen = 0 }
     :: atomic { else -> seen = 0; goto over }
     fi
  :: seen = epoch;
     if
     :: atomic { seen == left -> seen = 0 }
     :: atomic { else -> seen = 0; goto over }
     fi
  fi;
#endif
wake:
  atomic { !mutex -> mutex = 1; drain(t); note_end() }    /* taking a lock drains the buffer */
  if
  :: !running && !held -> launch()
  :: else
  fi;
  mutex = 0;
over:
  skip
}

proctype Keeper() {
  byte e;
  do
  :: atomic { running && !mutex -> e = epoch }
     left == e || epoch != e;
     atomic { !mutex -> mutex = 1; e = 0; note_end() }
     if
     :: running                                           /* a submitter was faster */
     :: !running ->
        start_if_needed();
        if
        :: running
        :: !running ->
#ifndef BROKEN_ASLEEP_LATE
           asleep = 1;
#endif
#ifndef BROKEN_NO_MEMBARRIER
           d_step { drain_all() }
#endif
#ifndef BROKEN_NO_RECHECK
           start_if_needed();
#endif
#ifdef BROKEN_ASLEEP_LATE
           if
           :: !running -> asleep = 1
           :: else
           fi
#endif
        fi
     fi;
     mutex = 0
  :: atomic { ALL_DONE && !running && !mutex && resumed -> break }
  od
}

#ifdef HOLDS
proctype Holder() {
  byte e;
  atomic { !mutex -> mutex = 1; held = 1; note_end() }
  if
#ifdef AT_END
  :: running ->
     mutex = 0;
     if
     :: atomic { !running && !mutex -> mutex = 1 }
     :: atomic {
          running && !mutex -> resumed = 1;
#ifndef BROKEN_GIVE_UP
          held = 0;
#endif
          goto over
        }
     fi
#else
  :: running ->
     atomic { e = epoch; mutex = 0 }
     atomic { end_word = (left == e -> NONE : e) }
     if
     :: atomic { true -> request = (left == e -> void : live) }
     :: true                                              /* no room in the ring */
     fi;
     atomic { left == e && !mutex -> mutex = 1; e = 0; note_end() }
#endif
  :: else
  fi;
  asleep = 1;
  atomic { !SOMEBODY_INSIDE -> assert(launched == left && left == epoch); mutex = 0 }    /* finish */
  atomic { !mutex -> assert(!SOMEBODY_INSIDE && launched == left); mutex = 1 }           /* resume */
  held = 0;
#ifndef BROKEN_RESUME
  d_step { see_counters() }
#endif
  start_if_needed();
  atomic { mutex = 0; resumed = 1 }
over:
  skip
}
#endif

/* store buffers drain and operators end, some time */
inline end_task(w) {
  done[executing[w] - 1] = 1; executing[w] = 0
}

proctype Time() {
end: do
  :: atomic { buffered[0] > 0 -> drain_one(0) }
#if TASKS == 2
  :: atomic { buffered[1] > 0 -> drain_one(1) }
#endif
  :: atomic { executing[0] && MAY_END(executing[0] - 1) -> end_task(0) }
  :: atomic { executing[1] && MAY_END(executing[1] - 1) -> end_task(1) }
#if W == 3
  :: atomic { executing[2] && MAY_END(executing[2] - 1) -> end_task(2) }
#endif
  od
}

#define TAKEABLE(t) (!executing[w] && UNFETCHED(t))
inline take(t) {
  fetched[t] = 1; executing[w] = t + 1; worked = 1
}

#define GATE     gate[lease[w] & 1]
#define OTHER    gate[(lease[w] + 1) & 1]
#define ARRIVED  COUNT(GATE)

inline next_attempt() {
  since[0] = (since[0] -> 2 : 0);
  since[1] = (since[1] -> 2 : 0);
#if W == 3
  since[2] = (since[2] -> 2 : 0);
#endif
  GATE = 0; worked = 0
}

#ifdef BROKEN_FIRM
#define MAY_REOPEN(g)  true
#else
#define MAY_REOPEN(g)  (!IS_FIRM(g))
#endif

proctype Worker(byte w) {
  byte seen;
end:
  atomic {
#ifdef BROKEN_OVERLAP
    launched != lease[w] ->
#else
    launched != lease[w] && ONLY_IN(launched) -> assert(entered || gate[launched & 1] == 0);
#endif
    lease[w] = launched; inside[w] = 1; worked = 0; entered = 1
  }
open:
  atomic {                                       /* look at the gate and at the ring */
    seen = 0; since[w] = 0;
    assert(left != lease[w] && ONLY_IN(lease[w]));
    if
    :: IS_CLOSING(GATE) -> goto closing
    :: !IS_CLOSING(GATE) && TAKEABLE(0) -> take(0); goto open
#if TASKS == 2
    :: !IS_CLOSING(GATE) && TAKEABLE(1) -> take(1); goto open
#endif
#ifdef HOLDS
    :: !IS_CLOSING(GATE) && end_word == lease[w] -> goto firm
    :: !IS_CLOSING(GATE) && request == live -> request = complete; goto firm
    :: !IS_CLOSING(GATE) && request == void -> request = complete; goto open
#endif
    :: !IS_CLOSING(GATE) && !executing[w] && !VISIBLE           /* idle */
    :: !IS_CLOSING(GATE) && worked                              /* over */
    fi
  }
  GATE = GATE | CLOSING;
  goto closing;
firm:
  GATE = GATE | CLOSING | FIRM;
closing:
  if
  :: executing[w] && !IS_CLOSING(GATE) -> goto open
  :: atomic {                                                   /* arrive */
       !executing[w] ->
       since[w] = 1;
       GATE = GATE + 1;
       if
       :: ARRIVED == W -> goto last
       :: ARRIVED < W && IS_FIRM(GATE) -> goto leave
       :: ARRIVED < W && !IS_FIRM(GATE)
       fi
     }
  fi;
wait:
  if
  :: atomic { since[w] == 2 -> goto open }
  :: atomic { since[w] == 1 && (ARRIVED == W || IS_FIRM(GATE)) -> goto leave }
#ifdef BROKEN_STALE
  :: atomic { since[w] == 1 && !IS_CLOSING(GATE) -> goto open }
#endif
#ifndef BROKEN_NO_REOPEN
  :: atomic { (BUSY || !IS_CLOSING(GATE)) && since[w] == 1 && ARRIVED < W && MAY_REOPEN(GATE) -> seen = GATE }
     atomic {
       if
#ifdef BROKEN_REOPEN
       :: true -> next_attempt(); goto open
#else
       :: GATE == seen && since[w] == 1 -> next_attempt(); goto open
       :: else -> seen = 0                       /* somebody came or went meanwhile: look again */
#endif
       fi
     }
     goto wait
#endif
  fi;
last:
  atomic {
    assert(!BUSY && left != lease[w]);
    left = lease[w]; since[w] = 0;
    end_word = NONE;
    request = (request == live -> void : request)
  }
#ifndef BROKEN_NO_ZERO
  OTHER = 0;
#endif
leave:
  atomic { assert(!executing[w]); inside[w] = 0; seen = 0; since[w] = 0; goto end }
}

#ifdef GATE_ONLY
proctype Launcher() {
  launched = 1;
  left == 1;
  atomic { launched = 0; entered = 0 }
  left == 0
}
#endif

init {
  atomic {
    gate[0] = CLOSING + W;                           /* as lease 0 left it */
#ifdef GATE_ONLY
    slot[0] = 1;
#if TASKS == 2
    slot[1] = 1;
#endif
    run Launcher();
#else
    run Submitter(0);
#if TASKS == 2
    run Submitter(1);
#endif
    run Keeper();
#ifdef HOLDS
    resumed = 0;
    run Holder();
#endif
#endif
    run Time(); run Worker(0); run Worker(1);
#if W == 3
    run Worker(2)
#endif
  }
}

ltl completes { <>(ALL_DONE) }
ltl leaves { []((left != launched) -> <>(left == launched)) }
