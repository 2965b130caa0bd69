// The arena: all state of a runtime that outlives a lease, in one region of device memory, addressed by offsets from its start.
//
// The host lays it out and clears it before the first lease; from then on only device code touches it, except while no lease runs.
#pragma once

#include "device/ring.hpp"

namespace dwell::device {

// One word, one line: counters that many workers change never share a line with what others poll.
struct alignas(128) Counter {
  u32 value;
};

// What the fetch crew looks at between reads of host memory: one line, so that one warp-wide load shows it all.
struct alignas(128) CrewLine {
  u32 frontier;    // windows of which every slot has been fetched: the earliest open one is numbered no higher
  u32 busy;        // members that found at least eight tasks in their last read
  u32 drains;      // drains completed, modulo Header::kDrainMask + 1
  u32 lease_over;  // the number of the lease that should end: what Group::should_yield looks at
  u32 gate[2];     // see gate.hpp; lease n uses gate[n & 1]
  u32 reserved[26];
};
static_assert(sizeof(CrewLine) == 128);

// A window that is not wholly fetched: kept for the next lease.
struct OpenWindow {
  u32 number;
  u32 offset;
};
inline constexpr u32 kMaxCrew = 32;

// A place of the ready queue that a leaving worker watched, as 64 bits that one store makes valid.
inline constexpr u64 kClaimed = 1ULL << 32U;

struct Control {
  Counter head;          // ready queue: places claimed
  Counter tail;          // ready queue: places filled
  Counter window_turns;  // windows acquired in this lease behind the first of each crew member
  Counter completed;     // slots of completed tasks, counted from the first position on
  Counter spare_shares;  // places of the ready queue that wide tasks may still take
  Counter fetch_lock;    // the CPU's crew of one: who fetches
  CrewLine crew;
  u32 window_base;     // number of the first window that no lease has touched
  u32 open_count;      // entries of `open`, in ascending order
  u32 fetch_position;  // the CPU's crew of one: next position to fetch, guarded by fetch_lock
  u32 reserved;
  OpenWindow open[kMaxCrew];
  OpenWindow leaving[kMaxCrew];  // what each crew member had at the end of the lease
};

// Progress of a wide task, one a ring slot.
struct alignas(16) Wide {
  u32 next;    // groups started
  u32 shares;  // shares not yet finished
  i32 status;  // first failure
  u32 reserved;
};

inline constexpr u64 kArenaMagic = 0x616E657261ULL;  // "arena"
inline constexpr u32 kArenaVersion = 1;

// The arena's first bytes: what it is and where each part lies, in bytes from its start.
struct ArenaHeader {
  u64 magic;
  u32 version;
  u32 ring_shift;
  u32 queue_shift;
  u32 max_workers;
  u64 bytes;
  u64 control;
  u64 queue;   // Slot[1 << queue_shift]: the ready queue
  u64 held;    // Slot[1 << ring_shift]: tasks that wait, and continuation slots, at their ring index
  u64 links;   // u64[1 << ring_shift]: see completion.hpp
  u64 wide;    // Wide[1 << ring_shift]
  u64 claims;  // u64[max_workers]: place | kClaimed, or 0
};

DWELL_HOST_DEVICE u64 align_up(u64 value, u64 to) { return (value + to - 1) / to * to; }

// Shares of wide tasks that may be in the ready queue at once, beyond one a task.
DWELL_HOST_DEVICE u32 most_spare_shares(u32 ring_shift) { return ring_shift < 13 ? 1U << ring_shift : 1U << 13U; }

// Places that others may consume while a worker that has claimed one does not look at it: at 3 ns each, ten times as long as that ever
// takes.
inline constexpr u32 kQueueSlack = 1U << 13U;

// The least that has a place for every ring slot and every spare share, and the slack (ready_queue.hpp).
DWELL_HOST_DEVICE u32 queue_shift_for(u32 ring_shift) {
  u32 shift = ring_shift + 1;
  while ((1U << shift) < (1U << ring_shift) + most_spare_shares(ring_shift) + kQueueSlack) ++shift;
  return shift;
}

// Lays an arena out.
DWELL_HOST_DEVICE ArenaHeader layout_arena(u32 ring_shift, u32 max_workers) {
  ArenaHeader header{};
  header.magic = kArenaMagic;
  header.version = kArenaVersion;
  header.ring_shift = ring_shift;
  header.queue_shift = queue_shift_for(ring_shift);
  header.max_workers = max_workers;
  u64 at = align_up(sizeof(ArenaHeader), 256);
  header.control = at;
  at = align_up(at + sizeof(Control), 256);
  header.queue = at;
  at += sizeof(Slot) << header.queue_shift;
  header.held = at;
  at += sizeof(Slot) << ring_shift;
  header.links = at;
  at += sizeof(u64) << ring_shift;
  header.wide = at;
  at += sizeof(Wide) << ring_shift;
  header.claims = at;
  at = align_up(at + sizeof(u64) * max_workers, 256);
  header.bytes = at;
  return header;
}

// What host and device tell each other about leases, in host memory.
struct alignas(128) LeaseReport {
  u32 left;              // written by the device: the number of the last lease that has ended
  alignas(128) u32 end;  // written by the host: the number of a lease that shall end at once
};

// Which task a worker runs: stored before it starts, so that it can be read after a fault. One line a worker, in host memory.
struct alignas(64) InFlight {
  u64 word;  // position | opcode << 32 | kValid

  static constexpr u64 kValid = 1ULL << 63U;
};

// Everything a lease needs: the kernel's parameter. Pointers are the device's.
struct Lease {
  const Slot* ring;         // host memory
  Completion* completions;  // host memory
  LeaseReport* report;      // host memory
  InFlight* in_flight;      // host memory
  Control* control;
  Slot* queue;
  Slot* held;
  u64* links;
  Wide* wide;
  u64* claims;
  const void* const* operators;  // the CPU's table; on CUDA the image holds it
  u32 ring_shift;
  u32 queue_shift;
  u32 workers;
  u32 crew;
  u32 number;
  u32 scratch_bytes;
  u32 lease_ticks;  // see now_ticks()
  u32 idle_ticks;
};

}  // namespace dwell::device
