/* swap: versions, opcodes, images and the alias while leases roll
 *
 * Modelled (image_table.cpp, keeper.cpp, submission_queue.cpp): one alias over a table of OPCODES opcodes. A submitter is given one position
 * or two, under the queue's lock; for each task it resolves alias -> opcode, without the lock, and writes the slot. A redefinition drops
 * what nobody needs, gives the new version a free opcode, and makes an image of the table. The image is installed: every lease from now on
 * runs it. Then the next lease is started, unless another has been or the loop is gone, those before are called over, and when they have
 * left the alias is switched under the queue's lock; the version before is retired, and needed until the tail as it was then: whoever
 * still resolves to it has a position below. Or the image has other seats, and is installed while the loop is parked. A rollback only
 * switches, to the version numbered below; if that has left the table it gets an opcode and an image first. A version leaves the table when
 * it is retired, is not the one below the current, and all tasks before that tail are complete (`reaped` has passed it). Once an image with
 * the same opcodes is installed that nobody waits for (QUIET). An image is destroyed when another is installed and the last lease of it has
 * left.
 *
 * Abstraction: an image is opcode -> version (0: not there). Two slots for leases; what is on the device may run a task each, as seats change
 * hands one by one (roll.pml). A lease leaves between tasks, when it is over, did some, or finds none. Who sees the end of a lease when is in
 * park.pml. Laps and credit are in ring.pml.
 *
 * Properties
 *   assertions   a task runs exactly the version that was current when the alias was resolved, in an image that holds it and is not
 *                destroyed before it has ended; no alias is resolved that is older than a change that has returned
 *   end states   no deadlock: every change returns, every task completes, every image but the last is destroyed
 *   finishes     the same as LTL (no fairness needed)
 * Mutations: BROKEN_RETIRE, BROKEN_EARLY, BROKEN_OLDER, BROKEN_PARK, BROKEN_RESOLVE, BROKEN_RETURN, BROKEN_DESTROY
 */
#define OPCODES  3
#ifndef TASKS
#define TASKS    2
#endif
#ifndef CHANGES
#define CHANGES  3
#endif
#ifndef QUIET
#define QUIET    1
#endif
#define VERSIONS (CHANGES + 1)
#define IMAGES   (CHANGES + QUIET + 1)
#define NONE     255

mtype = { absent, reserved, visible, complete };
typedef Table { byte version[OPCODES] }

/* host */
byte alias, tail;
byte current = 1, versions = 1;
byte opcode_of[VERSIONS + 1] = NONE;
bit retired[VERSIONS + 1];
byte needed_until[VERSIONS + 1];
Table table, image[IMAGES];
byte installed, images = 1;
bit destroyed[IMAGES];
byte waste;                       /* ghost: images that are destroyed */
bit held;
byte switches, returned;          /* ghost: changes that took effect, changes that returned */
byte quiet = QUIET, rolls = 1;     /* so many leases start by themselves while another runs */
/* ring and device */
mtype task[TASKS] = absent;
byte opcode[TASKS];
byte version[TASKS];              /* ghost: current when the alias was resolved */
bit runs[2], over[2], worked[2];  /* the lease in a slot */
bit newest;
byte runs_image[2];
byte executing[2];                /* task + 1 */

#define IS_COMPLETE(t)  (task[t] == complete)
#if TASKS == 1
#define REAPED(n)    ((n) < 1 || IS_COMPLETE(0))
#define WORK         (task[0] == visible)
#elif TASKS == 2
#define REAPED(n)    (((n) < 1 || IS_COMPLETE(0)) && ((n) < 2 || IS_COMPLETE(1)))
#define WORK         (task[0] == visible || task[1] == visible)
#else
#define REAPED(n)    (((n) < 1 || IS_COMPLETE(0)) && ((n) < 2 || IS_COMPLETE(1)) && ((n) < 3 || IS_COMPLETE(2)))
#define WORK         (task[0] == visible || task[1] == visible || task[2] == visible)
#endif
#ifdef BROKEN_RETIRE
#define UNNEEDED(v)  true
#else
#define UNNEEDED(v)  REAPED(needed_until[v])
#endif
#define MAY_START    (!held && !(runs[0] && runs[1]))
#define IN_USE(k)    (runs[0] && runs_image[0] == (k) || runs[1] && runs_image[1] == (k))
#define GONE         (!runs[newest])
#define ALL          (REAPED(TASKS) && returned == CHANGES)

inline start() {
  newest = runs[0];
  runs[newest] = 1; over[newest] = 0; worked[newest] = 0; runs_image[newest] = installed
}

/* the janitor has it */
inline destroy(k) {
  destroyed[k] = 1; waste++; image[k].version[0] = 0; image[k].version[1] = 0; image[k].version[2] = 0
}

inline install() {
  image[images].version[0] = table.version[0];
  image[images].version[1] = table.version[1];
  image[images].version[2] = table.version[2];
#ifdef BROKEN_DESTROY
  destroy(installed);
#else
  if
  :: !IN_USE(installed) -> destroy(installed)
  :: else
  fi;
#endif
  installed = images; images++
}

inline drop_unneeded() {
  v = 1;
  do
  :: v <= versions ->
     if
     :: opcode_of[v] != NONE && retired[v] && v + 1 != current && UNNEEDED(v) ->
        table.version[opcode_of[v]] = 0; opcode_of[v] = NONE; retired[v] = 0; needed_until[v] = 0
     :: else
     fi;
     v++
  :: else -> break
  od;
  v = 0
}

