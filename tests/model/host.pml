/* Host nodes (src/device/host_nodes.hpp): how workers call the host, how its answers come back, and who may touch the exec.
 *
 * One exec of N host nodes, which do not wait for each other and are launched LAUNCHES times; with CHAIN the second waits for the first. W
 * workers, C members of the fetch crew that look for answers, a host of HOSTS threads that run callbacks. Each ring has N places; the laps
 * are counted without end. The list holds this exec or nothing: execs on it have nothing in common but the links, each of which only the
 * holder of its exec writes.
 *
 * Checked: each node is called once in a launch and goes on once; the exec is on the list once at most, and with one holder at a time; no
 * call and no answer is overwritten before it was read; nobody touches the exec after the end of a launch for which he works; no answer is
 * left lying. */
#ifndef N
#define N 2
#endif
#ifndef W
#define W 2
#endif
#ifndef C
#define C 2
#endif
#ifndef HOSTS
#define HOSTS 2
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#define MOST (N * LAUNCHES)
#define RESUMED 8

/* the exec */
byte unanswered, called, answered, pending;
/* host memory: by place, lap and node */
byte call_lap[N], call_node[N], answer_lap[N], answer_node[N];
/* the device's list, and the ready queue */
bit listed;
chan queue = [2 * N] of { byte, byte };  /* node, launch */
/* the host */
byte read_calls, given;
bit host_lock;
/* ghosts */
bit held, open;
byte launch, completed;
byte calls_of[N];
byte unread_calls, unread_answers;

#define touch assert(open && mine == launch)
#define lap(at) ((at) / N + 1)

inline begin_launch() {
  if
  :: launch < LAUNCHES ->
     launch++; open = 1; pending = N; called_all();
     queue!0,launch;
#ifndef CHAIN
     i = 1;
     do
     :: i < N -> queue!i,launch; i++
     :: else -> break
     od
#endif
  :: else
  fi
}
inline called_all() { i = 0; do :: i < N -> calls_of[i] = 0; i++ :: else -> i = 0; break od }

inline put() { atomic { touch; assert(!listed); listed = 1 } }

inline call(n) {
#ifdef BROKEN_CALL_FIRST
  atomic { touch; at = called; called++ }
  atomic { touch; call_lap[at % N] = lap(at); call_node[at % N] = n; unread_calls++; at = 0 }
  atomic { touch; first = unanswered == 0; unanswered++ }
  if :: first -> put() :: else fi
#else
  atomic { touch; first = unanswered == 0; unanswered++ }
  if :: first -> put() :: else fi
  atomic { touch; at = called; called++ }
  atomic { assert(unread_calls < N); call_lap[at % N] = lap(at); call_node[at % N] = n; unread_calls++; at = 0 }
#endif
  first = 0
}

proctype Worker() {
  byte node, mine, at, i;
  bit first;
end:
  do
  :: queue?node,mine ->
     if
     :: node < RESUMED -> call(node)
     :: else ->
        node = node - RESUMED;
        atomic {
          touch;
          assert(calls_of[node] == 1);
#ifdef CHAIN
          if
          :: node + 1 < N -> queue!node + 1,launch
          :: else
          fi;
#endif
          pending--;
          if
          :: pending == 0 -> open = 0; completed++; begin_launch()
          :: else
          fi;
        }
     fi;
     node = 0; mine = 0
  od
}

proctype Host() {
  byte node, at;
end:
  do
  :: atomic {
       !host_lock && call_lap[read_calls % N] == lap(read_calls) ->
       node = call_node[read_calls % N]; read_calls++; unread_calls--;
       calls_of[node]++;
       assert(calls_of[node] == 1)
     }
     atomic { !host_lock -> host_lock = 1; at = given; given++ }
     atomic { assert(unread_answers < N); answer_lap[at % N] = lap(at); answer_node[at % N] = node; unread_answers++; host_lock = 0; node = 0; at = 0 }
  od
}

/* A member may take fewer answers than there are: the ready queue may be full. */
proctype Member() {
  byte mine, first, count, i;
  byte nodes[N];
  bit back;
end:
  do
  :: atomic { listed -> listed = 0; assert(!held); held = 1; mine = launch }
     atomic { touch; first = answered }
     do
     :: count < N && answer_lap[(first + count) % N] == lap(first + count) ->
        atomic { nodes[count] = answer_node[(first + count) % N]; unread_answers--; count++ }
     :: break
     od;
#ifdef BROKEN_EARLY
     i = 0;
     do
     :: i < count -> atomic { touch; queue!nodes[i] + RESUMED,mine; i++ }
     :: else -> break
     od;
#endif
     atomic { touch; answered = first + count }
#ifdef BROKEN_TWO_STEPS
     atomic { touch; back = unanswered != count }
     atomic { touch; unanswered = unanswered - count; held = 0 }
#else
     atomic { touch; back = count == 0 || unanswered != count; unanswered = unanswered - count; held = 0 }
#endif
#ifdef BROKEN_FORGET
     if :: back && count == 0 -> put() :: else fi;
#else
     if :: back -> put() :: else fi;
#endif
#ifndef BROKEN_EARLY
     i = 0;
     do
     :: i < count -> atomic { touch; queue!nodes[i] + RESUMED,mine; i++ }
     :: else -> break
     od;
#endif
     atomic { i = 0; do :: i < N -> nodes[i] = 0; i++ :: else -> break od; i = 0; count = 0; first = 0; mine = 0; back = 0 }
  od
}

init {
  byte i;
  atomic {
    begin_launch();
    i = 0; do :: i < W -> run Worker(); i++ :: else -> break od;
    i = 0; do :: i < C -> run Member(); i++ :: else -> break od;
    i = 0; do :: i < HOSTS -> run Host(); i++ :: else -> break od
  }
  /* who has nothing to do waits: otherwise this is the state in which nothing moves */
  completed == LAUNCHES;
  assert(unanswered == 0 && called == MOST && answered == MOST && !listed)
}
