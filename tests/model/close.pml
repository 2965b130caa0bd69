/* close: the end of a runtime beside those who use it
 *
 * Modelled: a runtime that its user may have parked, with a task in flight. Its owner closes it (when_done, or -DNOW), while a user's thread
 * redefines an operator (job 0: compiles and hands over on that thread), a thread of the pool does the same for a definition in the
 * background (job 1) and then runs the user's callback for it, which waits for the task; a third thread of the user's asks job 1 to stop. The
 * registry's mutex is held in the atomic blocks. A hand-over holds the loop, waits until it is gone, loads and lets it go again. The core
 * belongs to the shell and to each thread of the user's that is in a call; the last of them destroys it. A failed compilation, several
 * operators and the device's failure are left out.
 *
 * Properties
 *   assertions   nobody touches the core or its registry when they are gone; a job is settled once and reported once; the loop does not run
 *                while an image is loaded; a hold is let go by its holder alone; when close has returned the task is complete or cancelled,
 *                each job that got in is reported, and the callback has run once
 *   end states   no deadlock: everybody comes to an end
 * Mutations: BROKEN_RESUME_ALL (close ends all holds, not the parks alone), BROKEN_GAP (close lets go of the mutex between two jobs that it
 * settles, without looking again), BROKEN_NO_VISIT (who asks for a stop is not waited for), BROKEN_OUTSIDE (nor who reports),
 * BROKEN_DROP (the pool drops callbacks), BROKEN_CALLBACKS_FIRST (callbacks are waited for before tasks run or are cancelled),
 * BROKEN_BORROW (a call does not own the core), BROKEN_LATE (jobs get in after the close), BROKEN_HAND_OVER (it is not waited for)
 */
#define JOBS 2

mtype = { absent, compiling, ready, handed, settled };

/* registry; guarded by its mutex */
mtype stage[JOBS] = absent;
bit closed, handing;
byte outside;
byte settles[JOBS], reports[JOBS];    /* ghost */
byte inside; bit visits_closed;       /* the rundown of stop callbacks */
/* pool */
bit pool_stopped, pool_gone, errand, callback_ran;
/* keeper */
byte holds; bit parked, loop;
bit task_done;
/* shell and core */
bit open = 1, core = 1;
byte owners = 1;
bit close_returned;

#ifdef BROKEN_DROP
#define DRAINED  true
#else
#define DRAINED  !errand
#endif
#define ALIVE  assert(core)

inline settle(j) {                    /* under the mutex */
  assert(stage[j] != settled);
  stage[j] = settled; settles[j]++
}
inline report(j) {                    /* outside the mutex */
  reports[j]++; assert(reports[j] == 1);
  if
  :: j == 1 -> errand = 1
  :: else
  fi
}
inline hold() {
  atomic { ALIVE; holds++ };
  !loop                               /* a task that runs comes to an end */
}

inline report_outside(j) {
  ALIVE; report(j);
  atomic { ALIVE; outside-- }
}

/* Hands over what is ready, unless somebody does. Uses its caller's mine0 and mine1: the batch. */
inline go_on() {
  do
  :: atomic {
       ALIVE;
       if
       :: !handing && (stage[0] == ready || stage[1] == ready) ->
            handing = 1;
            mine0 = (stage[0] == ready); mine1 = (stage[1] == ready);
            if :: mine0 -> stage[0] = handed :: else fi;
            if :: mine1 -> stage[1] = handed :: else fi
       :: else -> break
       fi
     };
     hold();
     assert(!loop);                   /* loads */
     assert(!loop);
     atomic { ALIVE; assert(holds > 0); holds-- };
     atomic {
       ALIVE;
       if :: mine0 -> settle(0); outside++ :: else fi;
       if :: mine1 -> settle(1); outside++ :: else fi;
       handing = 0
     };
     if :: mine0 -> report_outside(0) :: else fi;
     if :: mine1 -> report_outside(1) :: else fi
  od
}

/* Compiles job j, which has entered, and passes it on. */
inline process(j) {
  atomic {
    ALIVE;
    if
    :: stage[j] == compiling -> stage[j] = ready
    :: else
    fi
  };
  go_on()
}

