/* graph: how nodes become ready, and how a launch ends
 *
 * Modelled (graph.hpp): LAUNCHES launches of one exec by W workers, one launch after the other. Node 0 is the record before all.
 *   arrival    takes one off the node's predecessors and counts a failure, in one word (BROKEN_TWO_WORDS: the failure apart, behind); who
 *              takes the last one arms the word for the next launch (BROKEN_ARM: nobody does; BROKEN_ARM_LATE: behind handing the node on)
 *              and keeps the node, cancelled if a failure was counted. One alone needs no word.
 *   ready      a worker goes on with one of several nodes, and adds the others to the ready queue, or to the overflow, a stack, when there is
 *              no room (any choice). Before, it counts itself in `pending`, unless something has ended with it (BROKEN_HOLD: it does not).
 *   spread     of a node with many successors (node 0 with MANY, node 1 too with NEST): shares in the ready queue, any number, and the
 *              worker's own, count in `pending` (BROKEN_SHARES, BROKEN_OWN: they do not) before anybody draws; what the worker drew from
 *              before is kept at the record (BROKEN_NEST: it is forgotten). A share ends when nothing is left to be drawn.
 *   overflow   whoever has nothing else to do, and holds the launch open by something that has ended with it and is not taken off yet,
 *              takes from it (BROKEN_POP: without holding it open)
 *   leaving    takes off what has ended with the worker, in one operation; who leaves nothing completes the launch (BROKEN_LOOK: looks at
 *              `pending` once more instead; BROKEN_CANCELLED: a sink that has failed or is cancelled does not count)
 *   branch     with LOOP, node 1 goes on with its body, ROUNDS times, or with the node behind; the body's exit leads back to it without a
 *              counter, and hands on a failure, which ends the loop (BROKEN_SPREAD: successors in the body are shared out)
 *   yielding   at any time, YIELDS times: hands shares and nodes back to the ready queue, and what is on the overflow while the worker answers
 *              for it, if there is room, else goes on (BROKEN_YIELD: leaves what is on the overflow)
 * Behind the end of a launch the exec belongs to the next one, or to nobody.
 *
 * Abstraction: the ready queue is a channel (ready_queue.pml), the ring a process that launches again when the launch before is complete.
 * The overflow has no count of changes: without a loop no node lies on it twice a launch, and who takes from it holds the launch open; the
 * loop is too small to tell. Left out: chains (they come to no shared word), groups of wide nodes, changes of arguments.
 *
 * Properties
 *   assertions   each node runs, or is cancelled, once a launch, or round of its loop, and behind all its predecessors; it is cancelled if and
 *                only if one of these has failed or was cancelled; a launch completes once, behind all its nodes, with nothing pending and all
 *                words armed, as are those of a body when it is reached; nobody touches the exec behind that
 *   end states   every launch completes, and all workers have left
 * Mutations: BROKEN_TWO_WORDS, BROKEN_ARM, BROKEN_ARM_LATE, BROKEN_HOLD, BROKEN_SHARES, BROKEN_OWN, BROKEN_NEST, BROKEN_POP, BROKEN_LOOK,
 * BROKEN_CANCELLED, BROKEN_YIELD, BROKEN_SPREAD
 */
#ifndef W
#define W 2
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif

#ifndef ROUNDS
#define ROUNDS 2
#endif

/* 0 -> 1, 2, 3;  1, 2 -> 4;  with DEEP also 3 -> 4, 5;  with NEST 1 -> 4, 5 and 2, 3 are sinks;  with LOOP 0 -> 1, of which
   the body is 2, 3 -> 4, and 5 is behind it */
#if defined(NEST) || defined(DEEP) || defined(LOOP)
#define N 6
#else
#define N 5
#endif
#define NONE 63
#define CANCEL 8                  /* of a node: it is cancelled; of a share: its node has failed or was cancelled */
#define SHARE 16                  /* in the ready queue: a share of the node's successors */
#define OWN 16                    /* of what a worker draws from: it ran the node itself */
#define LAUNCH 32
#define NODE(x) ((x) & 7)

/* laid out once */
byte degree[N], out[N], sinks;
byte to[N * 3];
/* the exec */
byte left[N], failures[N];        /* one word */
byte next[N], top = NONE;
byte drawn[N], before[N];
byte pending;
#ifdef LOOP
byte rounds;                      /* of the launch */
#define BRANCH 1
#define EXIT 4
#define BEHIND 5
#define in_body(n) ((n) >= 2 && (n) <= EXIT)
#else
#define in_body(n) false
#endif
chan queue = [N + W + 1] of { byte };
/* ghosts */
bit open;
byte launch;                      /* begun */
byte completed;
byte yields;                      /* so far */
bit began[N], ended[N], bad[N];

#define touch assert(open && mine == launch)

inline edge(a, b) { to[(a) * 3 + out[a]] = b; out[a]++; degree[b]++ }

#ifdef BROKEN_SPREAD
#define many(n) ((n) == BRANCH)
#elif defined(MANY)
#ifdef NEST
#define many(n) ((n) <= 1)
#else
#define many(n) ((n) == 0)
#endif
#else
#define many(n) false
#endif

