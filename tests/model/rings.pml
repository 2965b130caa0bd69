/* rings: room, positions, commits, claims, blocks that become free, and the end of a ring of messages
 *
 * Modelled (ring_core.hpp): a ring of S slots in blocks of B. A producer takes up to BATCH slots from `room` by an atomic add, gives back what
 * it did not get, takes its positions by an atomic add on `tail`, writes, and commits each slot by a store of its key, which is its position
 * + 1. One that finds no room credits the next block whose slots have all been read: it looks at `freed`, takes the block by CAS(credited,
 * c, c + 1), and adds it to `room`. A consumer reads `head`, looks at the keys from there on, claims what is committed by CAS(head, h, h + n),
 * reads, and adds the slots to `done` of their block; who completes the block says so in `freed`. One process closes the ring at any time:
 * a bit of `tail`, whose value before is the end. Keys are positions of 64 bits and do not come again. `done` and `freed` wrap: here at two
 * rounds, as in the code at 2^32.
 *
 * Any process may rest between any two steps for any time. A message may be discarded by its producer, which is a commit.
 *
 * Abstraction: a slot is written and read in one step each, and a key stored in one. A message has one slot; one of several is a batch that
 * its producer alone has. Fences are left out: tests/gpu has litmus tests.
 *
 * Properties
 *   assertions   no slot is written before its last reader is done; nothing is read before it is committed, or twice; at the end, all
 *                positions before the end have been read; all room is credited or in a block that is not complete
 *   end states   with AFTER_ALL, where the ring is closed when its producers have ended: no producer waits for room for ever, no consumer for a message
 * Mutations: BROKEN_CREDIT, BROKEN_LAST, BROKEN_ROUND, BROKEN_COMMIT, BROKEN_LOOK, BROKEN_CLAIM, BROKEN_BACK, BROKEN_CLOSE
 */
#ifndef S
#define S       4
#endif
#ifndef B
#define B       2
#endif
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef EACH
#define EACH    3   /* messages of a producer */
#endif
#ifndef BATCH
#define BATCH   2
#endif
#define BLOCKS  (S / B)
#define MOST    (PRODUCERS * EACH + PRODUCERS * BATCH)
#define OPEN    255

short room = S;
byte tail, credited, head, end = OPEN;
bit closed;
byte key[S];
byte count_of[BLOCKS];                   /* RingControl::done */
bit freed[BLOCKS];                       /* the number of rounds, modulo 2 */
byte slot[S];                            /* ghost: 0 free, 1 reserved, 2 written, 3 committed, 4 claimed */
byte got[MOST];                          /* ghost: how often a position was read */
byte running = PRODUCERS + CONSUMERS + 1;

#define ROUND(p)      ((p) / S)
#define BLOCK(p)      (((p) % S) / B)
#define IS_THERE(p)   (key[(p) % S] == (p) + 1)
#ifdef BROKEN_ROUND
#define IS_FREED(c)   (freed[(c) % BLOCKS] == 1)
#else
#define IS_FREED(c)   (freed[(c) % BLOCKS] == ((c) / BLOCKS + 1) % 2)
#endif

