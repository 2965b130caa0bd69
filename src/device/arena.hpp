// The arena: all state of a runtime that outlives a lease, in one range of device memory that grows at its end. It refers to itself by
// numbers: of places in the parts below, and of cells of 64 bytes from its start. So it is relocatable: it may be copied to another address
// while no lease runs.
//
// It begins with the header and the parts that the header names. Behind them lie pieces that the host allocates and frees: the execs of
// graphs, and tables of counters. The host lays out and clears the parts before the first lease. From then on it touches them only while no
// lease runs.
#pragma once

#include <dwell/device/gang.hpp>

#include "device/ring.hpp"
#include "device/spawned.hpp"

namespace dwell::device {

// One word, one line: counters that many workers change never share a line with what others poll.
struct alignas(128) Counter {
  u32 value;
};

// Orders to all workers, and all that the fetch crew polls between reads of host memory: one line, so one warp-wide load reads it. Lease
// numbers only grow (modulo 2^32), see raise().
struct alignas(128) CrewLine {
  u32 frontier;   // windows of which every slot has been fetched: the earliest open one is numbered no higher
  u32 busy;       // members that found at least eight tasks in their last read
  u32 drains;     // drains completed, modulo Header::kDrainMask + 1
  u32 over;       // number of the last lease whose time is over: its workers leave when their successors wait
  u32 end;        // number of the last lease that ends at once, successors or not: the loop parks
  u32 overdue;    // workers that a task keeps beyond the end of their lease
  u32 low_water;  // ready queue: all places below are read, so those one lap on are free
  u32 begun;      // number of the last lease of which a worker has its seat
  u32 gates;      // index in the ring, plus 1, of the first gate that is not open; 0: none (gates.hpp)
  u32 cancels;    // LeaseReport::cancels that have been processed
  u32 callers;    // cell of the first exec that waits for an answer of the host; 0: none (host_nodes.hpp)
  u32 marking;    // 1: a worker processes cancels (cancels.hpp)
  u32 reserved[20];
};
static_assert(sizeof(CrewLine) == 128);

// A partly fetched window of the ring.
struct OpenWindow {
  u32 number;
  u32 offset;
};
inline constexpr u32 kMaxCrew = 32;
inline constexpr u32 kMaxWorkers = 8192;

// Notes of a worker so far, modulo 2^32: each count is also the number of the next.
struct Notes {
  u32 events;    // of the timeline (observe.hpp)
  u32 flight;    // of the flight recorder (in_flight.hpp)
  u32 log;       // slots of its ring of log lines
  u32 log_seen;  // of these, read by the host, as last seen
};

// A worker's place in the runtime: its holder, and the state that each holder hands over to the next. Worker `s` of each lease takes seat
// `s`.
struct alignas(128) Seat {
  u64 word;           // see seat.hpp
  u64 range;          // on the CPU: tasks that the worker has claimed from the ring and not begun (ring_range.hpp)
  OpenWindow window;  // of a member of the fetch crew
  u32 quiet_since;    // when the worker last found work, in ticks
  u32 reads;          // 1: the member left as the only reader of the ring; its successor reads the ring first
  u32 drains;         // as that member had seen them
  u32 running_since;  // on the CPU: when the running task began, in ticks; kRuns: recently; 0: none runs
  u32 records;        // free records of tasks that operators make, a bundle, or 0 (spawn.hpp)
  Notes notes;        // from which the next holder continues
  u32 reserved[17];
};
static_assert(sizeof(Seat) == 128);
inline constexpr u32 kRuns = 1;

// In claims: the seat's worker has claimed the place in the lower half, and not yet read it. 0: it has no claim.
inline constexpr u64 kClaimed = 1ULL << 32U;

// The line of gangs that do not have all their workers yet (gangs.hpp). A gang is named by its index in the ring, plus 1.
struct alignas(128) GangLine {
  u32 last;      // the last in line, or 0
  u32 memories;  // a bit for each in use | kWanted: the first in line waits for one
  u32 first;     // index of that gang
  u32 reserved[29];
};
inline constexpr u32 kMostGangs = 8;  // that run at once

// Tasks that wait by priority (levels.hpp).
inline constexpr u32 kPriorities = 8;
struct alignas(128) LevelLine {
  u32 waiting[kPriorities];  // untaken tasks on each level
  u32 passed[kPriorities];   // how often a higher level was preferred since
  u32 reserved[16];
};
struct alignas(128) Level {
  u32 head;  // of a queue: places taken
  u32 tail;  // places given to producers; of a stack, less those taken
  u32 used;  // slots that are not empty, or about to be filled
  u32 reserved[29];
};

struct Control {
  Counter head;          // ready queue: places claimed
  Counter tail;          // ready queue: places reserved by producers
  Counter window_turns;  // windows acquired behind the first of each crew member
  Counter completed;     // slots of completed tasks, counted from the first position on
  Counter spare_shares;  // places of the ready queue that wide tasks may still reserve
  Counter idle;          // workers that wait at the ready queue, less spawned tasks that are in it
  Counter fetch_lock;    // the CPU's crew of one: the fetcher holds it
  Counter ranges;        // on the CPU: seats whose range is not empty
  Counter seated;        // number of the last lease that has laid out the seats (reseat.hpp)
  CrewLine crew;
  GangLine gangs;
  SpawnedLists lists;
  LevelLine levels;
  Level level[kPriorities];
  alignas(128) u32 exits[8];  // workers that have left, by the lease's slot
  u32 window_base;            // number of the first window behind those in `open`
  u32 open_count;             // windows in `open`, in ascending order: given out before fresh ones
  u32 fetch_position;         // the CPU's crew of one: next position to fetch, guarded by fetch_lock
  OpenWindow open[kMaxCrew];
};

// Counts of a worker, over all leases, beside calls of operators (observe.hpp).
struct alignas(128) WorkerCount {
  u64 busy_ns;         // inside of operators; while times are noted
  u64 fetched;         // slots that it has fetched from the ring
  u64 queued;          // tasks that it has taken from the ready queue
  u64 spawned;         // tasks that its operators have made
  u64 leases;          // that it has held its seat in
  u64 present_ns;      // in these, but for the one under way
  u64 log_dropped[5];  // lines that found no room, by severity
  u64 stolen;          // nodes that it has stolen from other workers' deques, on the CPU
  u64 parks;           // how often it has given up its seat without a successor
  u64 idle_ns;         // of present_ns, outside of operators; of leases in which times were noted
  u64 busy_before;     // busy_ns, when it gave up its seat last in such a lease
  u64 reserved[1];
};
static_assert(sizeof(WorkerCount) == 128);

// Times of an operator, in ns, on some of the workers (a shard): of its calls, and of how long some of its tasks had waited.
struct alignas(64) OperatorTimes {
  static constexpr u32 kBuckets = 184;  // dwell::TimeHistogram's
  static constexpr u32 kShards = 8;     // worker w counts in shard w modulo this

