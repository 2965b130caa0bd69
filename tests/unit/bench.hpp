// A ring, an arena and a lease in plain memory, laid out like those of runtime::Core: for tests that play worker or host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "device/arena.hpp"
#include "device/operator_table.hpp"
#include "device/worker.hpp"
#include "device/worker_memory.hpp"
#include "runtime/device/submission_queue.hpp"

namespace dwell::test {

// The entry of a test operator, for Lease::operators.
template <void (*kOperator)(const Group&, const u32*)>
const void* entry_of() {
  const device::Entry entry = [](device::Context* context, u32 opcode, const u32* arguments) {
    kOperator(Group(context, opcode), arguments);
  };
  return reinterpret_cast<const void*>(entry);
}

class Bench {
 public:
  // `deques`: as on the CPU; otherwise as on CUDA, or with levels.
  explicit Bench(u32 shift = 7, u32 workers = 2, std::uint64_t first = 0, bool deques = false)
      : ring(1U << shift),
        completions(1U << shift),
        in_flight(workers),
        failed_nodes(1U << shift),
        failed_inside(1U << shift),
        log(workers),
        log_read(std::size_t{workers} * 16),
        overruns(workers),
        layout(device::layout_arena(shift, workers, 0, false, deques)),
        arena(static_cast<std::uint8_t*>(std::aligned_alloc(256, layout.bytes + kPieces)), &std::free),
        queue(ring.data(), completions.data(), report, shift, first, [this](std::uint32_t opcode) { return name_of(opcode); }) {
    std::fill(arena.get(), arena.get() + layout.bytes, std::uint8_t{0});
    next_piece_ = arena.get() + layout.bytes;
    lease.ring = ring.data();
    lease.completions = completions.data();
    lease.report = &report;
    lease.in_flight = in_flight.data();
    lease.failed_nodes = failed_nodes.data();
    lease.failed_inside = failed_inside.data();
    lease.log = log.data();
    lease.log_read = log_read.data();
    lease.overruns = overruns.data();
    device::point_into_arena(&lease, layout, reinterpret_cast<std::uint64_t>(arena.get()));
    lease.workers = workers;
    lease.crew = 1;
    lease.former_workers = workers;
    lease.former_crew = 1;
    lease.number = 1;
    lease.scratch_bytes = 1024;
    lease.lease_ticks = 1U << 20U;
    lease.idle_ticks = 1U << 20U;
    lease.stretch_ticks = 1U << 20U;
    lease.wakes = 1;
    control() = device::first_control(layout, first);
  }

  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  device::Control& control() const { return *lease.control; }
  // Allocates memory behind the parts of the arena.
  std::byte* take(std::size_t bytes) {
    std::uint8_t* const piece = next_piece_;
    next_piece_ += device::align_up(bytes, 256);
    if (next_piece_ > arena.get() + layout.bytes + kPieces) throw std::bad_alloc();
    return reinterpret_cast<std::byte*>(piece);
  }
  u32 capacity() const { return 1U << lease.ring_shift; }

  // Initialises `worker` as worker `me`, as the resident loop does.
  void set_up(device::Worker* worker, u32 me) {
    worker->me = me;
    device::set_up(lease, worker);
    worker->context.started = device::now_ticks();
  }

  // ---- The host's side ----