proctype Producer() {
  byte left = EACH, want, count, at, i, c;
  short before;
  do
  :: left == 0 -> break
  :: left > 0 ->
     want = (left < BATCH -> left : BATCH);
     if
     :: room >= 1 -> skip
     :: else -> goto credit
     fi;
     atomic {
       before = room; room = room - want;
       count = (before >= want -> want : (before > 0 -> before : 0))
     }
#ifndef BROKEN_BACK
     room = room + (want - count);
#endif
     if
     :: count == 0 -> goto credit
     :: else
     fi;
     atomic { at = tail; tail = tail + count;
       if
       :: closed -> break
       :: else
       fi
     }
     i = 0;
     do
     :: i < count ->
        d_step { assert(slot[(at + i) % S] == 0); slot[(at + i) % S] = 1 }
#ifdef BROKEN_COMMIT
        key[(at + i) % S] = at + i + 1;
#endif
        d_step { assert(slot[(at + i) % S] == 1); slot[(at + i) % S] = 2 }
        d_step { key[(at + i) % S] = at + i + 1; slot[(at + i) % S] = 3; i++ }
     :: else -> break
     od;
     left = left - count; i = 0; at = 0; count = 0; before = 0;
     goto next;
credit:
     before = 0; count = 0;
     c = credited;
     if
     :: IS_FREED(c) ->
        atomic {
          if
          :: credited == c -> credited++
          :: else -> c = 0; goto next
          fi
        }
        room = room + B; c = 0
     :: else ->
        c = 0;
        atomic {                           /* the caller tries again when there is a point in it */
          (room >= 1 || IS_FREED(credited) || closed);
          if
          :: closed -> break
          :: else
          fi
        }
     fi;
next: skip
  od;
  running--
}

proctype Consumer() {
  byte h, n, i, k;
  do
  :: atomic { IS_THERE(head) -> h = head; n = 0 }
#ifdef BROKEN_LOOK
     n = 1;
     if
     :: h + 1 < tail -> n = 2
     :: true
     fi;
#else
     do
     :: n < 2 && IS_THERE(h + n) -> n++
     :: else -> break
     od;
#endif
     if
     :: n == 0 -> goto again          /* others have taken it, and it is written anew */
     :: else
     fi;
     atomic {
#ifdef BROKEN_CLAIM
       true -> head = h + n;
#else
       if
       :: head == h -> head = h + n
       :: else -> goto again
       fi;
#endif
       i = 0;
       do
       :: i < n -> assert(slot[(h + i) % S] == 3); slot[(h + i) % S] = 4; i++
       :: else -> i = 0; break
       od
     }
     do
     :: i < n -> d_step { assert(key[(h + i) % S] == h + i + 1 && slot[(h + i) % S] == 4 && got[h + i] == 0); got[h + i] = 1; i++ }
     :: else -> i = 0; break
     od;
     /* release, block by block */
     do
     :: n > 0 ->
        k = (h % B + n <= B -> n : B - h % B);
#ifdef BROKEN_CREDIT
        d_step { i = 0; do :: i < k -> slot[(h + i) % S] = 0; i++ :: else -> i = 0; break od }
        room = room + k; h = h + k; n = n - k; k = 0;
#else
        atomic {
          do
          :: i < k -> slot[(h + i) % S] = 0; i++
          :: else -> i = 0; break
          od;
          count_of[BLOCK(h)] = (count_of[BLOCK(h)] + k) % (2 * B);
          if
#ifdef BROKEN_LAST
          :: (h + k) % B == 0 -> i = 1
#else
          :: count_of[BLOCK(h)] == ((ROUND(h) + 1) * B) % (2 * B) -> i = 1
#endif
          :: else
          fi
        }
        if
        :: i == 1 -> freed[BLOCK(h)] = (ROUND(h) + 1) % 2
        :: else
        fi;
        i = 0; h = h + k; n = n - k; k = 0
#endif
     :: else -> break
     od;
again:
     h = 0; n = 0; i = 0
  :: end != OPEN && head == end -> break
  od;
  running--
}

proctype Closer() {
  byte before;
#ifdef AFTER_ALL
  running == CONSUMERS + 1;
#endif
#ifdef BROKEN_CLOSE
  before = tail;
  closed = 1;
#else
  atomic { before = tail; closed = 1 }
#endif
  end = before;
  running--
}

init {
  byte i;
  atomic {
    for (i : 1 .. PRODUCERS) { run Producer() }
    for (i : 1 .. CONSUMERS) { run Consumer() }
    run Closer();
    i = 0
  }
  running == 0;
  d_step {
    do
    :: i < MOST -> assert(got[i] == (i < end)); i++
    :: else -> break
    od
  }
}
