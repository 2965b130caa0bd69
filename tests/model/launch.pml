/* launch: launches of one exec that come at any time, from operators and from the host
 *
 * Modelled (launch_line.hpp, graph.hpp): L launches of one exec. Its word has who came last (the top of a stack), `more`, `failed`, and how
 * much of the launch that has the exec has not ended.
 *   taking     a launch takes an exec whose word is 0 (BROKEN_BARGE: of which nothing is pending), else it puts itself on the stack
 *              (BROKEN_STAND: with a store), or takes the exec when the word is 0 meanwhile
 *   beginning  writes the head: whose launch it is, and no failure; then it raises what is pending to its sinks
 *   ending     two sinks, each ended by a worker of its own; a node may have failed before: it notes that in the head and in the word
 *              (BROKEN_FAILED: not in the word; it is read behind the end). Each reads whose launch it is before it takes off what it has
 *              ended (BROKEN_READ: behind that). Who takes off the last goes on with the line if the word is not 0.
 *   the line   whoever goes on with it takes the first of those that were turned round; with none, it takes the stack and turns it round
 *              (BROKEN_ORDER: it takes the top, and leaves the rest), with `more` for the rest (BROKEN_MORE: without), or makes the word 0 by
 *              compare-and-swap (BROKEN_FREE: by a store). The first gets the exec, and goes on through the ready queue; one that the host has
 *              cancelled is passed over, in whose place the ender has the exec again (BROKEN_SKIP: it keeps it).
 *
 * Abstraction: the ready queue hands a launch on at any later time; workers, nodes and records are left out.
 *
 * Properties
 *   assertions   one launch has the exec at a time, and begins behind the end of the one before; who stood in line earlier begins earlier;
 *                the ender of a launch finds its own head, and its own failure if and only if it has one; nobody touches the exec when all
 *                launches are complete
 *   end states   every launch completes once, run or cancelled, and the word is 0
 * Mutations: BROKEN_BARGE, BROKEN_STAND, BROKEN_FAILED, BROKEN_READ, BROKEN_ORDER, BROKEN_MORE, BROKEN_FREE, BROKEN_SKIP
 */
#ifndef L
#define L 3
#endif
#ifndef FAILING
#define FAILING 1                 /* this launch fails */
#endif
#define NONE 0                    /* launches are 1 to L */

/* the word */
byte pending, top;
bit more, marked;
#define FREE (pending == 0 && top == NONE && !more && !marked)
/* the head */
byte whose, failure, first;
byte link[L + 1];
/* the ready queue and the host */
bit turn[L + 1], cancelled[L + 1];
/* ghosts */
byte owner;                       /* has the exec; L + 1: who goes on with the line */
byte completed;
byte stood[L + 1], places;        /* in which order they came to stand */
bit begun[L + 1], complete[L + 1];

#define touch assert(completed < L)

inline finish(id) { atomic { assert(!complete[id]); complete[id] = 1; completed++ } }

/* The ender of launch `me` gives the exec on: `next` is who has it. */
inline choose() {
  touch;
  next = (more -> first : NONE);
  if
  :: next != NONE ->
     first = link[next];
     atomic { touch; marked = 0; pending++ }
  :: else ->
     do
     :: seen = top;                                    /* the word as it was read */
        if
        :: seen == NONE ->
#ifdef BROKEN_FREE
           atomic { owner = 0; pending = 0; top = NONE; more = 0; marked = 0 }; break
#else
           atomic {
             if
             :: top == NONE -> owner = 0; more = 0; marked = 0; break
             :: else
             fi
           }
#endif
        :: else ->
#ifdef BROKEN_ORDER
           atomic {
             if
             :: top == seen -> next = seen; top = link[seen]; marked = 0; pending = 1; break
             :: else
             fi
           }
#else
           atomic {
             if
             :: top == seen ->
                top = NONE; marked = 0; pending = 1;
#ifndef BROKEN_MORE
                more = 1;
#endif
                break
             :: else
             fi
           }
#endif
        fi
     od;
#ifndef BROKEN_ORDER
     if
     :: seen != NONE ->
        do
        :: seen != NONE -> d_step { older = link[seen]; link[seen] = next; next = seen; seen = older; older = 0 }
        :: else -> break
        od;
        first = link[next]
     :: else
     fi
#endif
  fi
}

