/* roll: seats that the workers of one lease hand over to those of the next
 *
 * Modelled (seat.hpp): LEASES leases of W workers. Worker `s` of each lease takes seat `s`, whose word (waiter, holder) changes by
 * compare-and-swap only. take(): a free seat is taken; at one that is held the worker says that it waits, if nobody else has; when it sees
 * that its lease is over it gives up, unless the seat has been handed to it meanwhile. leave(): what goes with the seat is stored, then
 * the seat is handed to whoever waits, or freed. A worker leaves a lease that is over once its operator has returned and a successor waits,
 * or the lease ends at once, or no task is overdue (it has waited for long enough). Each worker counts itself out; the last one says that
 * the lease has left, and zeroes the count for the next lease in this slot. Any holder may call its lease over; any may end it when nothing
 * runs. The host starts leases at any moment, as long as there is a slot; calls those over that have a successor; and parks PARKS times.
 * ROOM: so many workers are on the device at most; those of the next lease come as others go. CPU: one thread serves a seat in all leases,
 * and its successor is the lease that has been started.
 *
 * Abstraction: what goes with a seat (window, claim, times) is a number that each holder counts up. A step is one atomic operation, load or
 * store. A compare-and-swap that fails changes nothing and is tried again, so reading the word and changing it is one step (two in
 * mutations). Waiting is a guard. TASKS operators run longer than a moment. With a slot for each lease, and room, that of seat 0 ends only
 * when seat 1 has been handed on to the last lease, or all is told to end: a long task stops no other seat.
 *
 * Properties
 *   assertions   a seat has one holder; what its last holder stored arrives at the next; nobody leaves while executing; no seat is free while
 *                somebody has said that it waits; a lease has left once, when all its workers are out
 *   end states   no deadlock: no seat is lost, every lease is left, a park returns
 *   leaves       every lease leaves (LTL, weak fairness)
 * Mutations: BROKEN_FREE, BROKEN_STORE, BROKEN_GIVE_UP, BROKEN_TAKE, BROKEN_LATE, BROKEN_COUNT, BROKEN_TOGETHER; with SLOTS=2
 *   BROKEN_ZERO, BROKEN_SLOT
 */
#ifndef W
#define W       2                 /* or 1 */
#endif
#ifndef LEASES
#define LEASES  3
#endif
#ifndef SLOTS
#define SLOTS   LEASES
#endif
#ifndef TASKS
#define TASKS   1
#endif
#ifndef PARKS
#define PARKS   1
#endif
#ifndef ROOM
#define ROOM    (LEASES * W)
#endif

byte holder[W], waiter[W];        /* the seat's word */
byte cargo[W];                    /* what goes with the seat */
byte over, stop;                   /* numbers that only grow */
byte overdue;
bit executing[W];
byte launched, slot_of[LEASES + 1];
byte owner[SLOTS], left[SLOTS], exits[SLOTS];
byte resident;                    /* workers on the device */
byte tasks = TASKS;
byte turns[W], inside[W];         /* ghost: holders so far, holders now */
byte out[LEASES + 1];             /* ghost */
bit told[LEASES + 1];             /* ghost */
bit handed_on;                      /* ghost: the last lease has had seat 1 */
#ifdef CPU
byte served[W];                   /* the lease that the seat's thread has left last */
#endif

#define NOTHING_RUNS  (!executing[0] && !executing[W - 1])
#if W > 1 && SLOTS >= LEASES && ROOM >= LEASES * W && !defined(CPU)
#define MAY_END(s)    ((s) != 0 || handed_on || stop > 0 || over == LEASES)
#else
#define MAY_END(s)    true
#endif
#ifdef CPU
#define SUCCESSOR     (launched > l)
#define OVERDUE       (!NOTHING_RUNS)
#else
#define SUCCESSOR     (waiter[s] != 0)
#define OVERDUE       (overdue != 0)
#endif
#ifdef BROKEN_TOGETHER            /* a long task keeps the others also when their successors are there */
#define MAY_LEAVE     (stop >= l || !OVERDUE)
#else
#define MAY_LEAVE     (stop >= l || SUCCESSOR || !OVERDUE)
#endif
#ifdef CPU
#define MAY_FREE      true
#else
#define MAY_FREE      (stop >= l || !OVERDUE)
#endif

inline enter() {
  inside[s]++;
  assert(inside[s] == 1 && cargo[s] == turns[s]);
  turns[s]++; mine = turns[s];
  if
  :: s == 1 && l == LEASES -> handed_on = 1
  :: else
  fi
}

inline leave(next) {
  assert(holder[s] == l && !executing[s]);
  assert(next != 0 || may_free);    /* a free seat may hold the claim of a task */
  inside[s]--;
#ifdef BROKEN_FREE
  holder[s] = 0
#else
  holder[s] = next; waiter[s] = 0
#endif
}

