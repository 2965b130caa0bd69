/* heap_slabs: words of slots that callers take from slabs, slots that come back, and slabs that become pages again
 *
 * Modelled (heap_slabs.hpp): N callers, pages of which each can be a slab of class 0 or 1, and a list of slabs for each class. A slab has up
 * to 2 words of 2 slots, a bit of its summary for each word that has room, and a mark that it is in a list. take(): the first slab of the
 * list; a word of it by clearing a bit of the summary, then all its free slots by fetch-or; the slab's class is compared in between. A slab
 * without room is removed from the list by CAS, its mark is cleared, and its summary is looked at again. With an empty list one caller opens
 * a slab; when there are no pages it gives back those of empty slabs (trim): it takes the list, takes all words of a slab, looks at its maps,
 * and puts the others back. A caller that gives back slots to a word without free ones sets the word's bit, and lists the slab if it set
 * the half's first bit and finds no mark. Pages are also taken as runs, whose users write all over them (RUNS).
 *
 * Any process may rest between any two steps for any time, so each may hold a page number that is out of date.
 *
 * Abstraction: the count of changes in a list's head is a flag for each caller: the list has not changed since it read the head. Callers give
 * up, or try again, whenever they find no pages (heap_growth has the waiting). Which bit a caller tries first is any. The lists of a class
 * are one; ClassCounts::listed only says where to look. Steps are sequentially consistent: that clearing a mark and setting a bit of the
 * summary cannot miss each other also holds with acquire and release, as both sides exchange the mark.
 *
 * Properties
 *   assertions   a word has one taker; no slot is handed out twice; a slab is of the class that its slots are handed out for; it has no slot
 *                in use when its pages are given back; it is in one list, that of its class; at the end each slab has all its slots, and is
 *                in the list, so all memory can come back
 *   end states   no caller waits for ever for another one to open a slab
 * Mutations: BROKEN_TAKER, BROKEN_MAP, BROKEN_GIVE, BROKEN_LOOK_FIRST, BROKEN_MARK, BROKEN_COUNT, BROKEN_WORDS, BROKEN_SLOTS, BROKEN_CLASS,
 *   BROKEN_RETURN, BROKEN_PUT_BACK, BROKEN_UNMARK, BROKEN_LIST, BROKEN_ROOM
 */
#ifndef N
#define N       2
#endif
#ifndef PAGES
#define PAGES   1
#endif
#ifndef WORDS
#define WORDS   1                 /* of slabs of class 0; those of class 1 have one */
#endif
#ifndef HANDS
#define HANDS   1                 /* words that a caller has slots of */
#endif
#ifndef CLASSES
#define CLASSES 2
#endif
#ifdef HALVES
#define HALF(word)  (word)        /* each word in a half of its own */
#else
#define HALF(word)  0
#endif
#define FULL    3                 /* slots of a word */
#define FREE    255               /* kinds of pages */
#define RUN     254

#define WORDS_OF(class)         ((class) == 0 -> WORDS : 1)
#define BIT(word)               (1 << (word))
#ifdef HALVES
#define ALL(class, half)        ((half) < WORDS_OF(class) -> BIT(half) : 0)
#else
#define ALL(class, half)        ((half) == 0 -> (1 << WORDS_OF(class)) - 1 : 0)
#endif
#define SUMMARY(slab, half)     summary[2 * (slab) + (half)]
#define TAKEN(slab, word)       taken[2 * (slab) + (word)]
#define HELD(slab, word)        held[2 * (slab) + (word)]
#define UNCHANGED(class)        unchanged[(class) * N + me]

byte head[2];                     /* lists: number of the first slab, from 1 on, or 0 */
bit unchanged[2 * N];             /* by list and caller: since the caller read the head */
bit opening[2];
byte kind[PAGES + 1] = FREE;
byte next[PAGES + 1];
bit listed[PAGES + 1];
bit used[PAGES + 1];              /* the map of pages */
byte summary[2 * (PAGES + 1)];
byte taken[2 * (PAGES + 1)];      /* by slab and word; in the pages themselves */
byte held[2 * (PAGES + 1)];       /* ghost: slots that a caller has */
bit inside[PAGES + 1];            /* ghost: the slab is in a list */
byte running = N;

inline change(class) {
  c = 0;
  do
  :: c < N -> unchanged[(class) * N + c] = 0; c++
  :: else -> c = 0; break
  od
}

