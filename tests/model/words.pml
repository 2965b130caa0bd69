/* words: how members of a recorded program hand on parts of products
 *
 * Modelled (device/member.hpp, tensor/gang/step_list.cpp): M members of T threads, which run X exchanges a run, RUNS times. An exchange has
 * M + 1 words if it is the first of its run, else M; a word is a value and the number of the exchange. A thread puts its words, without
 * waiting for those of the others; then the threads of each member look for all words, each for some; then they meet. Two places for each
 * word, in turn. Numbers go on from run to run, modulo WRAP; a run begins when all members have ended the one before. Which thread puts a
 * word differs from exchange to exchange. Two tensors in global memory: in the last exchange of a run all threads read the one, meet, and put
 * their words; the threads that put words read the other just before. One thread replaces both behind that exchange, without a barrier of
 * all members (StepList::tell).
 *
 * Abstraction: a store of a word arrives at any time, in any order with those of other words; the thread sees its own before. A load is
 * never done behind a store that waits for its value. GOES_ON: a member begins the next run without waiting for the others; nothing is in
 * global memory then.
 *
 * Properties
 *   assertions   a word that is taken is of this exchange; no word is put before all members have taken the last one there; what is read
 *                in global memory has not been replaced
 *   end states   all runs end
 * Mutations: BROKEN_ONE_PLACE, BROKEN_RESTART, BROKEN_NO_SYNC, BROKEN_SILENT, BROKEN_APART, BROKEN_TELL
 */
#ifndef M
#define M    2
#endif
#ifndef T
#define T    2
#endif
#ifndef X
#define X    3                      /* an odd number: a word has the other place in the next run */
#endif
#ifndef RUNS
#define RUNS 3
#endif
#ifndef WRAP
#define WRAP 8                      /* an even number, more than twice X; 2^32 in the code */
#endif
#define K    (M + 1)
#define ALL  ((1 << M) - 1)

#ifdef BROKEN_ONE_PLACE
#define AT(pass, w)   (w)
#else
#define AT(pass, w)   ((pass) % 2 * K + (w))
#endif
#define COUNT(x)      ((x) == 0 -> M + 1 : M)
#ifdef BROKEN_SILENT                /* the first member puts all words of the second exchange */
#define MEMBER_OF(w)  (x == 1 -> 0 : ((w) + pass) % M)
#else
#define MEMBER_OF(w)  (((w) + pass) % M)
#endif
#define THREAD_OF(w)  (((w) / M + pass) % T)
#define PUTS(w)       ((w) < COUNT(x) && MEMBER_OF(w) == m && THREAD_OF(w) == t)
#define READER_OF(w)  ((w) % T)
#ifdef BROKEN_RESTART
#define NUMBER(pass)  (((pass) - 1) % X + 1)
#else
#define NUMBER(pass)  ((pass) % WRAP)
#endif

byte number[2 * K], value[2 * K];   /* words in memory: the value is the exchange that it belongs to, counted without end */
byte coming[2 * K], from[2 * K];    /* values of stores that have not arrived, 0: none; the threads that have stored them */
byte taken[2 * K];                  /* ghost: members that have taken the word */
byte kept[M];                       /* the numbers that members keep from run to run */
byte whole, part;                   /* the tensors in global memory, by the runs that have replaced them */
byte arrived[M];
bit turn[M];
byte ended;

/* All threads of a member meet. */
inline sync() {
  d_step {
    gone = turn[m];
    arrived[m]++;
    if
    :: arrived[m] == T -> arrived[m] = 0; turn[m] = !turn[m]
    :: else
    fi
  };
  turn[m] != gone
}

inline put(w) {
  d_step {
    i = AT(pass, w);
    assert(coming[i] == 0);
    assert(value[i] == 0 || taken[i] == ALL);
    taken[i] = 0;
    coming[i] = pass;
    from[i] = m * T + t;
    i = 0
  }
}

/* Blocks until the word is there: the loop of a thread that polls has no other effect. */
inline look(w) {
  atomic {
    (coming[AT(pass, w)] != 0 && from[AT(pass, w)] == m * T + t) || number[AT(pass, w)] == next;
    i = AT(pass, w);
    assert((coming[i] != 0 && from[i] == m * T + t -> coming[i] : value[i]) == pass);
    taken[i] = taken[i] | 1 << m;
    i = 0
  }
}

proctype Thread(byte m, t) {
  byte round, x, pass, next, w, i;    /* next: the number of the next exchange; pass: the same, without end */
  bit gone;
  do
  :: round == RUNS -> break
  :: else ->
#ifdef BROKEN_RESTART
    next = 1;
#else
    next = (kept[m] + 1) % WRAP;
#endif
    do
    :: x == X -> break
    :: else ->
      pass = round * X + x + 1;
#ifndef GOES_ON
      if
      :: x == X - 1 ->
        assert(whole == round);
#ifndef BROKEN_TELL
        sync()
#endif
      :: else
      fi;
#endif
      do
      :: w == K -> break
      :: else ->
        if
        :: PUTS(w) ->
#ifndef GOES_ON
          assert(x != X - 1 || part == round);
#endif
          put(w)
        :: else
        fi;
        w++
      od;
      w = 0;
      do
      :: w == COUNT(x) -> break
      :: else ->
        if
        :: READER_OF(w) == t -> look(w)
        :: else
        fi;
        w++
      od;
      w = 0;
      next = (next + 1) % WRAP;
#ifndef BROKEN_NO_SYNC
      sync();
#endif
#ifndef GOES_ON
      if
      :: x == X - 1 && m == round % M && t == round % T -> whole = round + 1; part = round + 1
      :: else
      fi;
#endif
      x++
    od;
    x = 0;
    /* The last of the exchanges that there were. */
    if
    :: t == 0 -> kept[m] = (next + WRAP - 1) % WRAP
    :: else
    fi;
#ifdef GOES_ON
    sync();
#else
    ended++;
    ended >= (round + 1) * M * T;
#endif
    round++
  od
}

/* Stores of word i arrive. */
proctype Arrivals(byte i) {
end:
  do
#ifdef BROKEN_APART                 /* the number before the value */
  :: coming[i] != 0 && number[i] != NUMBER(coming[i]) -> number[i] = NUMBER(coming[i])
  :: d_step { coming[i] != 0 && number[i] == NUMBER(coming[i]) -> value[i] = coming[i]; coming[i] = 0; from[i] = 0 }
#else
  :: d_step { coming[i] != 0 -> number[i] = NUMBER(coming[i]); value[i] = coming[i]; coming[i] = 0; from[i] = 0 }
#endif
  od
}

init {
  byte m, t;
  atomic {
    do
    :: t == 2 * K -> break
    :: else -> run Arrivals(t); t++
    od;
    do
    :: m == M -> break
    :: else ->
      t = 0;
      do
      :: t == T -> break
      :: else -> run Thread(m, t); t++
      od;
      m++
    od
  }
}