/* under the queue's lock */
inline make_current() {
  alias = opcode_of[fresh];
  retired[fresh] = 0; needed_until[fresh] = 0;
  retired[current] = 1; needed_until[current] = tail;
  current = fresh; fresh = 0; switches++
}

#define OLD(i)       (old[i] && runs[i])

proctype Changes() {
  byte v, fresh;
  bit old[2];
  do
  :: returned < CHANGES ->
     if
     :: atomic { current > 1 -> fresh = current - 1 }            /* roll back */
     :: atomic { versions < VERSIONS -> fresh = versions + 1 }   /* redefine */
     :: atomic { quiet > 0 -> quiet--; install(); goto over_and_out }
     fi;
     if
     :: opcode_of[fresh] != NONE -> goto there
     :: else
     fi;
     goto choose;
none_free:
     REAPED(tail);
choose:
     atomic {
       drop_unneeded();
       if
       :: table.version[0] == 0 -> opcode_of[fresh] = 0
       :: table.version[0] != 0 && table.version[1] == 0 -> opcode_of[fresh] = 1
       :: table.version[0] != 0 && table.version[1] != 0 && table.version[2] == 0 -> opcode_of[fresh] = 2
       :: else -> goto none_free                                      /* in the code the table grows */
       fi;
       table.version[opcode_of[fresh]] = fresh;
       versions = (fresh > versions -> fresh : versions)
     }
#ifdef BROKEN_RETURN
     returned++;
#endif
     if
     :: atomic {                                                 /* leases roll */
#ifdef BROKEN_OLDER
          old[0] = runs[0] && runs_image[0] == installed; old[1] = runs[1] && runs_image[1] == installed;
#else
          old[0] = runs[0]; old[1] = runs[1];
#endif
          install()
        }
#ifndef BROKEN_EARLY
        if
        :: atomic { (OLD(0) || OLD(1)) && OLD(newest) && MAY_START -> start() }
        :: atomic { (OLD(0) || OLD(1)) && !OLD(newest) }
        :: atomic { !OLD(0) && !OLD(1) }
        fi;
        d_step { over[0] = over[0] || OLD(0); over[1] = over[1] || OLD(1) }
        atomic { !OLD(0) && !OLD(1) }
#endif
        d_step { old[0] = 0; old[1] = 0 }
     :: atomic { held = 1; over[0] = runs[0]; over[1] = runs[1] }    /* other seats: it parks */
#ifndef BROKEN_PARK
        !runs[0] && !runs[1];
#endif
        atomic { install(); held = 0 }
     fi;
there:
     atomic { make_current() }
     returned = switches;
over_and_out:
     skip
  :: returned >= CHANGES -> break
  od
}

proctype Submitter() {
  byte t, n, i;
  do
  :: tail < TASKS ->
#ifdef BROKEN_RESOLVE
     i = alias;
#endif
     atomic {                                        /* under the queue's lock */
       if
       :: t = tail; n = 1
       :: tail + 1 < TASKS -> t = tail; n = 2
       fi;
       tail = tail + n
     }
     do
     :: atomic {
          n > 0 ->
#ifndef BROKEN_RESOLVE
          i = alias;
#endif
          assert(returned <= switches);
          opcode[t] = i; version[t] = current; task[t] = reserved
        }
        atomic { task[t] = visible; t++; n-- }
     :: atomic { n == 0 -> t = 0; i = 0; break }
     od
  :: tail == TASKS -> break
  od
}

proctype Keeper() {
end: do
  :: atomic { GONE && WORK && MAY_START -> start() }
  :: atomic { !GONE && MAY_START && !ALL && rolls > 0 -> rolls--; start() }
  od
}

#define MAY_TAKE(t) (runs[i] && !executing[i] && task[t] == visible)
inline take(t) {
  assert(!destroyed[runs_image[i]] && image[runs_image[i]].version[opcode[t]] == version[t]);
  task[t] = reserved; executing[i] = t + 1
}

proctype Lease(bit i) {
end: do
  :: atomic { MAY_TAKE(0) -> take(0) }
#if TASKS > 1
  :: atomic { MAY_TAKE(1) -> take(1) }
#endif
#if TASKS > 2
  :: atomic { MAY_TAKE(2) -> take(2) }
#endif
  :: atomic {
       executing[i] ->
       assert(!destroyed[runs_image[i]] && image[runs_image[i]].version[opcode[executing[i] - 1]] == version[executing[i] - 1]);
       task[executing[i] - 1] = complete; opcode[executing[i] - 1] = 0; version[executing[i] - 1] = 0;
       executing[i] = 0; worked[i] = 1
     }
  :: atomic {
       runs[i] && !executing[i] && (over[i] || worked[i] || !WORK) ->
       runs[i] = 0; over[i] = 0; worked[i] = 0;
       if
       :: runs_image[i] != installed && !IN_USE(runs_image[i]) && !destroyed[runs_image[i]] -> destroy(runs_image[i])
       :: else
       fi;
       runs_image[i] = 0
     }
  od
}

init {
  atomic {
    table.version[0] = 1; image[0].version[0] = 1; opcode_of[1] = 0;
    run Changes(); run Submitter(); run Keeper(); run Lease(0); run Lease(1)
  }
  ALL && !runs[0] && !runs[1] && waste == images - 1
}

ltl finishes { <>ALL }