inline push(class, slab) {
  atomic { first = head[class]; UNCHANGED(class) = 1 }
  do
  :: next[slab] = first;
     atomic {
       if
#ifdef BROKEN_COUNT
       :: head[class] == first ->
#else
       :: UNCHANGED(class) ->
#endif
          assert(!inside[slab] && kind[slab] == class);
          inside[slab] = 1; head[class] = slab; change(class); break
       :: else -> first = head[class]; UNCHANGED(class) = 1
       fi
     }
  od;
  first = 0
}

inline list(class, slab) {
  atomic { mark = listed[slab]; listed[slab] = 1 }
  if
  :: mark -> mark = 0
  :: else ->
#ifdef BROKEN_LIST
     push(class, slab)
#else
     now = kind[slab];
     push(now, slab);
     now = 0
#endif
  fi
}

inline give_words(class, slab, half, words) {
  atomic {
    assert((SUMMARY(slab, half) & (words)) == 0);
    mark = SUMMARY(slab, half) == 0;
    SUMMARY(slab, half) = SUMMARY(slab, half) | (words)
  }
  if
  :: mark -> mark = 0; list(class, slab)
  :: else
  fi
}

/* sets `slots` */
inline take_word(class, slab) {
  half = 0;
  do
  :: half == 2 || slots -> half = 0; break
  :: else ->
     seen = SUMMARY(slab, half);
     do
     :: seen == 0 -> half++; break
     :: seen != 0 ->
        if
        :: seen & 1 -> word = 0
        :: seen & 2 -> word = 1
        fi;
#ifdef BROKEN_TAKER
        seen = SUMMARY(slab, half);
        mark = (seen & BIT(word)) != 0;
        atomic { SUMMARY(slab, half) = seen & ~BIT(word); seen = SUMMARY(slab, half) }
#else
        atomic {
          mark = (SUMMARY(slab, half) & BIT(word)) != 0;
          SUMMARY(slab, half) = SUMMARY(slab, half) & ~BIT(word);
          seen = SUMMARY(slab, half)
        }
#endif
        if
        :: !mark -> word = 0
        :: else ->
           mark = 0; seen = 0;
#ifndef BROKEN_CLASS
           now = kind[slab];
           if
           :: now != class ->
#ifndef BROKEN_RETURN
              give_words(now, slab, half, BIT(word));
#endif
              now = 0; word = 0; half = 2; break
           :: else -> now = 0
           fi;
#endif
#ifdef BROKEN_MAP
           slots = FULL & ~TAKEN(slab, word);
#endif
           d_step {
#ifndef BROKEN_MAP
             slots = FULL & ~TAKEN(slab, word);
#endif
             TAKEN(slab, word) = FULL;
             assert(slots != 0 && (HELD(slab, word) & slots) == 0 && kind[slab] == class);
             HELD(slab, word) = HELD(slab, word) | slots;
             half = 2
           }
           break
        fi
     od
  od;
  seen = 0; mark = 0
}

inline give_back(class, slab, in, bits) {
  d_step {
#ifdef BROKEN_GIVE
    mark = 0;
#else
    mark = TAKEN(slab, in) == FULL;
#endif
    assert((TAKEN(slab, in) & (bits)) == (bits) && (HELD(slab, in) & (bits)) == (bits));
    TAKEN(slab, in) = TAKEN(slab, in) & ~(bits);
    HELD(slab, in) = HELD(slab, in) & ~(bits)
  }
#ifdef BROKEN_GIVE
  mark = TAKEN(slab, in) == (FULL & ~(bits));     /* a look at the word as it is now */
#endif
  if
  :: mark -> mark = 0; give_words(class, slab, HALF(in), BIT(in))
  :: else
  fi
}

/* The first slab of a list, `at`, has no room; its head was as UNCHANGED says. */
inline remove(class, slab) {
  first = next[slab];
  atomic {
    if
#ifdef BROKEN_COUNT
    :: head[class] == slab -> head[class] = first; inside[slab] = 0; change(class); mark = 1
#else
    :: UNCHANGED(class) -> head[class] = first; inside[slab] = 0; change(class); mark = 1
#endif
    :: else -> mark = 0
    fi;
    first = 0
  }
  if
  :: mark ->
#ifdef BROKEN_LOOK_FIRST
     mark = (SUMMARY(slab, 0) | SUMMARY(slab, 1)) != 0;
     listed[slab] = 0;
#else
#ifndef BROKEN_MARK
     listed[slab] = 0;
#endif
     look(slab);
#endif
     if
     :: mark -> mark = 0; list(class, slab)
     :: else
     fi
  :: else
  fi
}