  u64 total;
  u64 most;
  u64 least;  // 2^64 - 1 less the least, or 0
  u64 bucket[kBuckets];
  u64 waits;  // of tasks of the ring that were stamped (is_stamped), from their submission to the call; of others from a stamped place
  u64 waited;
  u64 longest_wait;
  u64 named;  // tasks that operators have made, of a sample
  u64 named_bytes;
};

// Returns whether the host stamps the task at a position of the ring with its submission time, while times are noted. One in 256 of all
// positions, and as many of each pattern in which a program may submit its operators (Fibonacci hashing: Knuth, The Art of Computer
// Programming, 6.4).
inline constexpr u32 kStampsBelow = 1U << 24U;
DWELL_HOST_DEVICE bool is_stamped(u32 position, u32 below = kStampsBelow) { return position * 0x9E3779B9U < below; }
// Of tasks that operators have made, one in 16 is sampled for the bytes that its arguments name.
inline constexpr u32 kNamesBelow = 1U << 28U;
// One place in so many, of the ready queue and of a deque, is stamped with the time of its filling.
inline constexpr u32 kStampedPlaces = 16;

// Bits of Lease::timed.
namespace timed {
inline constexpr u32 times = 1;
inline constexpr u32 timeline = 2;
}  // namespace timed

inline constexpr u32 kFlightShift = 6;  // of entries a worker

// Progress of a wide task, one a ring slot.
struct alignas(16) Wide {
  u32 next;    // groups started
  u32 shares;  // shares not yet finished
  i32 status;  // first failure
  // Of a gang alone:
  u32 joined;  // workers that have joined; all, once the gang runs | kRefused (gangs.hpp)
  u32 memory;  // which it has
  u32 behind;  // index of the next gang in line, plus 1
  // Of any task of the ring: lap of the last one cancelled at this index (cancels.hpp).
  u32 cancelled;
  // The same: lap of the last one for which Lease::failed_inside is written.
  u32 failed_inside;
};

// A CPU worker's ready nodes of its graph (node_deque.hpp).
struct alignas(128) NodeDeque {
  static constexpr u32 kMost = 256;

