/* cancel: marking a task wherever it waits, while others carry it on
 *
 * Modelled (cancels.hpp, next_group and end_share in worker.hpp): a wide task that goes from the ring to its held slot, from there as two shares
 * to the ready queue, and to two workers, who draw its groups; the host, which marks the ring; the member of the crew, which marks the held slot
 * and walks over the places of the queue; a task that comes behind it, and lies in the same places of queue and held slots. A header is a word of
 * flags and a position, read at once.
 *
 * Abstraction: laps (a place is filled when what it held has been read), the list of cancels, positions that wrap.
 *
 * Properties
 *   assertions   a task runs all of its groups once and succeeds, or none and is cancelled; it ends once; the one behind it is not cancelled
 *   end states   both end
 * Mutations: BROKEN_STORE, BROKEN_LOOK, BROKEN_DRAW, BROKEN_SHARE
 */
#ifndef GROUPS
#define GROUPS 2
#endif
#define SHARES 2
#define W      2
#define A      1
#define B      2
#define ALL    100  /* in next: drawn by one who cancels */

bool ring_mark;                                   /* of A's slot */
bool held_mark; byte held;                        /* position there; 0: none */
bool mark[SHARES]; byte place[SHARES];            /* the same of the ready queue */
bool read[SHARES];                                /* whether it has been read, so that it may be filled anew */
byte next, shares_left, ran, ended;
bool status, noted;                               /* A is cancelled; the crew has noted it */
bool b_marked; byte b_ended;
byte turn;                                        /* the next place to be claimed, places modulo SHARES */

active proctype fetcher_and_completer() {
  bool marked;
  byte i;
  marked = ring_mark;                             /* one read */
  atomic { held_mark = marked; held = A };        /* one store */
  marked = held_mark;                             /* the completer of the one before */
  next = 0;
  shares_left = SHARES;
  i = 0;
  do
  :: i < SHARES -> atomic { mark[i] = marked; place[i] = A; read[i] = 0 }; i++
  :: else -> break
  od;
  /* B, by the same places. */
  ended == 1;
  atomic { held_mark = 0; held = B };
  marked = held_mark;
  read[0];
  atomic { mark[0] = marked; place[0] = B; read[0] = 0 }
}

active [W] proctype worker() {
  byte claim, at, position, drawn;
  bool marked, cancels;
  do
  :: atomic { turn < SHARES + 1 -> claim = turn; at = turn % SHARES; turn++ };
     place[at] == (claim == SHARES -> B : A) && !read[at];
     atomic { marked = mark[at]; position = place[at] };
     read[at] = 1;
     if
     :: position == B -> b_marked = b_marked || marked; b_ended++
     :: position == A ->
        cancels = 0;
        do
        :: if
           :: marked ->
#ifdef BROKEN_DRAW
              atomic { drawn = next; next = ALL };
              cancels = 1
#else
#ifdef BROKEN_SHARE
              drawn = ALL; cancels = 1
#else
              atomic {                            /* compare-and-swap */
                drawn = next;
                if
                :: next == 0 -> next = ALL
                :: else -> skip
                fi
              };
              cancels = drawn == 0 || drawn >= ALL
#endif
#endif
           :: else -> skip
           fi;
           if
           :: cancels -> drawn = ALL
           :: else -> atomic { drawn = next; next++ }
           fi;
           if
           :: drawn < GROUPS -> ran++
           :: else -> break
           fi
        od;
        if
        :: cancels -> status = 1
        :: else -> skip
        fi;
        atomic {
          shares_left--;
          if
          :: shares_left == 0 ->                  /* completes the task */
             ended++;
             assert(status -> ran == 0 : ran == GROUPS)
          :: else -> skip
          fi
        }
     fi
  :: turn >= SHARES + 1 -> break
  od
}

inline mark_if(m, p) {                         /* the mark m and the position p of a header, if it is A's */
  atomic { seen = p };
  if
  :: seen == A ->
#ifdef BROKEN_STORE
     m = 1
#else
     atomic {
       if
       :: p == A -> m = 1
       :: else -> skip
       fi
     }
#endif
  :: else -> skip
  fi
}

active proctype canceller() {
  byte seen, i;
  ring_mark = 1;                                  /* the host */
#ifdef BROKEN_LOOK
  held_mark = 1;                                  /* whatever lies there */
#else
  mark_if(held_mark, held);
#endif
  i = 0;
  do
  :: i < SHARES -> mark_if(mark[i], place[i]); i++
  :: else -> break
  od
}

active proctype end() {
  ended == 1 && b_ended == 1;
  assert(!b_marked)
}
