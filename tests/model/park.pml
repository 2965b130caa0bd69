/* park: who starts leases, when the loop is gone, parking it, and laying out the seats anew
 *
 * Modelled, host (keeper.cpp): a submitter stores counter and slot, then reads `asleep`, `newest` and `left` of its slot, one after the
 * other, with nothing between that drains its store buffer. If the keeper sleeps or the newest lease has left, it takes the mutex, notes
 * which leases have left, and starts one unless the newest is on the device or the loop is held. The keeper notes the same whenever a lease
 * has left. The newest has left: it starts another if work is outstanding; if none is, it sets `asleep`, makes all store buffers drain
 * (membarrier) and looks once more. The newest has not left: it may start the next one. A lease may work, and leave, before `newest` names
 * it. With HOLDS the loop is parked once: no lease is started any more, the newest is asked to end at once by a word and, if there is room,
 * by a slot of the ring that names it; when all have left the loop is held until `resume`, which makes all store buffers drain (membarrier)
 * and looks at the outstanding work; a submitter that sees the hold does not take the mutex. With TRIES nobody is asked: the loop is awaited
 * for a while, and let go when that is over. With LAYOUTS=n an image with other seats is installed n times at any moment: no lease starts
 * before all others have left, and the first one lays out the seats; no other starts before the keeper has seen that one begin, or leave.
 *
 * Modelled, device (seat.hpp, reseat.hpp): a lease of W workers in each of two slots, with places for PLACES workers of both, which the
 * device gives to whom it likes. Worker 0 of the lease that lays out does so, the others of that lease wait until it is done. A worker takes
 * its seat when that is free, or gives up when its lease is over. A holder takes tasks, unless
 * the lease ends at once. It calls the lease over when its time is up, and ends it when the ring looks empty and nothing runs, or the host
 * asks: that holds for all older leases too. It leaves a lease that is over when nothing runs on it and a successor waits, the lease ends at
 * once, or nothing runs on another (it has waited for long enough). The last worker out of a lease stores `left`.
 *
 * Abstraction: the word of a seat is in roll.pml. A task is four flags; ring and ready queue are one. With STORES=2 the counter drains before
 * the slot, else both at once. What a thread reads late it could have read early, so a lease needs no number beyond its slot: who reads
 * `left` of a later lease could have read it while that was on the device. A wish that names a lease that has left is void for good. Time may
 * be up whenever the lease has done something. The next lease may be started before the last has begun: the keeper waits for that, roll_over
 * does not. Steps that only the mutex guards are one with their neighbours. With LONG task 0 ends only after task 1, unless the loop
 * is parked: nothing else may wait for it. ENDLESS: time is never up, and idleness ends nothing. A lease works at first;
 * ROLLS others are started while one is on the device, and more while a task keeps one that is over.
 *
 * Properties
 *   assertions   a slot is given only when its lease has left; nobody takes a seat while the loop is held; seats are laid out while nobody
 *                has one and no lease of another layout is left; nobody takes one of another layout than that of its lease
 *   end states   no deadlock: no task unfetched while the keeper sleeps and no lease is on the device, a park returns
 *   completes    every task completes (LTL, weak fairness)
 *   leaves       every lease leaves; slot 0 stands for both (LTL, weak fairness)
 * Mutations: BROKEN_NO_MEMBARRIER, BROKEN_NO_RECHECK, BROKEN_MUTEX; with W=2 BROKEN_LEFT; with ONLY_ASLEEP BROKEN_ASLEEP_LATE;
 *   with HOLDS BROKEN_RESUME, BROKEN_HOLD, with ENDLESS too BROKEN_ASK, BROKEN_WORD; with TRIES
 *   BROKEN_GIVE_UP; with LAYOUTS BROKEN_OVERLAP, BROKEN_OVERTAKE; with LAYOUTS and W=2 BROKEN_NO_AWAIT; with LAYOUTS and PLACES=W
 *   BROKEN_OVERTAKE with those behind waiting for the seats too (AWAITS)
 * Variants that hold: ONLY_LEFT (submitters never read `asleep`), ONLY_ASLEEP (they read nothing else)
 */
#ifndef W
#define W        1                /* or 2 */
#endif
#ifdef LONG
#define TASKS    2                /* the first one is there from the beginning, and long */
#endif
#ifndef TASKS
#define TASKS    1                /* or 2, one submitter each */
#endif
#ifndef STORES
#define STORES   1
#endif
#ifndef ROLLS
#define ROLLS    2
#endif
#ifndef LAYOUTS
#define LAYOUTS  0
#endif
#ifndef PLACES
#define PLACES   (2 * W)
#endif
#define NOBODY   2

