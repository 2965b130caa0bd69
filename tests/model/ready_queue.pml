/* ready_queue: places, claims, the low-water mark, pushing again, and laying out the seats anew
 *
 * Modelled (ready_queue.hpp, cuda_control.hpp, reseat.hpp): a queue of Q slots in device memory. A producer reserves a place by an atomic add
 * on `tail`. It may fill the place when all below one lap ago are read: it compares with the low-water mark as it was last found, and looks
 * for it once half of the queue lies above. To look, it reads `head`, then each claim; the mark is the least of them, and only grows. Worker
 * 0 is the fetch crew: it fetches tasks, runs one itself if its operator has returned, pushes the others, and takes a task by a claim of
 * `head` and CAS(head, h, h + 1) while tail > h. The other workers claim a place by an atomic add on `head`, which may be ahead of `tail`, and
 * watch only this place. A first claim is announced by one of `head` as read before (claim_first); a further one replaces the old when that
 * is read (claim_next, set_claim). Operator busy: the worker takes its claim back, pushes the task again at the tail, and claims no more until
 * the operator has returned. With CPU every worker takes instead: it reads head, tail and the place, and runs the task if CAS(head, h, h
 * + 1) succeeds; it claims nothing.
 *
 * A worker may rest between any two steps for any time. So a seat that is handed on is no step here: its claim stands, and the next holder
 * reads the place. With PARKS the workers are off the device twice, and come back as 1 and as 2: each leaves between tasks, with its claim; the
 * first of the next lease pushes what stands at claimed places again, and sets head to min(head, tail). (head = tail would lose the unclaimed
 * places between: BROKEN_HEAD_TO_TAIL.) Who waits for room does not leave, and whoever has left reads nothing. So at a park Q must exceed the
 * tasks in flight by what may still be read after somebody has left; in the code that is less than kQueueSlack by far. Else Q >= C is enough.
 *
 * Abstraction: a slot is stored in one step (ring.pml has quads). Who leaves when is in roll.pml. The ring is a number of tasks still to
 * fetch. Shares of wide tasks are left out. Operators end some time; without PARKS task 0 ends only when nothing else can go on, so no task
 * may wait behind it.
 *
 * Properties
 *   assertions   a task runs once; no place is stored to before its slot was read; no two workers hold the same place
 *   end states   every task has run in the end: no producer waits for room for ever, no task is lost
 *   drains       the same as LTL, with weak fairness
 * Mutations: BROKEN_FIRST, BROKEN_NO_WAIT, BROKEN_EARLY, BROKEN_HEAD_LAST (with fewer places than tasks, Q < C), BROKEN_NO_REPUSH; with PARKS
 *   BROKEN_CLAIMS, BROKEN_HEAD, BROKEN_HEAD_TO_TAIL, BROKEN_SLACK; with CPU BROKEN_BLIND
 */
#ifndef W
#define W      3
#endif
#ifndef C
#define C      2
#endif
#ifdef PARKS
#define LEASES 3
#else
#define LEASES 1
#endif
#ifndef Q
#if defined(PARKS) && !defined(BROKEN_SLACK)
#define Q      (C + 4)
#else
#define Q      C
#endif
#endif
#ifndef TASKS
#define TASKS  4
#endif
#define NONE   255

byte head, tail, low_water;
byte tag[Q] = NONE, value[Q];     /* the place that was stored, the task */
bit unread[Q];                    /* ghost */
byte claim[W] = NONE;             /* a place */
byte owns[W] = NONE;              /* ghost: the place that a worker has taken from `head` and not read */
byte executing[W];                /* task + 1 */
byte lease = 1, out;
bit closing;
byte fetched, reaped, ended;
bit has_run[TASKS], complete[TASKS];

#define FILLED(c)    (tag[(c) % Q] == (c))
#define FREE(p)      (!unread[(p) % Q])
#define MAY_FETCH    (fetched < TASKS && fetched - reaped < C)
#define MAY_END(t)   ((t) != 0 || LEASES > 1 || (fetched == ended + 1 && !MAY_FETCH))
#define SIZE         (lease == 1 -> W : (lease == 2 -> 1 : 2))
#define MEMBER(w)    ((w) < SIZE)
#define MIN(a, b)    ((a) < (b) -> (a) : (b))
#if W == 2
#define LOWEST       MIN(head, MIN(claim[0], claim[1]))
#else
#define LOWEST       MIN(head, MIN(claim[0], MIN(claim[1], claim[2])))
#endif

inline run_task(t) {
  assert(!has_run[t] && !executing[w]);
  has_run[t] = 1; executing[w] = t + 1
}

inline own_head() {
  assert(owns[w] == NONE && head != owns[0] && head != owns[1] && head != owns[W - 1]);
  owns[w] = head; head++
}

/* read what w has claimed, which frees the slot */
inline read_place(t) {
  assert(FILLED(owns[w]) && unread[owns[w] % Q]);
  t = value[owns[w] % Q]; unread[owns[w] % Q] = 0; owns[w] = NONE
}

/* a claim, or `head`, lowers the mark that is being looked for */
inline look_at(what) { mark = MIN(mark, what) }

inline push(t) {
  atomic { p = tail; tail++ }
#ifndef BROKEN_NO_WAIT
  mark = low_water;
  if
  :: atomic { 2 * (p + 1 - mark) <= Q -> mark = 0 }
  :: atomic { else -> mark = 0 }
     do
#ifdef BROKEN_HEAD_LAST
     :: mark = claim[0];
        look_at(claim[1]);
        look_at(claim[W - 1]);
        look_at(head);
#else
     :: mark = head;
        look_at(claim[0]);
        look_at(claim[1]);
#if W == 3
        look_at(claim[2]);
#endif
#endif
        atomic {
          low_water = (mark > low_water -> mark : low_water);
          if
          :: p + 1 - mark <= Q -> mark = 0; break
          :: else -> mark = 0
          fi
        }
        p + 1 - LOWEST <= Q
     od
  fi;
#endif
  atomic {
    assert(FREE(p));
    tag[p % Q] = p; value[p % Q] = t; unread[p % Q] = 1; p = 0; t = 0
  }
}

