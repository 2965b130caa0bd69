/* range: tasks of the ring that a CPU worker has taken at once, and workers that take from it
 *
 * Modelled (ring_range.hpp, cpu_resident.hpp): N tasks and a drain behind them lie in the ring. A worker takes the next task out of its own
 * range by CAS; finds none, counts what it has completed, and takes up to K tasks under the fetch lock: the first is run, the others become
 * its range; or takes out of the range of another, by the same CAS. What is complete is counted when the own range is found empty behind a
 * task, before the next look at the ring, and where the worker leaves its lease, which it may do between any two tasks, with tasks left in
 * its range. The drain may run when all tasks before it are counted.
 *
 * Abstraction: memory is sequentially consistent; what a CAS passes on is argued in docs/memory_model.md. Worker 0 never leaves.
 *
 * Properties
 *   assertions   no task runs twice; when the drain runs, all have ended
 *   end states   the drain runs
 * Mutations: BROKEN_EXCHANGE, BROKEN_COUNT, BROKEN_EARLY, BROKEN_LEAVE
 */
#ifndef N
#define N       4
#endif
#ifndef K
#define K       3
#endif
#ifndef W
#define W       2
#endif

byte next[W], last[W];            /* ranges: the next task, and the one behind the last */
byte fetch, completed;
bit locked, drained;
bit begun[N], ended[N];           /* ghost */

/* Takes from the range of `seat`: `task` is N when there is none. */
inline take(seat) {
  d_step { from = next[seat]; to = last[seat]; task = N };
  do
  :: from == to -> break
  :: else ->
    atomic {
      if
#ifdef BROKEN_EXCHANGE
      :: true ->
        next[seat] = from + 1; task = from; break
#else
      :: next[seat] == from && last[seat] == to ->
        next[seat] = from + 1; task = from; break
      :: else ->
        from = next[seat]; to = last[seat]
#endif
      fi
    }
  od
}

inline count() {
  d_step { completed = completed + mine; mine = 0 }
}

inline execute() {
  d_step { assert(!begun[task]); begun[task] = 1 };
#ifdef BROKEN_EARLY
  d_step { mine++; completed = completed + mine; mine = 0; };
#endif
  ended[task] = 1;
#ifndef BROKEN_EARLY
  mine++;
  if
  :: next[me] == last[me] -> count()
  :: else
  fi;
#endif
  task = N
}

proctype Worker(byte me) {
  byte mine, task, from, to, i;   /* `mine`: completed, and not counted */
  do
  :: drained -> break
  :: me != 0 && !drained ->       /* its lease is over */
#ifndef BROKEN_LEAVE
    count();
#endif
    break
  :: !drained && next[me] != last[me] ->
    take(me);
    if
    :: task != N -> execute()
    :: else
    fi
  :: !drained && next[me] == last[me] ->
#ifndef BROKEN_COUNT
    count();
#endif
    if
    :: drained
    :: atomic { !locked && fetch < N -> locked = 1 };
      /* another may have taken the last one meanwhile */
      if
      :: fetch < N ->
        task = fetch;
        i = 1;
        do
        :: i < K && fetch + i < N -> i++
        :: break
        od;
        fetch = fetch + i;
        if
        :: i > 1 -> d_step { next[me] = task + 1; last[me] = task + i }
        :: else
        fi;
        locked = 0;
        execute()
      :: else -> locked = 0
      fi
    :: atomic { !locked && fetch == N && completed == N -> fetch++ };
      d_step {
        i = 0;
        do
        :: i < N -> assert(ended[i]); i++
        :: else -> break
        od;
        i = 0
      };
      drained = 1
    :: next[(me + 1) % W] != last[(me + 1) % W] ->
      take((me + 1) % W);
      if
      :: task != N -> execute()
      :: else
      fi
#if W == 3
    :: next[(me + 2) % W] != last[(me + 2) % W] ->
      take((me + 2) % W);
      if
      :: task != N -> execute()
      :: else
      fi
#endif
    :: me != 0 -> skip            /* to leave */
    fi
  od
}

init {
  byte w;
  atomic {
    do
    :: w < W -> run Worker(w); w++
    :: else -> break
    od
  }
}
