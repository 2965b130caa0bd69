// The memory of a ring of messages: shared by host and device.
//
// A ring is an array of slots of one size. A message takes one slot, or several in a row in a ring of bytes; its position is the number of
// its first slot, counted from the ring's beginning without end. Each slot has a head beside it, which says what lies there.
//
//   RingControl   one for each side that uses the ring, in memory of that side: where the rest lies, and the counters of the ends that
//                 this side has
//   RingShared    in memory that both sides reach: what they tell each other
//   heads, data   the same. `data` has room behind its last slot for the message that begins there: messages are contiguous
#pragma once

#include <dwell/device/quad.hpp>

namespace dwell {
namespace device {

// What lies in a slot. Readers skip all but messages; a continuation belongs to the message that begins before it.
enum class Segment : u32 { message, discarded, abandoned, continuation };

DWELL_CONSTANT u32 kRingBlocks = 32;  // parts of a ring that become free one by one
DWELL_CONSTANT u32 kMostMessageBytes = (1U << 22U) - 1;
DWELL_CONSTANT u64 kRingClosed = 1ULL << 63U;  // in RingControl::tail
DWELL_CONSTANT u64 kRingEndless = ~0ULL;       // RingShared::end of an open ring

DWELL_CONSTANT u32 kRingChecked = 1;  // messages have checksums
DWELL_CONSTANT u32 kRingSystem = 2;   // the other end is on the other side
DWELL_CONSTANT u32 kRingPushes = 4;   // this side has the producers
DWELL_CONSTANT u32 kRingPops = 8;     // this side has the consumers

// The head of a slot, as a quad: position + 1 (64 bits, the lower half in the lap), then bytes (22) | Segment (2) | type (8), then the
// checksum. No two segments of a ring's life have the same first half, so one load tells whether a position has been committed.
struct RingHead {
  u32 bytes;
  Segment segment;
  u32 type;

  DWELL_HOST_DEVICE u32 word() const { return bytes | static_cast<u32>(segment) << 22U | type << 24U; }
  static DWELL_HOST_DEVICE RingHead from(u32 word) {
    return RingHead{word & kMostMessageBytes, static_cast<Segment>(word >> 22U & 3U), word >> 24U};
  }
};

// One side's part of a ring.
struct alignas(128) RingControl {
  u64 shared;  // addresses on this side: RingShared
  u64 heads;   // Quad, one a slot
  u64 data;
  u32 shift;        // of slots
  u32 block_shift;  // of slots in a block
  u32 slot_bytes;   // a multiple of 16
  u32 most;         // bytes of a message
  u32 flags;
  u32 reserved[17];

  // The producers' side. `room` counts slots that may be reserved, `credited` the blocks that have been added to it.
  alignas(128) u64 room;
  alignas(128) u64 tail;
  alignas(128) u64 credited;
  u64 asking;  // 1: a thread looks for blocks that the other side has freed
  // The consumers' side. `done` counts the slots of a block that have been read, in all rounds.
  alignas(128) u64 head;
  alignas(128) u64 discarded;
  u64 abandoned;
  u64 damaged;
  u64 damaged_at;  // the last one's position
  alignas(128) u32 done[kRingBlocks];
};

struct alignas(128) RingShared {
  u64 end;  // the position behind the last message, once the ring is closed
  // By block: the number of rounds in which all of its slots have been read.
  alignas(128) u32 freed[kRingBlocks];
};
static_assert(sizeof(RingControl) == 7 * 128 && sizeof(RingShared) == 2 * 128, "host and device agree on the layout");

// Slots that a message takes.
DWELL_HOST_DEVICE u32 ring_slots_of(u32 bytes, u32 slot_bytes) { return bytes == 0 ? 1 : (bytes + slot_bytes - 1) / slot_bytes; }

}  // namespace device
}  // namespace dwell