mtype:request = { absent, live, void, complete };

/* host */
bit newest;                       /* the slot of the newest lease */
bit known[2];                     /* under the mutex: on the device, as far as has been noted */
bit asleep, mutex, held;          /* held: under the mutex */
bit resumed = 1;
bit end_word;                     /* the newest lease shall end at once */
mtype:request request = absent;   /* the same as a slot of the ring */
byte rolls = ROLLS;
byte buffered[TASKS];             /* stores still in the buffer: 2 = counter and slot, 1 = slot */
bit counted[TASKS], slot[TASKS];  /* as memory has them */
byte layout = 1, seats_layout = 1;
byte installed;
/* device */
bit left[2] = 1;                  /* no lease in the slot, or all its workers have left */
bit top;                          /* the slot of the lease launched last */
bit launched[2 * W];              /* a worker that has no place yet */
bit waits[2 * W];                 /* one that has a place and no seat yet */
byte places = PLACES;
bit over[2], ends[2], worked[2];
byte seat[W] = NOBODY;            /* the slot of the lease that has it */
byte exits[2];
byte executing[W];                /* task + 1 */
bit fetched[TASKS], done[TASKS];
bit begun[2], lays_out[2];
byte seated = 1;                  /* the layout that is done */
byte lease_layout[2] = 1;         /* ghost */
bit parked;                       /* ghost: park_loop has returned */

#define ASKED          (request == live || request == void)
#define UNDONE(t)      (counted[t] && !done[t])
#define UNFETCHED(t)   (slot[t] && !fetched[t])
#if TASKS == 1
#define OUTSTANDING    (UNDONE(0) || ASKED)
#define VISIBLE        (UNFETCHED(0) || ASKED)
#define ALL_DONE       (done[0] && !ASKED)
#define MAY_END(t)     true
#else
#define OUTSTANDING    (UNDONE(0) || UNDONE(1) || ASKED)
#define VISIBLE        (UNFETCHED(0) || UNFETCHED(1) || ASKED)
#define ALL_DONE       (done[0] && done[1] && !ASKED)
#ifdef LONG
#define MAY_END(t)     ((t) != 0 || done[1] || held)
#else
#define MAY_END(t)     true
#endif
#endif
#define NEWS(i)        (known[i] && left[i])
#define NOTHING_KNOWN  (!known[0] && !known[1])
#define ALL_LEFT       (left[0] && left[1])
#if W == 1
#define BUSY           (executing[0] != 0)
#define NO_SEAT_HELD   (seat[0] == NOBODY)
#else
#define BUSY           (executing[0] || executing[1])
#define NO_SEAT_HELD   (seat[0] == NOBODY && seat[1] == NOBODY)
#endif

/* the loop is gone, as far as has been noted */
#define GONE           (!known[newest])
#ifdef BROKEN_HOLD
#define IS_HELD        false
#else
#define IS_HELD        held
#endif
#ifdef BROKEN_OVERLAP
#define FITS           true
#else
#define FITS           (NOTHING_KNOWN || layout == seats_layout)
#endif
#define LAYS_OUT(i)    (known[i] && lays_out[i] && !begun[i])
#ifdef BROKEN_OVERTAKE
#define ALONE          true
#else
#define ALONE          (!LAYS_OUT(0) && !LAYS_OUT(1))
#endif
#define MAY_START      (!IS_HELD && !(known[0] && known[1]) && FITS && ALONE)
#define MAY_ROLL       (!GONE && MAY_START && (rolls > 0 || (over[newest] && BUSY)))
#define SLEEPS         (NOTHING_KNOWN && asleep)

inline drain_one(t) {
  if
  :: buffered[t] == 2 -> counted[t] = 1; buffered[t] = 1
  :: buffered[t] == 1 -> counted[t] = 1; slot[t] = 1; buffered[t] = 0
  fi
}

inline drain(t) {
  if
  :: buffered[t] > 0 -> counted[t] = 1; slot[t] = 1; buffered[t] = 0
  :: else
  fi
}

inline drain_all() {
  drain(0);
#if TASKS == 2
  drain(1)
#endif
}

/* the following under the mutex */
inline collect() {
  known[0] = known[0] && !left[0];
  known[1] = known[1] && !left[1]
}

inline launch() {
  assert(!(known[0] && known[1]));
  top = known[0];
  assert(left[top] && exits[top] == 0);
  known[top] = 1; left[top] = 0;
#if LAYOUTS > 0
  begun[top] = 0; lays_out[top] = (layout != seats_layout);
  seats_layout = layout; lease_layout[top] = layout;
#endif
  launched[top] = 1;
#if W == 2
  launched[2 + top] = 1
#endif
}

