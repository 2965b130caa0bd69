/* park: lease, gate, park and wake
 *
 * Modelled, device: W workers run leases. `epoch` is the lease launched last, `left` the one that left last. A lease
 * ends at a gate: a word (attempt, closing, count) that changes only by atomics. A crew member sets `closing`: some
 * work was done and the lease is over, or the ring looked empty. A worker whose executor is idle arrives by adding one
 * to `count`; when all W have arrived, all leave, and the last to arrive stores `left`. A crew member for whom that takes too long
 * (somebody runs a long task) reopens by CAS to (attempt + 1, open, 0), which cannot succeed once all have arrived;
 * those that waited go on. Two gates alternate: during lease e worker 0 zeroes that of lease e + 1. A lease starts when
 * every worker of the last has gone (stream order; on the CPU: joined).
 *
 * An arrival is taken back by CAS to count - 1, unless all have arrived meanwhile (then this worker leaves as well) or a
 * reopening has wiped it out. That happens to one that lands on a gate just reopened (BROKEN_STALE: it works on while
 * counted), and with SERVES to a worker that waits at the gate while its place in the ready queue fills.
 *
 * Modelled, host: a submitter stores counter and slot, then reads `parked`, `left` and `epoch`, with nothing between that
 * drains its store buffer. If parked, or left == epoch, it takes the wake mutex and launches a lease if work is
 * outstanding and none is running. The keeper sees left == epoch, sets `parked`, makes all store buffers drain
 * (membarrier), then looks at the outstanding work: it launches likewise, or sleeps until the epoch it saw has gone by.
 *
 * Abstraction: a task is four flags; ring and ready queue are one. With STORES=2 the counter drains before the slot, else both
 * at once. Epochs count modulo 2: what a thread reads late it could have read early, so no run is lost. The attempt
 * never wraps: all that counts is whether a worker's is over. "Too long" may be any moment at which an executor is busy. Of two tasks, task 0 ends only after task
 * 1: nobody may have to wait for its lease to end. GATE_ONLY leaves out the host: two leases, more workers.
 *
 * Properties
 *   assertions   no two leases at once; nobody leaves, and `left` is not stored, while somebody executes; nobody goes on in
 *                a lease that has left; a gate is zero when its lease starts
 *   end states   no deadlock: no task unfetched while the keeper sleeps, nobody left behind at a gate
 *   completes    every task completes (LTL, weak fairness)
 *   leaves       every lease leaves (LTL, weak fairness)
 * Mutations: BROKEN_NO_MEMBARRIER, BROKEN_NO_RECHECK, BROKEN_SLEEP, BROKEN_REOPEN, BROKEN_STALE, BROKEN_TAKE_BACK,
 *   BROKEN_NO_REOPEN, BROKEN_NO_ZERO, BROKEN_OVERLAP; BROKEN_PARKED_LAST with ONLY_PARKED
 * Variants that hold: ONLY_LEFT (submitters never read `parked`), ONLY_PARKED (they read nothing else)
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

#define CLOSING       4
#define COUNT(g)      ((g) & 3)
#define IS_CLOSING(g) (((g) & CLOSING) != 0)

/* host */
byte epoch, left;
bit parked = 1;
bit mutex;
byte buffered[TASKS];             /* stores still in the buffer: 2 = counter and slot, 1 = slot */
bit counted[TASKS], slot[TASKS];  /* as memory has them */
/* device */
byte gate[2];                     /* closing, count */
byte since[W];                    /* the attempt a worker has read is: 0 of no interest, 1 the gate's, 2 over */
byte executing[W];                /* task + 1 */
bit fetched[TASKS], done[TASKS];
bit worked;                       /* something was taken since the lease started or was reopened */
byte lease[W];                    /* lease a worker is in, or was in last */
bit inside[W];

#define UNDONE(t)      (counted[t] && !done[t])
#define UNFETCHED(t)   (slot[t] && !fetched[t])
#if TASKS == 1
#define OUTSTANDING    UNDONE(0)
#define VISIBLE        UNFETCHED(0)
#define ALL_DONE       done[0]
#define MAY_END(t)     true
#else
#define OUTSTANDING    (UNDONE(0) || UNDONE(1))
#define VISIBLE        (UNFETCHED(0) || UNFETCHED(1))
#define ALL_DONE       (done[0] && done[1])
#define MAY_END(t)     ((t) != 0 || done[1])
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

inline drain_all() {
  drain(0);
#if TASKS == 2
  drain(1)
#endif
}

/* under the mutex */
inline launch_if_needed() {
  if
  :: atomic { OUTSTANDING && left == epoch ->
#ifdef BROKEN_PARKED_LAST
     epoch = (epoch + 1) % EPOCHS }
     parked = 0
#else
     parked = 0 }
     atomic { assert(left == epoch); epoch = (epoch + 1) % EPOCHS }
#endif
  :: else
  fi
}

proctype Submitter(byte t) {
  byte l;
  buffered[t] = STORES;
#ifndef ONLY_LEFT
  if
  :: parked -> goto wake
  :: else
  fi;
#endif
#ifdef ONLY_PARKED
  goto over;
#else
  l = left;
  if
  :: l == epoch -> l = 0
  :: else -> l = 0; goto over
  fi;
#endif
wake:
  atomic { !mutex -> mutex = 1; drain(t) }           /* taking a lock drains the buffer */
  launch_if_needed();
  mutex = 0;
over:
  skip
}

