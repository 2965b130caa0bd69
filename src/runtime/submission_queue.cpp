#include "runtime/submission_queue.hpp"

#include <dwell/device/status.hpp>

namespace dwell::runtime {

using device::Completion;
using device::Header;
using device::Order;
using device::Quad;
using device::Scope;
namespace flag = device::flag;

namespace {

// Tasks that get their places under one lock.
constexpr std::size_t kBatch = 32;

// Failed tasks whose status is remembered after their slot has been reused.
constexpr std::size_t kMostFailures = 1U << 18U;

constexpr std::uint32_t slots_for(std::uint32_t words) {
  return (device::kHeaderWords + words + device::kSlotWords - 1) / device::kSlotWords;
}

}  // namespace

SubmissionQueue::SubmissionQueue(device::Slot* ring, Completion* completions, std::uint32_t shift, std::uint64_t first)
    : ring_(ring), completions_(completions), shift_(shift), tail_(first), last_head_(first), reaped_(first) {}

Completion SubmissionQueue::completion(std::uint64_t position) const {
  const auto word =
      device::load<Order::acquire, Scope::system>(reinterpret_cast<const std::uint64_t*>(completions_ + index(position)));
  return Completion{static_cast<std::uint32_t>(word), static_cast<std::int32_t>(word >> 32U)};
}

void SubmissionQueue::complete_here(std::uint64_t position, std::int32_t status) {
  const std::uint64_t word = lap(position) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(status)) << 32U;
  device::store<Order::release, Scope::system>(reinterpret_cast<std::uint64_t*>(completions_ + index(position)), word);
}

bool SubmissionQueue::done(std::uint64_t position) const {
  // In this order: an entry is overwritten only after reaped_ has passed it.
  if (completion(position).lap == lap(position)) return true;
  return reaped() > position;
}

Failure SubmissionQueue::result(std::uint64_t position) {
  const std::lock_guard guard(lock_);
  if (reaped() <= position) {
    const Completion entry = completion(position);
    return Failure{entry.status, entry_at(position)};
  }
  const auto at = failures_.find(position);
  return at == failures_.end() ? Failure{} : at->second;
}

std::vector<std::uint64_t> SubmissionQueue::failed_positions() {
  const std::lock_guard guard(lock_);
  std::vector<std::uint64_t> positions;
  positions.reserve(failures_.size());
  for (const auto& [position, failure] : failures_) positions.push_back(position);
  return positions;
}

std::uint32_t SubmissionQueue::entry_at(std::uint64_t position) const {
  return device::load<Order::relaxed, Scope::system>(&ring_[index(position)].quad[0].word[0]) & 0xFFFFU;
}

bool SubmissionQueue::reap() {
  const std::lock_guard guard(lock_);
  reap_locked();
  return reaped() == tail();
}

void SubmissionQueue::reap_locked() {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::uint64_t at = reaped_.load(std::memory_order_relaxed);
  for (; at != tail; ++at) {
    const Completion entry = completion(at);
    if (entry.lap != lap(at)) break;
    if (entry.status != 0) {
      failures_.emplace(at, Failure{entry.status, entry_at(at)});
      if (failures_.size() > kMostFailures) failures_.erase(failures_.begin());
    }
  }
  reaped_.store(at, std::memory_order_release);
}

void SubmissionQueue::complete_all(std::int32_t status) {
  const std::lock_guard guard(lock_);
  for (std::uint64_t at = reaped(); at != tail(); ++at)
    if (completion(at).lap != lap(at)) complete_here(at, status);
  reap_locked();
}

std::uint64_t SubmissionQueue::switch_alias(std::atomic<std::uint32_t>& alias, std::uint32_t entry) {
  const std::lock_guard guard(lock_);
  alias.store(entry, std::memory_order_relaxed);
  return tail_.load(std::memory_order_relaxed);
}

std::optional<std::uint64_t> SubmissionQueue::reserve(std::uint32_t slots) {
  std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const auto offset = static_cast<std::uint32_t>(tail % device::kWindow);
  const std::uint32_t padding = offset + slots > device::kWindow ? device::kWindow - offset : 0;
  const std::uint64_t end = tail + padding + slots;
  if (end - reaped_.load(std::memory_order_relaxed) > capacity()) {
    reap_locked();
    if (end - reaped_.load(std::memory_order_relaxed) > capacity()) return std::nullopt;
  }
  tail_.store(end, std::memory_order_release);
  if (padding != 0) skip(tail, padding, 0, 0);
  return tail + padding;
}

