/* heap_collect: phases of a collection, workers that see them late, barriers, births, roots, the sweep
 *
 * Modelled (heap_collect.hpp, heap_objects.hpp, collector.cpp): objects with a field each, the first of them a root; W workers that run tasks
 * one after the other; the host, which leads COLLECTIONS collections. A worker reads the phase when a lease begins (with LATE: at its first
 * use of the heap in the lease) and keeps it until the next one. A lease begins between two tasks; a handshake waits until all tasks that
 * run have ended and their workers have begun a lease. A task begins with an argument or without, has two registers, loads and sets fields,
 * makes objects, and makes a task with a reference, which waits until a worker takes it. The argument stays readable until that task has
 * ended. The state that a gang gets back when it resumes, and references in structures, are arguments too.
 *
 * While guarding and marking, a set reads the field, marks what is there and what it is about to store, and then stores; what it marks it
 * puts on the list of objects to be visited, a step later. A started task does so with its argument. While marking and sweeping, objects are
 * born with a mark, which comes before the object bit. The host reads the waiting argument and marks it later, marks the root, visits objects
 * until the list is empty, and sweeps when it is still empty behind a handshake.
 *
 * Any process may rest between any two steps for any time.
 *
 * Abstraction: phase clearing is rest, as workers do the same in both; nothing is done before the first collection guards. The list is a set,
 * and putting an object there twice an error. There is one visitor, whose objects are on the list. One word of object bits and one of marks
 * cover the heap. All workers together use OPS operations. Steps are sequentially consistent.
 *
 * Properties
 *   assertions   no object is freed that the root, a register or an argument leads to; what was unreachable when a collection began has been
 *                freed when it ends; an object is on the list once at most
 *   end states   no handshake waits for ever
 * Mutations: BROKEN_GUARD, BROKEN_VALUE, BROKEN_WHITE, BROKEN_EARLY, BROKEN_CLEARING, BROKEN_GUARDING, BROKEN_AGAIN, BROKEN_LATE,
 *   BROKEN_MARKING, BROKEN_LAST, BROKEN_VISIT, BROKEN_SWEEP, BROKEN_ARGUMENT, BROKEN_RING, BROKEN_FORGET
 */
#ifndef W
#define W       2
#endif
#ifndef N
#define N       4                 /* objects; 1 is the root */
#endif
#ifndef OPS
#define OPS     4                 /* of all workers */
#endif
#ifndef COLLECTIONS
#define COLLECTIONS 1
#endif
#ifndef FIRST
#define FIRST   3                 /* that the root leads to, one behind the other, with it */
#endif
#ifndef WAITING
#define WAITING 0                 /* the argument of a task that waits at the begin */
#endif
#ifdef BROKEN_LATE
#define LATE
#define AGAIN   1
#elif defined(LATE)
#define AGAIN   2                 /* more handshakes while guarding */
#elif defined(BROKEN_AGAIN)
#define AGAIN   0
#else
#define AGAIN   1
#endif
#define ROOT    1
#define NOBODY  255
#define BIT(o)  (1 << (o))        /* of object 0, which is none: never used */

#define UNSET    0                /* of a worker in a new lease */
#define REST     1
#define GUARDING 2
#define MARKING  3
#define SWEEPING 4

#ifdef LATE
#define FIRST_STATE UNSET
#else
#define FIRST_STATE phase
#endif

byte phase = REST;
byte field[N + 1];
byte taken, objects, marks;       /* bits */
byte list;
byte a[W], b[W], old[W];          /* registers; what a set has overwritten and not marked yet */
byte argument = WAITING;
byte runner = NOBODY;             /* who runs the task with that argument */
byte state_of[W] = REST;          /* the phase as the worker sees it */
bit busy[W];                      /* in a task */
bit asked[W];                     /* a handshake waits for the worker's next lease */
bit begun;
byte waited;                      /* their number */
byte left = OPS;
byte room;                        /* free slots */

byte reached;                     /* ghost */
byte lost;                        /* ghost: objects that the collection under way is to free */

/* Sets `reached`; `i`, `at`: 0 before and after. */
inline reach_from(from) {
  at = from;
  do
  :: at == 0 || (reached & BIT(at)) -> at = 0; break
  :: else -> reached = reached | BIT(at); at = field[at]
  od
}
inline reach() {
  reached = 0;
  reach_from(ROOT);
  reach_from(argument);
  do
  :: i == W -> i = 0; break
  :: else -> reach_from(a[i]); reach_from(b[i]); reach_from(old[i]); i++
  od
}

inline put_on_list(object) {
  assert((list & BIT(object)) == 0);
  list = list | BIT(object)
}

/* ---- Workers ---- */

#define state   state_of[me]

inline begin_lease(worker) {
  state_of[worker] = FIRST_STATE;
  waited = waited - asked[worker];
  asked[worker] = 0
}
inline enter() {
  if
  :: state == UNSET -> state = phase
  :: else
  fi
}
#define GUARDS  (state == GUARDING || state == MARKING)
#ifdef BROKEN_WHITE
#define BLACK   false
#elif defined(BROKEN_EARLY)
#define BLACK   (state >= GUARDING)
#else
#define BLACK   (state >= MARKING)
#endif

