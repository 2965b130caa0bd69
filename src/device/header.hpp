// A task's header: where the task comes from, what is to be done for it, and how it lies in words 0 and 1 of its first slot.
//   word 0: opcode (13) | level (3) | groups (16)       word 1: slots (4) | flags (12) | source (4) | drains (12)
// Word 2 is the task's position; in the ring, what its flags say; of a task that was made on the device, the name of its record.
#pragma once

#include <dwell/device/atomic.hpp>

namespace dwell::device {

// Numbers of sources. The source of a task defines its flags, its word 2 and where its completion goes; sources.hpp has the code of each
// source.
namespace source {
inline constexpr u32 ring = 0;      // the host: a task of one group or several
inline constexpr u32 launch = 1;    // the host: the launch of a graph, whose head the first two argument words name
inline constexpr u32 gang = 2;      // the host: groups that run at once; out of the ring, a gang that is to be put in line
inline constexpr u32 member = 3;    // a gang in line: the share of one worker
inline constexpr u32 gate = 4;      // the host: no group; complete when the host has opened it
inline constexpr u32 pass = 5;      // the host: slots to pass over, complete as soon as they are fetched
inline constexpr u32 repeated = 6;  // the host: a task of one group that runs `groups` times
// Made on the device: word 2 names a record: of a node its cell in the arena, of others its number.
inline constexpr u32 node = 8;             // a graph: a node with an operator
inline constexpr u32 control = 9;          // a graph: something for graph::proceed, no operator
inline constexpr u32 spawned = 10;         // an operator
inline constexpr u32 spawned_launch = 11;  // an operator: the launch of a graph
inline constexpr u32 token = 12;           // the levels: stands for any task that waits there
inline constexpr u32 node_member = 13;     // a graph: of a node that a gang runs, the share of one worker

inline constexpr u32 kCount = 16;
inline constexpr u32 kMade = 8;  // the bit of those that were made on the device
}  // namespace source

// Bits of a task's flags. These mean the same for every source.
namespace flag {
inline constexpr u32 wide = 4;          // `groups` groups share the task
inline constexpr u32 system = 32;       // some result lies in host memory: its effects need system scope
inline constexpr u32 tracked = 64;      // a link to this task may follow, so its completion leaves word on the device
inline constexpr u32 memory = 128;      // some argument leads to memory: its worker acquires before the task and releases after it
inline constexpr u32 share = 256;       // device only: one worker's share of a wide task, or of one that is cancelled
inline constexpr u32 cancelled = 1024;  // with share: the operator is not called: the host has cancelled the task (cancels.hpp), or a node
                                        // comes after a failure
// Valid until a task of the host is admitted; `drain` until the task is complete.
inline constexpr u32 link = 1;               // starts after the task that word 2 names is complete, and is cancelled if that has failed
inline constexpr u32 drain = 2;              // starts after all tasks before are complete, and no later one starts before it is
inline constexpr u32 after = 8;              // starts after all tasks of the list that word 2 describes (WaitList)
inline constexpr u32 failed = link | after;  // the task that word 2 names has failed, as the host knows
inline constexpr u32 ranked = 16;            // the header has a level
inline constexpr u32 hard = 512;             // with link: not cancelled
inline constexpr u32 order = link | after | hard;

// The rest belongs to one source each.
inline constexpr u32 single = 2048;  // ring and node, with share: there is a share for each group
namespace launch {
inline constexpr u32 turn = 2048;  // device only: the launch has its exec (launch_line.hpp)
}
namespace member {
inline constexpr u32 joins = 512;  // the share is to be joined
}
namespace pass {
inline constexpr u32 burst = drain;  // the end of a burst, up to the lease in word 2
inline constexpr u32 close = 512;    // the host wants the lease in word 2 and those before to end; at once when `groups` is not 0
static_assert((close & ranked) == 0, "a fetcher clears the mark of a level");
}  // namespace pass
namespace node {
inline constexpr u32 chain = 16;  // nothing else waits for this node, the next record is the node that does, and it waits for nothing else
}
namespace control {
inline constexpr u32 spread = 1;     // one worker's share of the successors of a node that has many
inline constexpr u32 clock = 2;      // the clock is read (NodeTime)
inline constexpr u32 host = 8;       // a callback of the host (host_nodes.hpp)
inline constexpr u32 answered = 16;  // with host: it has returned; with cancelled too: it has thrown
inline constexpr u32 branch = 512;   // a value says which successors the node has
inline constexpr u32 gang = 2048;    // with groups: a gang runs the node, and the gang is to be put in line
}  // namespace control
}  // namespace flag

// `level` is 0 for tasks of normal priority (levels.hpp). In the queues all tasks have theirs, in the ring and in records only the ring's.
// `drains` counts the drains before the task, modulo 4096: far more than can lie between the earliest and the latest fetched window.
struct Header {
  u32 opcode;
  u32 groups;
  u32 slots;
  u32 flags;
  u32 drains;
  u32 level = 0;
  u32 source = source::ring;

