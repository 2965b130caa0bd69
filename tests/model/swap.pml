/* swap: operator versions, images and the alias
 *
 * Modelled: one alias and an operator table of INDICES indices. A submitter takes the submission lock, reserves a
 * position, resolves alias -> index, unlocks, writes the slot. A redefinition picks an index, builds the next image, in
 * which this index holds the new version, and makes it the image of every lease to come; asks the running lease to
 * park; waits until no lease runs with an older image; then flips the alias under the submission lock, noting the tail
 * in the old index, and returns. A rollback only flips back to the previous index, which images keep holding. An
 * index is retired, and given to a later version, only once `reaped` has passed the tail noted when it was flipped away
 * from (and it is neither current nor previous). Tasks run in any order, on two workers, over leases that come and go;
 * a task may spawn a child, which takes the entry of its ticket, and a ticket completes only after its children.
 *
 * Abstraction: image = index -> version (0: not there). A lease leaves when asked to, when nothing is left to run, or
 * when it did some work; park and wake are in park.pml, laps and credit in ring.pml. One task makes at most one child.
 *
 * Properties
 *   assertions   a task, and its child, run exactly the version that was current when the position was reserved, in an
 *                image that holds it; a task submitted after a redefinition or rollback returned never gets an older flip
 *   end states   no deadlock; every change returns and every task completes (the model has no endless runs that matter:)
 *   finishes     all changes return, all tasks complete (LTL, weak fairness)
 * Mutations: BROKEN_RETIRE, BROKEN_EARLY_FLIP, BROKEN_RESOLVE, BROKEN_RETURN, BROKEN_CHILD
 */
#define INDICES  3
#ifndef TASKS
#define TASKS    4
#endif
#ifndef CHANGES
#define CHANGES  3
#endif
#define NONE     255

/* host */
byte alias, previous = NONE;
byte tail, reaped;
byte flip_tail[INDICES];          /* retired once reaped >= this */
byte next[INDICES];               /* image of the leases to come */
byte flips, returned;             /* ghost: flips made; flips whose call has returned */
bit park;                         /* asked to park */
bit finished;                     /* all changes made */
/* ring and device */
bit slot[TASKS]; byte index[TASKS];
byte version[TASKS];              /* ghost: current when the position was reserved */
bit started[TASKS], ran[TASKS], child[TASKS], complete[TASKS];
bit running, worked;
byte live[INDICES];               /* image of the lease that runs */
byte executing;                   /* workers inside an operator */

#define RETIRED(i)   ((i) != alias && (i) != previous && reaped >= flip_tail[i])
#define IS_OLDER     (live[0] != next[0] || live[1] != next[1] || live[2] != next[2])

inline flip_to(i) {
  flip_tail[alias] = tail; alias = i; flips++
}

proctype Changes() {
  byte n, i, v;
  v = 2;
  do
  :: n < CHANGES ->
     if
     :: previous != NONE ->                          /* roll back */
        atomic { flip_to(previous); previous = NONE }
     :: true ->                                      /* redefine */
        atomic {
          if
#ifdef BROKEN_RETIRE
          :: 0 != alias && 0 != previous -> i = 0
          :: 1 != alias && 1 != previous -> i = 1
          :: 2 != alias && 2 != previous -> i = 2
#else
          :: RETIRED(0) -> i = 0
          :: RETIRED(1) -> i = 1
          :: RETIRED(2) -> i = 2
#endif
          fi;
        }
        atomic { next[i] = v; v++; park = running }  /* under the wake mutex */
#ifdef BROKEN_RETURN
        returned = flips + 1;
#endif
#ifndef BROKEN_EARLY_FLIP
        !running || !IS_OLDER;
#endif
        atomic { previous = alias; flip_to(i); i = 0 }
     fi;
     returned = flips;
     n++
  :: else -> break
  od;
  finished = 1
}

proctype Submitter() {
  byte t, i, r;
  do
  :: tail < TASKS ->
     r = returned;
#ifdef BROKEN_RESOLVE
     i = alias;
#endif
     atomic {                                        /* the submission lock */
       if
       :: tail == TASKS -> break
       :: else
       fi;
       t = tail; tail++;
#ifndef BROKEN_RESOLVE
       i = alias;
#endif
       assert(flips >= r);
       version[t] = next[alias]
     }
     atomic { index[t] = i; slot[t] = 1; t = 0; i = 0; r = 0 }
  :: tail == TASKS -> break
  od
}

proctype Reaper() {
  do
  :: reaped < TASKS -> complete[reaped]; reaped++
  :: reaped == TASKS -> break
  od
}

#define RUNNABLE(t)  (slot[t] && !started[t])
#if TASKS == 4
#define WORK         (RUNNABLE(0) || RUNNABLE(1) || RUNNABLE(2) || RUNNABLE(3) || child[0] || child[1] || child[2] || child[3])
#define ALL          (complete[0] && complete[1] && complete[2] && complete[3])
#else
#define WORK         (RUNNABLE(0) || RUNNABLE(1) || RUNNABLE(2) || child[0] || child[1] || child[2])
#define ALL          (complete[0] && complete[1] && complete[2])
#endif

proctype Leases() {
end: do
  :: atomic { !running && WORK -> live[0] = next[0]; live[1] = next[1]; live[2] = next[2]; running = 1; worked = 0; park = 0 }
  :: atomic { running && executing == 0 && (park || worked || !WORK) -> running = 0 }
  od
}

inline start(t) {
  assert(running && live[index[t]] == version[t]);
  executing++; worked = 1
}

inline finish(t) {
  ran[t] = 1; executing--
}

/* a worker: any task that is there, then perhaps its child; two of them */
proctype Worker() {
  byte t;
end: do
  :: atomic {
       running && !park && WORK ->
       if
       :: RUNNABLE(0) -> t = 0; started[0] = 1
       :: RUNNABLE(1) -> t = 1; started[1] = 1
       :: RUNNABLE(2) -> t = 2; started[2] = 1
#if TASKS == 4
       :: RUNNABLE(3) -> t = 3; started[3] = 1
       :: child[3] -> t = 3; child[3] = 0
#endif
       :: child[0] -> t = 0; child[0] = 0
       :: child[1] -> t = 1; child[1] = 0
       :: child[2] -> t = 2; child[2] = 0
       fi;
       start(t)
     }
     atomic {
       if
       :: !ran[t] -> child[t] = 1                    /* its only child; the ticket completes with it */
#ifdef BROKEN_CHILD
          ; complete[t] = 1
#endif
       :: true -> complete[t] = 1
       fi;
       finish(t); t = 0
     }
  od
}

init {
  atomic {
    next[0] = 1;
    run Changes(); run Submitter(); run Submitter(); run Reaper(); run Leases(); run Worker(); run Worker()
  }
}

ltl finishes { <>(ALL && finished) }