/* Whether a slab has room: sets `mark`. */
#ifdef HALVES
inline look(slab) {
  mark = SUMMARY(slab, 0) != 0;
  mark = mark || SUMMARY(slab, 1) != 0
}
#else
inline look(slab) { mark = SUMMARY(slab, 0) != 0 }
#endif

inline take_listed(class) {
  do
  :: atomic { at = head[class]; UNCHANGED(class) = 1 }
     if
     :: at == 0 -> break
     :: else
     fi;
     take_word(class, at);
     if
     :: slots -> break
     :: else
     fi;
     look(at);
     if
     :: mark -> mark = 0
     :: else -> remove(class, at)
     fi;
     at = 0
  od
}

/* Gives back the pages of a slab that is in no list now, or puts it back. */
inline end_slab(class, slab) {
  mark = SUMMARY(slab, 0) == ALL(class, 0);
#ifdef HALVES
  if
  :: mark -> mark = SUMMARY(slab, 1) == ALL(class, 1)
  :: else
  fi;
#endif
  if
  :: mark ->
#ifdef BROKEN_WORDS
     had0 = SUMMARY(slab, 0); had1 = SUMMARY(slab, 1);
     d_step { SUMMARY(slab, 0) = 0; SUMMARY(slab, 1) = 0 };
#else
     atomic { had0 = SUMMARY(slab, 0); SUMMARY(slab, 0) = 0 }
#ifdef HALVES
     atomic { had1 = SUMMARY(slab, 1); SUMMARY(slab, 1) = 0 }
#endif
#endif
     mark = had0 == ALL(class, 0) && had1 == ALL(class, 1) && kind[slab] == class;
#ifndef BROKEN_SLOTS
     word = 0;
     do
     :: word < WORDS_OF(class) && mark -> mark = TAKEN(slab, word) == 0; word++
     :: else -> word = 0; break
     od;
#endif
     if
     :: mark ->
        had0 = 0; had1 = 0;
#ifdef BROKEN_UNMARK
        listed[slab] = 0;
#endif
        kind[slab] = FREE;
        d_step { assert(HELD(slab, 0) == 0 && HELD(slab, 1) == 0 && !inside[slab]); used[slab] = 0 }
     :: else ->
        if
        :: had0 -> give_words(class, slab, 0, had0); had0 = 0
        :: else
        fi;
        if
        :: had1 -> give_words(class, slab, 1, had1); had1 = 0
        :: else
        fi;
        mark = 0
     fi
  :: else
  fi
}

inline trim_list(class) {
  atomic { walk = head[class]; UNCHANGED(class) = 1 }
  do
  :: walk == 0 -> break
  :: else ->
     atomic {
       if
       :: UNCHANGED(class) ->
          head[class] = 0; change(class);
          do                              /* ghost */
          :: c <= PAGES -> if :: kind[c] == class -> inside[c] = 0 :: else fi; c++
          :: else -> c = 0; break
          od;
          break
       :: else -> walk = head[class]; UNCHANGED(class) = 1
       fi
     }
  od;
  do
  :: walk == 0 -> break
  :: else ->
     behind = next[walk];
     end_slab(class, walk);
     if
     :: mark -> mark = 0
     :: else ->
#ifndef BROKEN_PUT_BACK
        push(class, walk)
#endif
     fi;
     walk = behind; behind = 0
  od
}

bit trimming;

/* Sets `at`, to 0 if there are none. */
inline take_pages() {
  do
  :: atomic {
       at = 1;
       do
       :: at <= PAGES && used[at] -> at++
       :: at <= PAGES && !used[at] -> used[at] = 1; break
       :: at > PAGES -> at = 0; break
       od
     }
     if
     :: at != 0 -> break
     :: else
     fi;
     atomic { !trimming -> trimming = 1 }
     trim_list(0);
     trim_list(1);
     trimming = 0;
     if
     :: true
     :: break
     fi
  od
}

