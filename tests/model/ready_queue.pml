/* ready_queue: places, claims, pushing again, and closing the books between leases
 *
 * Modelled: a queue of Q slots in device memory (ready_queue.hpp, cuda_control.hpp, books.hpp). A producer reserves a place by an
 * atomic add on `tail` and stores the task there. Worker 0 is the fetch crew: it fetches tasks, runs one itself if its executor is
 * idle, pushes the others, and takes a task by CAS(head, h, h + 1) while tail > h. The other workers claim a place by an atomic add on
 * `head`, which may be ahead of `tail`, and watch only this place. When it fills: executor idle, the worker claims the next place and
 * runs the task; executor busy, it pushes the task again at the tail, and claims no more until its executor is idle. With CPU every
 * worker takes instead: it reads head, tail and the place, and runs the task if CAS(head, h, h + 1) succeeds; its executor is itself.
 *
 * Nobody looks whether the slot of a place is free. That it is rests on the credit of the ring (a task is fetched only while fewer
 * than C lie between it and the first that is not complete), on places to spare (Q = 2 C; in the code thousands), and on time: whoever
 * watches a place reads it, and whoever waits at the gate opens it again, sooner than the queue comes round. So a store waits here for a
 * reader that watches or waits at the gate, and it is an error when the slot is held by anybody else. (BROKEN_DEAF: a worker with a busy
 * executor does not watch.)
 *
 * Leases with W, then 1, then 2 workers. While the gate closes, a worker pushes what it finds at its place again, and arrives once its
 * executor is idle. Whoever waits long opens the gate again, unless it is firm; then each leaves as it arrives. The last to arrive
 * closes the books: with T = tail, every claimed place below T that is not read is pushed again, head becomes min(head, T), all claims
 * are void. (head = T would lose the unclaimed places from head to T: BROKEN_HEAD_TO_TAIL.)
 *
 * Abstraction: a slot is stored in one step (ring.pml has quads). The gate is a flag and a count (park.pml). The ring is a number of
 * tasks still to fetch. The gate opens again REOPENS times at most. Shares of wide tasks are left out. Operators end some time; in the
 * last lease, which has nobody to end it, task 0 ends only when nothing else can go on, so no task may wait behind it.
 *
 * Properties
 *   assertions   a task runs once; no place is stored to before its slot was read; no two workers hold the same place; when as many
 *                places are claimed but not filled as there are claims, none is to be pushed again
 *   end states   every task has run in the end
 *   drains       the same as LTL, with weak fairness: nobody runs to and fro at the gate for ever
 * Mutations: BROKEN_DEAF, BROKEN_BOOKS, BROKEN_HEAD, BROKEN_HEAD_TO_TAIL, BROKEN_NO_REPUSH, BROKEN_KEEP, BROKEN_SMALL; with CPU
 *   BROKEN_BLIND
 */
#ifndef W
#define W      2
#endif
#ifndef C
#define C      2
#endif
#ifndef REOPENS
#define REOPENS 2                 /* at most: places only count up */
#endif
#ifdef BROKEN_SMALL
#define Q      1
#else
#define Q      (2 * C)
#endif
#ifndef TASKS
#define TASKS  5
#endif
#define NONE   255

byte head, tail;
byte tag[Q] = NONE, value[Q];     /* the place that was stored, the task */
bit unread[Q];                    /* ghost */
byte claim[W] = NONE;             /* in the arena: a place */
bit watches[W];                   /* ghost: reads its place as soon as it fills, or waits at the gate */
byte executing[W];                /* task + 1 */
byte lease = 1, arrived;
bit closing, firm;
byte reopened;
bit waits[W];                     /* at the gate; cleared when it opens again */
byte fetched, reaped, ended;
bit has_run[TASKS], complete[TASKS];

#define FILLED(c)    (tag[(c) % Q] == (c))
#define FREE(p)      (!unread[(p) % Q])
#define MAY_FETCH    (fetched < TASKS && fetched - reaped < C)
#define MAY_END(t)   ((t) != 0 || lease < 3 || (fetched == ended + 1 && !MAY_FETCH))
#define SIZE         (lease == 1 -> W : (lease == 2 -> 1 : 2))
#define MEMBER(w)    ((w) < SIZE)
#if W == 2
#define BUSY         (executing[0] || executing[1])
#define HELD(p, w)   (claim[w] == (p))
#define WATCHED(p)   (HELD(p, 0) && watches[0] || HELD(p, 1) && watches[1])
#else
#define BUSY         (executing[0] || executing[1] || executing[2])
#define HELD(p, w)   (claim[w] == (p))
#define WATCHED(p)   (HELD(p, 0) && watches[0] || HELD(p, 1) && watches[1] || HELD(p, 2) && watches[2])
#endif

inline run_task(t) {
  assert(!has_run[t] && !executing[w]);
  has_run[t] = 1; executing[w] = t + 1
}

inline claim_place() {
  assert(claim[w] == NONE && head != claim[0] && head != claim[1] && head != claim[W - 1]);
  claim[w] = head; head++; watches[w] = 1
}

/* read what v claimed, which frees the slot */
inline read_claim(v, t) {
  assert(FILLED(claim[v]) && unread[claim[v] % Q]);
  t = value[claim[v] % Q]; unread[claim[v] % Q] = 0;
  claim[v] = NONE; watches[v] = 0
}

inline put(at, t) {
  assert(FREE(at));
  tag[(at) % Q] = at; value[(at) % Q] = t; unread[(at) % Q] = 1
}

