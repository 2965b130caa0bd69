// A worker's own memory.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/log_line.hpp>

#include "device/seat.hpp"
#include "device/worker_clock.hpp"

namespace dwell::device {

static_assert(kLogTaskHeader == kHeaderWords && kLogSlotWords == kSlotWords && sizeof(Slot) == kLogSlotQuads * sizeof(Quad),
              "a line finds the header of its task, and lies in slots");

// What a worker still has to do of the graph that it works on. Written by one thread, read by warp 0.
struct GraphWork {
  static constexpr u32 kMost = 48;  // the successors of one node, and some that were drawn

  u64 base;          // the exec's address; 0: it works on none
  u32 launched;      // 1: it has begun the launch
  u32 ended;         // what has ended here of that which GraphHead::pending counts, and is not taken off yet
  u32 kept;          // nodes in `node`
  u32 spread;        // cell of the record whose successors it draws, or 0
  u32 spread_flags;  // see graph.hpp
  u32 node[kMost];   // ready nodes: cell | kPoisoned
};

// What a worker has at hand of the tasks that operators make (spawn.hpp). Written and read by one thread, but for `ready`.
struct SpawnWork {
  static constexpr u32 kMost = 32;

  u32 current;       // record of the task that runs, or 0
  u32 made;          // children that its operator has made
  u32 refused;       // 1: several groups share the task that runs
  u32 owes;          // 1: it has left tasks on the overflow, for a graph: to be passed on before it goes to other work
  u32 newest;        // the last child that its operator has made
  u32 stashed;       // record of a task that was stashed, which leads to the others, or 0
  u32 stashed_last;  // the last of these
  u32 oldest;        // place in `ready`
  u32 count;         // tasks in `ready`, from `oldest` on and around
  u32 free_count;    // records in `free`
  u32 ready[kMost];  // tasks that may run
  u32 free[kFreeRecords];
};

// The tasks of a worker, in slots: the one that runs, the one handed over meanwhile, and slots that are read ahead of a chain (chain.hpp)
// and of a run of linked tasks (linked.hpp), of which the first is there twice.
using FramePlace = u32;  // of a frame: the number of its first slot
#if DWELL_CONTROL_WARP
inline constexpr u32 kAheadSlots = 32;  // from 0 on
inline constexpr FramePlace kFrame0 = kAheadSlots + 1;
inline constexpr FramePlace kFrame1 = kFrame0 + kMaxSlots;
inline constexpr FramePlace kLinked = kFrame1 + kMaxSlots;
inline constexpr u32 kLinkedSlots = 32;
inline constexpr u32 kLookahead = 24;  // slots that are read at once for it
inline constexpr u32 kFrameSlots = kLinked + kLinkedSlots + 1;
#else
inline constexpr FramePlace kFrame0 = 0;
inline constexpr FramePlace kFrame1 = kMaxSlots;
inline constexpr u32 kFrameSlots = 2 * kMaxSlots;
#endif

inline constexpr u32 kNoGroup = ~0U;
// The thread of the group that counts and times calls (observe.hpp): of a warp that has nothing else to do around them. Warp 0 reads ahead,
// and completes.
#if DWELL_CONTROL_WARP
inline constexpr u32 kCountingThread = kGroupThreads - kLanes;
#else
inline constexpr u32 kCountingThread = 0;
#endif

#if DWELL_CONTROL_WARP
// A run of linked tasks (linked.hpp).
struct alignas(16) LinkedWork {
  static constexpr u32 kEnded = 32;
  static constexpr u32 kMost = kEnded - 1;  // noted at once, so that a pass has a lane for one more

  // Of the executing warps, of which thread 0 writes it.
  u32 run;       // counts them
  u32 position;  // of the task that runs
  u32 behind;    // of the slot behind it
  u32 on;        // 1: the task belongs to a run
  u32 noted;     // tasks that have ended, of all runs
  // Of who serves.
  u32 completed;  // of these
  u32 busy;       // 1: somebody serves
  // Of the control warp.
  u32 served;  // `behind` in its last pass
  u32 quiet;   // looks since then with nothing to do

  u64 ended[kEnded];        // position (32) | word 1 of the header (32)
  u64 ready[kLinkedSlots];  // the task whose first slot was read ahead into this one: position (32) | run (32), or 0
};
#endif

// What a worker notes of the operator that it runs (observe.hpp). Written and read by one thread.
struct Observed {
  u64 begun;      // when it was called, in ns; 0: nothing is noted
  u64 stay;       // when the worker took its seat
  u32 opcode;     // that was timed last in this lease, or ~0
  u32 least;      // of its calls, what the worker has put into OperatorTimes
  u32 most;       // the same
  u64* row;       // Lease::calls of the worker, or null
  u32 uncounted;  // place of the first node of a chain that was gone on with and is not counted yet
  u32 made;       // tasks that its operators have made while times were noted: kNamesBelow says which are looked at
};

// Shared by all threads of a worker.
struct Worker {
  u32 slots[kFrameSlots * kSlotWords];
  Context context;  // what operators see of the worker
  u32 group;        // the group of a wide task that runs now
  u32 member;       // the group of a gang that is to run (members.hpp)
  u32 follows;      // what one thread tells the others: see worker.hpp
  u32 level;        // of the header of the task that runs, or of its launch
  u32 idle;         // 1: the next task may be handed over
#if DWELL_CONTROL_WARP
  u32 noting;  // 1: the control warp is about to note the plain task that it has handed over
#else
  u32 steps;  // of graphs and of spawned tasks
#endif
  GraphWork graph;
  SpawnWork spawn;
#if DWELL_CONTROL_WARP
  LinkedWork linked;
#endif
  const Lease* lease;
  InFlight* in_flight;  // its own
  Quad* flight;         // the same, or null
  u32 flight_notes;     // Notes::flight
  Observed observed;
  u32 me;  // its number
  // The control code's own, here rather than in registers, of which each would cost every operator one.
  seat::WayOut way;
  u32 since;        // when the worker took its seat, in ticks
  u32 quiet_since;  // when it last saw anything to do
  u32 low_water;    // of the ready queue, as last seen
  u32 drains;       // completed, as last seen
  u32 backlog;      // with levels: 1 if tasks waited for workers then, so that the next of the ring may not be the one to run
  u32 asked;        // when Context::yield was set, in ticks
  u32 counted;      // 1: counted in Control::idle
#if !DWELL_CONTROL_WARP
  u32 turn_over;  // 1: it leaves its graph, or has left it, since others have waited (graph::look_at_turn)
  WorkerClock clock;
  // Called while an exception that has left an operator is handled, with the header of its task; null: nobody asks.
  void (*threw)(void* to, const u32* header);
  void* threw_to;
#endif
};

DWELL_DEVICE Frame* frame_at(Worker* worker, FramePlace place) { return reinterpret_cast<Frame*>(worker->slots + place * kSlotWords); }

// Clears what the last task left in the context. Called by one thread.
DWELL_DEVICE void reset(Context* context) {
  context->status = status::ok;
  context->scratch_used = 0;
  context->spawned = 0;
}

}  // namespace dwell::device