/* Marks an object, then puts it on the list: old[me]. */
inline note() {
  atomic {
    if
    :: (objects & BIT(old[me])) != 0 && (marks & BIT(old[me])) == 0 -> marks = marks | BIT(old[me])
    :: else -> old[me] = 0
    fi
  }
  if
  :: old[me] != 0 -> d_step { put_on_list(old[me]); old[me] = 0 }
  :: else
  fi
}

/* Marks what was in the field of `to`, and what will be; sets the field. */
inline set() {
  note();
#ifndef BROKEN_VALUE
  old[me] = value;
  note();
#endif
  field[to] = value
}

/* b = a new object with a in its field; begins atomically. */
inline make() {
  to = 2;
  do
  :: taken & BIT(to) -> to++
  :: else -> break
  od;
  taken = taken | BIT(to); room--; b[me] = to;
  if
  :: BLACK -> marks = marks | BIT(to)
  :: else
  fi
}

proctype Worker(byte me) {
  byte to, value;
  begun;
  do
  :: atomic {
       left > 0 ->                            /* a task */
       busy[me] = 1;
       if
       :: argument != 0 && runner == NOBODY -> runner = me; a[me] = argument
       :: true -> goto runs
       fi
#ifndef BROKEN_ARGUMENT
       ; enter();
       if
       :: GUARDS -> old[me] = a[me]
       :: else -> goto runs
       fi
#endif
     }
#ifndef BROKEN_ARGUMENT
     note();
#endif
runs:
     do
     :: atomic { left > 0 && field[ROOT] != 0 -> left--; a[me] = field[ROOT] }
     :: atomic { left > 0 && a[me] != 0 -> left--; b[me] = a[me]; a[me] = field[a[me]] }
     :: atomic { left > 0 && room != 0 -> left--; enter(); make() }
        atomic { objects = objects | BIT(to); field[to] = a[me]; goto ready }
     :: atomic {
          left > 0 -> left--; enter();
          if
          :: to = ROOT
          :: a[me] != 0 -> to = a[me]
          fi;
          if
          :: value = 0
          :: a[me] != 0 -> value = a[me]
          :: b[me] != 0 && b[me] != a[me] -> value = b[me]
          fi;
          if
#ifndef BROKEN_GUARD
          :: GUARDS -> old[me] = field[to]
#endif
          :: else -> field[to] = value; goto ready
          fi
        }
        set(); goto ready
     :: atomic { left > 0 && argument == 0 && a[me] != 0 -> left--; argument = a[me] }
     :: atomic {                              /* the end of the task, and perhaps of the lease */
          a[me] = 0; b[me] = 0; busy[me] = 0;
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
ready:  atomic { to = 0; value = 0; goto runs }
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
inline mark(object) {
  d_step {
    if
    :: (objects & BIT(object)) != 0 && (marks & BIT(object)) == 0 -> marks = marks | BIT(object); put_on_list(object)
    :: else
    fi;
    object = 0
  }
}
inline visit() {
  do
  :: list == 0 -> break
  :: d_step {
       list != 0 ->
       object = 1;
       do
       :: list & BIT(object) -> break
       :: else -> object++
       od;
       list = list & ~BIT(object)
     }
     object = field[object];
     mark(object)
  od
}

init {
  byte i, at, object, again, had, kept, more = COLLECTIONS;
  d_step {
    do
    :: i < FIRST -> i++; taken = taken | BIT(i); field[i] = (i < FIRST -> i + 1 : 0)
    :: else -> i = 0; break
    od;
    taken = taken | (WAITING != 0 -> BIT(WAITING) : 0);
    objects = taken;
    i = 2;
    do
    :: i <= N -> room = room + ((taken & BIT(i)) == 0); i++
    :: else -> i = 0; break
    od
  }
  atomic { do :: i < W -> run Worker(i); i++ :: else -> i = 0; break od }
  do
  :: more == 0 -> break
  :: else ->
     d_step { reach(); lost = objects & ~reached; reached = 0 }
#ifndef BROKEN_CLEARING
     if
     :: more < COLLECTIONS -> handshake()
     :: else
     fi;
#endif
#ifndef BROKEN_FORGET
     list = 0;
#endif
     marks = 0;
     atomic { phase = GUARDING; begun = 1 }
#ifndef BROKEN_GUARDING
     handshake();
     do
     :: again < AGAIN -> again++; handshake()
     :: else -> again = 0; break
     od;
#endif
     phase = MARKING;
#ifndef BROKEN_MARKING
     handshake();
#endif
#ifndef BROKEN_RING
     object = argument;
     mark(object);
#endif
     object = ROOT;
     mark(object);
     do
     :: visit();
#ifndef BROKEN_LAST
        handshake();
#endif
#ifdef BROKEN_VISIT
        visit();
#endif
        if
        :: list == 0 -> break
        :: else
        fi
     od;
     phase = SWEEPING;
#ifdef BROKEN_SWEEP
     kept = marks;
     had = objects;
#else
     had = objects;
     kept = marks;
#endif
     d_step {
       had = had & ~kept; kept = 0;
       reach();
       assert((had & reached) == 0 && (lost & ~had) == 0);
       reached = 0; lost = 0;
       objects = objects & ~had
     }
     d_step {
       do
       :: i > N -> i = 0; break
       :: else -> if :: had & BIT(i) -> field[i] = 0; room++ :: else fi; i++
       od;
       taken = taken & ~had; had = 0
     }
     phase = REST;
     more--
  od
}
