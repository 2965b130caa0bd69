// The ring: the layout of submission and completion entries, and the lap arithmetic that makes every slot validate itself.
//
// Positions count slots since the runtime began, modulo 2^32. A slot is valid for position p when all four of its quads carry
// lap_of(p): the reader needs no index, no flag and no second read. A completion entry for p is there when it carries lap_of(p).
// Invariant: position p is reserved only when the task at p - capacity is complete, so laps one apart never mix in a slot, and 2^32
// positions may pass a slot without ambiguity because it is rewritten every lap.
// Source of the idea: io_uring's rings and words; laps instead of head and tail so that a task crosses PCIe in one read.
#pragma once

#include <dwell/device/atomic.hpp>

namespace dwell::device {

struct alignas(64) Slot {
  Quad quad[4];
};
static_assert(sizeof(Slot) == 64);

// Stored once, as one 8-byte value, at the index of the task's first slot.
struct alignas(8) Completion {
  u32 lap;
  i32 status;
};
static_assert(sizeof(Completion) == 8);

inline constexpr u32 kWindow = 64;      // slots that one member of the fetch crew owns at a time; a task never crosses its end
inline constexpr u32 kMaxSlots = 8;     // slots that one task may take
inline constexpr u32 kHeaderWords = 3;  // words of the first slot before the arguments
inline constexpr u32 kSlotWords = 12;   // payload words of a slot
inline constexpr u32 kMaxArgumentWords = kMaxSlots * kSlotWords - kHeaderWords;  // more travel in a block of host memory
inline constexpr u32 kMinRingShift = 7;

DWELL_HOST_DEVICE u32 lap_of(u32 position, u32 shift) { return (position >> shift) + 1; }
DWELL_HOST_DEVICE u32 index_of(u32 position, u32 shift) { return position & ((1U << shift) - 1); }

// Bits of a task's flags.
namespace flag {
inline constexpr u32 link = 1;   // starts after the task that word 2 names is complete, and is cancelled if that has failed
inline constexpr u32 drain = 2;  // starts after all tasks before are complete, and no later one starts before it is
inline constexpr u32 wide = 4;   // `groups` groups share the task
inline constexpr u32 skip = 8;  // no task: `slots` slots to pass over, complete as soon as they are fetched; with drain: the end of a burst
inline constexpr u32 close = 16;    // with skip: the host wants the lease in word 2 and those before to end; at once when `groups` is not 0
inline constexpr u32 system = 32;   // some result lies in host memory: its effects need system scope
inline constexpr u32 tracked = 64;  // a link to this task may follow, so its completion leaves word on the device
inline constexpr u32 memory = 128;  // some argument leads to memory: its worker acquires before the task and releases after it
inline constexpr u32 share = 256;   // device only, in the ready queue: one worker's share of a wide task, or of one that is cancelled
inline constexpr u32 hard = 512;    // with link: not cancelled
inline constexpr u32 failed = 16;   // with link: the task that word 2 names has failed, as the host knows
inline constexpr u32 cancelled = 1024;   // with share: the operator is not called: the host has cancelled the task (cancels.hpp), or a node
                                         // comes after a failure
inline constexpr u32 after = 1U << 14U;  // starts after all tasks of the list that word 2 describes (WaitList)
inline constexpr u32 gate = 1U << 15U;   // no group; complete when the host has opened it (gates.hpp)
inline constexpr u32 graph = 4096;       // with share: no operator but the launch of a graph, whose head the first two argument words name
inline constexpr u32 turn = 1U << 15U;   // device only, with graph: the launch has its exec (launch_line.hpp)

inline constexpr u32 gang = 8192;         // with wide, of a task of the ring: the groups run at once (gangs.hpp)
inline constexpr u32 comes = 1U << 15U;   // with gang and aside: the gang is to be put in line; without: the share is to be joined
inline constexpr u32 single = 1U << 15U;  // with share, of what is wide and no gang: there is a share for each group

// Of tasks whose source is a graph: word 2 and `drains` name the node's record (graph.hpp).
inline constexpr u32 node = 2048;    // the source is a graph
inline constexpr u32 ranked = node;  // in the ring: the header has a level
inline constexpr u32 chain = 16;  // nothing else waits for this node, the next record is the node that does, and it waits for nothing else
inline constexpr u32 aside = 8;   // with share: no operator to call, but something for graph::proceed
inline constexpr u32 spread = 8192;         // with aside: one worker's share of the successors of a node that has many
inline constexpr u32 branch = 512;          // with aside: a value says which successors the node has
inline constexpr u32 clock = 2;             // with aside: the clock is read (NodeTime)
inline constexpr u32 host = 1U << 14U;      // with aside: a callback of the host (host_nodes.hpp)
inline constexpr u32 answered = 1U << 15U;  // with host: it has returned; with cancelled too: it has thrown

// Of tasks whose source is an operator: word 2 is the number of the task's record (spawned.hpp).
inline constexpr u32 spawned = node | tracked;
}  // namespace flag

// A task's header: words 0 and 1 of its first slot. Word 2 is its position; in the ring, what its flags say.
//   word 0: opcode (13) | level (3) | groups (16)       word 1: slots (4) | flags (16) | drains (12)
// `level` is 0 for tasks of normal priority (levels.hpp). In the queues all tasks have theirs, in the ring and in records only the ring's.
// `drains` counts the drains before the task, modulo 4096: far more than can lie between the earliest and the latest fetched window.
struct Header {
  u32 opcode;
  u32 groups;
  u32 slots;
  u32 flags;
  u32 drains;
  u32 level = 0;