/* and gives the mutex back */
inline publish() {
  atomic { newest = top; asleep = 0; mutex = 0 }
}

proctype Submitter(byte t) {
  bit seen;
  buffered[t] = STORES;
#ifndef ONLY_LEFT
  if
  :: asleep -> goto wake
  :: else
  fi;
#endif
#ifdef ONLY_ASLEEP
  goto out;
#else
  seen = newest;
  if
  :: atomic { left[seen] -> seen = 0 }
  :: atomic { else -> seen = 0; goto out }
  fi;
#endif
wake:
  if
  :: held -> goto out             /* who lets go looks */
  :: else
  fi;
  atomic {
#ifndef BROKEN_MUTEX
    !mutex -> mutex = 1;
#endif
    drain(t);                     /* taking a lock drains the buffer */
    collect();
    if
    :: GONE && MAY_START
    :: else -> mutex = 0; goto out
    fi
#ifdef BROKEN_MUTEX
  }
  atomic { launch() }
#else
    launch()
  }
#endif
  publish();
out:
  skip
}

proctype Keeper() {
again:
#ifdef ENDLESS
end:
#endif
  do
  :: atomic {
       !mutex && !SLEEPS && (NOTHING_KNOWN || NEWS(0) || NEWS(1)) -> collect();
       if
       :: GONE -> mutex = 1
       :: else -> goto again
       fi
     }
     if
     :: atomic { MAY_START && OUTSTANDING -> launch(); goto started }
     :: atomic {
          !(MAY_START && OUTSTANDING) ->
#ifndef BROKEN_ASLEEP_LATE
          asleep = 1;
#endif
#ifndef BROKEN_NO_MEMBARRIER
          drain_all()
#endif
        }
     fi;
#ifndef BROKEN_NO_RECHECK
     if
     :: atomic { MAY_START && OUTSTANDING -> launch(); goto started }
#ifdef BROKEN_ASLEEP_LATE
     :: !(MAY_START && OUTSTANDING) ->
        atomic { asleep = 1; mutex = 0 }
#else
     :: atomic { !(MAY_START && OUTSTANDING) -> mutex = 0 }
#endif
     fi
#else
     mutex = 0
#endif
  :: atomic {                                    /* half-way through a lease, or a call that wants the next one */
       !mutex && MAY_ROLL -> collect();
       if
       :: MAY_ROLL -> rolls = (rolls > 0 -> rolls - 1 : 0); mutex = 1; launch()
       :: else -> goto again
       fi
     }
started:
     publish()
  :: atomic { ALL_DONE && SLEEPS && !mutex && resumed && installed == LAYOUTS -> break }
  od
}

#define ALL_NEWS  ((!known[0] || left[0]) && (!known[1] || left[1]))

#if defined(HOLDS) || defined(TRIES)
proctype Holder() {
  atomic { !mutex -> held = 1; collect() }
#ifdef TRIES
  if
  :: atomic { ALL_NEWS && !mutex -> mutex = 1; collect(); asleep = 1 }
  :: atomic { !ALL_NEWS && !mutex -> mutex = 1; goto resume }
  fi;
#else
  if
  :: atomic { NOTHING_KNOWN -> goto asked }
  :: !NOTHING_KNOWN
  fi;
#ifdef BROKEN_ASK                 /* the one that works, not the newest */
  if
  :: atomic { left[1 - top] -> over[top] = !left[top]; ends[top] = !left[top] }
  :: atomic { !left[1 - top] -> over[1 - top] = 1; ends[1 - top] = 1 }
  fi;
#else
#ifndef BROKEN_WORD
  end_word = !left[top];
#endif
  if
  :: request = (left[top] -> void : live)
  :: true                                        /* no room in the ring */
  fi;
#endif
asked:
  atomic { ALL_NEWS && !mutex -> mutex = 1; collect(); asleep = 1 }
#endif
  atomic { assert(ALL_LEFT && NO_SEAT_HELD); parked = 1; mutex = 0 }
  atomic { !mutex -> assert(NOTHING_KNOWN); parked = 0; mutex = 1 }
resume:
  atomic {
#ifdef BROKEN_GIVE_UP
    mutex = 0; resumed = 1; goto out;
#endif
    held = 0;
#ifndef BROKEN_RESUME
    drain_all();
#endif
    if
    :: GONE && MAY_START && OUTSTANDING -> launch()
    :: else -> mutex = 0; resumed = 1; goto out
    fi
  }
  resumed = 1;
  publish();
out:
  skip
}
#endif

#if LAYOUTS > 0
proctype Installer() {
  do
  :: atomic { installed < LAYOUTS && !mutex -> installed++; layout++ }
  :: atomic { installed == LAYOUTS -> break }
  od
}
#endif

