/* after: tasks that wait for several others, several that wait for one
 *
 * Modelled (waiters.hpp, completion.hpp): tasks 0 .. BEFORE - 1 are waited for, the others wait. Each task that is waited for has a link
 * word: not complete, with the head of a list, or done, with whether it has failed. A waiting task has an entry for each that it waits for,
 * with the next entry of that list, and a count of those that have not arrived, and of those that have arrived failed.
 *   fetcher    sets the count to its tasks and 1 for itself (BROKEN_ARM, BROKEN_FETCHER: armed behind the first entry; without the 1); for
 *              each task reads its link word: done counts as arrived; else stores the head as its entry's next, and puts the entry at the
 *              head by compare-and-swap (BROKEN_STORE: by a store), or again from the start (BROKEN_NEXT: with the next of before). Then
 *              arrives for itself and those that were done, at once.
 *   completer  exchanges the link word for done, with the list; then writes its completion entry, so that its slot may be used again; then
 *              walks the list: reads the entry's next, before it arrives (BROKEN_WALK: behind that), arrives, and when the count is 0
 *              lets the task go on. The last to arrive is who does.
 *   waiting task   when it has gone on it completes, and its places (entries, count) are written by the fetcher of the task one lap later.
 * A linked task is a waiting one with a single entry and no count.
 *
 * Abstraction: one fetcher at a time for each waiting task, fetchers of all of them at once. The next lap of a waiting task's places is
 * the same task again, LAPS times, whose fetcher comes only when all before have been completed (credit); those that it waits for, whose link words
 * have a lap of their own, start anew with it. The ready queue and who runs first are in ready_queue.pml.
 *
 * Properties
 *   assertions   a waiting task goes on once a lap, after all that it waits for are complete, and is cancelled if and only if one of
 *                them has failed whose failure counts; a walk reads no entry that has been written anew
 *   end states   every task of every lap completes
 * Mutations: BROKEN_ARM, BROKEN_FETCHER, BROKEN_STORE, BROKEN_NEXT, BROKEN_WALK, BROKEN_ARRIVE, BROKEN_FAILED
 */
#ifndef BEFORE
#define BEFORE 2
#endif
#ifndef WAITING
#define WAITING 2
#endif
#ifndef LAPS
#define LAPS 1
#endif
#define NONE 255
#define ENTRIES (WAITING * BEFORE)

/* link words, by task that is waited for */
bit done[BEFORE], failed[BEFORE];
byte head[BEFORE] = NONE;         /* entry number: waiting task * BEFORE + task */
/* places of waiting tasks */
byte next[ENTRIES];
byte to_come[WAITING], failures[WAITING];
bit hard[ENTRIES];                /* a failure of that task does not cancel */
/* ghosts */
bit complete[BEFORE];
byte lap_of[WAITING];             /* the lap that an entry is of */
byte gone_on[WAITING];            /* laps that have gone on */
byte laps;                        /* begun */
byte walking;                     /* completers that have not come to the end of their list */

#define W(entry) ((entry) / BEFORE)
#ifdef BROKEN_FETCHER
#define OWN 0
#else
#define OWN 1
#endif

inline go_on(w, cancel) {
  d_step {
    assert(gone_on[w] == laps - 1);
    j = 0; f = 0;
    do
    :: j < BEFORE ->
       assert(complete[j]);
       f = f || (failed[j] && !hard[w * BEFORE + j]);
       j++
    :: else -> break
    od;
    assert((cancel) == f);
    gone_on[w]++; j = 0; f = 0
  }
}

