/* submit_lock: the lock around the submission queue, owned by a thread for many turns
 *
 * Modelled (submit_lock.hpp): THREADS threads lock and unlock TURNS times each. A thread that finds itself the owner sets its `inside`
 * and looks again, with nothing between that drains its store buffer. Others take `line` by a locked instruction and, if there is an
 * owner, write themselves into `next`. The owner may hand on when it leaves: it stores owner = next, then inside = 0. Whoever waits may
 * lose patience at any time: then it stores itself as the owner and makes all store buffers drain, one after the other (membarrier).
 * Either way it waits for the old owner's `inside` to be clear, and clears `next`. Handed on to, it becomes the owner; having taken,
 * nobody owns the lock, and it has its turn inside `line`. Where nobody owns it, a thread that holds `line` may become the owner.
 *
 * Abstraction: store buffers are those of x86: first in, first out, and a thread reads its own latest store. Counters of turns decide
 * nothing here: whether an owner hands on, a waiter goes on waiting, and a thread becomes the owner is left open, so every choice of
 * kTime, kFewest and kMost is covered. A thread that ends as the owner stays it. Other locks of the same threads are left out.
 *
 * Properties
 *   assertions   one thread at a time is inside, until the store by which it leaves is visible
 *   end states   every thread has all its turns
 *   finishes     the same as LTL (weak fairness)
 * Mutations: BROKEN_NO_MEMBARRIER, BROKEN_ONE_LOOK, BROKEN_NO_WAIT, BROKEN_EARLY_LINE, BROKEN_KEEP_NEXT
 */
#ifndef THREADS
#define THREADS  2
#endif
#ifndef TURNS
#define TURNS    3
#endif
#define NONE     255
#define ROOM     5                /* of a store buffer; a full one drains before the next store */

mtype:store = { set_owner, set_next, enter, leave, retreat, open_line, leave_line };

/* memory */
byte owner = NONE, next = NONE;
bit line, inside[THREADS];
/* store buffers, and the latest own store in them */
chan buffer[THREADS] = [ROOM] of { mtype:store, byte };
byte owner_stores[THREADS], last_owner[THREADS], next_stores[THREADS], last_next[THREADS];
byte holds[THREADS];              /* ghost: turns whose last store is not visible yet */
byte finished;

#define OWNER        (owner_stores[me] -> last_owner[me] : owner)
#define NEXT         (next_stores[me] -> last_next[me] : next)

inline put(what, value) {
  atomic {
    buffer[me]!what,value;
    if
    :: what == set_owner -> owner_stores[me]++; last_owner[me] = value
    :: what == set_next -> next_stores[me]++; last_next[me] = value
    :: else
    fi
  }
}

inline apply(t) {
  buffer[t]?what,value;
  if
  :: what == set_owner -> owner = value; owner_stores[t]--; last_owner[t] = (owner_stores[t] -> last_owner[t] : 0)
  :: what == set_next -> next = value; next_stores[t]--; last_next[t] = (next_stores[t] -> last_next[t] : 0)
  :: what == enter -> inside[t] = 1
  :: what == retreat -> inside[t] = 0
  :: what == leave -> inside[t] = 0; holds[t]--
  :: what == open_line -> line = 0
  :: what == leave_line -> line = 0; holds[t]--
  fi;
  what = 0; value = 0
}

inline drain(t) {
  do
  :: nempty(buffer[t]) -> apply(t)
  :: empty(buffer[t]) -> break
  od
}

proctype Memory() {
  mtype:store what; byte value;
end: do
  :: d_step { nempty(buffer[0]) -> apply(0) }
  :: d_step { nempty(buffer[1]) -> apply(1) }
#if THREADS == 3
  :: d_step { nempty(buffer[2]) -> apply(2) }
#endif
  od
}

inline hold() {
  assert((me == 0 || !holds[0]) && (me == 1 || !holds[1]) && (me == THREADS - 1 || !holds[THREADS - 1]));
  holds[me]++
}

/* by the thread that holds the line */
inline own() {
#ifdef BROKEN_EARLY_LINE
  put(open_line, 0);
#endif
  put(enter, 0);
  put(set_owner, me);
#ifndef BROKEN_EARLY_LINE
  put(open_line, 0);
#endif
  atomic { hold(); goto owned }
}

proctype Thread(byte me) {
  byte turn, old = NONE, seen; mtype:store what; byte value;
  do
  :: atomic { turn == TURNS -> break }
  :: atomic { turn < TURNS -> turn++ }
     if
     :: atomic { OWNER != me -> goto slow }
     :: OWNER == me
     fi;
     put(enter, 0);
     if
#ifdef BROKEN_ONE_LOOK
     :: atomic { true -> hold(); goto owned }
#else
     :: atomic { OWNER == me -> hold(); goto owned }
     :: OWNER != me
#endif
     fi;
     put(retreat, 0);
slow:
     atomic { !line -> drain(me); line = 1 }
     atomic { old = OWNER; assert(old != me) }
     if
     :: old == NONE
     :: old != NONE ->
        put(set_next, me);
        if
        :: OWNER == me -> seen = 1                        /* handed on */
        :: true ->                                        /* out of patience */
           put(set_owner, me);
#ifndef BROKEN_NO_MEMBARRIER
           d_step { drain(me); skip }
           d_step { drain(0); skip }
           d_step { drain(1); skip }
#if THREADS == 3
           d_step { drain(2); skip }
#endif
#endif
        fi;
#ifndef BROKEN_NO_WAIT
        !inside[old];
#endif
#ifndef BROKEN_KEEP_NEXT
        put(set_next, NONE);
#endif
        old = NONE;
        if
        :: seen -> seen = 0; own()
        :: !seen ->
           put(set_owner, NONE)
        fi
     fi;
     if
     :: own()
     :: true
     fi;
     /* a turn inside the line */
     atomic { old = NONE; hold() }
     put(leave_line, 0);
     goto over;
owned:
     atomic { old = NONE; seen = 0 }
     if
     :: NEXT == NONE
     :: NEXT != NONE
     :: NEXT != NONE -> atomic { seen = NEXT }
        put(set_owner, seen); seen = 0
     fi;
     put(leave, 0);
over:
     skip
  od;
  finished++
}

init {
  atomic {
    run Memory(); run Thread(0); run Thread(1);
#if THREADS == 3
    run Thread(2)
#endif
  }
  finished == THREADS
}

ltl finishes { <>(finished == THREADS) }
