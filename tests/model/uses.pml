/* uses: bindings of an operator to another that it makes tasks of
 *
 * Modelled (bindings.cpp, image_table.cpp, submission_queue.cpp): an operator A that uses B, each with an alias, versions and rows of a table
 * of OPCODES opcodes. The row of a binding of A holds the opcode of the B to which it is bound. A change redefines one of them or rolls it
 * back: it drops what nobody needs, gives fresh bindings their opcodes (of A always: it moves, or it uses what moves; of B, unless the version
 * is still in the table), links and loads, and then switches both aliases at one position. What was current then is retired, and needed until
 * the tail as it was. A retired binding leaves the table when all tasks before that tail are complete; a version of B stays while a rollback
 * leads to it, a binding of A does not, because it would have to be bound anew.
 * A submitter is given a position and resolves an alias. A worker runs A, which makes a task of B from its row; that may run at any time
 * later. The task from the host is complete when the task that it has made is.
 *
 * Abstraction: images and leases are in swap.pml. One user and one used operator: longer ways and cycles are a matter of which bindings are
 * made, not of when.
 *
 * Properties
 *   assertions   a task runs the version that was current when its position was given, and so does the one that it makes; whoever resolves
 *                A finds it bound to what B resolves to
 *   end states   every change returns, every task completes
 * Mutations: BROKEN_APART, BROKEN_RETIRE, BROKEN_USERS, BROKEN_STALE, BROKEN_SINK
 */
#define OPCODES  6
#ifndef TASKS
#define TASKS    2
#endif
#ifndef CHANGES
#define CHANGES  4
#endif
#define VERSIONS (CHANGES + 1)
#define NONE     255
#define A        1
#define B        2

mtype = { absent, submitted, running, made, finished }

/* host */
byte alias_a, alias_b = 1, tail;
byte current_a = 1, current_b = 1, versions_a = 1, versions_b = 1;
byte opcode_a[VERSIONS + 1] = NONE, opcode_b[VERSIONS + 1] = NONE;  /* the newest in the table */
byte kind[OPCODES], version[OPCODES], row[OPCODES], needed_until[OPCODES];
bit retired[OPCODES];
byte changed;
/* tasks of A */
mtype task[TASKS] = absent;
bit complete[TASKS];
byte opcode[TASKS], child[TASKS];
byte want_a[TASKS], want_b[TASKS];  /* ghost: current when the position was given */

#if TASKS == 1
#define REAPED(n) ((n) < 1 || complete[0])
#else
#define REAPED(n) (((n) < 1 || complete[0]) && ((n) < 2 || complete[1]))
#endif
#ifdef BROKEN_RETIRE
#define UNNEEDED(n) true
#else
#define UNNEEDED(n) REAPED(n)
#endif
#ifdef BROKEN_STALE
#define STAYS(o) (kind[o] == B && version[o] + 1 == current_b || kind[o] == A && version[o] + 1 == current_a)
#else
#define STAYS(o) (kind[o] == B && version[o] + 1 == current_b)
#endif

inline forget(o) {
  if
  :: kind[o] == A && opcode_a[version[o]] == o -> opcode_a[version[o]] = NONE
  :: kind[o] == B && opcode_b[version[o]] == o -> opcode_b[version[o]] = NONE
  :: else
  fi;
  kind[o] = 0; version[o] = 0; row[o] = 0; needed_until[o] = 0; retired[o] = 0
}

