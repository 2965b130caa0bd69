/* heap_caches: slots at hand of a worker, which pass from lease to lease with its seat
 *
 * Modelled (heap_caches.hpp, heap.hpp, seat.hpp, HeapMemory::verify): W seats, LEASES leases of which each has a worker for each seat, and LANES
 * lanes of a warp in different branches. A worker uses the seat's cache, a stack of up to ROOM slots, while it has the seat; a lane while it
 * has the lock in its worker's context. allocate(): the stack's top; with an empty stack all free slots of a word, of which one is returned,
 * ROOM are kept, and the others given back; then the slot's bit in the map of allocations is set. free(): that bit is cleared, then the slot
 * goes to the stack, or to its word when that is full. Any lane frees what any other has allocated. The seat is left when all lanes have
 * returned. verify() takes the loop off the device, and checks caches, words and counts against each other. It is the only call of the host
 * that needs caches at rest; none changes them.
 *
 * Any process may rest between any two steps for any time.
 *
 * Abstraction: one slab with WORDS words of 3 slots; a word is taken, and slots are given back, in one step (heap_slabs). The stack and its
 * counts are plain memory: a load or store is a step. A lease takes a seat that is free (roll has the hand-over). One class.
 *
 * Properties
 *   assertions   no slot is handed out twice; a free of what is allocated succeeds, and there is no bit for what is not; while the loop is off
 *                the device, each taken slot is allocated or in one cache, and the counts of caches add up to the allocations; so at the end
 *   end states   every lease leaves, and verify() returns
 * Mutations: BROKEN_LOCK, BROKEN_SEAT, BROKEN_LEAVE, BROKEN_PARK, BROKEN_STAYS, BROKEN_KEPT, BROKEN_LOST, BROKEN_LEASE, BROKEN_ROOM, BROKEN_LIVE
 */
#ifndef W
#define W       1
#endif
#ifndef LEASES
#define LEASES  2
#endif
#ifndef LANES
#define LANES   2
#endif
#ifndef CALLS
#define CALLS   2                 /* of a lane in a lease */
#endif
#ifndef WORDS
#define WORDS   1
#endif
#define ROOM    1
#define SLOTS   (3 * WORDS)
#define NONE    255
#define LOWEST(bits)    ((bits) & 1 -> 1 : ((bits) & 2 -> 2 : (bits) & 4))
#define SLOT(word, bit) (3 * (word) + (bit) / 2)
#define BIT(slot)       (1 << (slot) % 3)

byte taken[WORDS];                /* by slot: allocated, or in a cache */
byte live[WORDS];                 /* by slot: allocated */
byte count[W], stack[W * ROOM];   /* caches */
short net[W];                     /* CacheOfClass::taken less ::given */
byte holder[W];                   /* seats: the lease, from 1 on, or 0 */
bit lock[LEASES * W];             /* in the contexts of the leases' workers */
byte left_by[LEASES * W];
bit parked;
byte running = LEASES * W * LANES + 1;
byte owned[SLOTS];                /* ghost: 1 allocated, 2 being freed */

#ifdef BROKEN_LOCK
inline acquire() { lock[mine] = 1 }
#else
inline acquire() { atomic { !lock[mine] -> lock[mine] = 1 } }
#endif
inline release() { lock[mine] = 0 }
inline add(value) { sum = net[seat]; net[seat] = sum + (value); sum = 0 }
inline give_to_slab(in, bits) {
  d_step { assert((taken[in] & (bits)) == (bits)); taken[in] = taken[in] & ~(bits) }
}

inline allocate() {
  acquire();
  have = count[seat];
  if
  :: have > 0 ->
     unit = stack[seat * ROOM + have - 1];
#ifndef BROKEN_STAYS
     count[seat] = have - 1;
#endif
     add(1)
  :: else ->
     atomic {
       do
       :: word < WORDS && taken[word] == 7 -> word++
       :: else -> break
       od;
       if
       :: word < WORDS -> left = 7 & ~taken[word]; taken[word] = 7
       :: else -> word = 0
       fi
     }
     if
     :: left != 0 ->
        unit = SLOT(word, LOWEST(left));
        left = left & ~LOWEST(left);
        add(1);
        if
        :: left != 0 ->
           stack[seat * ROOM] = SLOT(word, LOWEST(left));
           count[seat] = 1;
#ifndef BROKEN_KEPT
           left = left & ~LOWEST(left);
#endif
#ifndef BROKEN_LOST
           if
           :: left != 0 -> give_to_slab(word, left)
           :: else
           fi
#endif
        :: else
        fi
     :: else
     fi
  fi;
  have = 0; left = 0; word = 0;
  release();
  if
  :: unit != NONE ->
     d_step {
       assert(owned[unit] == 0 && (live[unit / 3] & BIT(unit)) == 0);
       live[unit / 3] = live[unit / 3] | BIT(unit);
       owned[unit] = 1
     }
  :: else
  fi
}

