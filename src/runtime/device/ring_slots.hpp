// The encoding of tasks in the slots of the ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <dwell/detail/task.hpp>

#include "device/ring.hpp"

namespace dwell::runtime {

// The predecessors of a task.
struct WaitingFor {
  static constexpr std::uint32_t kMost = detail::kMostTickets + 1;  // `after` and `link`
  using Kind = device::WaitList::Kind;
  std::uint64_t position[kMost];
  Kind kind[kMost];
  std::uint32_t count = 0;
  bool failed = false;  // one of them has failed

  void add(std::uint64_t task, Kind its) {
    position[count] = task;
    kind[count++] = its;
    failed = failed || its == Kind::failed;
  }
  // The most quads that the list takes; a single recent predecessor fits in the header.
  std::uint32_t quads(std::uint32_t more) const { return count + more >= 2 || failed ? count + more : 0; }
};

// The header in the first slot of a task, and what follows from it.
struct TaskHead {
  device::Header header;
  std::uint32_t named;  // word 2: the task's own position, its predecessor's, or the list of predecessors (device::WaitList)
  bool list;            // `named` is a list
};

// Writes tasks into their slots, and reads them. Stores the first quad of a task last: a reader that sees it sees the rest. Does not own
// the ring. Members may be called from any thread; a writer owns its places exclusively.
class RingSlots {
 public:
  RingSlots(device::Slot* ring, std::uint32_t shift) : ring_(ring), shift_(shift) {}

  std::uint32_t capacity() const { return 1U << shift_; }

  // Returns the first quad after this many argument words. Quads are counted from the start of a task; the header is the first.
  static constexpr std::uint32_t first_free_quad(std::uint32_t words) { return 1 + (words + 2) / 3; }
  static constexpr std::uint32_t slots_for(std::uint32_t quads) { return (quads + 3) / 4; }

  // Write the first slot of a task, or the slots of adjacent one-slot tasks. Words 0 and 1 are merged with the slot's.
  void write_first(std::uint64_t position, const detail::FirstSlot& slot, std::uint32_t word0, std::uint32_t word1,
                   std::uint64_t word2) const {
    write_slot(ring_[index(position)], slot, lap(position), word0, word1, word2);
  }
  void write_plain(std::uint64_t first, const detail::FirstSlot* slots, std::size_t count, std::uint32_t opcode, std::uint32_t word1) const;
  // Writes all slots of a task, and its list of predecessors if head.list.
  void write(std::uint64_t position, const TaskHead& head, const detail::Task& task, const WaitingFor& list) const;
  // Writes an entry that the crew skips: the header into each quad of its slots.
  void write_entry(std::uint64_t position, const device::Header& header, std::uint32_t word2) const;
  void open_gate(std::uint64_t position) const;

  // Returns the header at this position; nothing while it is not written.
  std::optional<device::Header> header(std::uint64_t position) const;
  // Returns whether the task in flight at this position records its completion on the device.
  bool is_tracked(std::uint64_t position) const;
  // Word `i` of a task's arguments.
  std::uint32_t argument(std::uint64_t position, std::uint32_t i) const;

 private:
  std::uint32_t lap(std::uint64_t position) const { return device::lap_of(static_cast<std::uint32_t>(position), shift_); }
  std::uint32_t index(std::uint64_t position) const { return device::index_of(static_cast<std::uint32_t>(position), shift_); }

  static void write_slot(device::Slot& to, const detail::FirstSlot& slot, std::uint32_t lap, std::uint32_t word0, std::uint32_t word1,
                         std::uint64_t word2) {
    constexpr auto kSystem = device::Scope::system;
    const detail::Quad tag = {lap, 0};
    device::store_halves<kSystem>(&to.quad[3], slot.quad[2] | tag);
    device::store_halves<kSystem>(&to.quad[2], slot.quad[1] | tag);
    device::store_halves<kSystem>(&to.quad[1], slot.quad[0] | tag);
    device::store_halves<kSystem>(&to.quad[0], detail::Quad{(slot.head | word0) << 32U | lap, (slot.head >> 32U) | word1 | word2 << 32U});
  }

  device::Slot* ring_;
  std::uint32_t shift_;
};

}  // namespace dwell::runtime
