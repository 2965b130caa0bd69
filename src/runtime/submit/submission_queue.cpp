#include "runtime/submit/submission_queue.hpp"

#include <algorithm>
#include <new>

#include <dwell/device/status.hpp>

namespace dwell::runtime {

using device::Completion;
using device::Header;
using device::Order;
using device::Quad;
using device::Scope;
namespace flag = device::flag;

namespace {

// Failed tasks whose status is remembered after their slot has been reused.
constexpr std::size_t kMostFailures = 1U << 18U;

static_assert(detail::kLink == flag::link && detail::kDrain == flag::drain && detail::kWide == flag::wide &&
              detail::kSystem == flag::system && detail::kMemory == flag::memory);
static_assert(detail::kMaxWords == device::kMaxArgumentWords && detail::kFirstSlotWords == device::kSlotWords - device::kHeaderWords);

constexpr std::uint32_t slots_for(std::uint32_t words) {
  return (device::kHeaderWords + words + device::kSlotWords - 1) / device::kSlotWords;
}

}  // namespace

SubmissionQueue::SubmissionQueue(device::Slot* ring, Completion* completions, std::uint32_t shift, std::uint64_t first, NameOf name_of)
    : ring_(ring),
      completions_(completions),
      shift_(shift),
      first_(first),
      name_of_(std::move(name_of)),
      tail_(first),
      last_head_(first),
      reaped_(first) {}

namespace {

// Pairs with the store in device/completion.hpp.
std::uint64_t word_of(const Completion& entry) {
  return device::load<Order::acquire, Scope::system>(reinterpret_cast<const std::uint64_t*>(&entry));
}

}  // namespace

Completion SubmissionQueue::completion(std::uint64_t position) const {
  const std::uint64_t word = word_of(completions_[index(position)]);
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

bool SubmissionQueue::succeeded(std::uint64_t position) const {
  const Completion entry = completion(position);
  return entry.lap == lap(position) && entry.status == status::ok;
}

Failure SubmissionQueue::result(std::uint64_t position) {
  const std::lock_guard guard(lock_);
  if (reaped() <= position) {
    const Completion entry = completion(position);
    return Failure{entry.status, name_of_(opcode_at(position))};
  }
  const auto at = failures_.find(position);
  return at == failures_.end() ? Failure{} : at->second;
}

bool SubmissionQueue::names(std::uint64_t position, std::uint64_t begin, std::uint64_t end) const {
  const auto word_at = [&](std::uint32_t i) {
    const std::uint32_t all = device::kHeaderWords + i;
    const device::Slot& slot = ring_[index(position + all / device::kSlotWords)];
    return device::load<Order::relaxed, Scope::system>(&slot.quad[all % device::kSlotWords / 3].word[all % 3]);
  };
  const Quad head = device::load_quad<Scope::system>(&ring_[index(position)].quad[0]);
  if (head.lap != lap(position)) return false;  // its submitter is still at it, so it was not submitted before the caller's call
  const Header header = Header::from(head.word[0], head.word[1]);
  if ((header.flags & flag::memory) == 0) return false;
  const std::uint32_t words = header.slots * device::kSlotWords - device::kHeaderWords;
  // Where the spans are, only the signature knows: any two words that make an address inside count.
  for (std::uint32_t i = 0; i + 1 < words; ++i) {
    const std::uint64_t address = word_at(i) | static_cast<std::uint64_t>(word_at(i + 1) & 0xFFFFFU) << 32U;
    if (address >= begin && address < end) return true;
  }
  return false;
}

std::vector<std::uint64_t> SubmissionQueue::failed_positions() {
  const std::lock_guard guard(lock_);
  std::vector<std::uint64_t> positions;
  positions.reserve(failures_.size());
  for (const auto& [position, failure] : failures_) positions.push_back(position);
  return positions;
}

std::uint32_t SubmissionQueue::opcode_at(std::uint64_t position) const {
  return device::load<Order::relaxed, Scope::system>(&ring_[index(position)].quad[0].word[0]) & 0xFFFFU;
}

bool SubmissionQueue::reap() noexcept {
  const std::lock_guard guard(lock_);
  reap_locked();
  return reaped() == tail();
}

bool SubmissionQueue::note_failure(std::uint64_t position, std::int32_t status) noexcept {
  try {
    // The name as it is now: once the entry is reaped, the opcode may come to mean something else.
    failures_.emplace(position, Failure{status, name_of_(opcode_at(position))});
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (failures_.size() > kMostFailures) failures_.erase(failures_.begin());
  return true;
}

void SubmissionQueue::reap_locked() noexcept {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  std::uint64_t at = reaped_.load(std::memory_order_relaxed);
  while (at != tail) {
    // Success comes in long runs, each entry the same up to the end of the ring.
    const std::uint64_t success = lap(at);
    const std::uint64_t end = std::min(tail, at + capacity() - index(at));
    for (const Completion* entry = completions_ + index(at); at != end && word_of(*entry) == success; ++entry) ++at;
    if (at == end) continue;
    const Completion entry = completion(at);
    if (entry.lap != lap(at)) break;
    if (entry.status != 0 && !note_failure(at, entry.status)) break;
    ++at;
  }
  reaped_.store(at, std::memory_order_release);
}

void SubmissionQueue::complete_all(std::int32_t status) {
  const std::lock_guard guard(lock_);
  for (std::uint64_t at = reaped(); at != tail(); ++at)
    if (completion(at).lap != lap(at)) complete_here(at, status);
  reap_locked();
}

std::uint64_t SubmissionQueue::switch_alias(std::atomic<std::uint32_t>& alias, std::uint32_t opcode) {
  const std::lock_guard guard(lock_);
  alias.store(opcode, std::memory_order_relaxed);
  return tail_.load(std::memory_order_relaxed);
}

std::uint64_t SubmissionQueue::reap_for_room(std::uint64_t tail) {
  reap_locked();
  return capacity() - (tail - reaped_.load(std::memory_order_relaxed));
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
  not_tasks_.store(not_tasks_.load(std::memory_order_relaxed) + padding + slots - 1, std::memory_order_relaxed);
  if (padding != 0) skip(tail, Header{0, 0, padding, flag::skip, drains_, 0});
  return tail + padding;
}

void SubmissionQueue::skip(std::uint64_t position, const Header& header) {
  const std::uint32_t slots = header.slots;
  for (std::uint32_t slot = 1; slot < slots; ++slot) complete_here(position + slot, status::ok);  // the first one by whoever fetches it
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    for (std::uint32_t i = 0; i < 4; ++i)
      device::store_quad<Scope::system>(&ring_[index(position + slot)].quad[i],
                                        Quad{lap(position + slot), {header.word0(), header.word1(), static_cast<std::uint32_t>(position)}});
}

Header SubmissionQueue::head(std::uint64_t position, std::uint32_t slots, std::uint32_t opcode, const detail::Task& task) {
  Header header{opcode, task.groups, slots, task.flags & ~(detail::kLink | detail::kDrain), drains_, 0};
  bool drains = (task.flags & flag::drain) != 0;
  if ((task.flags & flag::link) != 0 && !drains && last_head_ != position) {
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
    drains_ = (drains_ + 1) & Header::kDrainMask;
  }
  if (track_) header.flags |= flag::tracked;
  plain_word1_ = Header{0, 0, 0, track_ ? flag::tracked : 0, drains_, 0}.word1();
  last_tracked_ = track_;
  last_head_ = position;
  return header;
}

void SubmissionQueue::write(std::uint64_t position, const Header& header, const detail::Task& task) {
  for (std::uint32_t slot = 1; slot < header.slots; ++slot) {
    const std::uint64_t at = position + slot;
    complete_here(at, status::ok);
    for (std::uint32_t quad = 0; quad < 4; ++quad) {
      Quad to{lap(at), {}};
      for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint32_t from = slot * device::kSlotWords + quad * 3 - device::kHeaderWords + i;
        if (from < task.words) to.word[i] = task.rest[from - detail::kFirstSlotWords];
      }
      device::store_quad<Scope::system>(&ring_[index(at)].quad[quad], to);
    }
  }
  detail::FirstSlot first = task.first;
  first.head = 0;  // the header says it all
  write_slot(ring_[index(position)], first, lap(position), header.word0(), header.word1(), position);
}

bool SubmissionQueue::try_submit(const std::atomic<std::uint32_t>& alias, const detail::Task& task, std::uint64_t* position) {
  if (task.plain()) return try_submit_plain(alias, task.first, position);
  const std::uint32_t slots = slots_for(task.words);
  std::optional<std::uint64_t> place;
  Header header;
  {
    const std::lock_guard guard(lock_);
    place = reserve(slots);
    if (!place) return false;
    header = head(*place, slots, alias.load(std::memory_order_relaxed), task);
  }
  write(*place, header, task);
  *position = *place;
  return true;
}

std::size_t SubmissionQueue::try_submit_plain(const std::atomic<std::uint32_t>& alias, const detail::FirstSlot* slots, std::size_t count,
                                              std::uint64_t* last) {
  Places places;
  {
    const std::lock_guard guard(lock_);
    places = reserve_plain(alias, count);
  }
  for (std::size_t placed = 0; placed < places.count;) {
    // Up to the end of the ring laps are equal and slots are neighbours.
    const std::uint64_t position = places.first + placed;
    const std::size_t run = std::min<std::size_t>(places.count - placed, capacity() - index(position));
    device::Slot* const to = ring_ + index(position);
    const std::uint32_t tag = lap(position);
    for (std::size_t i = 0; i < run; ++i) write_slot(to[i], slots[placed + i], tag, places.opcode, places.word1, position + i);
    placed += run;
  }
  if (places.count != 0) *last = places.first + places.count - 1;
  return places.count;
}

bool SubmissionQueue::try_close_lease(std::uint32_t lease, bool at_once) {
  const std::lock_guard guard(lock_);
  const std::optional<std::uint64_t> position = reserve(1);
  if (!position) return false;
  not_tasks_.store(not_tasks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  skip(*position, Header{0, at_once ? 1U : 0U, 1, flag::skip | flag::close, drains_, lease & 0x7FU});
  return true;
}

}  // namespace dwell::runtime