/* store buffers drain and operators end, some time */
inline end_task(w) {
  done[executing[w] - 1] = 1; executing[w] = 0
}

proctype Time() {
end: do
  :: atomic { buffered[0] > 0 -> drain_one(0) }
#if TASKS == 2
  :: atomic { buffered[1] > 0 -> drain_one(1) }
#endif
  :: atomic { executing[0] && MAY_END(executing[0] - 1) -> end_task(0) }
#if W == 2
  :: atomic { executing[1] && MAY_END(executing[1] - 1) -> end_task(1) }
#endif
  od
}

#define MINE        (2 * w + i)
#define SUCCESSOR   waits[2 * w + 1 - i]
#define TAKEABLE(t) (!executing[w] && !ends[i] && UNFETCHED(t))
inline take(t) {
  fetched[t] = 1; executing[w] = t + 1; worked[i] = 1
}

/* the lease and what is older; `all`: the newest */
inline call_over(all, at_once) {
  over[i] = 1; ends[i] = ends[i] || at_once;
  if
  :: (all || i == top) && !left[1 - i] -> over[1 - i] = 1; ends[1 - i] = ends[1 - i] || at_once
  :: else
  fi
}

proctype Worker(bit i; byte w) {
end:
  atomic { launched[MINE] && places > 0 -> launched[MINE] = 0; waits[MINE] = 1; places-- }
#if LAYOUTS > 0
  if
  :: lays_out[i] && w == 0 ->
     assert(NO_SEAT_HELD && (left[1 - i] || lease_layout[1 - i] == lease_layout[i]));
     atomic { assert(NO_SEAT_HELD && (left[1 - i] || lease_layout[1 - i] == lease_layout[i])); seated = lease_layout[i] }
#ifdef BROKEN_NO_AWAIT
  :: else
#else
#ifdef AWAITS
  :: !(lays_out[i] && w == 0) && seated == lease_layout[i]
#else
  :: !(lays_out[i] && w == 0) && (!lays_out[i] || seated == lease_layout[i])
#endif
#endif
  fi;
#endif
#ifdef ENDLESS
end_wait:
#endif
  if
  :: atomic { seat[w] == NOBODY -> assert(!parked && seated == lease_layout[i]); seat[w] = i; waits[MINE] = 0; begun[i] = (LAYOUTS > 0) }
  :: atomic { over[i] -> waits[MINE] = 0; goto gone }
  fi;
#ifdef ENDLESS
end_serve:
#endif
  do
  :: atomic { TAKEABLE(0) -> take(0) }
#if TASKS == 2
  :: atomic { TAKEABLE(1) -> take(1) }
#endif
#ifdef HOLDS
  :: atomic { end_word && !ends[i] -> call_over(1, 1) }
  :: atomic { request == live && !ends[i] -> request = complete; call_over(1, 1) }
  :: atomic { request == void && !ends[i] -> request = complete; worked[i] = 1 }
#endif
#ifndef ENDLESS
  :: atomic { !over[i] && worked[i] -> call_over(0, 0) }
  :: atomic {
       !ends[i] && !BUSY && !VISIBLE ->          /* idle */
#if W == 2
       skip
     }
     atomic {
#endif
       call_over(0, 1)
     }
#endif
  :: atomic { over[i] && !executing[w] && (ends[i] || SUCCESSOR || !BUSY) -> seat[w] = NOBODY; break }
  od;
gone:
  atomic {
    exits[i]++; places++;
#ifdef BROKEN_LEFT
    left[i] = 1;
#endif
    if
    :: exits[i] == W ->
       exits[i] = 0; over[i] = 0; ends[i] = 0; worked[i] = 0;
       left[i] = 1;
       if
       :: i == top -> end_word = 0; request = (request == live -> void : request)
       :: else
       fi
    :: else
    fi;
    goto end
  }
}

init {
  atomic {
#ifdef LONG
    counted[0] = 1; slot[0] = 1;
#else
    run Submitter(0);
#endif
#if TASKS == 2
    run Submitter(1);
#endif
    run Keeper();
#if defined(HOLDS) || defined(TRIES)
    resumed = 0;
    run Holder();
#endif
#if LAYOUTS > 0
    run Installer();
#endif
    run Time(); run Worker(0, 0); run Worker(1, 0);
#if W == 2
    run Worker(0, 1); run Worker(1, 1);
    launched[2] = 1;
#endif
    launched[0] = 1; known[0] = 1; left[0] = 0
  }
}

ltl completes { <>(ALL_DONE) }
ltl leaves { []((!left[0]) -> <>(left[0])) }
