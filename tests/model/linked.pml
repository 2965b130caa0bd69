/* linked: runs of linked tasks
 *
 * Modelled (linked.hpp, worker.hpp): N tasks, each linked to the one before, on one worker. A fetcher holds a task and puts it into the link
 * word of the one before, or finds that done and gives it to the queue. Somebody else waits for one of them too (the list), and one is
 * marked as cancelled at some time. The worker ends a task; without a run it exchanges its link word, and begins a run when what it has read
 * before shows that two follow. In a run it notes the task and goes on with the one behind it, when that is shown and there is room; else it
 * serves, its task with those noted, and goes on or ends the run. So it does when a task has failed, of which the follower here runs anyway
 * (it is hard). A server (the control warp, or the worker) holds `busy`: it reads what
 * runs and the slots and link words behind it, exchanges the link words of what is noted, copies slots, shows them, lets others go on.
 *
 * Abstraction: tasks of one slot, and all are plain; the worker's own queue stands for all workers; memory is sequentially consistent, and a
 * pass reads what lies ahead in one step. R slots are read into in turn, L at a time, and K tasks may be noted.
 *
 * Properties
 *   assertions   a task starts once, behind the one before it, from a slot that holds it until it has ended; it is completed once, behind the
 *                one before; who waits beside goes on once; the worker is idle with nothing noted
 *   end states   everything completes
 * Mutations: BROKEN_TOGETHER, BROKEN_BEGIN, BROKEN_LIST, BROKEN_MINE, BROKEN_STOP, BROKEN_LEADER, BROKEN_ROOM
 */
#ifndef N
#define N 5                       /* or 6 */
#endif
#define K 2
#define R 3
#ifdef BROKEN_ROOM
#define L 3
#else
#define L 2
#endif
#define NONE 15

#define NOBODY 0  /* link words */
#define LONE   1  /* the task behind it waits */
#define OTHER  2  /* somebody else */
#define LIST   3  /* both */
#define DONE   4

byte link[N];
bit held[N], cancelled[N], queue[N];
bit started[N], ended[N], complete[N];  /* ghosts */
bit other_waits, other_goes;
byte other_for, bad;
byte fetched = 1;

byte content[R] = NONE, shown[R] = NONE, shown_turn[R];
byte turn, position;
bit on, busy;
byte noted_task[K];
byte noted, completed;  /* counts */
bit idle = 1;

#define S(t) ((t) % R)

inline let_other_go() { assert(!other_goes); other_goes = 1 }

inline finish(t) {
  assert(!complete[t] && ended[t] && (t == 0 || complete[t - 1]));
  complete[t] = 1
}

proctype Fetcher() {
  byte t = 1;
  do
  :: t < N ->
     held[t] = 1;
     atomic {
       if
       :: link[t - 1] == DONE -> queue[t] = 1
       :: link[t - 1] == NOBODY -> link[t - 1] = LONE
       :: link[t - 1] == OTHER -> link[t - 1] = LIST
       fi;
       t++; fetched = t
     }
  :: else -> break
  od
}

proctype Other() {
  atomic {
    select(other_for : 0 .. N - 1);
    other_waits = 1;
    if
    :: link[other_for] == DONE -> let_other_go()
    :: link[other_for] == NOBODY -> link[other_for] = OTHER
    :: link[other_for] == LONE -> link[other_for] = LIST
    fi
  }
}

proctype Canceller() {
  byte t;
  atomic { select(t : 1 .. N - 1); cancelled[t] = 1; select(bad : 0 .. N - 1) }
}

/* What lies ahead, from `from` on: how many tasks in a row may be gone on with. `leads`: the one before names the first as its only waiter. */
inline look(from, leads) {
  d_step {
    many = 0;
#ifdef BROKEN_LEADER
    do
    :: many < L && from + many < N && held[from + many] && !cancelled[from + many] -> many++
    :: else -> break
    od
#else
    do
    :: many < L && from + many < N && held[from + many] && !cancelled[from + many] &&
         (many == 0 -> leads : link[from + many - 1] == LONE) -> many++
    :: else -> break
    od
#endif
  }
}

/* Copies and shows them, slot by slot, and takes back what is marked. */
inline keep(from, of_turn) {
  i = 0;
  do
  :: i < many ->
     if
     :: shown[S(from + i)] == from + i && shown_turn[S(from + i)] == of_turn
     :: else ->
        content[S(from + i)] = from + i;
        d_step { shown[S(from + i)] = from + i; shown_turn[S(from + i)] = of_turn }
     fi;
     i++
  :: i >= many && i < L && from + i < N ->
     d_step {
       if
       :: cancelled[from + i] && shown[S(from + i)] == from + i && shown_turn[S(from + i)] == of_turn -> shown[S(from + i)] = NONE
       :: else
       fi;
       i++
     }
  :: else -> break
  od;
  i = 0
}