inline open(class) {
  take_pages();
  if
  :: at == 0
  :: else ->
     listed[at] = 1;
#ifdef BROKEN_ROOM
     kind[at] = class;
     SUMMARY(at, 0) = SUMMARY(at, 0) | ALL(class, 0);
#endif
     d_step { TAKEN(at, 0) = 0; TAKEN(at, 1) = 0 }
     kind[at] = class;
#ifdef HALVES
     SUMMARY(at, 1) = SUMMARY(at, 1) | ALL(class, 1);
#endif
#ifndef BROKEN_ROOM
     SUMMARY(at, 0) = SUMMARY(at, 0) | ALL(class, 0);
#endif
     push(class, at);
     at = 0
  fi
}

/* Takes slots of a class: sets `at`, `word`, `slots`; `slots` 0 if it gives up. */
inline take(class) {
  do
  :: take_listed(class);
     if
     :: slots -> break
     :: else
     fi;
     atomic { mark = opening[class]; opening[class] = 1 }
     if
     :: mark -> mark = 0; (!opening[class] || head[class] != 0)
     :: else ->
        mark = head[class] != 0;
        if
        :: mark -> mark = 0
        :: else -> open(class)
        fi;
        opening[class] = 0
     fi;
     if
     :: true
     :: break                      /* no room */
     fi
  od
}

proctype Caller(byte me) {
  byte first, now, seen, half, word, slots, at, had0, had1, walk, behind, c, i;
  byte my_slab[HANDS], my_word[HANDS], mine[HANDS], its[HANDS];
  bit mark;
  do
  :: atomic { i == 0 && HANDS == 2 && mine[0] != 0 -> i = 1 }
  :: atomic { i == 1 -> i = 0 }
  :: i == 0 && mine[0] == 0 && mine[HANDS - 1] == 0 -> break
  :: mine[i] == 0 ->
     if
     :: its[i] = 0
     :: CLASSES == 2 -> its[i] = 1
#ifdef RUNS
     :: its[i] = RUN
#endif
     fi;
#ifdef RUNS
     if
     :: its[i] == RUN ->
        take_pages();
        if
        :: at != 0 -> d_step { kind[at] = RUN; TAKEN(at, 0) = FULL; TAKEN(at, 1) = FULL; slots = FULL }
        :: else
        fi
     :: else -> take(its[i])
     fi;
#else
     take(its[i]);
#endif
     atomic {
       my_slab[i] = at; my_word[i] = word; mine[i] = slots;
       if :: slots == 0 -> its[i] = 0; my_slab[i] = 0 :: else fi;
       at = 0; word = 0; slots = 0; seen = 0; mark = 0
     }
  :: mine[i] != 0 ->
#ifdef RUNS
     if
     :: its[i] == RUN ->
        at = my_slab[i];
        /* nobody else has written there */
        d_step { assert(kind[at] == RUN && TAKEN(at, 0) == FULL && TAKEN(at, 1) == FULL); kind[at] = FREE; mine[i] = 0; slots = 0 }
        used[at] = 0
     :: else ->
#endif
     if
     :: slots = mine[i]
     :: mine[i] == FULL -> slots = 1
     :: mine[i] == FULL -> slots = 2
     fi;
     mine[i] = mine[i] & ~slots;
     give_back(its[i], my_slab[i], my_word[i], slots);
#ifdef RUNS
     fi;
#endif
     atomic {
       slots = 0; at = 0; mark = 0;
       if :: mine[i] == 0 -> its[i] = 0; my_slab[i] = 0; my_word[i] = 0 :: else fi
     }
  od;
  running--
}

init {
  byte i, at, count;
  atomic {
    do
    :: i < N -> run Caller(i); i++
    :: else -> i = 0; break
    od
  }
  running == 0;
  d_step {
    i = 1;
    do
    :: i > PAGES -> break
    :: else ->
       assert(used[i] == (kind[i] != FREE));
       if
       :: kind[i] != FREE ->
          assert(kind[i] < CLASSES && TAKEN(i, 0) == 0 && TAKEN(i, 1) == 0);
          assert(SUMMARY(i, 0) == ALL(kind[i], 0) && SUMMARY(i, 1) == ALL(kind[i], 1) && inside[i]);
          count++
       :: else
       fi;
       i++
    od;
    i = 0;
    do
    :: i == 2 -> break
    :: else ->
       at = head[i];
       do
       :: at == 0 || count == 0 -> break
       :: else -> assert(kind[at] == i); count--; at = next[at]
       od;
       assert(at == 0);
       i++
    od;
    assert(count == 0)
  }
}
