// Tasks as they lie in the slots of the ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <dwell/detail/task.hpp>

#include "device/ring.hpp"

namespace dwell::runtime {

// The tasks that a task waits for.
struct WaitingFor {
  static constexpr std::uint32_t kMost = detail::kMostTickets + 1;  // `after` and `link`
  using Kind = device::WaitList::Kind;
  std::uint64_t position[kMost];
  Kind kind[kMost];
  std::uint32_t count = 0;
  bool failed = false;  // one of them has

  void add(std::uint64_t task, Kind its) {
    position[count] = task;
    kind[count++] = its;
    failed = failed || its == Kind::failed;
  }
  // Quads that the list takes at most; one task that is not long gone is named in the header.
  std::uint32_t quads(std::uint32_t more) const { return count + more >= 2 || failed ? count + more : 0; }
};

// The header in the first slot of a task, and what follows from it.
struct TaskHead {
  device::Header header;
  std::uint32_t named;  // word 2: the task's own position, that of the one that it waits for, or the list of those (device::WaitList)
  bool list;            // the latter
};

// Writes tasks into their slots, and reads what is there. The first quad of a task is stored last: who finds that finds the rest. Does not
// own the ring. Members may be called from any thread; who writes has the places for itself.
class RingSlots {
 public:
  RingSlots(device::Slot* ring, std::uint32_t shift) : ring_(ring), shift_(shift) {}

  std::uint32_t capacity() const { return 1U << shift_; }

  // Quads are counted from the start of a task; the header is the first. The first one behind so many argument words.
  static constexpr std::uint32_t first_free_quad(std::uint32_t words) { return 1 + (words + 2) / 3; }
  static constexpr std::uint32_t slots_for(std::uint32_t quads) { return (quads + 3) / 4; }

  // Write the first slot of a task; those of neighbouring tasks of one slot each. Words 0 and 1 are merged with the slot's.
  void write_first(std::uint64_t position, const detail::FirstSlot& slot, std::uint32_t word0, std::uint32_t word1,
                   std::uint64_t word2) const {
    write_slot(ring_[index(position)], slot, lap(position), word0, word1, word2);
  }
  void write_plain(std::uint64_t first, const detail::FirstSlot* slots, std::size_t count, std::uint32_t opcode, std::uint32_t word1) const;
  // Writes all slots of a task, with the list of those that it waits for when the head says so.
  void write(std::uint64_t position, const TaskHead& head, const detail::Task& task, const WaitingFor& list) const;
  // Writes an entry that the crew passes over: the header into each quad of its slots.
  void write_entry(std::uint64_t position, const device::Header& header, std::uint32_t word2) const;
  void open_gate(std::uint64_t position) const;

  // The header at this position; nothing while it is not written.
  std::optional<device::Header> header(std::uint64_t position) const;
  // Whether the task in flight at this position leaves word on the device when it completes.
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