inline enter(j, in) {
  atomic {
    ALIVE;
    if
#ifdef BROKEN_LATE
    :: true -> stage[j] = compiling; in = 1
#else
    :: !closed -> stage[j] = compiling; in = 1
    :: else -> in = 0
#endif
    fi
  }
}

inline let_go() {                     /* of the core */
  atomic {
    owners--;
    if :: owners == 0 -> core = 0 :: else fi
  }
}

active proctype Redefines() {
  bit in, mine0, mine1;
  atomic {
    if
    :: open ->
#ifndef BROKEN_BORROW
       owners++
#else
       skip
#endif
    :: else -> goto stale
    fi
  };
  enter(0, in);
  if
  :: in -> process(0); reports[0] == 1
  :: else
  fi;
#ifndef BROKEN_BORROW
  let_go();
#endif
stale:
  skip
}

bit asked;                            /* job 1 has been asked for, by the owner before it closes, or not */

active proctype Pool() {
  bit mine0, mine1;
  do
  :: asked && stage[1] == compiling -> process(1)
  :: atomic { errand -> errand = 0 }; task_done; callback_ran = 1
  :: atomic { pool_stopped && DRAINED -> pool_gone = 1; break }
  od
}

active proctype Stops() {
  bit mine0, mine1, off;
  atomic {
    if
    :: asked && !visits_closed -> inside++
    :: visits_closed -> goto out
    fi
  };
  atomic {
    ALIVE;
    if
    :: stage[1] == compiling || stage[1] == ready -> settle(1); outside++; off = 1
    :: else
    fi
  };
  if
  :: off -> report_outside(1); go_on()
  :: else
  fi;
#ifndef BROKEN_NO_VISIT
  ALIVE;
#endif
  atomic { ALIVE; inside-- };
out:
  skip
}

active proctype Loop() {
  do
  :: atomic { holds == 0 && !parked && !task_done && core -> loop = 1 };
     task_done = 1;
     loop = 0
  :: task_done || close_returned -> break
  od
}

inline end_loop() {
  hold();
  task_done = 1                       /* or cancelled */
}
inline end_parks() {
#ifdef BROKEN_RESUME_ALL
  atomic { parked = 0; holds = 0 }
#else
  parked = 0
#endif
}

active proctype Closes() {
  bit in; bit settle_now[JOBS]; byte j;
  if :: parked = 1 :: skip fi;
  enter(1, in); asked = 1;
  /* stage closing */
#ifndef BROKEN_CALLBACKS_FIRST
#ifdef NOW
  end_loop();
#else
  end_parks();
#endif
#endif
  /* the registry closes */
  atomic {
    closed = 1;
    settle_now[0] = (stage[0] == compiling || stage[0] == ready);
    settle_now[1] = (stage[1] == compiling || stage[1] == ready);
#ifndef BROKEN_GAP
    if :: settle_now[0] -> settle(0); outside++ :: else fi;
    if :: settle_now[1] -> settle(1); outside++ :: else fi
#endif
  };
#ifdef BROKEN_GAP
  atomic { if :: settle_now[0] -> settle(0); outside++ :: else fi };
  atomic { if :: settle_now[1] -> settle(1); outside++ :: else fi };
#endif
  if :: settle_now[0] -> report_outside(0) :: else fi;
  if :: settle_now[1] -> report_outside(1) :: else fi;
#ifndef BROKEN_HAND_OVER
  !handing;
#endif
#ifndef BROKEN_OUTSIDE
  outside == 0;
#endif
#ifndef BROKEN_NO_VISIT
  atomic { visits_closed = 1 };
  inside == 0;
#else
  visits_closed = 1;
#endif
  pool_stopped = 1;
  pool_gone;
#ifdef BROKEN_CALLBACKS_FIRST
#ifdef NOW
  end_loop();
#else
  end_parks();
#endif
#endif
#ifndef NOW
  task_done;
  end_loop();
#endif
  assert(task_done && callback_ran && reports[1] == 1);
  assert(!closed || reports[0] == settles[0]);
  assert(stage[0] == absent || stage[0] == settled);
  open = 0;
  let_go();
  close_returned = 1
}
