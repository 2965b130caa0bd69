// The ring: the layout of submission and completion entries, and the lap arithmetic that makes every slot validate itself.
//
// Positions count slots since the runtime began, modulo 2^32. A slot is valid for position p when all four of its quads carry
// lap_of(p): the reader needs no index, no flag and no second read. A completion entry for p is there when it carries lap_of(p).
// Invariant: position p is reserved only when the task at p - capacity is complete, so laps one apart never mix in a slot, and 2^32
// positions may pass a slot without ambiguity because it is rewritten every lap.
// Source of the idea: io_uring's rings and words; laps instead of head and tail so that a task crosses PCIe in one read.
#pragma once

#include "device/header.hpp"

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

// The predecessors of a task with several: a quad each behind its arguments. Packed into word 2 of the task in the ring.
//   a quad: position (64) | a Kind (32); while it is held, word 2 is the next waiter
struct WaitList {
  enum Kind : u32 {
    soft,    // its failure cancels the task
    hard,    // it does not
    failed,  // has failed, as the host knows: the device does not check it
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