  u64 oldest;                         // entries taken at this end
  alignas(128) u64 newest;            // one past the last
  alignas(128) u32 node[kMost];       // the record's cell | kPoisoned for one that is cancelled
  u64 stamp[kMost / kStampedPlaces];  // when one entry in kStampedPlaces was pushed, in ns; 0: not noted
};

// What a gang saves when it yields.
struct alignas(32) GangState {
  u32 resumed;  // 1: it has yielded
  u32 reserved;
  u32 word[kGangStateWords];
};
static_assert(sizeof(GangState) == 32);

// The parts of the arena in their order: name, element, how many. `h` is an ArenaHeader.
#define DWELL_ARENA_PARTS(part, h)                                                                                                   \
  part(control, Control, 1ULL)                                             /* what follows is explained where its type is */         \
      part(queue, Slot, 1ULL << (h).queue_shift)                           /* the ready queue */                                     \
      part(queue_stamps, Quad, (1ULL << (h).queue_shift) / kStampedPlaces) /* ready_queue.hpp */                                     \
      part(held, Slot, 1ULL << (h).ring_shift) /* tasks that wait, and continuation slots, at their ring index */                    \
      part(links, u64, 2ULL << (h).ring_shift) /* see waiters.hpp */                                                                 \
      part(waits, u32, 1ULL << (h).ring_shift) /* the same */                                                                        \
      part(wide, Wide, 1ULL << (h).ring_shift) part(gang_states, GangState, 1ULL << (h).ring_shift)                                  \
          part(gang_memory, u32, static_cast<u64>(kMostGangs) * gang_words((h).max_workers))                                         \
              part(claims, u64, static_cast<u64>((h).max_workers)) /* what the workers watch, see kClaimed */                        \
      part(seats, Seat, static_cast<u64>((h).max_workers)) part(deques, NodeDeque, static_cast<u64>((h).max_deques))                 \
          part(worker_counts, WorkerCount, static_cast<u64>((h).max_workers))                                                        \
              part(spawned, Spawned, static_cast<u64>((h).spawned_records)) part(level_slots, Slot, level_slots_of((h).level_shift)) \
                  part(level_states, u32, level_slots_of((h).level_shift))

inline constexpr u64 kArenaMagic = 0x616E657261ULL;  // "arena"
inline constexpr u32 kArenaVersion = 14;

DWELL_HOST_DEVICE u64 level_slots_of(u32 level_shift) { return level_shift == 0 ? 0 : static_cast<u64>(kPriorities) << level_shift; }

// The arena's first bytes: its format, and the offset of each part from its start, in bytes.
struct ArenaHeader {
  u64 magic;
  u32 version;
  u32 ring_shift;
  u32 queue_shift;
  u32 max_workers;
  u32 spawned_records;  // of tasks that operators make, number 0 included
  u32 level_shift;      // slots of a level; 0: there are none
  u32 max_deques;       // max_workers, or none
  u64 bytes;
#define DWELL_PART(name, type, count) u64 name;
  DWELL_ARENA_PARTS(DWELL_PART, )
#undef DWELL_PART
};

DWELL_HOST_DEVICE u64 align_up(u64 value, u64 to) { return (value + to - 1) / to * to; }

// Shares of wide tasks that may be in the ready queue at once, beyond one a task.
DWELL_HOST_DEVICE u32 most_spare_shares(u32 ring_shift) { return ring_shift < 13 ? 1U << ring_shift : 1U << 13U; }

// Places beyond those that tasks may take: the least number filled between two computations of the low-water mark. For speed alone.
inline constexpr u32 kQueueSlack = 1U << 13U;

// Tasks in the ready queue above which workers add no nodes of graphs. A worker may still add kNodesAtOnce nodes beyond.
inline constexpr u32 kMostQueuedNodes = 1U << 13U;
inline constexpr u32 kNodesAtOnce = 32;

// Returns the least shift with a place for every ring slot, every spare share and the nodes of graphs, and the slack (ready_queue.hpp).
DWELL_HOST_DEVICE u32 queue_shift_for(u32 ring_shift, u32 max_workers) {
  const u32 needed = (1U << ring_shift) + most_spare_shares(ring_shift) + kMostQueuedNodes + max_workers * kNodesAtOnce + kQueueSlack +
                     max_workers +             // shares of the gang that is being assembled
                     kMaxCrew * kNodesAtOnce;  // host nodes that were answered
  u32 shift = ring_shift + 1;
  while ((1U << shift) < needed) ++shift;
  return shift;
}

// Waiting tasks of one priority beyond these go to the ready queue, in FIFO order.
inline constexpr u32 kMaxLevelShift = 14;

// Lays out an arena for at most `max_workers` workers and `spawned_tasks` tasks by operators (0: enough for most programs). `levels`: with
// levels. `deques`: with a deque for each worker, as on the CPU without levels.
DWELL_HOST_DEVICE ArenaHeader layout_arena(u32 ring_shift, u32 max_workers, u32 spawned_tasks = 0, bool levels = false,
                                           bool deques = false) {
  ArenaHeader header{};
  header.magic = kArenaMagic;
  header.version = kArenaVersion;
  header.ring_shift = ring_shift;
  header.queue_shift = queue_shift_for(ring_shift, max_workers);
  header.max_workers = max_workers;
  header.spawned_records = spawned_records(max_workers, spawned_tasks);
  header.max_deques = deques ? max_workers : 0;
  header.level_shift = !levels ? 0 : ring_shift < kMaxLevelShift ? ring_shift : kMaxLevelShift;
  header.bytes = align_up(sizeof(ArenaHeader), 256);
#define DWELL_PART(name, type, count) \
  header.name = header.bytes;         \
  header.bytes = align_up(header.bytes + sizeof(type) * (count), 256);
  DWELL_ARENA_PARTS(DWELL_PART, header)
#undef DWELL_PART
  return header;
}

// Returns the initial control part of a runtime whose first task has this position.
DWELL_HOST_DEVICE Control first_control(const ArenaHeader& header, u64 first_position) {
  Control control{};
  const u32 first = static_cast<u32>(first_position);
  control.head.value = first;
  control.tail.value = first;
  control.crew.low_water = first;
  control.completed.value = first;
  control.spare_shares.value = most_spare_shares(header.ring_shift);
  control.lists.fresh = 1;
  control.window_base = static_cast<u32>(first_position / kWindow);
  control.crew.frontier = control.window_base;
  control.fetch_position = first;
  return control;
}

// Most leases on the device at once: one that works, one that waits, and others with only long tasks left.
inline constexpr u32 kMostLeases = 4;

inline constexpr u32 kCancels = 1024;  // most that the host may request before the device has processed them

// Messages between host and device, in host memory: about leases and cancelled tasks.
struct alignas(128) LeaseReport {
  u32 left[kMostLeases];                 // written by the device, by slot: number of the last lease that all workers have left
  u32 begun;                             // written by the device: number of the last lease that works
  u32 cancels_seen;                      // written by the device: how many of `cancels` it has processed
  alignas(128) u32 over;                 // written by the host: number of the last lease that ends as soon as the next one waits
  u32 end;                               // written by the host: number of the last lease that ends at once
  u32 cancels;                           // written by the host: how many it has requested
  alignas(128) u32 launched;             // written by the host: number of the last lease that was started
  alignas(128) u32 cancelled[kCancels];  // written by the host: positions of the tasks, the n-th at n modulo kCancels
};

// The task that a worker runs. Stored before the task starts, so the host can read it after a fault. One line a worker, in host memory.
struct alignas(64) InFlight {
  // position | opcode << 32 | kValid; with kLaunch, of the launch of a graph, no opcode; of a node its record's cell in the arena instead
  // of the position, and kNode; of a repeated task the runs that are left, modulo 8, from bit kRunsAt on; of a task that an operator has
  // made 0
  u64 word;