proctype Fetcher(byte w) {
  byte k, h, j; byte arrived, bad; bit f, last;
#ifndef BROKEN_ARM
  d_step { to_come[w] = BEFORE + OWN; failures[w] = 0 }
#endif
  do
  :: k < BEFORE ->
     atomic {
       if
       :: done[k] -> arrived++; bad = bad + (failed[k] && !hard[w * BEFORE + k]); goto asked
       :: else -> h = head[k]
       fi
     }
#ifdef BROKEN_NEXT
     next[w * BEFORE + k] = h;
#endif
again:
#ifndef BROKEN_NEXT
     next[w * BEFORE + k] = h;
#endif
     atomic {                     /* compare-and-swap */
       if
#ifdef BROKEN_STORE
       :: true -> done[k] = 0; head[k] = w * BEFORE + k
#else
       :: done[k] -> arrived++; bad = bad + (failed[k] && !hard[w * BEFORE + k])
       :: !done[k] && head[k] == h -> head[k] = w * BEFORE + k
       :: !done[k] && head[k] != h -> h = head[k]; goto again
#endif
       fi
     }
asked:
#ifdef BROKEN_ARM
     if
     :: k == 0 -> atomic { to_come[w] = BEFORE + 1; failures[w] = 0 }
     :: else
     fi;
#endif
     atomic { k++; h = 0 }
  :: else -> break
  od;
  atomic {                        /* fetch_add */
    to_come[w] = to_come[w] - arrived - OWN; failures[w] = failures[w] + bad;
    last = to_come[w] == 0; arrived = 0; k = 0; h = failures[w] != 0; bad = 0;
    if
    :: last -> go_on(w, h)
    :: else
    fi
  }
}

proctype Completer(byte t) {
  byte entry, behind, j; bit f, last, cancel;
  atomic {                        /* exchange */
    if
    :: failed[t] = 0
    :: failed[t] = 1
    fi;
    complete[t] = 1; done[t] = 1; entry = head[t]; head[t] = NONE;
    walking++
  }
  do
  :: entry != NONE ->
     atomic {
       /* the entry is of this lap */
       assert(lap_of[W(entry)] == laps && gone_on[W(entry)] == laps - 1);
#ifndef BROKEN_WALK
       behind = next[entry]
#endif
     }
     atomic {                     /* fetch_add */
#ifdef BROKEN_FAILED
       failures[W(entry)] = failures[W(entry)] + failed[t];
#else
       failures[W(entry)] = failures[W(entry)] + (failed[t] && !hard[entry]);
#endif
       to_come[W(entry)]--;
       last = to_come[W(entry)] == 0;
       cancel = failures[W(entry)] != 0;
#ifndef BROKEN_ARRIVE
       if
       :: last -> go_on(W(entry), cancel)
       :: else
       fi
#endif
     }
#ifdef BROKEN_ARRIVE
     /* looks at the count again instead of at what the read-modify-write has found */
     atomic {
       if
       :: to_come[W(entry)] == 0 -> go_on(W(entry), failures[W(entry)] != 0)
       :: else
       fi
     }
#endif
#ifdef BROKEN_WALK
     atomic {
       assert(gone_on[W(entry)] == laps - 1);    /* its places may be written anew */
       behind = next[entry]
     }
#endif
     atomic { entry = behind; behind = 0; last = 0; cancel = 0 }
  :: else -> break
  od;
  walking--
}

init {
  byte i;
  do
  :: laps < LAPS ->
     atomic {
       laps++;
       i = 0;
       do
       :: i < BEFORE -> done[i] = 0; failed[i] = 0; complete[i] = 0; head[i] = NONE; i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < ENTRIES ->
          if
          :: hard[i] = 0
          :: i == 0 -> hard[i] = 1
          fi;
          i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < WAITING -> lap_of[i] = laps; run Fetcher(i); i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < BEFORE -> run Completer(i); i++
       :: else -> break
       od;
       i = 0
     }
     /* credit: the places are used again when the waiting tasks are complete, also beside a walk that has gone by them */
     gone_on[0] == laps;
#if WAITING > 1
     gone_on[1] == laps;
#endif
#if WAITING > 2
     gone_on[2] == laps;
#endif
  :: else -> break
  od;
  walking == 0
}