inline note_free() {
  d_step {
    assert((live[unit / 3] & BIT(unit)) != 0);
    live[unit / 3] = live[unit / 3] & ~BIT(unit);
    owned[unit] = 0
  }
}

inline free() {
#ifndef BROKEN_LIVE
  note_free();
#endif
  acquire();
  have = count[seat];
#ifdef BROKEN_ROOM
  if
  :: true -> stack[seat * ROOM + have] = unit; count[seat] = have + 1; left = 1
  fi;
#else
  if
  :: have < ROOM -> stack[seat * ROOM + have] = unit; count[seat] = have + 1; left = 1
  :: else
  fi;
#endif
  add(-1);
  have = 0;
  release();
  if
  :: left -> left = 0
  :: else -> give_to_slab(unit / 3, BIT(unit))
  fi;
#ifdef BROKEN_LIVE
  note_free();
#endif
}

proctype Lane(byte lease, seat) {
  byte calls, have, left, word, unit = NONE, mine;
  short sum;
  mine = (lease - 1) * W + seat;
#ifndef BROKEN_SEAT
  atomic {
    (holder[seat] == lease || (holder[seat] == 0 && !parked));
    if
    :: holder[seat] == 0 ->
       holder[seat] = lease;
#ifdef BROKEN_LEASE
       count[seat] = 0
#endif
    :: else
    fi
  }
#endif
  do
  :: calls == CALLS -> break
  :: calls < CALLS -> calls++;
     if
     :: allocate()
     :: atomic {
          unit = 0;
          do
          :: unit < SLOTS && owned[unit] == 1 -> break
          :: unit < SLOTS -> unit++
          :: unit == SLOTS -> unit = NONE; break
          od;
          if
          :: unit != NONE -> owned[unit] = 2
          :: else -> goto next
          fi
        }
        free()
     fi;
next:
     unit = NONE
  od;
#ifdef BROKEN_LEAVE
  holder[seat] = 0;
#else
  atomic {
    left_by[mine]++;
    if
    :: left_by[mine] == LANES -> holder[seat] = 0
    :: else
    fi
  }
#endif
  calls = 0; mine = 0;
  running--
}

/* caches, words and counts, while nobody uses them */
inline check() {
  d_step {
    sum = 0; i = 0;
    do
    :: i == W -> break
    :: else ->
       sum = sum + net[i];
       assert(count[i] <= ROOM);
       if
       :: count[i] == 1 -> assert(!cached[stack[i]]); cached[stack[i]] = 1
       :: else
       fi;
       i++
    od;
    i = 0;
    do
    :: i == SLOTS -> break
    :: else ->
       assert(((taken[i / 3] & BIT(i)) != 0) == (cached[i] || owned[i] == 1));
       assert(((live[i / 3] & BIT(i)) != 0) == (owned[i] == 1) && !(cached[i] && owned[i]) && owned[i] != 2);
       sum = sum - owned[i]; cached[i] = 0; i++
    od;
    assert(sum == 0);
    i = 0
  }
}

proctype Verify() {
  byte i;
  short sum;
  bit cached[SLOTS];
#ifndef BROKEN_PARK
  parked = 1;
#if W == 2
  holder[1] == 0;
#endif
  holder[0] == 0;
#endif
  check();
  parked = 0;
  running--
}

init {
  byte i, s;
  short sum;
  bit cached[SLOTS];
  atomic {
    for (i : 1 .. LEASES) {
      for (s : 0 .. W - 1) {
        run Lane(i, s);
#if LANES == 2
        run Lane(i, s)
#endif
      }
    }
    run Verify();
    i = 0; s = 0
  }
  running == 0;
  check()
}