inline drop_unneeded() {
  i = 0;
  do
  :: i < OPCODES ->
     if
     :: kind[i] && retired[i] && !STAYS(i) && UNNEEDED(needed_until[i]) -> forget(i)
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

inline place(o, what, number) {
  o = 0;
  do
  :: o < OPCODES && kind[o] -> o++
  :: else -> break
  od;
  if
  :: o < OPCODES -> kind[o] = what; version[o] = number
  :: else -> o = NONE
  fi
}

inline retire(o) {
  retired[o] = 1; needed_until[o] = tail
}

proctype Changes() {
  byte a, b, i, to_a, to_b;
  bit fresh_b;
  do
  :: changed < CHANGES ->
     atomic {
       to_a = current_a; to_b = current_b;
       if
       :: versions_b < VERSIONS -> to_b = versions_b + 1
       :: current_b > 1 -> to_b = current_b - 1
       :: versions_a < VERSIONS -> to_a = versions_a + 1
       :: current_a > 1 -> to_a = current_a - 1
       fi
     }
     goto choose;
none_free:
     REAPED(tail);
choose:
     atomic {
       drop_unneeded();
       b = opcode_b[to_b]; fresh_b = b == NONE;
       if
       :: fresh_b -> place(b, B, to_b)
       :: else
       fi;
#ifdef BROKEN_USERS
       if
       :: to_a == current_a -> a = alias_a
       :: else -> place(a, A, to_a)
       fi;
#else
#ifdef BROKEN_STALE
       if
       :: to_a != current_a && opcode_a[to_a] != NONE -> a = opcode_a[to_a]
       :: else -> place(a, A, to_a)
       fi;
#else
       place(a, A, to_a);
#endif
#endif
       if
       :: a == NONE || b == NONE ->                                   /* in the code the table grows */
          if
          :: a != NONE -> forget(a)
          :: else
          fi;
          if
          :: b != NONE && fresh_b -> forget(b)
          :: else
          fi;
          goto none_free
       :: else
       fi;
       if
       :: a != alias_a && !retired[a] -> row[a] = b
       :: else
       fi;
       versions_a = (to_a > versions_a -> to_a : versions_a);
       versions_b = (to_b > versions_b -> to_b : versions_b)
     }
     /* links and loads */
     atomic {                                                         /* under the queue's lock */
       if
       :: b != alias_b -> retire(alias_b); alias_b = b; retired[b] = 0; needed_until[b] = 0
       :: else
       fi;
       opcode_b[to_b] = b; current_b = to_b;
#ifdef BROKEN_APART
       skip
     }
     atomic {
#endif
       if
       :: a != alias_a -> retire(alias_a); alias_a = a; retired[a] = 0; needed_until[a] = 0
       :: else
       fi;
       opcode_a[to_a] = a; current_a = to_a;
       changed++;
       a = 0; b = 0; fresh_b = 0; to_a = 0; to_b = 0
     }
  :: changed >= CHANGES -> break
  od
}

proctype Submitter() {
  do
  :: atomic {                                                         /* under the queue's lock */
       tail < TASKS ->
       assert(row[alias_a] == alias_b);
       opcode[tail] = alias_a; want_a[tail] = current_a; want_b[tail] = current_b; task[tail] = submitted;
       tail++
     }
  :: tail == TASKS -> break
  od
}

inline start_task(t) {
  assert(kind[opcode[t]] == A && version[opcode[t]] == want_a[t]);
  task[t] = running
}
inline make(t) {
  assert(kind[opcode[t]] == A && version[opcode[t]] == want_a[t]);
  child[t] = row[opcode[t]]; opcode[t] = 0; want_a[t] = 0; task[t] = made
#ifdef BROKEN_SINK
  ; complete[t] = 1
#endif
}
inline finish(t) {
  assert(kind[child[t]] == B && version[child[t]] == want_b[t]);
  child[t] = 0; want_b[t] = 0; task[t] = finished; complete[t] = 1
}

proctype Workers() {
end: do
  :: atomic { task[0] == submitted -> start_task(0) }
  :: atomic { task[0] == running -> make(0) }
  :: atomic { task[0] == made -> finish(0) }
#if TASKS > 1
  :: atomic { task[1] == submitted -> start_task(1) }
  :: atomic { task[1] == running -> make(1) }
  :: atomic { task[1] == made -> finish(1) }
#endif
  od
}

init {
  atomic {
    kind[0] = A; version[0] = 1; row[0] = 1; opcode_a[1] = 0;
    kind[1] = B; version[1] = 1; opcode_b[1] = 1;
    run Changes(); run Submitter(); run Workers()
  }
  changed == CHANGES && REAPED(TASKS)
}
