/* levels: tasks that wait by priority, and the tokens in the ready queue that stand for them
 *
 * Modelled (levels.hpp): PRODUCERS put tasks on two levels. A task gets a place by atomic adds on `used` (taken back when the level is full:
 * then the task goes to the ready queue itself) and on `tail`; its producer waits until the slot there is empty, fills it, adds 1 to
 * `waiting`, and only then pushes a token. A producer puts BATCH tasks at once: it fills each slot as soon as that is empty, in any order. W workers take what is in the ready queue: a task, or a token. For a token a worker chooses a level on
 * which it sees tasks, takes 1 off `waiting`, gives it back and looks again if there was none, takes a place at `head` (a queue) or behind
 * `tail` (STACK), waits until the slot is full, reads it, and makes it empty.
 *
 * Abstraction: the ready queue is a number of tokens and of tasks (ready_queue.pml has it). A worker chooses any level on which tasks wait:
 * which one it should be matters for order alone, which tests check. Threads rest between any two steps for any time.
 *
 * Properties
 *   assertions   a slot has one user at a time; each task is taken once
 *   end states   all tasks are taken and all levels empty: nobody waits for ever
 * Mutations: BROKEN_NO_STATE (a producer does not wait for an empty slot),
 *   BROKEN_NO_UNDO (a worker that finds none does not give it back), BROKEN_EMPTY_EARLY (the slot is made empty before it is read),
 *   BROKEN_NO_TOKEN (a task whose level is not empty gets no token), BROKEN_TOGETHER (a producer has all slots of its batch before it fills
 *   any: two that a stack gives the same places wait for each other)
 */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef EACH
#define EACH 2
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef W
#define W 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#define TASKS (PRODUCERS * EACH * BATCH)
#define LEVELS 2

mtype = { EMPTY, FILLING, FULL, TAKING };

#define AT(level, place) ((level) * SLOTS + (place) % SLOTS)

mtype state[LEVELS * SLOTS] = EMPTY;
byte value[LEVELS * SLOTS];
byte head[LEVELS], tail[LEVELS], used[LEVELS];
short waiting[LEVELS];
byte tokens, direct[TASKS], directs; /* in the ready queue */
byte taken[TASKS];                   /* ghost: how often */
byte ended;                          /* tasks taken */
byte users[LEVELS * SLOTS];          /* ghost */

proctype producer(byte me) {
  byte i, k, level, place, left;
  bit fits;
  bit done[BATCH];
  for (i : 0 .. EACH - 1) {
    if
    :: level = 0
#ifndef ONE_LEVEL
    :: level = 1
#endif
    fi
    atomic {
      used[level] = used[level] + BATCH;
      fits = used[level] <= SLOTS;
    }
    if
    :: fits ->
      atomic { place = tail[level]; tail[level] = tail[level] + BATCH; left = BATCH; k = 0 }
      do
      :: left > 0 ->
         atomic {
#ifdef BROKEN_NO_STATE
           state[AT(level, place + k)] = FILLING
#else
           if
           :: !done[0] && state[AT(level, place)] == EMPTY -> k = 0
#if BATCH > 1
           :: !done[1] && state[AT(level, place + 1)] == EMPTY -> k = 1
#endif
           fi;
           state[AT(level, place + k)] = FILLING;
           users[AT(level, place + k)]++;
           assert(users[AT(level, place + k)] == 1)
#endif
           done[k] = 1;
           left--
         }
#ifndef BROKEN_TOGETHER
         value[AT(level, place + k)] = (me * EACH + i) * BATCH + k;
#ifdef BROKEN_NO_STATE
         state[AT(level, place + k)] = FULL;
#else
         atomic { users[AT(level, place + k)]--; state[AT(level, place + k)] = FULL }
#endif
#endif
      :: else -> break
      od;
#ifdef BROKEN_TOGETHER
      for (k : 0 .. BATCH - 1) {
        value[AT(level, place + k)] = (me * EACH + i) * BATCH + k;
        atomic { users[AT(level, place + k)]--; state[AT(level, place + k)] = FULL }
      }
#endif
      atomic {
        for (k : 0 .. BATCH - 1) { done[k] = 0 }
        k = 0
      }
      waiting[level] = waiting[level] + BATCH;
#ifdef BROKEN_NO_TOKEN
      if
      :: waiting[level] > BATCH
      :: else -> tokens = tokens + BATCH
      fi
#else
      tokens = tokens + BATCH
#endif
    :: else ->
      used[level] = used[level] - BATCH;
      atomic {
        for (k : 0 .. BATCH - 1) { direct[(me * EACH + i) * BATCH + k] = 1 }
        directs = directs + BATCH;
        k = 0
      }
    fi
  }
}

proctype worker() {
  byte level, at, task;
  short before;
  do
  :: atomic { directs > 0 ->
       directs--;
       task = 0;
       do
       :: direct[task] -> direct[task] = 0; break
       :: else -> task++
       od
     }
     d_step { taken[task]++; assert(taken[task] == 1); ended++ }
  :: atomic { tokens > 0 -> tokens-- }
look:
     if
     :: waiting[0] > 0 -> level = 0
     :: waiting[1] > 0 -> level = 1
     fi;
     atomic { before = waiting[level]; waiting[level]-- }
     if
     :: before <= 0 ->
#ifndef BROKEN_NO_UNDO
        waiting[level]++;
#endif
        goto look
     :: else
     fi;
     atomic {
#ifdef STACK
       tail[level]--;
       at = AT(level, tail[level])
#else
       at = AT(level, head[level]);
       head[level]++
#endif
     }
     atomic { state[at] == FULL -> state[at] = TAKING; users[at]++; assert(users[at] == 1) }
#ifdef BROKEN_EMPTY_EARLY
     atomic { users[at]--; state[at] = EMPTY }
     task = value[at];
#else
     task = value[at];
     atomic { users[at]--; state[at] = EMPTY }
#endif
     used[level]--;
     d_step { taken[task]++; assert(taken[task] == 1); ended++ }
  :: ended == TASKS && tokens == 0 && directs == 0 -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. PRODUCERS - 1) { run producer(i) }
    for (i : 0 .. W - 1) { run worker() }
  }
  _nr_pr == 1;
  assert(ended == TASKS && used[0] == 0 && used[1] == 0 && waiting[0] == 0 && waiting[1] == 0);
}
