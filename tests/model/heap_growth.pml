/* heap_growth: callers without pages, the host that maps more or lowers the limit, walks that give back empty slabs, and leases that end
 *
 * Modelled (heap_pages.hpp, heap_slabs.hpp, heap_memory.cpp): a caller of take_pages() reads how many pages are mapped and how many walks
 * there were, then looks for a run of pages by CAS on the map. Without one it asks in host memory for more, again whenever another caller's
 * request has replaced its own, and waits until more are mapped or until the limit is no more than what it has seen. Then it walks through
 * the slabs for empty ones, or waits for a walk that began after its failure, and tries again if slabs have been given back since it last
 * read `walks`. A thread of the host maps what is wanted, or half as much, down to a page; then it tells how many there are. When it gets
 * not even that, it lowers the limit and ends. Callers are inside operators: their worker leaves its lease only behind that. verify() (VERIFY)
 * takes the loop off the device, then the lock under which the heap grows, and checks the tables.
 *
 * Abstraction: a run has 1 or 2 pages and is taken in one step; a slab has one page, and is in use or empty; a walk takes an empty slab in one
 * step. MEMORY is any number of pages that the device has. A caller waits without end (TIMES: it may stop waiting at any time, and the host's
 * thread may end at any time). The leases of a worker follow each other; how a seat is handed over is in roll. Callers who wait for others
 * to open a slab are in heap_slabs.
 *
 * Properties
 *   assertions   no page is used that is not mapped, or twice; the host maps no more than it said; the tables agree while the loop is off the
 *                device; without TIMES a caller is refused only if at some moment of its call there was no run for it: neither free, nor in
 *                empty slabs, nor in memory that the host could map; the host's thread rests when it can map no more
 *   end states   no caller waits for ever, nor does verify()
 * Mutations: BROKEN_ORDER, BROKEN_LIMIT, BROKEN_ONCE, BROKEN_SEEN, BROKEN_WALKS, BROKEN_ENOUGH, BROKEN_STEP, BROKEN_SPIN, BROKEN_LOCK,
 *   BROKEN_LEAVE, BROKEN_BEYOND
 */
#ifndef N
#define N       2
#endif
#ifndef TURNS
#define TURNS   2                 /* operators that a worker runs: each allocates, or frees */
#endif
#ifndef PAGES
#define PAGES   4                 /* that the heap may have */
#endif
#define FIRST   1                 /* that are mapped at first: the heap's tables */
#define STEP    1
#ifndef EXTRA
#define EXTRA   0                 /* pages that a caller asks for beyond what it needs */
#endif

mtype:kind = { nothing, pages_run, slab, vacant, leaving };

byte pages = FIRST, most = PAGES; /* the header on the device */
byte wanted;                      /* in host memory */
byte host_pages = FIRST, host_most = PAGES;
byte mapped = FIRST;              /* ghost: what the device can access */
byte memory;                      /* ghost: pages that the host can map */
bit used[PAGES + 1];
mtype:kind kind[PAGES + 1] = nothing;
byte walks, fruitful;
bit locked;                       /* HeapMemory::mutex_ */
bit parked;
byte on_device;                   /* workers that are inside a lease */
bit stop;
byte running = N;
byte wants[N];                    /* ghost: pages that a caller asks for */
bit refusable[N];                 /* ghost: there was a moment without room for it */

#define IS_ROOM(page)   (!used[page] || kind[page] == vacant || kind[page] == leaving)

/* ghost: notes whom there is no room for now */
inline note_room() {
  g = 0;
  do
  :: g == N -> break
  :: else ->
     r = 1;
     do
     :: wants[g] == 0 -> break
     :: wants[g] != 0 && r + wants[g] - 1 > memory -> refusable[g] = 1; break
     :: wants[g] != 0 && r + wants[g] - 1 <= memory && IS_ROOM(r) && (wants[g] < 2 || IS_ROOM(r + 1)) -> break
     :: else -> r++
     od;
     r = 0; g++
  od;
  g = 0
}

/* Sets `at` to the first of the pages, or 0. */
inline take(count) {
  seen_pages = pages;
#ifndef BROKEN_WALKS
  before = walks;
#endif
  d_step {
#ifdef BROKEN_BEYOND
    r = most;
#else
    r = seen_pages;
#endif
    at = 1;
    do
    :: at + count - 1 > r -> at = 0; break
    :: else ->
       if
       :: !used[at] && (count == 1 || !used[at + 1]) -> break
       :: else -> at++
       fi
    od;
    r = 0;
    if
    :: at != 0 ->
       assert(at + count - 1 <= mapped);
       used[at] = 1;
       if :: count == 2 -> used[at + 1] = 1 :: else fi;
       note_room()
    :: else
    fi
  }
}

/* Sets `more`: whether there are more pages than this caller has seen. */
inline await_growth(count) {
#ifdef BROKEN_SEEN
  seen_pages = pages;
#endif
  do
  :: limit = most;
     if
     :: pages != seen_pages -> more = 1; break
     :: else
     fi;
     if
     :: seen_pages >= limit -> break
#ifdef TIMES
     :: true -> break
#endif
     :: else
     fi;
     ask = (seen_pages + count + EXTRA < limit -> seen_pages + count + EXTRA : limit);
     wanted = ask;
#ifdef BROKEN_ONCE
     (pages != seen_pages || most != limit);
#elif defined(TIMES)
     true;
#else
     (pages != seen_pages || most != limit || wanted != ask);
#endif
  od;
  limit = 0; ask = 0
}

