// The host's side of the ring: positions, slots, credit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <dwell/detail/task.hpp>

#include "device/ring.hpp"
#include "runtime/submit/submit_lock.hpp"

namespace dwell::runtime {

// Where a task stands that ended with anything but success.
struct Failure {
  std::int32_t status = 0;
  std::string ran;  // operator and version
};

// Writes tasks into the ring and reads their completion. Does not own the ring. Members may be called from any thread.
//
// Invariants: positions [reaped, tail) are in flight and fewer than the capacity; completion entries are reaped in order, and the entry
// at a position is overwritten only after it has been reaped. Continuation slots, and those of padding and close requests behind the
// first, have their completion entry stored here, by the host; they lie behind one that the device stores.
class SubmissionQueue {
 public:
  // `name_of` turns an opcode into the operator and version that it is while tasks of it are in flight; called from any member.
  using NameOf = std::function<std::string(std::uint32_t)>;
  SubmissionQueue(device::Slot* ring, device::Completion* completions, std::uint32_t shift, std::uint64_t first, NameOf name_of);

  // Places a task; it runs the opcode in `alias` as it is at the moment when it gets its place. False when there is no room.
  bool try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task& task, std::uint64_t* position);

  // The same for a task of one slot and no order.
  bool try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot& slot, std::uint64_t* position) {
    Places place;
    {
      const std::lock_guard guard(lock_);
      place = reserve_plain(alias, 1);
    }
    if (place.count == 0) [[unlikely]]
      return false;
    write_slot(ring_[index(place.first)], slot, lap(place.first), place.opcode, place.word1, place.first);
    *position = place.first;
    return true;
  }
  // The same for several, as many as there is room for. Returns how many, and the position of the last.
  std::size_t try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot* slots, std::size_t count,
                               std::uint64_t* last);

  // Asks the lease of this number and those before to end as soon as the fetch crew comes to it: when the next one is there, or at once.
  // False when the ring is full.
  bool try_close_lease(std::uint32_t lease, bool at_once);

  // Changes an alias such that every task before `tail()` as returned ran the old entry and every later one runs the new.
  std::uint64_t switch_alias(std::atomic<std::uint32_t>& alias, std::uint32_t opcode);

  bool done(std::uint64_t position) const;
  // Whether a task that is done is known to have succeeded, without taking the lock; false says nothing.
  bool succeeded(std::uint64_t position) const;
  // The status of a task that is done.
  Failure result(std::uint64_t position);

  // Whether the task in flight at this position has an argument that is an address in [begin, end). May say so of one that has not.
  bool names(std::uint64_t position, std::uint64_t begin, std::uint64_t end) const;

  // The tasks known to have failed, oldest first; of very many only the latest.
  std::vector<std::uint64_t> failed_positions();

  // One past the last position given out, and one past the last of the unbroken run of completed ones.
  std::uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  std::uint64_t reaped() const { return reaped_.load(std::memory_order_acquire); }
  std::uint64_t submitted() const { return tail() - first_ - not_tasks_.load(std::memory_order_relaxed); }

  // Reads completion entries in order as far as they are there, and as there is memory to note failures. True when nothing is in flight.
  bool reap() noexcept;

  // Completes everything in flight with `status`. The device no longer writes.
  void complete_all(std::int32_t status);

  // What the task in flight at this position runs. Only meaningful while it is in flight.
  std::uint32_t opcode_at(std::uint64_t position) const;

  std::uint32_t capacity() const { return 1U << shift_; }

 private:
  std::uint32_t lap(std::uint64_t position) const { return device::lap_of(static_cast<std::uint32_t>(position), shift_); }
  std::uint32_t index(std::uint64_t position) const { return device::index_of(static_cast<std::uint32_t>(position), shift_); }
  device::Completion completion(std::uint64_t position) const;
  void complete_here(std::uint64_t position, std::int32_t status);

  // Fill a task's first slot, all slots. Outside the lock: the places are the caller's alone. Words 0 and 1 are merged with the slot's.
  static void write_slot(device::Slot& to, const detail::FirstSlot& slot, std::uint32_t lap, std::uint32_t word0, std::uint32_t word1,
                         std::uint64_t position) {
    constexpr auto kSystem = device::Scope::system;
    const detail::Quad tag = {lap, 0};
    device::store_halves<kSystem>(&to.quad[3], slot.quad[2] | tag);
    device::store_halves<kSystem>(&to.quad[2], slot.quad[1] | tag);
    device::store_halves<kSystem>(&to.quad[1], slot.quad[0] | tag);
    device::store_halves<kSystem>(&to.quad[0],
                                  detail::Quad{(slot.head | word0) << 32U | lap, (slot.head >> 32U) | word1 | position << 32U});
  }
  void write(std::uint64_t position, const device::Header& header, const detail::Task& task);
  std::uint64_t submit_general(const std::atomic<std::uint32_t>& alias, const detail::Task& task, bool* placed);

  // The following run under the lock.
  // Neighbouring places for tasks of one slot and no order, as many of `count` as there is room for.
  struct Places {
    std::uint64_t first;
    std::size_t count;
    std::uint32_t opcode;
    std::uint32_t word1;  // what their headers have in common
  };
  Places reserve_plain(const std::atomic<std::uint32_t>& alias, std::size_t count) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t room = capacity() - (tail - reaped_.load(std::memory_order_relaxed));
    if (room < count) [[unlikely]]
      count = std::min<std::uint64_t>(count, reap_for_room(tail));
    if (count != 0) {
      tail_.store(tail + count, std::memory_order_release);
      last_tracked_ = track_;
      last_head_ = tail + count - 1;
    }
    return {tail, count, alias.load(std::memory_order_relaxed), plain_word1_};
  }
  std::uint64_t reap_for_room(std::uint64_t tail);
  std::optional<std::uint64_t> reserve(std::uint32_t slots);
  void reap_locked() noexcept;
  // False when there is no memory for it.
  bool note_failure(std::uint64_t position, std::int32_t status) noexcept;
  device::Header head(std::uint64_t position, std::uint32_t slots, std::uint32_t opcode, const detail::Task& task);
  void skip(std::uint64_t position, const device::Header& header);

  device::Slot* ring_;
  device::Completion* completions_;
  std::uint32_t shift_;
  std::uint64_t first_;
  NameOf name_of_;

  SubmitLock lock_;
  std::atomic<std::uint64_t> tail_;
  std::atomic<std::uint64_t> not_tasks_{0};  // positions that hold no task of their own
  std::uint64_t last_head_;                  // position of the task before, for links
  bool last_tracked_ = false;
  bool track_ = false;             // links are in use: tasks leave word on the device when they complete
  std::uint32_t drains_ = 0;       // drains so far
  std::uint32_t plain_word1_ = 0;  // header word 1 of tasks of one slot and no order, as track_ and drains_ have it
  std::map<std::uint64_t, Failure> failures_;
  alignas(64) std::atomic<std::uint64_t> reaped_;
};

}  // namespace dwell::runtime