  static constexpr u64 kValid = 1ULL << 63U;
  static constexpr u64 kNode = 1ULL << 62U;
  static constexpr u64 kLaunch = 1ULL << 60U;
  static constexpr u32 kRunsAt = 45;
  static constexpr u64 kOver = 1ULL << 61U;  // set by the host, while no lease is on the device: the task does not run

  // The cell of the node's record.
  static DWELL_HOST_DEVICE u32 node(u64 word) { return static_cast<u32>(word); }
};

inline constexpr u32 kLevels = 1U << 31U;  // of Lease::levels

// Everything a lease needs: the kernel's parameter. Pointers are the device's.
struct Lease {
  const Slot* ring;         // host memory
  Completion* completions;  // host memory
  LeaseReport* report;      // host memory
  InFlight* in_flight;      // host memory
  Quad* flight;             // host memory: the flight recorder, 2^kFlightShift entries a worker, or null (in_flight.hpp)
  u64* failed_nodes;        // host memory: of the launch of a graph at each ring index, once it has failed, GraphHead::failure
  // Host memory: for the task at each ring index, the first failed node in launches by operators that descend from it: the task's lap, and
  // the node's status, the number of its exec (GraphHead::number), and its cell. Of another lap when none has failed.
  Quad* failed_inside;
  Overruns* overruns;  // host memory: one a worker
  u64 heap;            // address of the heap (heap_layout.hpp), or 0
  u64 arena;           // its address; the pointers below point into it
#define DWELL_PART(name, type, count) type* name;
  DWELL_ARENA_PARTS(DWELL_PART, )
#undef DWELL_PART
  const void* const* operators;  // the CPU's tables; on CUDA the image holds them
  const u32* uses;
  u32 ring_shift;
  u32 queue_shift;
  u32 max_workers;      // of any lease
  u32 spawned_records;  // number of the last one, plus 1
  u32 level_shift;
  u32 levels;  // 0: there are none; else kLevels | a bit for each priority of which the last task comes first
  u32 workers;
  u32 crew;
  u32 number;
  u32 slot;            // of LeaseReport::left; unique among the leases on the device
  u32 lays_out;        // 1: its first worker lays out the seats, with no other lease on the device (reseat.hpp)
  u32 former_workers;  // for a lease that lays them out: of the leases before, which have all left
  u32 former_crew;
  u32 wakes;  // 1: no lease was on the device when it was started, so idleness counts from its begin
  u32 scratch_bytes;
  // What workers note (observe.hpp), in tables of `observed` opcodes, more than any image of such a lease has. Separate words: a comparison
  // with one needs no load.
  u32 counts;            // 1: counts
  u32 timed;             // how long calls take: timed::...
  u32 observed;          // opcodes
  u64* calls;            // calls of operators: a row a worker, by opcode
  u64* failures;         // by opcode
  OperatorTimes* times;  // by opcode and shard; with timed::times
  const Quad* stamps;    // host memory: of tasks (is_stamped), by ring index: lap, when in ns of the device's clock (64), 0
  Event* timeline;       // 2^timeline_shift a worker; with timed::timeline
  u32* timeline_counts;  // events so far, by worker
  u32 timeline_shift;
  // What operators log (dwell/device/log.hpp).
  u32 log_from;         // the least severity
  u32 log_shift;        // slots of a worker's ring
  Slot* log;            // host memory: the rings
  const u32* log_read;  // host memory: slots of each that the host has read, modulo 2^32, 64 bytes apart
  u32 lease_ticks;      // see now_ticks()
  u32 stretch_ticks;    // how long the workers of a lease that is over wait for those of the next
  u32 idle_ticks;
};

// Points a lease into the arena at `base` on the device. Called by the host.
DWELL_DEVICE void point_into_arena(Lease* lease, const ArenaHeader& header, u64 base) {
  lease->arena = base;
#define DWELL_PART(name, type, count) lease->name = reinterpret_cast<type*>(base + header.name);
  DWELL_ARENA_PARTS(DWELL_PART, )
#undef DWELL_PART
  if (header.max_deques == 0) lease->deques = nullptr;
  lease->ring_shift = header.ring_shift;
  lease->queue_shift = header.queue_shift;
  lease->max_workers = header.max_workers;
  lease->spawned_records = header.spawned_records;
  lease->level_shift = header.level_shift;
  lease->levels = header.level_shift != 0 ? kLevels : 0;
}

// Moves a pointer from an arena of so many bytes to another.
template <class T>
DWELL_DEVICE void move_pointer(T** pointer, u64 from, u64 bytes, u64 to) {
  const u64 offset = reinterpret_cast<u64>(*pointer) - from;
  if (offset < bytes) *pointer = reinterpret_cast<T*>(to + offset);
}

// Points a lease into its arena, of `bytes` bytes, which has moved to `base`. Called by the host.
DWELL_DEVICE void move_lease(Lease* lease, u64 bytes, u64 base) {
  const u64 from = lease->arena;
  lease->arena = base;
#define DWELL_PART(name, type, count) move_pointer(&lease->name, from, bytes, base);
  DWELL_ARENA_PARTS(DWELL_PART, )
#undef DWELL_PART
  move_pointer(&lease->calls, from, bytes, base);
  move_pointer(&lease->failures, from, bytes, base);
  move_pointer(&lease->times, from, bytes, base);
  move_pointer(&lease->timeline, from, bytes, base);
  move_pointer(&lease->timeline_counts, from, bytes, base);
}

// Returns whether number `a` comes after `b`, modulo 2^32.
DWELL_HOST_DEVICE bool is_after(u32 a, u32 b) { return static_cast<i32>(a - b) > 0; }

// Raises a number that only grows to at least `value`. Returns whether this call did. Publishes nothing. Called by one thread.
DWELL_DEVICE bool raise(u32* at, u32 value) {
  u32 now = load<Order::relaxed, Scope::device>(at);
  while (is_after(value, now)) {
    const u32 seen = compare_exchange<Order::relaxed>(at, now, value);
    if (seen == now) return true;
    now = seen;
  }
  return false;
}

}  // namespace dwell::device
