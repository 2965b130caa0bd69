/* gangs: how gangs get all their workers at once
 *
 * Modelled (gangs.hpp, members.hpp): a share in the ready queue for each group; the line of those that wait for their turn (behind, last); a
 * worker that joins, waits, and puts its share back when its successor comes; the last to join, who lets the next one come; the memories, of
 * which the first in line waits for one, and which the gang that ends next hands over; the barrier of all that run; the count of shares; gangs
 * that are dissolved in a lease which workers have left for good, and come anew.
 *
 * Abstraction: a worker may put its share back at any time, PUTBACKS times in all; its successor is the same process. So is the worker of the
 * next lease, which begins when all workers of the one before have left: LEASES times. What a worker has claimed when it leaves is anybody's
 * to read. Tasks that are no gangs only keep workers busy. The ready queue is a channel, first in, first out.
 *
 * Properties
 *   assertions   no two groups of a gang have one number; a memory has one gang at a time; a gang ends once
 *   end states   every gang ends; the line is empty and all memories are free then
 * Mutations: BROKEN_TOGETHER, BROKEN_PUT_BACK, BROKEN_LEAVE, BROKEN_HAND_OVER, BROKEN_EARLY, BROKEN_FIRST, BROKEN_STAY, BROKEN_COUNT
 */
#ifndef W
#define W        3
#endif
#ifndef MEMORIES
#define MEMORIES 1
#endif
#ifndef PUTBACKS
#define PUTBACKS 1
#endif
#ifndef LEASES
#define LEASES   0
#endif
#define GANGS    3
#define NONE     255

/* 3, 2 and 2 groups */
#define SIZE(g)  ((g) == 1 && W > 2 -> 3 : 2)

chan queue = [16] of { byte, bit };  /* gang, and whether it is to be put in line */
byte last, behind[GANGS + 1];        /* 0: none */
bit used[MEMORIES], wanted;
byte first, memory[GANGS + 1], owner[MEMORIES];
bit dissolved[GANGS + 1];
byte over[GANGS + 1];                /* shares of a gang that is dissolved that have ended */
byte joined[GANGS + 1], numbers[GANGS + 1], running[GANGS + 1], shares[GANGS + 1];
byte ended, putbacks;
byte lease, gone;                    /* leases that have ended; workers that have left this one */

/* Begins to assemble gang g in memory m. */
inline share_out(g, m) {
  atomic {  /* nobody has a share before all are there */
    assert(owner[m] == 0);
    owner[m] = g;
    memory[g] = m;
    joined[g] = 0;
    dissolved[g] = 0;
    over[g] = 0;
    numbers[g] = 0;
    shares[g] = SIZE(g);
    i = 0;
    do
    :: i < SIZE(g) -> queue!g, 0; i++
    :: else -> break
    od;
    i = 0
  }
}

/* Lets gang g come, the first in line. */
inline take_memory_and_share_out(g) {
  m = NONE;
#ifdef BROKEN_FIRST
  atomic {
    i = 0;
    do
    :: i < MEMORIES && used[i] -> i++
    :: else -> break
    od;
    if
    :: i < MEMORIES -> used[i] = 1; m = i; i = 0
    :: else -> i = 0; wanted = 1
    fi
  };
  if
  :: m == NONE -> first = g  /* behind the word that says so */
  :: else -> skip
  fi;
#else
  atomic {
    i = 0;
    do
    :: i < MEMORIES && used[i] -> i++
    :: else -> break
    od;
    if
    :: i < MEMORIES -> used[i] = 1; m = i; i = 0
    :: else -> i = 0; first = g; wanted = 1
    fi
  };
#endif
  if
  :: m != NONE -> share_out(g, m)
  :: else -> skip
  fi
}

/* n: the gang behind g, which leaves the line, or 0. */
inline leave_line(g) {
  n = behind[g];
  if
  :: n == 0 ->
    atomic {
      if
      :: last == g -> last = 0
      :: else -> n = NONE
      fi
    };
#ifdef BROKEN_LEAVE
    if
    :: n == NONE -> n = behind[g]
    :: else -> skip
    fi
#else
    if
    :: n == NONE -> behind[g] != 0; n = behind[g]
    :: else -> skip
    fi
#endif
  :: else -> skip
  fi
}

active [W] proctype worker() {
  byte g, i, m, n, before;
  bit comes, member, ends;
end:
  do
  :: atomic {
       lease < LEASES -> gone++; n = lease;
       if
       :: gone == W -> gone = 0; lease++
       :: else -> skip
       fi
     };
     lease != n;
     n = 0
  :: queue?g, comes ->
    if
    :: comes ->
      atomic { before = last; last = g };
#ifdef BROKEN_TOGETHER
      before = 0;
#endif
      if
      :: before == 0 -> take_memory_and_share_out(g)
      :: else -> behind[before] = g
      fi
    :: else ->
      member = 1;
      atomic { joined[g]++; n = joined[g]; ends = dissolved[g] };
      if
      :: ends -> member = 0
      :: !ends && n == SIZE(g) ->
        leave_line(g);
        if
        :: n != 0 -> take_memory_and_share_out(n)
        :: else -> skip
        fi
      :: else ->
        do
        :: !dissolved[g] && joined[g] == SIZE(g) -> break
        :: atomic { dissolved[g] -> ends = 1; member = 0 };
           break
#ifndef BROKEN_STAY
        :: atomic { gone != 0 && !dissolved[g] && joined[g] != SIZE(g) -> dissolved[g] = 1; ends = 1; member = 0 };
           break
#endif
#ifdef BROKEN_EARLY
        :: !dissolved[g] && joined[g] != SIZE(g) && putbacks < PUTBACKS ->
           putbacks++; joined[g]--; member = 0; break  /* not by compare and exchange */
#else
        :: atomic {
             !dissolved[g] && joined[g] != SIZE(g) && putbacks < PUTBACKS -> putbacks++;
#ifndef BROKEN_PUT_BACK
             joined[g]--;
#endif
             member = 0
           };
           break
#endif
        od
      fi;
      if
      :: ends ->
#ifdef BROKEN_COUNT
        if
        :: n == SIZE(g) -> owner[memory[g]] = 0; share_out(g, memory[g])
        :: else -> skip
        fi
#else
        atomic { over[g]++; n = over[g] };
        if
        :: n == SIZE(g) -> owner[memory[g]] = 0; share_out(g, memory[g])
        :: else -> skip
        fi
#endif
      :: !ends && !member -> queue!g, 0
      :: else ->
        atomic { assert(numbers[g] < SIZE(g)); numbers[g]++; running[g]++ };
        running[g] == SIZE(g);  /* a barrier of all */
        atomic { shares[g]--; n = shares[g] };
        if
        :: n == 0 ->
          atomic {
            m = memory[g];
            assert(owner[m] == g);
            owner[m] = 0;
            if
            :: wanted -> wanted = 0; n = first
            :: else -> used[m] = 0
            fi
          };
#ifdef BROKEN_HAND_OVER
          n = 0;
#endif
          if
          :: n != 0 -> share_out(n, m)
          :: else -> skip
          fi;
          ended++
        :: else -> skip
        fi
      fi
    fi;
    atomic { g = 0; m = 0; n = 0; before = 0; comes = 0; member = 0; ends = 0 }
  od
}

init {
  byte g, i;
  g = 1;
  atomic {
    do
    :: g <= GANGS -> queue!g, 1; g++
    :: else -> break
    od;
    g = 0
  };
  ended == GANGS;
  last == 0 && !wanted;
  i = 0;
  do
  :: i < MEMORIES -> assert(!used[i]); i++
  :: else -> break
  od
}