  static constexpr u32 kDrainMask = 0xFFF;
  static constexpr u32 kOpcodeMask = 0x1FFF;
  static constexpr u32 kLevelShift = 13;
  static constexpr u32 kLevelMask = 7;
  static constexpr u32 kFlagMask = 0xFFF;
  static constexpr u32 kSourceShift = 16;
  static constexpr u32 kSourceMask = 0xF;

  // Returns whether the task was made on the device: it has no completion entry.
  DWELL_HOST_DEVICE bool is_made() const { return (source & source::kMade) != 0; }
  DWELL_HOST_DEVICE bool is_spawned() const { return (source & ~1U) == source::spawned; }
  DWELL_HOST_DEVICE bool is_node() const { return (source & ~1U) == source::node || source == source::node_member; }
  DWELL_HOST_DEVICE bool is_launch() const { return source == source::launch || source == source::spawned_launch; }
  // Returns whether the task launches a graph. False for a cancelled launch: it runs nothing.
  DWELL_HOST_DEVICE bool launches() const { return is_launch() && !runs_nothing(); }
  // Returns whether a gang runs the task. False for a cancelled gang: it runs nothing.
  DWELL_HOST_DEVICE bool is_gang() const { return ((source & ~1U) == source::gang || source == source::node_member) && !runs_nothing(); }
  // Returns whether no group of a shared task runs.
  DWELL_HOST_DEVICE bool runs_nothing() const { return (flags & flag::cancelled) != 0 || groups == 0; }
  // Returns whether the operator of a task of the host is skipped. `failed`: a predecessor of the task has failed.
  DWELL_HOST_DEVICE bool is_cancelled(bool failed) const { return (flags & flag::cancelled) != 0 || (failed && (flags & flag::hard) == 0); }
  DWELL_HOST_DEVICE u32 word0() const { return opcode | (level << kLevelShift) | (groups << 16U); }
  DWELL_HOST_DEVICE u32 word1() const { return slots | (flags << 4U) | (source << kSourceShift) | (drains << 20U); }
  static DWELL_HOST_DEVICE Header from(u32 word0, u32 word1) {
    return Header{word0 & kOpcodeMask,
                  word0 >> 16U,
                  word1 & 0xFU,
                  (word1 >> 4U) & kFlagMask,
                  word1 >> 20U,
                  (word0 >> kLevelShift) & kLevelMask,
                  (word1 >> kSourceShift) & kSourceMask};
  }
  // Whether the task needs nothing but to be run: one slot, one group, no order. `system`, `tracked` and `memory` only matter to the
  // worker.
  static DWELL_HOST_DEVICE bool simple(u32 word1, u32 drains) {
    constexpr u32 ignored = (flag::system | flag::tracked | flag::memory) << 4U;
    return (word1 & ~ignored) == (1U | (drains << 20U));
  }
};

// The source in word 1, that of what was made on the device, and word 1 with another source.
DWELL_HOST_DEVICE u32 source_in(u32 word1) { return word1 >> Header::kSourceShift & Header::kSourceMask; }
DWELL_HOST_DEVICE bool is_made(u32 word1) { return (word1 & source::kMade << Header::kSourceShift) != 0; }
DWELL_HOST_DEVICE u32 with_source(u32 word1, u32 source) {
  return (word1 & ~(Header::kSourceMask << Header::kSourceShift)) | source << Header::kSourceShift;
}
// Word 1 without the mark of a level, which only the ring has.
DWELL_HOST_DEVICE u32 unranked(u32 word1) { return word1 & ~(flag::ranked << 4U); }

}  // namespace dwell::device