/* Sets `more`: whether slabs have been given back. */
inline trim() {
  seen_walks = walks;
#ifdef BROKEN_WALKS
  before = seen_walks;
#endif
#ifdef BROKEN_ENOUGH
  seen_walks = seen_walks + 1 + (1 - seen_walks % 2);
#else
  seen_walks = seen_walks + 2 + seen_walks % 2;      /* as many are enough */
#endif
  do
  :: now = walks;
     if
     :: now >= seen_walks -> more = fruitful > before; break
     :: now < seen_walks && now % 2 == 1 -> walks != now
     :: now < seen_walks && now % 2 == 0 ->
        atomic {
          if
          :: walks == now -> walks = now + 1; now = 1
          :: else -> goto again
          fi
        }
        do
        :: now > PAGES -> break
        :: else ->
           atomic {
             if
             :: kind[now] == vacant -> kind[now] = leaving; more = 1
             :: else -> goto next
             fi
           }
           d_step { assert(used[now]); kind[now] = nothing; used[now] = 0 }
next:      now++
        od;
        if
        :: more -> fruitful = walks + 1
        :: else
        fi;
        walks = walks + 1;
#ifndef BROKEN_WALKS
        more = more || fruitful > before;
#endif
        break
     fi;
again: skip
  od;
  now = 0; seen_walks = 0
}

proctype Worker(byte me) {
  byte left = TURNS, count, at, seen_pages, before, limit, ask, seen_walks, now, g, r, first, pages_of;
  mtype:kind what = nothing;
  bit more;
  do
  :: left == 0 -> break
  :: else ->
     left--;
     atomic { !parked -> on_device++ }
     if
     :: pages_of != 0 ->                /* frees */
        if
        :: what == slab -> kind[first] = vacant
        :: else ->
           kind[first] = nothing;
           if :: pages_of == 2 -> kind[first + 1] = nothing :: else fi;
           d_step {
             used[first] = 0;
             if :: pages_of == 2 -> used[first + 1] = 0 :: else fi
           }
        fi;
        pages_of = 0; first = 0; what = nothing
     :: else ->
        if
        :: what = slab; count = 1
        :: what = pages_run; count = 1
        :: what = pages_run; count = 2
        fi;
        d_step { wants[me] = count; refusable[me] = 0; note_room() }
        do
        :: take(count);
           if
           :: at != 0 -> break
           :: else
           fi;
#ifdef BROKEN_LEAVE
           on_device--;
           await_growth(count);
           on_device++;
#else
           await_growth(count);
#endif
           if
           :: !more -> trim()
           :: else
           fi;
           if
           :: more -> more = 0
           :: else -> break
           fi
        od;
        if
        :: at != 0 ->
           if :: count == 2 -> kind[at + 1] = what :: else fi;
           kind[at] = what;
           first = at; pages_of = count; at = 0
        :: else ->
#ifndef TIMES
           assert(refusable[me]);
#endif
           what = nothing
        fi;
        d_step { wants[me] = 0; refusable[me] = 0; count = 0; seen_pages = 0; before = 0 }
     fi;
     on_device--
  od;
  running--
}

/* HeapMemory::grow_when_asked */
proctype Grower() {
  byte more;
  do
  :: stop -> break
#ifdef BROKEN_SPIN
  :: atomic { wanted > host_pages -> more = wanted }
#else
  :: host_pages == host_most -> break
  :: atomic { wanted > host_pages && host_pages != host_most -> more = wanted }
#endif
     atomic { !locked -> locked = 1 }
     more = (more > host_pages + STEP -> more : host_pages + STEP);
     more = (more < host_most -> more : host_most);
     assert(more > host_pages);
     more = more - host_pages;
     do
     :: host_pages + more <= memory ->
#ifdef BROKEN_ORDER
        host_pages = host_pages + more;
        pages = host_pages;
        mapped = host_pages;
#else
        mapped = host_pages + more;
        host_pages = mapped;
        pages = host_pages;
#endif
        break
#ifndef BROKEN_STEP
     :: host_pages + more > memory && more > 1 -> more = more / 2
#endif
     :: else ->
        host_most = host_pages;
#ifndef BROKEN_LIMIT
        most = host_most;
#endif
        break
     od;
     more = 0;
     locked = 0
  od
}

proctype Verify() {
  byte i;
#ifdef BROKEN_LOCK
  atomic { !locked -> locked = 1 }
  parked = 1;
  on_device == 0;
#else
  parked = 1;
  on_device == 0;
  atomic { !locked -> locked = 1 }
#endif
  i = 1;
  do
  :: i > PAGES -> i = 0; break
  :: else ->
     atomic {
       assert(used[i] == (kind[i] != nothing) && kind[i] != leaving && walks % 2 == 0 && (i <= host_pages || !used[i]));
       assert(pages == host_pages && mapped == host_pages && most == host_most);
       i++
     }
  od;
  locked = 0;
  parked = 0
}

init {
  byte i;
  atomic {
    select(i : FIRST .. PAGES);
    memory = i; i = 0;
    used[FIRST] = 1; kind[FIRST] = pages_run;
    do
    :: i < N -> run Worker(i); i++
    :: else -> i = 0; break
    od;
#ifdef VERIFY
    run Verify();
#endif
    run Grower()
  }
#ifdef TIMES
  if
  :: running == 0
  :: true                          /* the runtime closes meanwhile */
  fi;
#else
  running == 0;
#endif
  stop = 1
}
