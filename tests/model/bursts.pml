/* bursts: leases that run what was submitted before them, one behind the other in a stream
 *
 * Modelled (keeper.cpp: try_burst, awaited; submission_queue.cpp: try_end_burst; admission.hpp): U threads submit tasks into the ring, ask
 * for bursts when they like, and in the end wait for their last task, which asks for a burst when none has taken it. A burst is a lease
 * that is put into the stream, and then its end, a slot of the ring that names it; one thread at a time does this. What follows in the
 * user's stream is ordered behind it last. Leases run one behind the other. A lease takes slots in order, holds every second task until the
 * one before it is complete, and runs the others. At an end with all before it complete it leaves, unless the end names a lease before it:
 * that one it passes. Another thread calls the driver, once, for something that waits until the device runs no lease, and keeps a lock
 * meanwhile that the driver takes for each of its calls.
 *
 * Abstraction: a slot is reserved and filled in one step; one fetcher; what workers do is one of the lease's steps; the ring is never full.
 *
 * Properties
 *   assertions   a task runs once, in the lease whose end is the next one behind it
 *   end states   all tasks complete, all leases leave
 * Mutations: BROKEN_TAIL, BROKEN_DRAIN, BROKEN_PASS, BROKEN_WAIT, BROKEN_LOCK, BROKEN_ORDER
 */
#ifndef U
#define U 2                       /* threads */
#endif
#ifndef TASKS
#define TASKS 2                   /* of each */
#endif
#ifndef BURSTS
#define BURSTS 1                  /* of each, beside those of waits */
#endif
#define LEASES (U * (BURSTS + TASKS) + 1)
#define SLOTS (U * TASKS + LEASES)

#define NOTHING 0
#define TASK 1
#define END 2

byte kind[SLOTS], named[SLOTS];
bit taken[SLOTS], done[SLOTS];
byte tail, fetched;
byte burst_end;  /* one past the end of the last burst, as threads know it */
byte launched;   /* leases in the stream */
byte left;       /* leases that have left it */
byte held;       /* tasks that were taken and are not done */
byte finished;   /* threads */
bit locked;
bit driver;      /* a call that waits for the device has the driver's lock */

inline burst() {
#ifndef BROKEN_LOCK
  atomic { !locked -> locked = 1 }
#endif
  if
  :: tail == burst_end
  :: else ->
    atomic { !driver -> launched++ }
    number = launched;
#ifdef BROKEN_ORDER
    !driver;  /* ordered behind it before it has its end */
#endif
    atomic { kind[tail] = END; named[tail] = number; at = tail + 1; tail++ }
#ifdef BROKEN_TAIL
    burst_end = tail;
#else
    burst_end = at;
#endif
    at = 0;
    number = 0;
#ifndef BROKEN_ORDER
    !driver
#endif
  fi;
#ifndef BROKEN_LOCK
  locked = 0
#else
  skip
#endif
}

active [U] proctype thread() {
  byte tasks, asked, mine, number, at;
  do
  :: tasks < TASKS -> atomic { kind[tail] = TASK; mine = tail; tail++; tasks++ }
  :: asked < BURSTS -> asked++; burst()
  :: tasks == TASKS -> break
  od;
  asked = 0;
  do
  :: done[mine] -> break
#ifndef BROKEN_WAIT
  :: !done[mine] && mine >= burst_end -> burst()
#endif
  od;
  finished++
}

active proctype other() {
  atomic { !driver -> driver = 1 }
  left == launched;
  driver = 0
}

/* Whether all before a slot are complete. */
inline find_drained(slot) {
  drained = 1;
  i = 0;
  do
  :: i < slot -> drained = drained && done[i]; i++
  :: else -> break
  od;
  i = 0
}

active proctype stream() {
  byte lease = 1, i;
  bit drained, ready;
end:
  do
  :: launched >= lease ->
    do
    :: fetched < tail && kind[fetched] == TASK -> taken[fetched] = 1; held++; fetched++
    :: d_step { fetched < tail && kind[fetched] == END -> find_drained(fetched) }
#ifdef BROKEN_DRAIN
      drained = 1;
#endif
      if
      :: !drained
#ifdef BROKEN_PASS
      :: drained && named[fetched] <= lease -> done[fetched] = 1; fetched++
#else
      :: drained && named[fetched] < lease -> done[fetched] = 1; fetched++
#endif
      :: drained && named[fetched] >= lease -> break
      fi;
      drained = 0
    :: d_step {
        held > 0 ->
        /* The first task that may run. */
        ready = 0;
        i = 0;
        do
        :: i < SLOTS && !(taken[i] && !done[i] && (i % 2 == 0 || kind[i - 1] == END || done[i - 1])) -> i++
        :: i < SLOTS && taken[i] && !done[i] && (i % 2 == 0 || kind[i - 1] == END || done[i - 1]) -> ready = 1; break
        :: i == SLOTS -> break
        od
      }
      if
      :: ready -> d_step {
          done[i] = 1;
          held--;
          ready = 0;
          byte slot = i;
          /* Every end before it is of an earlier lease, none behind it is. */
          i = 0;
          do
          :: i < slot -> assert(kind[i] != END || named[i] < lease); i++
          :: i >= slot && i < SLOTS -> assert(kind[i] != END || named[i] >= lease); i++
          :: i == SLOTS -> break
          od;
          slot = 0;
          i = 0
        }
      :: else -> i = 0
      fi
    od;
    drained = 0;
    lease++;
    left++
  od
}

/* What is left in the end. */
active proctype judge() {
  byte i;
  finished == U;
  d_step {
    do
    :: i < SLOTS -> assert(kind[i] != TASK || (taken[i] && done[i])); i++
    :: else -> break
    od
  }
}
