/* deque: the ready nodes that a CPU worker keeps, and workers that steal them
 *
 * Modelled (node_deque.hpp): the worker pushes N nodes, one at a time, while there is room, and pops in between as often as it likes.
 * Push: reads `oldest`, stores the entry, stores `newest`. Pop: stores `newest` one lower, waits until its store buffer is empty (the store
 * is sequentially consistent), reads `oldest`; an entry above that is its own; the last one it takes by CAS(oldest, o, o + 1), and stores
 * `newest` as it was. A thief reads `oldest`, `newest`, the entry, and takes it by the same CAS.
 *
 * Abstraction: the worker's store buffer is that of x86, first in, first out; it reads its own latest stores. Thieves store nothing else. That
 * a worker leaves its deque empty, and who holds the launch open, is in graph.pml: an entry here is a node that is ready there.
 *
 * Properties
 *   assertions   no node is taken twice, and what is taken was pushed; when the worker finds its deque empty behind the last push, all are taken
 *   end states   the worker comes there, and the thieves end
 * Mutations: BROKEN_BUFFER, BROKEN_LAST, BROKEN_RESTORE, BROKEN_ORDER, BROKEN_FULL, BROKEN_LATE, BROKEN_STORE
 */
#ifndef N
#define N       4
#endif
#ifndef K
#define K       2                 /* entries */
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#define ROOM    4                 /* of the store buffer; a full one drains before the next store */

mtype:store = { set_entry, set_newest };

byte oldest, newest, entry[K];    /* memory */
chan buffer = [ROOM] of { mtype:store, byte, byte };
bit over;
bit taken[N + 1];                 /* ghost */

inline take(node) {
  assert(node != 0 && !taken[node]);
  taken[node] = 1
}

active proctype Memory() {
  mtype:store what;
  byte where, value;
end: do
  :: d_step {
       nempty(buffer) -> buffer?what,where,value;
       if
       :: what == set_entry -> entry[where] = value
       :: else -> newest = value
       fi;
       what = 0; where = 0; value = 0
     }
  od
}

active proctype Worker() {
  byte mine, pushed, at, i;       /* `newest` as it has stored it */
  byte own[K];                    /* entries as it has stored them */
  bit got;
  do
  :: pushed < N ->
    at = oldest;
    if
#ifndef BROKEN_FULL
    :: mine - at == K -> skip
    :: mine - at < K ->
#else
    :: true ->
#endif
      d_step { pushed++; own[mine % K] = pushed; mine++ };
#ifdef BROKEN_ORDER
      buffer!set_newest,0,mine;
      buffer!set_entry,(mine - 1) % K,pushed
#else
      buffer!set_entry,(mine - 1) % K,pushed;
      buffer!set_newest,0,mine
#endif
    fi;
    at = 0
  :: true ->
    if
    :: oldest == mine -> if :: pushed == N -> break :: else fi
    :: else ->
      mine--;
      buffer!set_newest,0,mine;
#ifndef BROKEN_BUFFER
      empty(buffer);
#endif
      at = oldest;
      if
      :: at < mine -> take(own[mine % K])
      :: else ->
#ifdef BROKEN_LAST
        take(own[mine % K]);
        oldest = mine + 1;
#else
        d_step { got = (at == mine && oldest == mine); if :: got -> oldest++; take(own[mine % K]) :: else fi; got = 0 };
#endif
#ifndef BROKEN_RESTORE
        mine++;
        buffer!set_newest,0,mine
#endif
      fi;
      at = 0
    fi
  od;
  skip;
  d_step {
    for (i : 1 .. N) { assert(taken[i]) }
    over = 1
  }
}

active [THIEVES] proctype Thief() {
  byte first, last, node;
  do
  :: over -> break
  :: !over ->
    first = oldest;
    last = newest;
    if
    :: first >= last
    :: else ->
#ifndef BROKEN_LATE
      node = entry[first % K];
#endif
#ifdef BROKEN_STORE
      if
      :: oldest == first -> oldest = first + 1; take(node)
      :: else
      fi
#elif defined(BROKEN_LATE)
      d_step { last = (oldest == first); if :: last -> oldest = first + 1 :: else fi };
      if
      :: last -> node = entry[first % K]; take(node)
      :: else
      fi
#else
      d_step { if :: oldest == first -> oldest = first + 1; take(node) :: else fi }
#endif
    fi;
    d_step { first = 0; last = 0; node = 0 }
  od
}