proctype Keeper() {
  byte e;
  do
  :: e = epoch;
     if
     :: epoch != e -> goto again                     /* somebody launched since */
     :: left == e
     fi;
     parked = 1;
#ifndef BROKEN_NO_MEMBARRIER
     d_step { drain_all() }
#endif
     if
#ifndef BROKEN_NO_RECHECK
     :: OUTSTANDING ->
        atomic { !mutex -> mutex = 1 }
        launch_if_needed();
        mutex = 0
     :: !OUTSTANDING ->
#else
     :: true ->
#endif
sleep:
        if
#ifdef BROKEN_SLEEP
        :: !parked
#else
        :: epoch != e
#endif
        :: ALL_DONE && left == epoch && epoch == e -> break
        fi
     fi;
again: skip
  od
}

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

/* a wait at the gate has become long; the word read is of my attempt, or I go on anyway */
inline reopen() {
  seen = GATE;
  atomic {
    if
#ifdef BROKEN_REOPEN
    :: true -> next_attempt(); goto open
#else
    :: GATE == seen && since[w] == 1 && COUNT(seen) < W -> next_attempt(); goto open
    :: else -> seen = 0                          /* somebody came or went meanwhile: look again */
#endif
    fi
  }
}

proctype Worker(byte w) {
  byte seen; bit serve;
end:
  atomic {
#ifdef BROKEN_OVERLAP
    epoch != lease[w] ->
#else
    epoch != lease[w] && ONLY_IN(epoch) -> assert(SOMEBODY_INSIDE || gate[epoch & 1] == 0);
#endif
    lease[w] = epoch; inside[w] = 1; worked = 0
  }
#ifndef BROKEN_NO_ZERO
  if
  :: w == 0 -> OTHER = 0
  :: else
  fi;
#endif
open:
  atomic {                                       /* look at the gate and at the ring */
    serve = 0; seen = 0; since[w] = 0;
    assert(left != lease[w] && ONLY_IN(lease[w]));
    if
    :: IS_CLOSING(GATE) -> since[w] = 1; goto closing
    :: !IS_CLOSING(GATE) && TAKEABLE(0) -> take(0); goto open
#if TASKS == 2
    :: !IS_CLOSING(GATE) && TAKEABLE(1) -> take(1); goto open
#endif
    :: !IS_CLOSING(GATE) && !executing[w] && !VISIBLE           /* idle */
    :: !IS_CLOSING(GATE) && worked                              /* over */
    fi
  }
  atomic { since[w] = 1; GATE = GATE | CLOSING }
closing:
  if
  :: atomic {                                                   /* arrive */
       !executing[w] ->
       since[w] = 1;
       GATE = GATE + 1;
       if
       :: ARRIVED == W -> goto last
       :: ARRIVED < W && IS_CLOSING(GATE) -> goto wait
       :: ARRIVED < W && !IS_CLOSING(GATE) -> goto take_back    /* just reopened */
       fi
     }
  :: executing[w] && since[w] == 2 -> goto open
#ifndef BROKEN_NO_REOPEN
  :: executing[w] && since[w] == 1 -> reopen(); goto closing
#endif
  fi;
wait:
  if
  :: ARRIVED == W -> goto leave
  :: since[w] == 2 -> goto open
#ifndef BROKEN_NO_REOPEN
  :: BUSY && since[w] == 1 && ARRIVED < W -> reopen(); goto wait
#endif
#ifdef SERVES
  :: ARRIVED < W && VISIBLE -> serve = 1                        /* my place in the ready queue filled */
#endif
  fi;
take_back:
#ifdef BROKEN_STALE
  goto open;
#endif
  atomic {
    seen = GATE;
    if
    :: COUNT(seen) == W -> goto leave
#ifdef BROKEN_TAKE_BACK
    :: COUNT(seen) < W -> since[w] = 1
#else
    :: COUNT(seen) < W && since[w] == 2 -> goto open            /* wiped out */
    :: COUNT(seen) < W && since[w] == 1
#endif
    fi
  }
  atomic {
    if
    :: GATE != seen || since[w] == 2 -> goto take_back
    :: GATE == seen && since[w] == 1 && (!serve || !VISIBLE) -> GATE = seen - 1; goto open
    :: GATE == seen && since[w] == 1 && serve && TAKEABLE(0) -> GATE = seen - 1; take(0); goto open
#if TASKS == 2
    :: GATE == seen && since[w] == 1 && serve && TAKEABLE(1) -> GATE = seen - 1; take(1); goto open
#endif
    fi
  }
last:
  atomic { assert(!BUSY && left != lease[w]); left = lease[w] }
leave:
  atomic { assert(!executing[w]); inside[w] = 0; serve = 0; seen = 0; since[w] = 0; goto end }
}

#ifdef GATE_ONLY
proctype Launcher() {
  epoch = 1;
  left == 1;
  epoch = 0;
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
#endif
    run Time(); run Worker(0); run Worker(1);
#if W == 3
    run Worker(2)
#endif
  }
}

ltl completes { <>(ALL_DONE) }
ltl leaves { []((left != epoch) -> <>(left == epoch)) }
