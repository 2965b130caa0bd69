/* ready_queue: places, claims, pushing again, and closing the books between leases
 *
 * Modelled: a queue of Q slots in device memory. A producer reserves a place by an atomic add on `tail` and stores the
 * task there, once the place before it in that slot (place - Q) has been read. A worker whose executor is idle claims a
 * place, by an atomic add on `head` (it may be ahead of `tail`) or, as crew, by CAS(head, h, h + 1) while tail > h; then
 * it watches only this place. Meanwhile it may be given work from elsewhere (a fetched task). When its place fills:
 * executor idle, it runs the task; executor busy, it reads the task, which frees the place, and pushes it again at
 * the tail, and claims no more until its executor is idle. A worker that waits for its place to come free goes on
 * serving its claim, so it may have two tasks in hand (BROKEN_ONE_HAND: it waits for the slot of its own claim).
 *
 * A slot carries a sequence: p = free for place p; p + 1 = filled; after reading, p + Q. (In the code: lap and a flag.)
 * Without that check "capacity >= outstanding" is not enough: others' places overtake one slow reader and come round to
 * its slot (BROKEN_OVERWRITE).
 *
 * Leases with W, then 1, then 2 workers. While the gate closes, a worker arrives once its executor is idle, it has
 * nothing in hand and its place is not filled. One that waits at the gate and sees its place fill takes its arrival back (park.pml) and serves it:
 * somebody may be waiting for just that slot (BROKEN_STAY: the gate never fills). The last to arrive closes the books:
 * with T = tail, every claimed place below T that is not read is pushed again, lowest first, head becomes min(head, T),
 * all claims are void. (head = T would lose the unclaimed places from head to T: BROKEN_HEAD_TO_TAIL.)
 *
 * Abstraction: a slot is stored in one step (ring.pml has quads). The gate is a flag and a count (park.pml). The ring is
 * a number of tasks still to fetch, and at most Q are outstanding. Operators end some time; in the last lease, which
 * has nobody to end it, task 0 ends only after all others, so none of them may wait behind it.
 *
 * Properties
 *   assertions   a task runs once; a place is stored to only when free for it; no two workers hold the same place
 *   end states   every task has run in the end
 *   drains       the same as LTL, with weak fairness: nobody runs to and fro at the gate for ever
 * Mutations: BROKEN_OVERWRITE, BROKEN_BOOKS, BROKEN_HEAD, BROKEN_HEAD_TO_TAIL, BROKEN_HIGHEST_FIRST, BROKEN_STAY,
 *   BROKEN_NO_REPUSH, BROKEN_ONE_HAND; BROKEN_RESTLESS (by drains)
 */
#ifndef W
#define W      2
#endif
#ifndef Q
#define Q      3
#endif
#ifndef TASKS
#define TASKS  5
#endif
#define NONE   255

byte head, tail;
byte sequence[Q], value[Q];
byte claim[W] = NONE;             /* in the arena: a place */
byte executing[W];                /* task + 1 */
byte lease = 1, arrived;
bit closing;
byte fetched, outstanding, ended;
bit has_run[TASKS];

#define FILLED(c)    (sequence[(c) % Q] == (c) + 1)
#define FREE(p)      (sequence[(p) % Q] == (p))
#define SERVABLE     (claim[w] != NONE && FILLED(claim[w]))
#ifdef BROKEN_RESTLESS
#define MAY_ARRIVE   (closing && MEMBER(w) && !executing[w] && !hand)
#else
#define MAY_ARRIVE   (closing && MEMBER(w) && !executing[w] && !hand && !SERVABLE)
#endif
#define MAY_CLAIM    (MEMBER(w) && !closing && !executing[w] && !hand && claim[w] == NONE)
#define MAY_END(t)   ((t) != 0 || lease < 3 || ended == TASKS - 1)
#define SIZE         (lease == 1 -> W : (lease == 2 -> 1 : 2))
#define MEMBER(w)    ((w) < SIZE)

inline run_task(t) {
  assert(!has_run[t] && !executing[w]);
  has_run[t] = 1; executing[w] = t + 1
}

inline claim_place() {
  assert(head != claim[0] && head != claim[1] && head != claim[W - 1]);
  claim[w] = head; head++
}

