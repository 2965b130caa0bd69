/* submit: who may fill which place of the ring, while several threads submit
 *
 * Modelled (submitter.hpp, submission_queue.cpp): THREADS threads submit, thread 0 TURNS times, the others OTHERS_TURNS times; each turn is
 * a plain task, a drain, or "I rest". A thread has the places [at, end) of its submitter. For a plain task the thread stores at = (place,
 * inside), looks at `end`, fills the place, and stores at = (place + 1, outside), with nothing between that drains its store buffer. Without
 * a place it takes the lock and is given one place, or two, or, while no other thread has any, the tail: places without end. Whoever holds
 * the lock may take places back: it stores end = 0, makes all store buffers drain, one after the other (membarrier), and waits until the
 * thread is outside. What is left is passed over. A drain takes everything back first, and takes its own place at the tail: under the lock,
 * or by its submitter if that has the tail. Another thread looks for submitters that stand still, and changes an alias once, which needs the
 * tail.
 *
 * Abstraction: store buffers are those of x86: first in, first out, and a thread reads its own latest store. What only holders of the lock
 * touch changes at once: the store that opens the lock lies behind it in the buffer. Times and counters decide nothing here: who is given
 * how many places, and whose places are taken back when, is left open. Credit is left out (ring.pml).
 *
 * Properties
 *   assertions   each place is filled or passed over once, by one thread; a thread's places ascend; a task whose submission begins after
 *                that of a drain has returned stands behind it, as does one that sees the alias of before for the change of the alias
 *   end states   all threads have all their turns, and every place before the tail is filled or passed over
 * Mutations: BROKEN_NO_MEMBARRIER, BROKEN_ONE_LOOK, BROKEN_NO_WAIT, BROKEN_DRAIN_BESIDE, BROKEN_TAIL_KEPT, BROKEN_FORGET
 */
#ifndef THREADS
#define THREADS  2
#endif
#ifndef TURNS
#define TURNS    2
#endif
#ifndef OTHERS_TURNS
#define OTHERS_TURNS 1
#endif
#define NOBODY   255
#define NO_END   255
#define ROOM     4                /* of a store buffer; a full one drains before the next store */
#define PLACES   (THREADS * TURNS * 2 + 1)

mtype:store = { set_at, set_end, open_lock };

/* memory */
byte at[THREADS], limit[THREADS];   /* at: twice the place, plus 1 inside */
bit lock, alias;
/* store buffers, and the latest own store of the own end in them */
chan buffer[THREADS + 1] = [ROOM] of { mtype:store, byte, byte };
byte end_stores[THREADS], last_end[THREADS];
/* under the lock, or inside the submitter that has the tail */
byte tail, lone = NOBODY, given[THREADS];
bit listed[THREADS];
/* ghosts */
byte filled_by[PLACES];           /* 1 + the thread, or 255 where passed over */
byte drained, switched = NOBODY;  /* one past the last drain that has returned; where the alias changed */
byte finished;

#define END          (end_stores[me] -> last_end[me] : limit[me])

inline put(what, whose, value) {
  atomic {
    buffer[me]!what,whose,value;
    if
    :: what == set_end && whose == me -> end_stores[me]++; last_end[me] = value
    :: else
    fi
  }
}

inline apply(t) {
  buffer[t]?what,whose,value;
  if
  :: what == set_at -> at[whose] = value
  :: what == set_end ->
     limit[whose] = value;
     if
     :: whose == t -> end_stores[t]--; last_end[t] = (end_stores[t] -> last_end[t] : 0)
     :: else
     fi
  :: what == open_lock -> lock = 0
  fi;
  what = 0; whose = 0; value = 0
}

inline drain(t) {
  do
  :: nempty(buffer[t]) -> apply(t)
  :: empty(buffer[t]) -> break
  od
}

proctype Memory() {
  mtype:store what; byte whose, value;
end: do
  :: d_step { nempty(buffer[0]) -> apply(0) }
  :: d_step { nempty(buffer[1]) -> apply(1) }
  :: d_step { nempty(buffer[2]) -> apply(2) }
#if THREADS == 3
  :: d_step { nempty(buffer[3]) -> apply(3) }
#endif
  od
}

inline acquire() { atomic { !lock -> drain(me); lock = 1 } }

/* one place, by its thread */
inline fill(p) {
  assert(filled_by[p] == 0);
  assert(p >= floor);
  assert(switched == NOBODY || p < switched || seen);
  filled_by[p] = 1 + me;
  floor = p + 1
}

/* [from, to), by whoever has taken them back */
inline skip_places(from, to) {
  i = from;
  do
  :: i < to -> assert(filled_by[i] == 0); filled_by[i] = 255; i++
  :: else -> break
  od;
  i = 0
}

inline take_back(s) {
  put(set_end, s, 0);
#ifndef BROKEN_NO_MEMBARRIER
  d_step { drain(me); skip }
  d_step { drain(0); skip }
  d_step { drain(1); skip }
#if THREADS == 3
  d_step { drain(2); skip }
#endif
#endif
#ifndef BROKEN_NO_WAIT
  at[s] % 2 == 0;
#endif
}

