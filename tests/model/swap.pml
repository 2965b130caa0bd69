/* swap: operator versions, images and the alias
 *
 * Modelled: one alias over a table of INDICES indices. A submitter takes the submission lock, reserves a position,
 * resolves alias -> index, unlocks, and writes the slot. A redefinition picks an index, makes an image that holds the
 * new version there and is the image of every lease to come, asks the running lease to park, waits until no lease runs
 * with an older image, then flips the alias under the submission lock and notes the tail in the index it flipped away
 * from. A rollback only flips, back to the previous index, which images keep holding. An index is retired, and may be
 * given to a later version, once every task below the noted tail is complete (`reaped` has passed it) and it is neither
 * current nor previous. Tasks run in any order, over leases that come and go. A task may spawn a child, which takes the
 * entry of its ticket; a ticket completes only with its child (BROKEN_CHILD: a child may outlive the index).
 *
 * Abstraction: image = index -> version (0: not there). A task runs in one step: leases leave only between tasks
 * (park.pml). A lease leaves when asked to, when there is no work, or when it did some. Laps and credit are in ring.pml.
 *
 * Properties
 *   assertions   a task, and its child, run exactly the version that was current when the position was reserved, in an
 *                image that holds it; no position is reserved under an alias older than a change that has returned
 *   end states   no deadlock: every change returns and every task completes
 *   finishes     the same as LTL (no fairness needed)
 * Mutations: BROKEN_RETIRE, BROKEN_EARLY_FLIP, BROKEN_RESOLVE, BROKEN_RETURN, BROKEN_CHILD
 */
#define INDICES  3
#define TASKS    4
#ifndef CHANGES
#define CHANGES  3
#endif
#define NONE     255

mtype = { absent, reserved, visible, spawned, complete };

/* host */
byte alias, previous = NONE, tail;
byte flip_tail[INDICES];
byte next[INDICES];               /* image of the leases to come */
byte flips, returned;             /* ghost: changes that took effect, changes that returned */
bit park;                         /* asked to park */
/* ring and device */
mtype task[TASKS] = absent;
byte index[TASKS];
byte version[TASKS];              /* ghost: current when the position was reserved */
bit running, worked;
byte live[INDICES];               /* image of the lease that runs */

#define IS_COMPLETE(t)  (task[t] == complete)
#define REAPED(n)    (((n) < 1 || IS_COMPLETE(0)) && ((n) < 2 || IS_COMPLETE(1)) && ((n) < 3 || IS_COMPLETE(2)) && ((n) < 4 || IS_COMPLETE(3)))
#ifdef BROKEN_RETIRE
#define REAPED_FLIP(i)  true
#else
#define REAPED_FLIP(i)  REAPED(flip_tail[i])
#endif
#define RETIRED(i)   ((i) != alias && (i) != previous && REAPED_FLIP(i))
#define OLDER_RUNS   (running && (live[0] != next[0] || live[1] != next[1] || live[2] != next[2]))
#define RUNNABLE(t)  (task[t] == visible || task[t] == spawned)
#define WORK         (RUNNABLE(0) || RUNNABLE(1) || RUNNABLE(2) || RUNNABLE(3))

inline flip_to(i) {               /* under the submission lock */
  flip_tail[alias] = tail; alias = i; flip_tail[i] = 0; flips++
}

proctype Changes() {
  byte i;
  byte newest = 1;
  do
  :: returned < CHANGES ->
     if
     :: atomic { previous != NONE -> flip_to(previous); previous = NONE }       /* roll back */
     :: atomic {                                     /* redefine: choose an index, make the image */
          if
          :: RETIRED(0) -> i = 0
          :: RETIRED(1) -> i = 1
          :: RETIRED(2) -> i = 2
          fi;
          newest++; next[i] = newest; flip_tail[i] = 0;
          park = running
        }
#ifdef BROKEN_RETURN
        returned++;
#endif
#ifndef BROKEN_EARLY_FLIP
        !OLDER_RUNS;
#endif
        atomic { previous = alias; flip_to(i); i = 0 }
     fi;
     returned = flips
  :: returned == CHANGES -> break
  od
}

proctype Submitter() {
  byte t, i;
  do
  :: tail < TASKS ->
#ifdef BROKEN_RESOLVE
     i = alias;
#endif
     atomic {                                        /* under the submission lock */
       if
       :: tail == TASKS -> break
       :: tail < TASKS -> t = tail; tail++
       fi;
#ifndef BROKEN_RESOLVE
       i = alias;
#endif
       assert(returned <= flips);
       index[t] = i; version[t] = next[alias]; task[t] = reserved
     }
     atomic { task[t] = visible; t = 0; i = 0 }
  :: tail == TASKS -> break
  od
}

proctype Leases() {
end: do
  :: atomic { !running && WORK -> live[0] = next[0]; live[1] = next[1]; live[2] = next[2]; running = 1; worked = 0; park = 0 }
  :: atomic { running && (park || worked || !WORK) -> running = 0; worked = 0; live[0] = 0; live[1] = 0; live[2] = 0 }
  od
}

inline execute(t) {
  assert(live[index[t]] == version[t]);
  worked = 1;
  if
#ifdef BROKEN_CHILD
  :: task[t] == visible -> task[t] = complete; child = t + 1
#else
  :: task[t] == visible -> task[t] = spawned
#endif
  :: true -> task[t] = complete
  fi
}

proctype Workers() {
#ifdef BROKEN_CHILD
  byte child;                     /* runs after its ticket was completed */
#endif
end: do
  :: atomic { running && RUNNABLE(0) -> execute(0) }
  :: atomic { running && RUNNABLE(1) -> execute(1) }
  :: atomic { running && RUNNABLE(2) -> execute(2) }
  :: atomic { running && RUNNABLE(3) -> execute(3) }
#ifdef BROKEN_CHILD
  :: atomic { running && child -> assert(live[index[child - 1]] == version[child - 1]); child = 0 }
#endif
  od
}

init {
  atomic {
    next[0] = 1;
    run Changes(); run Submitter(); run Submitter(); run Leases(); run Workers()
  }
  REAPED(TASKS) && returned == CHANGES
}

ltl finishes { <>(REAPED(TASKS) && returned == CHANGES) }
