// A worker's own memory.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/log_line.hpp>

#include "device/seat.hpp"
#include "device/worker_clock.hpp"

namespace dwell::device {

static_assert(kLogTaskHeader == kHeaderWords && kLogSlotWords == kSlotWords && sizeof(Slot) == kLogSlotQuads * sizeof(Quad),
              "a line finds the header of its task, and lies in slots");

// A worker's remaining work on its graph. Written by one thread, read by warp 0.
struct GraphWork {
  static constexpr u32 kMost = 48;  // the successors of one node, and some drawn ones

  u64 base;          // the exec's address; 0: none
  u32 launched;      // 1: it has begun the launch
  u32 ended;         // ended here, and not yet subtracted from GraphHead::pending
  u32 kept;          // nodes in `node`
  u32 spread;        // cell of the record whose successors it draws, or 0
  u32 spread_flags;  // see graph.hpp
  u32 node[kMost];   // ready nodes: cell | kPoisoned
};

// A worker's spawned tasks and free records (spawn.hpp). Written and read by one thread, except `ready`.
struct SpawnWork {
  static constexpr u32 kMost = 32;

  u32 current;       // record of the running task, or 0
  u32 parent;        // its parent, if its record holds nothing else that its end needs; else 0
  u32 adopter;       // the new parent of the only child of the task that has ended last; 0: none
  u32 made;          // children that its operator has made
  u32 refused;       // 1: several groups share the running task, so it may make none
  u32 owes;          // 1: it has put tasks on the overflow for a graph, and must pass them on before other work
  u32 newest;        // the last child that its operator has made
  u32 stashed;       // first record of the stash, which leads to the others, or 0
  u32 stashed_last;  // the last of these
  u32 oldest;        // place in `ready`
  u32 count;         // tasks in `ready`, from `oldest` on and around
  u32 free_count;    // records in `free`
  u32 counts_bytes;  // 1: the bytes that tasks name are counted
  Spawned* records;  // Lease::spawned, for code that has no lease at hand
  u32 ready[kMost];  // tasks that may run
  u32 free[kFreeRecords];
};

// The tasks of a worker, in slots: the running one, the next one handed over, and slots read ahead for a chain (chain.hpp) and for a run of
// linked tasks (linked.hpp). Each of these two areas repeats its first slot at its end.
using FramePlace = u32;  // of a frame: the number of its first slot
#if DWELL_CONTROL_WARP
inline constexpr u32 kAheadSlots = 32;  // from 0 on
inline constexpr FramePlace kFrame0 = kAheadSlots + 1;
inline constexpr FramePlace kFrame1 = kFrame0 + kMaxSlots;
inline constexpr FramePlace kLinked = kFrame1 + kMaxSlots;
inline constexpr u32 kLinkedSlots = 32;
inline constexpr u32 kLookahead = 24;  // slots read at once for it
inline constexpr u32 kFrameSlots = kLinked + kLinkedSlots + 1;
#else
inline constexpr FramePlace kFrame0 = 0;
inline constexpr FramePlace kFrame1 = kMaxSlots;
inline constexpr u32 kFrameSlots = 2 * kMaxSlots;
#endif

inline constexpr u32 kNoGroup = ~0U;
// The thread of the group that counts and times calls (observe.hpp). Its warp is idle around them; warp 0 reads ahead, and completes.
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

  // Of the executing warps, written by their thread 0.
  u32 run;       // counts runs
  u32 position;  // of the task that runs
  u32 behind;    // of the slot behind it
  u32 on;        // 1: the task belongs to a run
  u32 noted;     // tasks that have ended, of all runs
  // Of the server.
  u32 completed;  // of these
  u32 busy;       // 1: a server is active
  // Of the control warp.
  u32 served;  // `behind` in its last pass
  u32 quiet;   // polls since then without work

  u64 ended[kEnded];        // position (32) | word 1 of the header (32)
  u64 ready[kLinkedSlots];  // the task whose first slot was read ahead into this slot: position (32) | run (32), or 0
};
#endif

// A worker's notes of the operator that it runs (observe.hpp). Written and read by one thread.
struct Observed {
  u64 begun;      // when it was called, in ns; 0: not noted
  u64 stay;       // when the worker took its seat
  u32 opcode;     // that was timed last in this lease, or ~0
  u32 least;      // of its calls, what the worker has put into OperatorTimes
  u32 most;       // the same
  u64* row;       // Lease::calls of the worker, or null
  u32 uncounted;  // place of the first uncounted node of a chain
  u32 made;       // tasks that its operators have made while times were noted; sampled by kNamesBelow
};

// Shared by all threads of a worker.
struct Worker {
  u32 slots[kFrameSlots * kSlotWords];
  Context context;  // what operators see of the worker
  u32 group;        // the group of a wide task that runs now
  u32 member;       // the group of a gang that is to run (members.hpp)
  u32 follows;      // set by one thread for the others: see worker.hpp
  u32 level;        // of the header of the task that runs, or of its launch
  u32 idle;         // 1: the next task may be handed over
#if DWELL_CONTROL_WARP
  u32 noting;  // 1: the control warp has handed over a plain task, and is about to note it
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
  // State of the control code. In memory, since each register would cost every operator one.
  seat::WayOut way;
  u32 since;        // when the worker took its seat, in ticks
  u32 quiet_since;  // when it last found work
  u32 low_water;    // of the ready queue, as last seen
  u32 drains;       // completed, as last seen
  u32 backlog;      // with levels: 1 if tasks waited for workers at the last poll, so the next of the ring may not be the most urgent
  u32 asked;        // when Context::yield was set, in ticks
  u32 counted;      // 1: counted in Control::idle
#if !DWELL_CONTROL_WARP
  u32 turn_over;  // 1: it leaves, or has left, its graph for other tasks (graph::look_at_turn)
  WorkerClock clock;
  // Called in the handler of an exception that has left an operator, with the task's header; may be null.
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
