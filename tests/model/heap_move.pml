/* heap_move: an object that moves while tasks load references to it, write to it and pass them on
 *
 * Modelled (heap_move.hpp, object.hpp, collector.cpp): an object at place OLD of a chosen slab, a place NEW that it may move to, two fields of
 * other objects and perhaps a handle of the host that name it, W workers that run tasks one after the other, the host that leads the move. A
 * worker reads the phase at its first loaded reference in a lease and keeps it until the next one. A task begins with an argument or
 * without, loads references, counts in the object in two steps, stores references, exchanges them, and makes a task with one, which waits
 * until a worker takes it. The argument stays readable until that task has ended. The host starts tasks with its handle.
 *
 * While moving, a load makes the object stay, or finds where it has moved. The host makes what the waiting argument and the handle name
 * stay, copies a word of each worker, makes the copy count if the object need not stay, changes the fields, waits until all tasks have
 * ended that may have loaded what was in them, says rest, and gives the place back.
 *
 * Any process may rest between any two steps for any time.
 *
 * Abstraction: the slab was chosen, and its links are 0; all workers know rest. All together use OPS operations. Steps are
 * sequentially consistent.
 *
 * Properties
 *   assertions   nobody reads or writes a place that was given back; no count is lost; two references to the object are equal; an exchange
 *                that expects it succeeds
 *   end states   no handshake waits for ever
 * Mutations: BROKEN_MOVING, BROKEN_SCAN, BROKEN_HANDLE, BROKEN_SETTLE, BROKEN_FORWARD, BROKEN_COPY, BROKEN_RENEW, BROKEN_STORE,
 *   BROKEN_RELEASE, BROKEN_REST, BROKEN_EXCHANGE
 */
#ifndef W
#define W       2
#endif
#ifndef OPS
#define OPS     5                 /* of all workers */
#endif
#ifndef HANDLE
#define HANDLE  0                 /* 1: the host has one */
#endif
#define NOBODY  255

#define OLD     1
#define NEW     2
#define NONE    0                 /* of the link */
#define STAYS   3

#define UNSET   0                 /* of a worker in a new lease */
#define REST    1
#define MOVING  2

byte phase = REST;
byte field[2] = OLD;
bit cleared[2];                   /* ghost: a task's last store to the field was of nothing */
byte link = NONE;
bit leaving = 1;                  /* the slab of OLD was chosen */
bit freed;                        /* ghost: OLD was given back */
byte data[3 * W];                 /* a count of each worker's, by place */
byte count[W];                    /* ghost */
byte a[W], word[W];               /* registers */
byte argument;
byte runner = NOBODY;             /* who runs the task with that argument */
byte state_of[W] = REST;          /* the phase as the worker sees it */
bit busy[W];                      /* in a task */
bit asked[W];                     /* a handshake waits for the worker's next lease */
byte waited;                      /* their number */
byte left = OPS;

#define state   state_of[me]
#define DATA(place, worker) data[W * (place) + (worker)]

inline begin_lease(worker) {
  state_of[worker] = UNSET;
  waited = waited - asked[worker];
  asked[worker] = 0
}

/* Where the object is that `unit` names, which stays there. */
inline settle(unit) {
  if
  :: unit == OLD && leaving ->
     assert(!freed);
     if
#ifndef BROKEN_SETTLE
     :: link == NONE -> link = STAYS
#endif
#ifndef BROKEN_FORWARD
     :: link == NEW -> unit = NEW
#endif
     :: else
     fi
  :: else
  fi
}
/* The same for a reference that a worker has loaded. */
inline resolve(unit) {
  state = (state == UNSET -> phase : state);
  if
  :: state == MOVING -> settle(unit)
  :: else
  fi
}