void SubmissionQueue::skip(std::uint64_t position, std::uint32_t slots, std::uint32_t flags, std::uint32_t back) {
  const Header header{0, 0, slots, flag::skip | flags, epoch_, back};
  for (std::uint32_t slot = 0; slot < slots; ++slot) complete_here(position + slot, status::ok);
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    for (std::uint32_t i = 0; i < 4; ++i)
      device::store_quad<Scope::system>(&ring_[index(position + slot)].quad[i],
                                        Quad{lap(position + slot), {header.word0(), header.word1(), static_cast<std::uint32_t>(position)}});
}

Header SubmissionQueue::head(std::uint64_t position, std::uint32_t slots, std::uint32_t entry, const detail::Task& task) {
  Header header{entry, task.groups, slots, 0, epoch_, 0};
  if (task.groups > 1) header.flags |= flag::wide;
  if (task.system) header.flags |= flag::system;
  if (task.reads) header.flags |= flag::reads;
  bool drains = task.drain;
  if (task.link && !drains && last_head_ != position) {
    // The first link of all, and one across a long gap, becomes a drain: stronger, and right without word from the task before.
    const std::uint64_t back = position - last_head_;
    if (last_tracked_ && back < 128) {
      header.flags |= flag::link;
      header.back = static_cast<std::uint32_t>(back);
    } else {
      drains = true;
    }
    track_ = true;
  }
  if (drains) {
    header.flags |= flag::drain;
    epoch_ = (epoch_ + 1) & Header::kEpochMask;
  }
  if (track_) header.flags |= flag::tracked;
  last_tracked_ = track_;
  last_head_ = position;
  for (std::uint32_t i = 0; i < task.buffers; ++i) detail::note_use(task.buffer[i], position);
  return header;
}

void SubmissionQueue::write(std::uint64_t position, const Header& header, const detail::Task& task) {
  device::Slot& first = ring_[index(position)];
  const std::uint32_t first_lap = lap(position);
  const std::uint32_t* const word = task.word;
  if (header.slots == 1) {
    device::store_quad<Scope::system>(&first.quad[3], Quad{first_lap, {word[6], word[7], word[8]}});
    device::store_quad<Scope::system>(&first.quad[2], Quad{first_lap, {word[3], word[4], word[5]}});
    device::store_quad<Scope::system>(&first.quad[1], Quad{first_lap, {word[0], word[1], word[2]}});
  } else {
    for (std::uint32_t slot = 1; slot < header.slots; ++slot) complete_here(position + slot, status::ok);
    for (std::uint32_t quad = header.slots * 4 - 1; quad > 0; --quad) {
      const std::uint64_t at = position + quad / 4;
      Quad to{lap(at), {}};
      for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint32_t from = quad * 3 - device::kHeaderWords + i;
        if (from < task.words) to.word[i] = word[from];
      }
      device::store_quad<Scope::system>(&ring_[index(at)].quad[quad % 4], to);
    }
  }
  device::store_quad<Scope::system>(&first.quad[0],
                                    Quad{first_lap, {header.word0(), header.word1(), static_cast<std::uint32_t>(position)}});
}

std::size_t SubmissionQueue::try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task* tasks, std::size_t count,
                                        std::uint64_t* last) {
  std::size_t done = 0;
  while (done < count) {
    // Places are given out under the lock and filled outside it, so that several threads fill theirs at once.
    struct Place {
      std::uint64_t position;
      Header header;
    } places[kBatch];
    const std::size_t wanted = count - done < kBatch ? count - done : kBatch;
    std::size_t placed = 0;
    {
      const std::lock_guard guard(lock_);
      const std::uint32_t entry = alias.load(std::memory_order_relaxed);
      for (; placed < wanted; ++placed) {
        const detail::Task& task = tasks[done + placed];
        const std::uint32_t slots = slots_for(task.words);
        const std::optional<std::uint64_t> position = reserve(slots);
        if (!position) break;
        places[placed].position = *position;
        places[placed].header = head(*position, slots, entry, task);
      }
      submitted_.store(submitted_.load(std::memory_order_relaxed) + placed, std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < placed; ++i) write(places[i].position, places[i].header, tasks[done + i]);
    if (placed != 0) *last = places[placed - 1].position;
    done += placed;
    if (placed < wanted) break;
  }
  return done;
}

std::optional<std::uint64_t> SubmissionQueue::try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task& task) {
  const std::uint32_t slots = slots_for(task.words);
  std::optional<std::uint64_t> position;
  Header header;
  {
    const std::lock_guard guard(lock_);
    position = reserve(slots);
    if (!position) return std::nullopt;
    header = head(*position, slots, alias.load(std::memory_order_relaxed), task);
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  write(*position, header, task);
  return position;
}

bool SubmissionQueue::try_close_lease(std::uint32_t epoch) {
  const std::lock_guard guard(lock_);
  const std::optional<std::uint64_t> position = reserve(1);
  if (!position) return false;
  skip(*position, 1, flag::close, epoch & 0x7FU);
  return true;
}

}  // namespace dwell::runtime