/* makes kept[nkept] the successor `s` if this was its last arrival */
inline arrive(s) {
#ifdef BROKEN_TWO_WORDS
  atomic { touch; left[s]--; last = left[s] == 0; poisoned = failures[s] != 0 || (last && failed) }
  atomic { failures[s] = failures[s] + failed }
#else
  atomic { touch; left[s]--; failures[s] = failures[s] + failed; last = left[s] == 0; poisoned = failures[s] != 0 }
#endif
  if
  :: last ->
#ifndef BROKEN_ARM
#ifndef BROKEN_ARM_LATE
     atomic { touch; left[s] = degree[s]; failures[s] = 0 }
#endif
#endif
     atomic { kept[nkept] = s | (poisoned -> CANCEL : 0); nkept++; last = 0; poisoned = 0 }
  :: else
  fi
}

proctype Worker() {
  byte mine;                      /* the launch that it works on */
  byte kept[4], nkept, done;      /* done: GraphWork::ended */
  byte spread = NONE;
  byte x, i, at;
  bit failed, last, poisoned;

  do
  :: atomic { queue ? x -> mine = launch }
     if
     :: x == LAUNCH ->
        atomic {
          touch; pending = sinks;
          x = 0; failed = 0; began[0] = 1; ended[0] = 1
        }
        goto proceed
     :: (x & SHARE) && x != LAUNCH -> atomic { spread = x - SHARE; x = 0 }; goto look
     :: else
     fi;
execute:
     atomic {
       touch;
       assert(!began[NODE(x)]);
       began[NODE(x)] = 1;
       /* what it waits for: every node that leads to it */
       failed = 0; i = 0;
       do
       :: i < N * 3 ->
          if
          :: (i % 3) < out[i / 3] && to[i] == NODE(x) -> assert(ended[i / 3]); failed = failed || bad[i / 3]
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0;
#ifdef LOOP
       if
       :: NODE(x) == BRANCH && rounds != 0 -> assert(ended[EXIT]); failed = bad[EXIT]
       :: else
       fi;
#endif
       assert(failed == ((x & CANCEL) != 0))
     }
     atomic {
       if
       :: failed
#ifdef FAILS
       :: !failed && NODE(x) != N - 1 -> failed = 1
#endif
       :: !failed
       fi;
       bad[NODE(x)] = failed; ended[NODE(x)] = 1; x = NODE(x)
     }
proceed:
     touch;
#ifdef LOOP
     if
     :: x == EXIT -> atomic { kept[nkept] = BRANCH | (failed -> CANCEL : 0); nkept++; began[BRANCH] = 0; ended[BRANCH] = 0 }; goto handed
     :: x == BRANCH && !failed && rounds < ROUNDS ->
        atomic {
          rounds++; out[BRANCH] = 2; to[BRANCH * 3] = 2; i = 2;
          do
          :: i <= EXIT -> assert(began[i] == ended[i] && left[i] == degree[i]); began[i] = 0; ended[i] = 0; bad[i] = 0; i++
          :: else -> break
          od;
          i = 0
        }
     :: x == BRANCH && (failed || rounds == ROUNDS) -> atomic { out[BRANCH] = 1; to[BRANCH * 3] = BEHIND }
     :: else
     fi;
#endif
     if
#ifdef BROKEN_CANCELLED
     :: out[x] == 0 -> done = done + !failed
#else
     :: out[x] == 0 -> done++
#endif
     :: out[x] != 0 && many(x) ->
        atomic {
          drawn[x] = 0; before[x] = spread;
#ifndef BROKEN_OWN
          pending++;
#endif
          i = 0
        }
        do
        :: i < W - 1 ->
#ifndef BROKEN_SHARES
           atomic { touch; pending++ }
#endif
           atomic { queue ! (x | SHARE | (failed -> CANCEL : 0)); i++ }
        :: break
        od;
        atomic { spread = x | OWN | (failed -> CANCEL : 0); i = 0 }
     :: else ->
        at = nkept;
        do
        :: i < out[x] -> arrive(to[x * 3 + i]); i++
        :: else -> break
        od;
        i = 0;
        if
        :: nkept > at + 1 ->      /* others may want all but one */
           if
           :: true ->
              do
              :: nkept > at + 1 -> atomic { touch; nkept--; queue ! kept[nkept]; kept[nkept] = 0 }
              :: else -> break
              od
           :: true ->             /* no room */
#ifndef BROKEN_HOLD
              if
              :: done == 0 -> atomic { touch; pending++; done = 1 }
              :: else
              fi;
#endif
              do
              :: nkept > at + 1 ->
                 atomic { touch; next[NODE(kept[nkept - 1])] = top; i = top }
                 do
                 :: atomic { top == i -> touch; top = kept[nkept - 1]; nkept--; kept[nkept] = 0; i = 0; break }
                 :: atomic { top != i -> touch; i = top; next[NODE(kept[nkept - 1])] = i }
                 od
              :: else -> break
              od
           fi
        :: else
        fi;
        at = 0
     fi;
#ifdef LOOP
handed:
#endif
     atomic { x = 0; failed = 0 }

look:
#ifdef YIELDS
     if
     :: yields < YIELDS -> yields++; goto hand_back
     :: true
     fi;
goes_on:
#endif
     if
     :: nkept != 0 -> atomic { nkept--; x = kept[nkept]; kept[nkept] = 0 }
#ifdef BROKEN_ARM_LATE
        atomic { if :: degree[NODE(x)] > 1 -> touch; left[NODE(x)] = degree[NODE(x)]; failures[NODE(x)] = 0 :: else fi }
#endif
        goto execute
     :: nkept == 0 && spread != NONE ->
        atomic { touch; at = drawn[NODE(spread)]; drawn[NODE(spread)] = at + 1 }
        if
        :: at < out[NODE(spread)] ->
           atomic { failed = (spread & CANCEL) != 0 }
           arrive(to[NODE(spread) * 3 + at])
        :: else ->
           atomic {
#ifdef BROKEN_OWN
             if
             :: !(spread & OWN) -> done++
             :: else
             fi;
#else
#ifdef BROKEN_SHARES
             if
             :: (spread & OWN) -> done++
             :: else
             fi;
#else
             done++;
#endif
#endif
             if
#ifndef BROKEN_NEST
             :: (spread & OWN) -> touch; spread = before[NODE(spread)]
             :: else -> spread = NONE
#else
             :: true -> spread = NONE
#endif
             fi
           }
        fi;
        atomic { at = 0; failed = 0 }
        goto look
     :: nkept == 0 && spread == NONE ->
#ifndef BROKEN_POP
        if
        :: done == 0 -> goto leave
        :: else
        fi;
#endif
        atomic { touch; x = top }
        do
        :: x == NONE -> x = 0; goto leave
        :: x != NONE ->
           at = next[NODE(x)];
           if
           :: atomic { top == x -> touch; top = at; at = 0; goto execute }
           :: atomic { top != x -> touch; x = top; at = 0 }
           fi
        od
     fi;

#ifdef YIELDS
hand_back:
     do
     :: spread != NONE ->
        atomic {
          touch; x = spread;
          if
          :: (spread & OWN) -> spread = before[NODE(spread)]
          :: else -> spread = NONE
          fi
        }
        atomic { queue ! (NODE(x) | SHARE | (x & CANCEL)); x = 0 }
     :: else -> break
     od;
     do
     :: goto goes_on              /* no room */
     :: true ->
#ifndef BROKEN_YIELD
        do
        :: done != 0 && nkept < 2 ->
           atomic { touch; x = top }
           do
           :: x == NONE -> break
           :: x != NONE ->
              at = next[NODE(x)];
              if
              :: atomic { top == x -> touch; top = at; kept[nkept] = x; nkept++; break }
              :: atomic { top != x -> touch; x = top }
              fi
           od;
           if
           :: x == NONE -> break
           :: else -> at = 0
           fi
        :: else -> break
        od;
        atomic { x = 0; at = 0 }
#endif
        if
        :: nkept == 0 -> break
        :: else
        fi;
        do
        :: nkept != 0 -> atomic { touch; nkept--; queue ! kept[nkept]; kept[nkept] = 0 }
        :: else -> break
        od
     od;
#endif

leave:
     if
     :: done != 0 ->
        atomic {                  /* fetch_add */
          touch; pending = pending - done; done = 0;
#ifndef BROKEN_LOOK
          last = pending == 0
#endif
        }
#ifdef BROKEN_LOOK
        atomic { last = pending == 0 }
#endif
        if
        :: last ->
           atomic {
             touch; last = 0;
             assert(top == NONE && completed == launch - 1);
             i = 0;
             do
             :: i < N ->
                assert(ended[i] || in_body(i));
                assert(left[i] == degree[i] && failures[i] == 0);
                began[i] = 0; ended[i] = 0; bad[i] = 0;
                i++
             :: else -> break
             od;
#ifdef LOOP
             rounds = 0;
#endif
             i = 0; open = 0; completed = launch
           }
        :: else
        fi
     :: else
     fi;
     mine = 0
  :: completed == LAUNCHES -> break
  od
}

init {
  byte i;
  d_step {
#ifdef LOOP
    edge(0, 1); edge(1, 2); edge(1, 3); edge(2, 4); edge(3, 4);
    degree[BEHIND] = 1;
    sinks = 255;                  /* the exit is none */
#else
    edge(0, 1); edge(0, 2); edge(0, 3);
#ifdef NEST
    edge(1, 4); edge(1, 5);
#else
    edge(1, 4); edge(2, 4);
#ifdef DEEP
    edge(3, 4); edge(3, 5);
#endif
#endif
#endif
    i = 0;
    do
    :: i < N -> left[i] = degree[i]; sinks = sinks + (out[i] == 0); i++
    :: else -> break
    od;
    i = 0
  }
  do
  :: i < W -> run Worker(); i++
  :: else -> break
  od;
  do
  :: launch < LAUNCHES -> atomic { !open -> launch++; open = 1; queue ! LAUNCH }
  :: else -> break
  od
}