/* read what I claimed, and free the place */
inline read_claim(v, t) {
  assert(FILLED(claim[v]));
  t = value[claim[v] % Q]; value[claim[v] % Q] = 0;
  sequence[claim[v] % Q] = claim[v] + Q;
  claim[v] = NONE
}

inline store(p, t) {
  assert(FREE(p));
  value[p % Q] = t; sequence[p % Q] = p + 1
}

/* go on with the second task in hand, if there is one */
inline stored() {
  if
  :: second -> t = second - 1; second = 0; p = NONE
  :: else -> hand = 0; t = 0; p = 0
  fi
}

/* by the last to arrive; everybody else waits */
inline close_books() {
#ifdef BROKEN_HEAD
  skip;
#else
#ifdef BROKEN_HEAD_TO_TAIL
  head = tail;
#else
  head = (head < tail -> head : tail);
#endif
#endif
  limit = tail;
  do
#ifndef BROKEN_BOOKS
#ifdef BROKEN_HIGHEST_FIRST
#define BEFORE(a, b) (claim[b] == NONE || claim[b] >= limit || claim[a] >= claim[b])
#else
#define BEFORE(a, b) (claim[a] <= claim[b])
#endif
#define NEXT(a)      (claim[a] != NONE && claim[a] < limit && BEFORE(a, 0) && BEFORE(a, 1) && BEFORE(a, W - 1))
  :: NEXT(0) -> read_claim(0, x); store(tail, x); tail++; x = 0
  :: NEXT(1) -> read_claim(1, x); store(tail, x); tail++; x = 0
#if W == 3
  :: NEXT(2) -> read_claim(2, x); store(tail, x); tail++; x = 0
#endif
#endif
  :: else -> break
  od;
  limit = 0;
  claim[0] = NONE; claim[1] = NONE; claim[W - 1] = NONE
}

proctype Worker(byte w) {
  byte t, p, second, x, limit; bit hand;
end: do
  :: atomic { MAY_CLAIM && ended < TASKS -> claim_place() }
  :: atomic { MAY_CLAIM && tail > head -> claim_place() }
  :: atomic { MEMBER(w) && SERVABLE && !executing[w] -> read_claim(w, x); run_task(x); x = 0 }
#ifndef BROKEN_NO_REPUSH
  :: atomic { MEMBER(w) && SERVABLE && executing[w] && !hand -> read_claim(w, t); hand = 1; p = NONE }
#endif
#ifndef BROKEN_ONE_HAND
  :: atomic { MEMBER(w) && SERVABLE && executing[w] && hand -> read_claim(w, x); second = x + 1; x = 0 }
#endif
  :: atomic {                     /* fetch */
       MEMBER(w) && !closing && !hand && fetched < TASKS && outstanding < Q ->
       outstanding++;
       if
       :: !executing[w] -> run_task(fetched)
       :: true -> t = fetched; hand = 1; p = NONE
       fi;
       fetched++
     }
  :: atomic { hand && p == NONE -> p = tail; tail++ }
#ifdef BROKEN_OVERWRITE
  :: atomic { hand && p != NONE -> store(p, t); stored() }
#else
  :: atomic { hand && p != NONE && FREE(p) -> store(p, t); stored() }
#endif
  :: atomic { executing[w] && MAY_END(executing[w] - 1) -> executing[w] = 0; ended++; outstanding-- }
  :: atomic {                     /* arrive */
       MAY_ARRIVE ->
       t = lease; arrived++;
       if
       :: arrived == SIZE -> close_books(); arrived = 0; closing = 0; lease++
       :: else
       fi
     }
     if
     :: atomic { lease != t -> t = 0 }
#ifndef BROKEN_STAY
     :: atomic { lease == t && SERVABLE -> arrived--; t = 0 }
#endif
     fi
  od
}

proctype Gate() {
  lease == 1; closing = 1;
  lease == 2; closing = 1
}

init {
  atomic {
    sequence[1] = 1; sequence[Q - 1] = Q - 1;
    run Gate(); run Worker(0); run Worker(1);
#if W == 3
    run Worker(2)
#endif
  }
  ended == TASKS && lease == 3
}

ltl drains { <>(ended == TASKS) }