proctype Worker(byte l, s) {
  byte seen, mine;
  bit noted, may_free;
#ifdef CPU
  served[s] == l - 1;
#else
  atomic { resident < ROOM -> resident++ }
#endif
take:
  if
  :: atomic { holder[s] == l -> enter() }
#ifdef BROKEN_TAKE
  :: holder[s] == 0 ->
     atomic { holder[s] = l; waiter[s] = 0; enter() }
#else
  :: atomic { holder[s] == 0 -> assert(waiter[s] == 0); holder[s] = l; enter() }
#endif
  :: atomic { holder[s] != 0 && waiter[s] == 0 && holder[s] != l -> waiter[s] = l; goto take }      /* say that it waits */
  :: atomic { over >= l && holder[s] != l && waiter[s] != l -> goto gone }                          /* give up */
#ifdef BROKEN_GIVE_UP
  :: atomic { over >= l && holder[s] != l && waiter[s] == l -> seen = holder[s] }
     atomic { holder[s] = seen; waiter[s] = 0; seen = 0; goto gone }
#else
  :: atomic { over >= l && holder[s] != l && waiter[s] == l -> waiter[s] = 0; goto gone }
#endif
  fi;
serve:
  do
  :: atomic { tasks > 0 && !executing[s] -> tasks--; executing[s] = 1 }
  :: atomic { over < l -> over = l }
  :: atomic { stop < l && NOTHING_RUNS -> over = (over < l -> l : over); stop = l }
#ifndef CPU
  :: atomic { over >= l && executing[s] && !noted -> noted = 1; overdue++ }
#endif
  :: atomic {
       over >= l && !executing[s] && (noted || MAY_LEAVE) ->
       if
       :: noted ->
          noted = 0; overdue--
       :: else
       fi;
       if
       :: MAY_LEAVE -> may_free = MAY_FREE; break
       :: else
       fi
     }
  od;
#ifndef BROKEN_LATE
  cargo[s] = mine;
#endif
#ifdef BROKEN_STORE
  seen = waiter[s];
  atomic { leave(seen); seen = 0 }
#else
#ifdef BROKEN_VACANT
  atomic { leave(waiter[s]) }
#else
  atomic {
    if
    :: waiter[s] == 0 && !may_free -> goto serve      /* it gave up meanwhile */
    :: else -> leave(waiter[s])
    fi
  }
#endif
#endif
#ifdef BROKEN_LATE
  cargo[s] = mine;
#endif
#ifdef BROKEN_COUNT
  goto counts;
gone:
  goto over_and_out;
counts:
#else
gone:
#endif
  atomic {
    mine = 0; may_free = 0; out[l]++;
    exits[slot_of[l]]++;
    if
    :: exits[slot_of[l]] == W
    :: else -> goto over_and_out
    fi
  }
#ifndef BROKEN_ZERO
  exits[slot_of[l]] = 0;
#endif
  atomic { assert(!told[l] && out[l] == W && owner[slot_of[l]] == l); told[l] = 1; left[slot_of[l]] = l }
over_and_out:
#ifdef CPU
  served[s] = l
#else
  resident--
#endif
}

#ifdef BROKEN_SLOT
#define FREE_SLOT(j)  true
#else
#define FREE_SLOT(j)  (left[j] == owner[j])
#endif
#define HAS_LEFT(j)   (left[j] == owner[j])
#if SLOTS == 2
#define ANY_SLOT      (FREE_SLOT(0) || FREE_SLOT(1))
#define ALL_LEFT      (HAS_LEFT(0) && HAS_LEFT(1))
#else
#define ANY_SLOT      (FREE_SLOT(0) || FREE_SLOT(1) || FREE_SLOT(2))
#define ALL_LEFT      (HAS_LEFT(0) && HAS_LEFT(1) && HAS_LEFT(2))
#endif

proctype Host() {
  byte parks, j;
  do
  :: atomic {
       launched < LEASES && ANY_SLOT ->
       do
       :: FREE_SLOT(j) -> break
       :: else -> j++
       od;
       launched++;
       owner[j] = launched; slot_of[launched] = j; j = 0;
       run Worker(launched, 0);
#if W == 2
       run Worker(launched, 1)
#endif
     }
  :: atomic { launched > 1 && over < launched - 1 -> over = launched - 1 }
  :: atomic { parks < PARKS && launched > 0 && stop < launched -> parks++; over = launched }
     stop = launched;
     ALL_LEFT
  :: atomic { launched == LEASES && ALL_LEFT -> break }
  od
}

proctype Time() {
end: do
  :: atomic { executing[0] && MAY_END(0) -> executing[0] = 0 }
#if W == 2
  :: atomic { executing[1] && MAY_END(1) -> executing[1] = 0 }
#endif
  od
}

init { atomic { run Host(); run Time() } }

ltl leaves { <>(launched == LEASES && ALL_LEFT) }
