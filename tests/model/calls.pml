/* calls: a step that waits on the device for the host's calls
 *
 * Modelled (device/resident_member.hpp, tensor/gang/step_calls.cpp): a caller that makes CALLS calls of W input words and pauses at times; the
 * keeper, which launches a kernel ahead; kernels of M members, one behind the other as in a stream. A word of the host has the number of its
 * call. Member 0 looks at all words, and decides alone whether the gang runs or leaves: told to, or by itself, its lease or its idle time
 * being over, up to LEAVES times. It hands both on in words with the number of the arrival. Members run: they exchange, count the call,
 * and answer, word w by member w. The count is in memory while no kernel is there, in the members else.
 *
 * Abstraction: stores of words arrive in any order within their group (inputs and control; arrivals; answers), a look reads them one after
 * the other. The exchange is a count of members. Numbers have no end.
 *
 * Properties
 *   assertions   members run each call once, in order, all of them or none; an arrival is not replaced before all have read it; answers are
 *                of the call that is under way; no kernel is there while the caller has paused, and memory has the count of all calls then
 *   end states   all calls end, and all kernels
 * Mutations: BROKEN_EACH_LOOKS, BROKEN_LOOK_ONCE, BROKEN_NO_EXCHANGE, BROKEN_NUMBERS, BROKEN_KEEPER, BROKEN_STORE
 */
#ifndef M
#define M      2
#endif
#ifndef W
#define W      2                      /* input words */
#endif
#ifndef CALLS
#define CALLS  3
#endif
#ifndef LEAVES
#define LEAVES 2
#endif
#define MOST   (CALLS + LEAVES + 4)   /* kernels */

byte input[W], control, leave;        /* of the host: numbers of calls; the last kernel that shall leave */
byte answers[M];
byte left;                            /* the last kernel that has left, as the host sees it */
byte what_number, number[W];          /* arrivals, by their numbers */
bool what_leaves;
byte launched, running, ended;        /* kernels: launched, begun, ended */
byte members_in;                      /* of the kernel that runs */
byte leaves;                          /* kernels that have left by themselves */
bool is_paused, is_leaving, is_over;
byte kept_calls, kept_arrivals;       /* what members keep from kernel to kernel */
byte memory;                          /* the count of calls, in memory */
byte done, under_way;                 /* calls */
byte runs[M];                         /* ghost: calls that the member has run */
byte exchanged[M];                    /* exchanges that it has reached */
byte read[M];                         /* ghost: arrivals that it has read */

/* A kernel begins when the one before it has ended. */
active proctype Stream() {
  byte m;
  do
  :: atomic {
       launched > running && ended == running ->
       running++;
       assert(!is_paused);
       assert(running < MOST);
       members_in = M;
       m = 0;
       do
       :: m == M -> break
       :: else -> run Member(m, running); m++
       od
     }
  :: atomic { is_over && launched == running && ended == running -> break }
  od
}

proctype Member(byte m, kernel) {
  byte calls, arrivals, count, w;
  bool there, leaving, stored;
  d_step {
#ifdef BROKEN_NUMBERS
    calls = 0;
#else
    calls = kept_calls;
#endif
    arrivals = kept_arrivals;
    count = memory
  };
  do
  :: arrivals++;
    leaving = false;
    if
    :: m == 0 ->
      do
      :: there = true;
        w = 0;
        do
        :: w == W -> break
        :: else -> there = there && input[w] == calls + 1; w++
        od;
        if
        :: there && control == calls + 1 -> break
        :: control != calls + 1 && leave >= kernel -> leaving = true; break
        :: atomic { control != calls + 1 && leaves < LEAVES -> leaves++; leaving = true }; break
        /* Looks again; else nothing has come. */
        :: !(there && control == calls + 1) && (input[0] == calls + 1 || control == calls + 1)
        fi
      od;
      skip;
      d_step {                        /* the others have read the last arrival */
        w = 0;
        do
        :: w == M -> break
        :: else -> assert(w == 0 || read[w] == arrivals - 1); w++
        od;
        w = 0
      };
      if
      :: !leaving ->
        do
        :: w == W -> break
        :: else -> number[w] = arrivals; w++
        od
      :: else
      fi;
      skip;
      d_step { what_leaves = leaving; what_number = arrivals };
      if
      :: leaving -> left = kernel
      :: else
      fi
    :: else ->
#ifdef BROKEN_EACH_LOOKS
      if
      :: input[0] == calls + 1 && control == calls + 1
      :: what_number == arrivals && what_leaves -> leaving = true
      fi
#else
      w = 0;
      do
      :: w == W || leaving -> break
      :: else ->
        if
        :: w < W && number[w] == arrivals -> w++
        :: what_number == arrivals && what_leaves -> leaving = true
        fi
      od;
      if
      :: !leaving -> what_number == arrivals; leaving = what_leaves
      :: else
      fi
#endif
    fi;
    read[m] = arrivals;
    if
    :: leaving -> break
    :: else
    fi;
    calls++;
    skip;
    d_step {
      runs[m]++;
      assert(runs[m] == calls && calls == under_way)
    };
#ifndef BROKEN_NO_EXCHANGE
    exchanged[m]++;
    w = 0;
    do
    :: w == M -> break
    :: w < M && exchanged[w] >= calls -> w++
    od;
#endif
    count++;
    stored = true;
    d_step {
      assert(count == calls);
      answers[m] = calls
    }
  od;
  skip;
  d_step {
#ifdef BROKEN_STORE
    if
    :: m == 0 && !stored -> memory = count - 1
    :: else
    fi;
#endif
    if
    :: m == 0 && stored -> memory = count
    :: else
    fi;
    members_in--;
    if
    :: members_in == 0 ->
      kept_calls = calls;
      kept_arrivals = arrivals;
      ended = kernel
    :: else
    fi
  }
}

/* Launches a kernel while calls come, if one is there. */
active proctype Keeper() {
  do
#ifdef BROKEN_KEEPER
  :: atomic { launched - left == 1 && launched < MOST - 2 && launched < LEAVES + 1 -> launched++ }
#else
  :: atomic { launched - left == 1 && !is_leaving && launched < LEAVES + 1 -> launched++ }
#endif
  :: is_over -> break
  od
}

inline launch_if_none() {
  atomic {
    if
    :: left == launched -> launched++; is_leaving = false
    :: else
    fi
  }
}

active proctype Caller() {
  byte w;
  bit order;
  do
  :: done == CALLS -> break
  :: else ->
    under_way = done + 1;
    /* The control word may arrive first. */
    if
    :: control = under_way; order = 1
    :: order = 0
    fi;
    w = 0;
    do
    :: w == W -> break
    :: else -> input[w] = under_way; w++
    od;
    if
    :: order == 0 -> control = under_way
    :: else
    fi;
    launch_if_none();
    w = 0;
    do
    :: w == M -> break
    :: w < M && answers[w] == under_way -> w++
#ifndef BROKEN_LOOK_ONCE
    :: atomic { w < M && answers[w] != under_way && left == launched -> launched++; is_leaving = false }
#endif
    od;
    done++;
    if
    :: atomic { is_leaving = true; leave = launched };
      ended == launched;
      is_paused = true;
      assert(memory == done);
      is_paused = false
    :: skip
    fi
  od;
  atomic { is_leaving = true; leave = launched };
  ended == launched;
  is_over = true
}