/* between tasks, its claim standing; the last one lets the next lease begin */
inline leave() {
  out++;
  if
  :: out == SIZE -> lay_out(); out = 0; closing = 0; lease++
  :: else
  fi
}

/* by the first worker of the next lease, before all others */
inline lay_out() {
  limit = tail;
  do
#ifndef BROKEN_CLAIMS
#define MOVES(v)     (claim[v] != NONE && claim[v] < limit)
  :: MOVES(0) -> move(0)
  :: !MOVES(0) && MOVES(1) -> move(1)
#if W == 3
  :: !MOVES(0) && !MOVES(1) && MOVES(2) -> move(2)
#endif
#endif
  :: else -> break
  od;
  claim[0] = NONE; claim[1] = NONE; claim[W - 1] = NONE;
  owns[0] = NONE; owns[1] = NONE; owns[W - 1] = NONE;
#ifndef BROKEN_HEAD
#ifdef BROKEN_HEAD_TO_TAIL
  head = tail;
#else
  head = MIN(head, limit);
#endif
#endif
  limit = 0
}
inline move(v) {
  assert(claim[v] == owns[v] && FILLED(claim[v]));
  x = value[claim[v] % Q]; unread[claim[v] % Q] = 0; claim[v] = NONE; owns[v] = NONE;
  assert(tail + 1 - LOWEST <= Q && FREE(tail));
  tag[tail % Q] = tail; value[tail % Q] = x; unread[tail % Q] = 1; tail++; x = 0
}

proctype Crew(byte w) {
  byte t, p, x, mark, limit, mine;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
end_serve:
     do
     :: atomic { closing && lease == mine && !executing[w] -> leave(); break }
     :: atomic {
          MAY_FETCH -> t = fetched; fetched++;
          if
          :: !executing[w] -> run_task(t); t = 0; goto end_serve
          :: true
          fi
        }
        push(t)
     :: atomic { !closing && tail > head && !executing[w] -> p = head }      /* help */
        claim[w] = p;
        atomic {
          if
          :: head == p -> own_head(); p = 0
          :: else -> p = 0; goto missed
          fi
        }
        atomic { FILLED(owns[w]) -> read_place(x) }
        claim[w] = NONE;
        atomic { run_task(x); x = 0; goto end_serve }
missed: claim[w] = NONE
     od
  od
}

proctype Consumer(byte w) {
  byte t, p, x, mark, limit, mine;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
claim_one:
#ifdef BROKEN_FIRST
     !executing[w];
#else
     atomic { !executing[w] -> p = head }
     claim[w] = p;
#endif
     atomic { own_head(); p = 0 }
     claim[w] = owns[w];
end_watch:
     if
     :: atomic { closing && lease == mine && !executing[w] -> leave() }
#ifdef BROKEN_EARLY
     :: atomic { FILLED(owns[w]) -> claim[w] = NONE }
        atomic { read_place(t) }
#else
     :: atomic { FILLED(owns[w]) -> read_place(t) }
#endif
        if
        :: atomic { !executing[w] -> own_head() }
           atomic { run_task(t); t = 0 }
           atomic { claim[w] = owns[w]; goto end_watch }
#ifndef BROKEN_NO_REPUSH
        :: executing[w] ->
           claim[w] = NONE;
           push(t);
           goto claim_one
#endif
        fi
     fi
  od
}

#ifdef CPU
proctype Taker(byte w) {
  byte t, p, x, mark, limit, mine;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
end_serve:
     do
     :: atomic { closing && lease == mine && !executing[w] -> leave(); break }
     :: atomic { MAY_FETCH && !closing && !executing[w] -> t = fetched; fetched++ }
        if
        :: atomic { run_task(t); t = 0 }
        :: push(t)
        fi
#ifdef BROKEN_BLIND
     :: atomic { !closing && tail > head && !executing[w] -> p = head }
#else
     :: atomic { !closing && tail > head && !executing[w] && FILLED(head) -> p = head; t = value[p % Q] }
#endif
        atomic {
          if
          :: head == p ->
             assert(FILLED(p) && unread[p % Q]); head++;
#ifdef BROKEN_BLIND
             t = value[p % Q];
#endif
             unread[p % Q] = 0; run_task(t)
          :: else
          fi;
          p = 0; t = 0
        }
     od
  od
}
#endif

inline end_task(v) {
  complete[executing[v] - 1] = 1; executing[v] = 0; ended++;
  do
  :: reaped < TASKS && complete[reaped] -> reaped++
  :: else -> break
  od
}

proctype Time() {
end: do
  :: atomic { executing[0] && MAY_END(executing[0] - 1) -> end_task(0) }
  :: atomic { executing[1] && MAY_END(executing[1] - 1) -> end_task(1) }
#if W == 3
  :: atomic { executing[2] && MAY_END(executing[2] - 1) -> end_task(2) }
#endif
#ifdef PARKS
  :: atomic { lease < LEASES && !closing -> closing = 1 }
#endif
  od
}

init {
  atomic {
    run Time();
#ifdef CPU
    run Taker(0); run Taker(1);
#if W == 3
    run Taker(2)
#endif
#else
    run Crew(0); run Consumer(1);
#if W == 3
    run Consumer(2)
#endif
#endif
  }
  ended == TASKS && lease == LEASES
}

ltl drains { <>(ended == TASKS && lease == LEASES) }