inline push(t) {
  atomic { p = tail; tail++ }
  atomic {
    assert(FREE(p) || WATCHED(tag[p % Q]));
    FREE(p) -> put(p, t); p = 0; t = 0
  }
}

/* by the last to arrive; all others have left or wait */
inline close_books() {
  limit = tail;
  if
#ifndef CPU
  :: head >= tail && head - tail == SIZE - 1 ->
     assert((claim[0] == NONE || claim[0] >= limit) && (claim[1] == NONE || claim[1] >= limit) &&
            (claim[W - 1] == NONE || claim[W - 1] >= limit))
#endif
  :: else
  fi;
#ifdef BROKEN_HEAD
  skip;
#else
#ifdef BROKEN_HEAD_TO_TAIL
  head = tail;
#else
  head = (head < tail -> head : tail);
#endif
#endif
  do
#ifndef BROKEN_BOOKS
#define MOVES(v)     (claim[v] != NONE && claim[v] < limit)
  :: MOVES(0) -> read_claim(0, x); put(tail, x); tail++; x = 0
  :: MOVES(1) -> read_claim(1, x); put(tail, x); tail++; x = 0
#if W == 3
  :: MOVES(2) -> read_claim(2, x); put(tail, x); tail++; x = 0
#endif
#endif
  :: else -> break
  od;
  limit = 0;
  claim[0] = NONE; claim[1] = NONE; claim[W - 1] = NONE;
  watches[0] = 0; watches[1] = 0; watches[W - 1] = 0;
  waits[0] = 0; waits[1] = 0; waits[W - 1] = 0
}

/* ends with stays == 1 if the gate has opened again */
inline depart() {
  watches[w] = 1;
  if
  :: atomic { executing[w] && !closing -> stays = 1 }
  :: atomic {
       !executing[w] && closing ->
       arrived++;
       if
       :: arrived == SIZE -> close_books(); arrived = 0; closing = 0; firm = 0; lease++
       :: else -> waits[w] = 1
       fi
     }
     if
     :: atomic { lease != mine || waits[w] && firm -> waits[w] = 0 }
     :: atomic { lease == mine && !waits[w] -> stays = 1 }
     :: atomic {
          lease == mine && waits[w] && !firm && BUSY && reopened < REOPENS ->
          reopened++; closing = 0; arrived = 0; waits[0] = 0; waits[1] = 0; waits[W - 1] = 0; stays = 1
        }
     fi
  :: atomic { !executing[w] && !closing -> stays = 1 }
  fi
}

#define CAN_LEAVE    (closing && lease == mine)

proctype Crew(byte w) {
  byte t, p, x, limit, mine; bit stays;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
end_serve:
     do
     :: CAN_LEAVE ->
        depart();
        if
        :: stays -> stays = 0
        :: !stays -> break
        fi
     :: atomic {
          MAY_FETCH && !closing -> t = fetched; fetched++;
          if
          :: !executing[w] -> run_task(t); t = 0; goto end_serve
          :: true
          fi
        }
        push(t)
     :: atomic { !closing && tail > head && !executing[w] -> claim_place() }    /* help */
        atomic { FILLED(claim[w]) -> read_claim(w, x); run_task(x); x = 0 }
     od
  od
}

proctype Consumer(byte w) {
  byte t, p, x, limit, mine; bit stays;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
claim_one:
     atomic { !executing[w] -> claim_place() }
end_watch:
     if
     :: atomic {
          FILLED(claim[w]) -> read_claim(w, t);
          if
          :: !executing[w] -> claim_place()
          :: executing[w] -> goto busy
          fi
        }
        atomic { run_task(t); t = 0; goto end_watch }
#ifdef BROKEN_NO_REPUSH
busy:   atomic { !executing[w] -> run_task(t); t = 0; goto claim_one }
#else
busy:   push(t);
        goto claim_one
#endif
     :: atomic { CAN_LEAVE && !FILLED(claim[w]) -> skip }
        depart();
        if
        :: stays -> stays = 0; goto end_watch
        :: !stays
        fi
     :: atomic { CAN_LEAVE && FILLED(claim[w]) -> read_claim(w, t) }
#ifdef BROKEN_KEEP
        t = 0;
#else
        push(t);
#endif
        depart();
        if
        :: atomic { stays -> stays = 0; claim_place(); goto end_watch }
        :: !stays
        fi
#ifdef BROKEN_DEAF
     :: atomic { executing[w] -> watches[w] = 0 }
        atomic { !executing[w] -> watches[w] = 1 }
        goto end_watch
#endif
     fi
  od
}

#ifdef CPU
proctype Taker(byte w) {
  byte t, p, x, limit, mine; bit stays;
end: do
  :: atomic { MEMBER(w) && lease != mine -> mine = lease }
end_serve:
     do
     :: CAN_LEAVE && !executing[w] ->
        depart();
        if
        :: stays -> stays = 0
        :: !stays -> break
        fi
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
#ifdef BROKEN_BLIND
          :: head == p -> head++; t = value[p % Q]; unread[p % Q] = 0; run_task(t)
#else
          :: head == p -> assert(FILLED(p)); head++; unread[p % Q] = 0; run_task(t)
#endif
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
  od
}

proctype Gate() {
  do
  :: atomic { lease < 3 && !closing -> closing = 1 }
  :: atomic { lease < 3 && !closing -> closing = 1; firm = 1 }
  :: lease == 3 -> break
  od
}

init {
  atomic {
    run Gate(); run Time();
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
  ended == TASKS && lease == 3
}

ltl drains { <>(ended == TASKS) }