/* of another thread */
inline take_tail_back() {
  if
  :: lone == NOBODY || lone == me
  :: lone != NOBODY && lone != me ->
     take_back(lone);
     atomic {
#ifndef BROKEN_TAIL_KEPT
       tail = at[lone] / 2;
#endif
       lone = NOBODY
     }
  fi
}

inline take_all_back() {
  do
  :: listed[0] && me != 0 -> take_back(0); atomic { skip_places(at[0] / 2, given[0]); listed[0] = 0 }
  :: listed[1] && me != 1 -> take_back(1); atomic { skip_places(at[1] / 2, given[1]); listed[1] = 0 }
#if THREADS == 3
  :: listed[2] && me != 2 -> take_back(2); atomic { skip_places(at[2] / 2, given[2]); listed[2] = 0 }
#endif
  :: else -> break
  od
}

#define OTHERS_LISTED ((listed[0] && me != 0) || (listed[1] && me != 1) || (listed[THREADS - 1] && me != THREADS - 1))

proctype Thread(byte me) {
  byte turn, here, floor, i; bit seen; mtype:store what; byte whose, value;
  do
  :: atomic { turn == (me == 0 -> TURNS : OTHERS_TURNS) -> break }
  :: atomic { turn < (me == 0 -> TURNS : OTHERS_TURNS) -> turn++; floor = (drained > floor -> drained : floor) }
     if
     :: true ->                             /* a plain task */
        put(set_at, me, 2 * here + 1);
        if
#ifdef BROKEN_ONE_LOOK
        :: atomic { here < given[me] || lone == me -> skip }
#else
        :: END > here -> skip
#endif
        :: END <= here ->
           put(set_at, me, 2 * here);
           acquire();
           listed[me] = 0;
           take_tail_back();
           atomic {
             here = tail;
             if
             :: !OTHERS_LISTED -> lone = me; given[me] = NO_END
             :: true -> given[me] = here + 1; tail = given[me]
             :: true -> given[me] = here + 2; tail = given[me]; listed[me] = 1
             fi
           }
           put(set_at, me, 2 * here + 1);
           put(set_end, me, given[me]);
           put(open_lock, 0, 0)
        fi;
        seen = alias;
        atomic { fill(here); seen = 0; here++ }
        put(set_at, me, 2 * here)
     :: true ->                             /* a drain */
        if
        :: lone == me ->
           put(set_at, me, 2 * here + 1);
           if
           :: END != 0 ->
              seen = alias;
              atomic { fill(here); seen = 0; here++ }
              put(set_at, me, 2 * here);
              goto drained_it
           :: END == 0 -> put(set_at, me, 2 * here)
           fi
        :: lone != me
        fi;
        acquire();
        take_tail_back();
        if
        :: listed[me] -> put(set_end, me, 0); atomic { skip_places(here, given[me]); listed[me] = 0 }
        :: !listed[me]
        fi;
#ifndef BROKEN_DRAIN_BESIDE
        take_all_back();
#endif
        seen = alias;
        atomic { fill(tail); seen = 0; tail++ }
        put(open_lock, 0, 0);
drained_it:
        atomic { drained = (floor > drained -> floor : drained) }
     :: listed[me] ->                       /* it rests */
        acquire();
        if
        :: listed[me] -> put(set_end, me, 0); atomic { skip_places(here, given[me]); listed[me] = 0 }
        :: !listed[me]
        fi;
        put(open_lock, 0, 0)
     fi
  od;
  finished++
}

proctype Looker(byte me) {
  byte i; mtype:store what; byte whose, value;
  if
  :: true
  :: true ->                                /* changes the alias */
     acquire();
     take_tail_back();
     atomic { alias = 1; switched = tail }
     put(open_lock, 0, 0)
  fi;
  do
  :: atomic { finished == THREADS && empty(buffer[0]) && empty(buffer[1]) && empty(buffer[THREADS - 1]) -> break }
#ifndef BROKEN_FORGET
  :: OTHERS_LISTED ->
     acquire();
     if
     :: listed[0] -> take_back(0); atomic { skip_places(at[0] / 2, given[0]); listed[0] = 0 }
     :: listed[1] -> take_back(1); atomic { skip_places(at[1] / 2, given[1]); listed[1] = 0 }
#if THREADS == 3
     :: listed[2] -> take_back(2); atomic { skip_places(at[2] / 2, given[2]); listed[2] = 0 }
#endif
     :: else
     fi;
     put(open_lock, 0, 0)
#endif
  od;
  /* what is left when all have ended */
  acquire();
  take_tail_back();
#ifndef BROKEN_FORGET
  take_all_back();
#endif
  skip;
  d_step {
    i = 0;
    do
    :: i < tail -> assert(filled_by[i] != 0); i++
    :: else -> break
    od;
    i = 0
  }
  put(open_lock, 0, 0);
  finished++
}

init {
  atomic {
    run Memory(); run Thread(0); run Thread(1); run Looker(THREADS);
#if THREADS == 3
    run Thread(2)
#endif
  }
  finished == THREADS + 1
}
