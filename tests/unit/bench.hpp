// A ring, an arena and a lease in plain memory, laid out as runtime::Core does it: for tests that play worker or host by hand.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "device/arena.hpp"
#include "device/operator_table.hpp"
#include "runtime/submission_queue.hpp"

namespace dwell::test {

class Bench {
 public:
  explicit Bench(u32 shift = 7, u32 workers = 2, std::uint64_t first = 0)
      : ring(1U << shift),
        completions(1U << shift),
        blame(workers),
        layout(device::layout_arena(shift, workers)),
        arena(static_cast<std::uint8_t*>(std::aligned_alloc(256, layout.bytes)), &std::free),
        queue(ring.data(), completions.data(), shift, first, [](std::uint32_t entry) { return "operator " + std::to_string(entry); }) {
    std::fill(arena.get(), arena.get() + layout.bytes, std::uint8_t{0});
    lease.ring = ring.data();
    lease.completions = completions.data();
    lease.report = &report;
    lease.blame = blame.data();
    lease.control = part<device::Control>(layout.control);
    lease.queue = part<device::Slot>(layout.queue);
    lease.held = part<device::Slot>(layout.held);
    lease.links = part<u64>(layout.links);
    lease.wide = part<device::Wide>(layout.wide);
    lease.claims = part<u64>(layout.claims);
    lease.ring_shift = shift;
    lease.queue_shift = layout.queue_shift;
    lease.workers = workers;
    lease.crew = 1;
    lease.epoch = 1;
    lease.scratch_bytes = 1024;
    lease.lease_ticks = 1U << 20U;
    lease.idle_ticks = 1U << 20U;
    const auto low = static_cast<u32>(first);
    control().head.value = control().tail.value = low;
    control().completed.value = low;
    control().fetch_position = low;
    control().spare_shares.value = 1U << shift;
  }

  device::Control& control() const { return *lease.control; }
  u32 capacity() const { return 1U << lease.ring_shift; }
  // A task of one slot as the ready queue has it.
  static device::TaskQuads quads(u32 entry, u32 position, u32 flags = 0, u32 slots = 1, u32 groups = 1) {
    const device::Header header{entry, groups, slots, flags, 0, 0};
    device::TaskQuads task{};
    task.quad[0] = device::Quad{0, {header.word0(), header.word1(), position}};
    for (u32 i = 1; i < slots * 4; ++i) task.quad[i] = device::Quad{0, {position + i, position + 2 * i, position + 3 * i}};
    return task;
  }

  std::vector<device::Slot> ring;
  std::vector<device::Completion> completions;
  std::vector<device::Blame> blame;
  device::LeaseReport report{};
  device::ArenaHeader layout;
  std::unique_ptr<std::uint8_t, decltype(&std::free)> arena;
  device::Lease lease{};
  runtime::SubmissionQueue queue;

 private:
  template <class T>
  T* part(u64 offset) const {
    return reinterpret_cast<T*>(arena.get() + offset);
  }
};

// A task with these argument words.
inline detail::Task task_of(const std::vector<u32>& words, u32 flags = 0, u32 groups = 1) {
  detail::Task task;
  detail::Cursor at;
  at.words = static_cast<u32>(words.size());
  at.flags = flags;
  at.groups = groups;
  for (u32 i = 0; i < words.size(); ++i) task.set(i, words[i]);
  at.finish(task);
  return task;
}

}  // namespace dwell::test