  static constexpr u32 kDrainMask = 0xFFF;
  static constexpr u32 kOpcodeMask = 0x1FFF;
  static constexpr u32 kLevelShift = 13;
  static constexpr u32 kLevelMask = 7;

  // The task's source.
  DWELL_HOST_DEVICE bool is_spawned() const { return (flags & flag::spawned) == flag::spawned; }
  DWELL_HOST_DEVICE bool is_node() const { return (flags & flag::spawned) == flag::node; }
  // Whether it is the launch of a graph; one that is cancelled is marked so, or has no group, and is a task like others.
  DWELL_HOST_DEVICE bool launches() const { return (flags & (flag::graph | flag::cancelled)) == flag::graph && groups != 0; }
  // Whether the operator of a task of the ring is not called. `failed`: a task that it has waited for has.
  DWELL_HOST_DEVICE bool is_cancelled(bool failed) const { return (flags & flag::cancelled) != 0 || (failed && (flags & flag::hard) == 0); }
  DWELL_HOST_DEVICE u32 word0() const { return opcode | (level << kLevelShift) | (groups << 16U); }
  DWELL_HOST_DEVICE u32 word1() const { return slots | (flags << 4U) | (drains << 20U); }
  static DWELL_HOST_DEVICE Header from(u32 word0, u32 word1) {
    return Header{word0 & kOpcodeMask,     word0 >> 16U, word1 & 0xFU,
                  (word1 >> 4U) & 0xFFFFU, word1 >> 20U, (word0 >> kLevelShift) & kLevelMask};
  }
  // Whether a gang runs it; one that is cancelled is marked so, or has no group, and is a task like others.
  DWELL_HOST_DEVICE bool is_gang() const { return (flags & (flag::gang | flag::node | flag::cancelled)) == flag::gang && groups != 0; }
  // Whether the task needs nothing but to be run: one slot, one group, no order. `system`, `tracked` and `memory` only matter to the
  // worker.
  static DWELL_HOST_DEVICE bool simple(u32 word1, u32 drains) {
    constexpr u32 ignored = (flag::system | flag::tracked | flag::memory) << 4U;
    return (word1 & ~ignored) == (1U | (drains << 20U));
  }
};

// Word 1 without the mark of a level, which means something else in a task that was fetched.
DWELL_HOST_DEVICE u32 unranked(u32 word1) { return word1 & ~(flag::ranked << 4U); }

// The tasks that a task waits for, when they are not one alone: a quad each behind its arguments. Word 2 of the task in the ring.
//   a quad: position (64) | a Kind (32); while it is held, word 2 is the next waiter
struct WaitList {
  enum Kind : u32 {
    soft,    // its failure cancels the task
    hard,    // it does not
    failed,  // has failed, as the host knows: nobody asks for it any more
  };
  u32 first;  // quad of the task
  u32 count;

  DWELL_HOST_DEVICE u32 word() const { return first | (count << 8U); }
  static DWELL_HOST_DEVICE WaitList from(u32 word) { return WaitList{word & 0xFFU, word >> 8U}; }
};

// A task as a worker runs it: its header and arguments without the laps.
struct Frame {
  u32 word[kMaxSlots * kSlotWords];

  DWELL_DEVICE Header header() const { return Header::from(word[0], word[1]); }
  DWELL_DEVICE u32 position() const { return word[2]; }
  DWELL_DEVICE const u32* arguments() const { return word + kHeaderWords; }
};

// Quads of a task in flight between memories, spread over the lanes: lane l holds quads l, l + kLanes, ...
struct TaskQuads {
  static constexpr u32 kEach = kMaxSlots * 4 / kLanes;
  Quad quad[kEach];
};

}  // namespace dwell::device