proctype Worker(byte me) {
  byte seen, k;
  do
  :: atomic {
       left > 0 ->                            /* a task */
       busy[me] = 1;
       if
       :: argument != 0 && runner == NOBODY -> runner = me; a[me] = argument; seen = argument
       :: true
       fi
     }
     atomic {
       if
       :: seen != 0 -> resolve(seen); assert(seen == a[me]); seen = 0
       :: else
       fi
     }
runs:
     do
     :: atomic { left > 0 -> left--; if :: field[0] != 0 -> seen = field[0] :: field[1] != 0 -> seen = field[1] :: else -> goto ready fi }
        atomic { resolve(seen); assert(a[me] == 0 || a[me] == seen); a[me] = seen; seen = 0 }
     :: atomic { left > 0 && a[me] != 0 -> left--; assert(a[me] == NEW || !freed); word[me] = DATA(a[me], me); assert(word[me] == count[me]) }
        atomic { assert(a[me] == NEW || !freed); count[me]++; DATA(a[me], me) = word[me] + 1; word[me] = 0 }
     :: atomic { left > 0 && a[me] != 0 -> left--; if :: k = 0 :: k = 1 fi; field[k] = a[me]; cleared[k] = 0; k = 0 }
     :: atomic { left > 0 && !cleared[1] -> left--; field[1] = 0; cleared[1] = 1 }
     :: atomic {
          left > 0 && a[me] != 0 -> left--;
          if                                  /* an exchange that expects the object, which is there */
          :: field[0] == a[me] -> goto ready
          :: else -> seen = field[0]
          fi
        }
        atomic {
          resolve(seen);
#ifdef BROKEN_EXCHANGE
          assert(false);
#endif
          assert(seen == a[me]); seen = 0
        }
     :: atomic { left > 0 && argument == 0 && a[me] != 0 -> left--; argument = a[me] }
#if HANDLE
     :: atomic { left > 0 && argument == 0 -> left--; argument = OLD }
#endif
     :: atomic {                              /* the end of the task, and perhaps of the lease */
          a[me] = 0; busy[me] = 0;
          if
          :: runner == me -> runner = NOBODY; argument = 0
          :: else
          fi;
          if
          :: !asked[me]
          :: true -> begin_lease(me)
          fi;
          break
        }
     od;
     if
     :: false ->
ready:  atomic { goto runs }
     :: else
     fi
  :: left == 0 -> break
  od
}

/* ---- The host ---- */

inline handshake() {
  d_step {
    do
    :: i == W -> i = 0; break
    :: i < W && busy[i] -> asked[i] = 1; waited++; i++
    :: i < W && !busy[i] -> begin_lease(i); i++
    od
  }
  waited == 0
}

init {
  byte i, unit, copied[W];
  atomic { do :: i < W -> run Worker(i); i++ :: else -> i = 0; break od }
  phase = MOVING;
#ifndef BROKEN_MOVING
  handshake();
#endif
#ifndef BROKEN_SCAN
  atomic { unit = argument; settle(unit); unit = 0 }
#endif
#if HANDLE && !defined(BROKEN_HANDLE)
  atomic { unit = OLD; settle(unit); unit = 0 }
#endif
  if
  :: link == NONE ->
     do
     :: i < W -> copied[i] = DATA(OLD, i); i++
     :: else -> i = 0; break
     od;
     atomic {
       do
       :: i < W -> DATA(NEW, i) = copied[i]; copied[i] = 0; i++
       :: else -> i = 0; break
       od
     }
     atomic {
       if
       :: link == NONE -> link = NEW
#ifdef BROKEN_COPY
       :: link == STAYS -> link = NEW
#endif
       :: else
       fi
     }
  :: else
  fi;
  do
#ifdef BROKEN_RENEW
  :: i == 1 -> i = 0; break
#endif
  :: i == 2 -> i = 0; break
  :: else ->
     unit = field[i];
     if
     :: unit == OLD && link == NEW ->
        d_step {
          if
#ifdef BROKEN_STORE
          :: true -> field[i] = NEW
#endif
          :: field[i] == OLD -> field[i] = NEW
          :: else
          fi
        }
     :: else
     fi;
     d_step { assert(!cleared[i] || field[i] == 0); unit = 0; i++ }
  od;
#if defined(BROKEN_REST)
  phase = REST;
  handshake();
#elif defined(BROKEN_RELEASE)
  phase = REST;
#else
  handshake();
  phase = REST;
#endif
  d_step { leaving = 0; freed = (link == NEW) }
}