  // The header of the task at `position`.
  device::Header header(std::uint64_t position) const {
    const device::Quad quad = load(ring[index(position)].quad[0]);
    return device::Header::from(quad.word[0], quad.word[1]);
  }
  // Word 2 of that slot: the position of the task or of its link's target, or the number of a lease.
  u32 named(std::uint64_t position) const { return load(ring[index(position)].quad[0]).word[2]; }
  // Returns whether the slot at `position` is valid for it.
  bool written(std::uint64_t position) const {
    const device::Slot& slot = ring[index(position)];
    return std::all_of(slot.quad, slot.quad + 4, [&](const device::Quad& quad) { return load(quad).lap == lap(position); });
  }
  // Argument word `i` of the task at `position`.
  u32 argument(std::uint64_t position, u32 i) const {
    const u32 all = device::kHeaderWords + i;
    return load(ring[index(position + all / device::kSlotWords)].quad[all % device::kSlotWords / 3]).word[all % 3];
  }
  // The positions that a task waits for, decoded from its slots: plus kHard if their failure does not cancel it, plus kFailed if they have
  // failed.
  static constexpr std::uint64_t kHard = 1ULL << 62U;
  static constexpr std::uint64_t kFailed = 1ULL << 61U;
  std::vector<std::uint64_t> waits(std::uint64_t position) const {
    const device::Header head = header(position);
    if ((head.flags & device::flag::link) != 0) {
      const bool failed = (head.flags & device::flag::failed) == device::flag::failed;
      return {named(position) + ((head.flags & device::flag::hard) != 0 ? kHard : failed ? kFailed : 0)};
    }
    if ((head.flags & device::flag::after) == 0) return {};
    const device::WaitList list = device::WaitList::from(named(position));
    std::vector<std::uint64_t> all;
    for (u32 i = list.first; i < list.first + list.count; ++i) {
      const device::Quad entry = load(ring[index(position + i / 4)].quad[i % 4]);
      all.push_back((entry.word[0] | static_cast<std::uint64_t>(entry.word[1]) << 32U) + (entry.word[2] == device::WaitList::hard ? kHard
                                                                                          : entry.word[2] == device::WaitList::failed
                                                                                              ? kFailed
                                                                                              : 0));
    }
    return all;
  }
  // Returns whether the position has a completion entry.
  bool complete(std::uint64_t position) const { return entry(position).lap == lap(position); }
  i32 status(std::uint64_t position) const { return entry(position).status; }
  // Changes an operator's opcode, as the image table does.
  std::uint64_t switch_alias(std::atomic<std::uint32_t>& alias, std::uint32_t opcode) {
    const runtime::SubmissionQueue::Switch one[] = {{&alias, opcode}};
    return queue.switch_aliases(one);
  }
  // Completes the task at `position` as a worker would.
  void finish(std::uint64_t position, i32 status = 0) {
    const u64 word = lap(position) | static_cast<u64>(static_cast<u32>(status)) << 32U;
    device::store<device::Order::release, device::Scope::system>(reinterpret_cast<u64*>(&completions[index(position)]), word);
  }

  // ---- The device's side ----

  // A task as read from the ring: argument words 3, 4, ... count up from its position. `named`: word 2, as the flags define it.
  static device::TaskQuads quads(const device::Header& header, u32 position) { return quads(header, position, position); }
  static device::TaskQuads quads(const device::Header& header, u32 position, u32 named) {
    device::TaskQuads task{};
    for (u32 i = 0; i < header.slots * 4; ++i)
      for (u32 j = 0; j < 3; ++j) task.quad[i].word[j] = position + i * 3 + j;
    task.quad[0] = device::Quad{0, {header.word0(), header.word1(), named}};
    return task;
  }
  // A task of one slot and one group.
  static device::Header plain(u32 opcode, u32 flags = 0) { return device::Header{opcode, 1, 1, flags, 0}; }

  // The queue's name of an operator.
  std::function<std::string(std::uint32_t)> name_of = [](std::uint32_t opcode) { return "operator " + std::to_string(opcode); };

  std::vector<device::Slot> ring;
  std::vector<device::Completion> completions;
  std::vector<device::InFlight> in_flight;
  std::vector<u64> failed_nodes;
  std::vector<device::Quad> failed_inside;
  std::vector<device::Slot> log;  // too few slots for a line
  std::vector<u32> log_read;
  std::vector<device::Overruns> overruns;
  device::LeaseReport report{};
  device::ArenaHeader layout;
  std::unique_ptr<std::uint8_t, decltype(&std::free)> arena;
  device::Lease lease{};
  runtime::SubmissionQueue queue;

 private:
  static constexpr std::size_t kPieces = 4U << 20U;  // bytes behind the arena's parts

  static device::Quad load(const device::Quad& quad) { return device::load_quad<device::Scope::system>(&quad); }
  std::uint8_t* next_piece_ = nullptr;

  u32 index(std::uint64_t position) const { return device::index_of(static_cast<u32>(position), lease.ring_shift); }
  u32 lap(std::uint64_t position) const { return device::lap_of(static_cast<u32>(position), lease.ring_shift); }
  device::Completion entry(std::uint64_t position) const {
    const u64 word =
        device::load<device::Order::acquire, device::Scope::system>(reinterpret_cast<const u64*>(&completions[index(position)]));
    return device::Completion{static_cast<u32>(word), static_cast<i32>(word >> 32U)};
  }
};

// A task with these argument words, which must outlive it. `flags`: as set by submit's modifiers.
inline detail::Task task_of(const std::vector<u32>& words, u32 flags = 0, u32 groups = 1, const detail::Waits* waits = nullptr) {
  return detail::task_of(words.data(), static_cast<u32>(words.size()), flags, groups, waits);
}

}  // namespace dwell::test