/* One pass; `last`: a task to be completed with those noted, or NONE. Leaves in `before` what its link word was. */
inline pass(last) {
  d_step { at = position; its_turn = turn; is_on = on };
  look(at + 1, link[at] == LONE);
  d_step { from = completed; until = noted };
  do
  :: from < until ->
     d_step { t2 = noted_task[from % K]; before = link[t2]; link[t2] = DONE };
     finish(t2);
     if
#ifdef BROKEN_LIST
#else
     :: before == LIST -> let_other_go()
#endif
#ifdef BROKEN_MINE
     :: before == LONE || before == LIST -> queue[t2 + 1] = 1
#endif
     :: else
     fi;
     from++
  :: else -> break
  od;
  t2 = last;
  if
  :: t2 != NONE -> d_step { before = link[t2]; link[t2] = DONE }; finish(t2)
  :: else
  fi;
  if
  :: is_on -> keep(at + 1, its_turn)
  :: else
  fi;
  completed = until;
  d_step { from = 0; until = 0; t2 = 0; at = 0; its_turn = 0; is_on = 0; many = 0 }
}

#ifdef BROKEN_TOGETHER
#define FREE true
#else
#define FREE (!busy)
#endif

proctype Server() {
  byte at, its_turn, many, i, from, until, t2, before;
  bit is_on;
end: do
  :: atomic { on && FREE -> busy = 1 };
     pass(NONE);
     before = 0;
     busy = 0
  od
}

/* Whether the task behind t is shown for this run. */
#define SHOWN(t) (shown[S(t)] == (t) && shown_turn[S(t)] == turn)

proctype Worker() {
  byte t, at, its_turn, many, i, from, until, t2, before;
  bit is_on, from_slot;
end: do
  :: atomic {
       if
       :: queue[0] -> t = 0
       :: queue[1] -> t = 1
       :: queue[2] -> t = 2
       :: queue[3] -> t = 3
       :: queue[4] -> t = 4
#if N > 5
       :: queue[5] -> t = 5
#endif
       fi;
       queue[t] = 0; idle = 0; from_slot = 0
     };
again:
     atomic {
       assert(!started[t] && (t == 0 || ended[t - 1]));
       assert(!from_slot || content[S(t)] == t);
       started[t] = 1
     };
     d_step { assert(!from_slot || content[S(t)] == t); ended[t] = 1 };
     if
     :: on && t == bad ->         /* it has failed: only the run's end */
        atomic { FREE -> busy = 1 };
        pass(NONE);
        busy = 0;
        on = 0;
        goto slow
     :: on && t != bad && t + 1 < N && SHOWN(t + 1) && noted - completed < K ->
        d_step { noted_task[noted % K] = t; noted++ };
        d_step { position = t + 1; t = t + 1; from_slot = 1 };
        goto again
     :: on && t != bad && !(t + 1 < N && SHOWN(t + 1) && noted - completed < K) ->
#ifdef BROKEN_STOP
        if
        :: true -> d_step { before = link[t]; link[t] = DONE }; complete[t] = 1; on = 0; goto follow
        :: true
        fi;
#endif
        atomic { FREE -> busy = 1 };
        pass(t);
        busy = 0;
        if
        :: before == LONE && SHOWN(t + 1) -> d_step { position = t + 1; t = t + 1; from_slot = 1; before = 0 }; goto again
        :: else -> on = 0
        fi
     :: !on ->
slow:   look(t + 1, true);  /* whether it leads is known from the exchange */
        d_step { before = link[t]; link[t] = DONE };
        finish(t);
        if
        :: before == LONE && many > 1 ->
           if
#ifdef BROKEN_BEGIN
           :: keep(t + 1, turn + 1);
              d_step { turn++; position = t + 1; on = 1 }
#else
           :: atomic { FREE -> busy = 1 };
              keep(t + 1, turn + 1);
              d_step { turn++; position = t + 1; on = 1 };
              busy = 0
           :: busy
#endif
           fi
        :: else
        fi;
        many = 0
     fi;
#ifdef BROKEN_STOP
follow:
#endif
     if
     :: before == LIST || before == OTHER -> let_other_go()
     :: else
     fi;
     if
     :: before == LONE || before == LIST -> d_step { t = t + 1; before = 0; from_slot = 0 }; goto again
     :: else -> before = 0
     fi;
     d_step { assert(noted == completed && !on); idle = 1; t = 0 }
  od
}

init {
  atomic {
    held[0] = 1; queue[0] = 1;
    run Fetcher(); run Other(); run Canceller(); run Server(); run Worker()
  }
  atomic {
    idle && fetched == N && complete[N - 1] && other_waits && (other_goes) -> skip
  }
}
