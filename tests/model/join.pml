/* join: joins of a task, arrivals, starvation, and the record of a join that is used again
 *
 * Modelled (spawn.hpp): a task whose operator makes a join of N arrivals, may arrive itself, and makes up to C children, of which each
 * may arrive once: at this join, or with the handle of a former one that had the same record. A record has one word: its round, and how
 * many arrivals are to come. An arrival compares the round, and takes one off by compare-and-swap; the last ends the round, counts the join
 * in `pending` of its maker, and keeps it. A join that waits is not counted. Who takes the last off `pending` ends the joins of the task: one
 * that still waits has starved, its round ends so that no handle fits it any more, and the record goes back. Then the continuation runs, which does all this again with a record that may be the same; then the task is complete.
 * A stranger, which does not descend from the task, has the handle too. Another task takes the record whenever it is free.
 *
 * Abstraction: a task is a process, so workers, queues and leases are left out. Nobody runs what an operator has made before it has
 * returned. A task that descends from a child holds that one open, so children stand for all of them. Tasks that follow others
 * (Group::spawn_after) count arrivals in the same way, but never starve.
 *
 * Properties
 *   assertions   a join runs once at most, behind its last arrival, while its maker is open; no arrival counts for another join; it
 *                starves if and only if an arrival is missing; the task ends each phase once, behind all children and the join
 *   end states   the task is complete in the end
 * Mutations: BROKEN_LATE, BROKEN_STORE, BROKEN_ROUND, BROKEN_CLOSE, BROKEN_STRANGER, BROKEN_RELEASE
 */
#ifndef N
#define N 2
#endif
#ifndef C
#define C 2
#endif
#define OURS   1
#define OTHERS 2
#define NONE   255

byte round, left;                 /* of the record */
byte owner;                       /* ghost: whose join the record is; 0: free */
byte pending, made, phase;
bit has_join, own_last;
byte handle, id;                  /* of the join of this phase; its ghost is the phase */
byte old_handle, old_id;
byte arrived;                     /* ghost: at the join of this phase */
bit ran, complete;
byte unended;                       /* ghost: children and joins that have not ended */

/* One arrival with handle h, whose ghost is g. `last`: the join is to be counted and kept. */
inline pass(h, g) {
  last = 0;
  o = round; n = left;
  do
  :: (o != h || n == 0) -> break                                    /* refused */
  :: else ->
#ifdef BROKEN_STORE
    atomic { assert(owner == OURS && g == id); arrived++; left = n - 1;
             if :: n == 1 -> round = o + 1; last = 1 :: else fi };
    break
#else
    atomic {
      if
      :: round == o && left == n ->
        assert(owner == OURS && g == id);
        arrived++; left--;
        if :: left == 0 -> round++; last = 1 :: else fi;
        break
      :: else -> o = round; n = left
      fi
    }
#endif
  od
}

#ifdef BROKEN_ROUND
#define SEES(h)  round
#else
#define SEES(h)  (h)
#endif

inline end_joins() {
  if
  :: has_join ->
    assert(owner == OURS);
    if
    :: left != 0 ->
      assert(arrived < N);
#ifndef BROKEN_CLOSE
      round++;
#endif
      left = 0
    :: else -> assert(ran && arrived == N)
    fi;
    owner = 0; has_join = 0
  :: else
  fi
}

/* Called by whoever has left no child. */
inline finish() {
  assert(!complete && unended == 0);
  end_joins();
  if
  :: phase == 1 -> old_handle = handle; old_id = id; run maker()
  :: else -> complete = 1
  fi
}

inline end_child() {
  atomic { unended--; assert(pending > 0); pending--; zero = (pending == 0) };
  if :: zero -> finish() :: else fi
}

proctype join() {
  bit zero;
  assert(!ran && !complete && arrived == N);
  ran = 1;
#ifdef BROKEN_RELEASE
  owner = 0;
#endif
  end_child()
}

inline count_and_keep() {
#ifdef BROKEN_LATE
  unended++; run join(); pending++
#else
  atomic { assert(!complete); pending++; unended++ };
  run join()
#endif
}

proctype child(byte h, g) {
  byte o, n;
  bit last, zero;
  if
  :: h != NONE ->
    pass(SEES(h), g);
    if :: last -> count_and_keep() :: else fi
  :: else
  fi;
  end_child()
}

proctype maker() {
  byte o, n, i, count;
  bit last, zero;
  atomic {
    phase++; made = 0; arrived = 0; ran = 0; own_last = 0; handle = NONE;
    if
    :: owner == 0 ->
      owner = OURS; has_join = 1; handle = round; id = phase; left = N
    :: true                                                    /* another record: of no interest */
    fi
  };
  if
  :: has_join -> pass(handle, id); if :: last -> made++; own_last = 1 :: else fi
  :: true
  fi;
  select(count : 0 .. C);
  atomic { made = made + count; unended = unended + made; pending = pending + made; zero = (pending == 0) };
  if
  :: zero -> finish()
  :: else ->
    atomic {
      if :: own_last -> run join() :: else fi;
      for (i : 1 .. count) {
        if
        :: has_join -> run child(handle, id)
        :: phase == 2 -> run child(old_handle, old_id)
        :: true -> run child(NONE, 0)
        fi
      }
    }
  fi
}

/* Does not descend from the task: refused, whatever it names. */
active proctype stranger() {
#ifdef BROKEN_STRANGER
  byte o, n;
  bit last, zero;
  if
  :: has_join -> pass(handle, id); if :: last -> count_and_keep() :: else fi
  :: true
  fi
#else
  skip
#endif
}

/* Makes a join of its own with the record. */
active proctype another() {
  byte o;
  atomic { (owner == 0) -> owner = OTHERS; left = 1; o = round };
  atomic { assert(owner == OTHERS && round == o && left == 1); left = 0; round++; owner = 0 }
}

init {
  old_handle = NONE;
  run maker();
  (complete)
}