inline pass_on() {
  do
  :: choose();
     if
     :: next == NONE -> break
     :: else ->
        d_step {                                       /* nobody who came earlier still stands */
          i = 1;
          do
          :: i <= L -> assert(i == next || stood[i] == 0 || stood[i] > stood[next]); i++
          :: else -> break
          od;
          i = 0; stood[next] = 0
        }
        if
        :: cancelled[next] ->
           finish(next);
#ifdef BROKEN_SKIP
           break
#else
           atomic { touch; pending-- }
#endif
        :: else -> atomic { owner = next; turn[next] = 1 }; break
        fi
     fi
  od;
  next = 0; seen = 0
}

proctype Sink(byte me; bit fails) {
  byte its, next, seen, older, i;
  bit last, failed, more_in_line;
  if
  :: fails -> atomic { touch; failure = me };
#ifndef BROKEN_FAILED
     atomic { touch; marked = 1 }
#endif
  :: else
  fi;
#ifndef BROKEN_READ
  touch; its = whose;
#endif
  atomic {
    touch; assert(owner == me);
    pending--;
    last = pending == 0;
    failed = marked;
    more_in_line = top != NONE || more || marked;
    if
    :: last -> owner = (more_in_line -> L + 1 : 0)
    :: else
    fi
  }
  if
  :: last ->
#ifdef BROKEN_READ
     touch; its = whose;
#endif
     assert(its == me);
#ifdef BROKEN_FAILED
     assert((failure == me) == (me == FAILING));
#else
     if
     :: me == FAILING -> assert(failed && failure == me)
     :: else -> assert(!failed)
     fi;
#endif
     if
     :: more_in_line -> pass_on()
     :: else
     fi;
     finish(me)
  :: else
  fi
}

proctype Launch(byte me) {
  byte was;
  bit taken;
  atomic {
    touch;
#ifdef BROKEN_BARGE
    if
    :: pending == 0 -> pending = 1; taken = 1
#else
    if
    :: FREE -> pending = 1; taken = 1
#endif
    :: else
    fi;
    if
    :: taken -> assert(owner == 0); owner = me
    :: else
    fi
  }
  if
  :: taken
  :: else ->
     do
     :: was = top;
        link[me] = was;
#ifdef BROKEN_STAND
        atomic { places++; stood[me] = places; top = me }; break
#else
        atomic {
          if
          :: FREE -> pending = 1; taken = 1; assert(owner == 0); owner = me; break
          :: !FREE && top == was -> places++; stood[me] = places; top = me; break
          :: else
          fi
        }
#endif
     od
  fi;
  was = 0;
  if
  :: taken
  :: else ->
     if
     :: turn[me]
     :: complete[me] -> goto over                      /* it was cancelled */
     fi
  fi;
  assert(owner == me && !begun[me]);
  begun[me] = 1;
  touch; whose = me;
  touch; failure = 0;
  atomic { touch; pending = pending + 1 };             /* two sinks */
  run Sink(me, me == FAILING);
  run Sink(me, 0);
over:
  skip
}

/* The host cancels the last launch, at any time. */
proctype Host() {
  cancelled[L] = 1
}

init {
  byte i;
  atomic {
    i = 1;
    do
    :: i <= L -> run Launch(i); i++
    :: else -> break
    od;
    i = 0;
#ifndef NO_CANCEL
    run Host()
#endif
  }
  (completed == L && _nr_pr == 1);
  assert(FREE)
}
