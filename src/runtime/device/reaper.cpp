#include "runtime/device/reaper.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <tuple>

#include <dwell/device/status.hpp>

#include "device/cancels.hpp"
#include "runtime/device/sources.hpp"

namespace dwell::runtime {

using device::Completion;
using device::Header;
using device::Order;
using device::Quad;
using device::Scope;
namespace flag = device::flag;

namespace {

// Failed tasks whose status is kept after their slot was reused.
constexpr std::size_t kMostFailures = 1U << 18U;

// Pairs with the store in device/completion.hpp.
std::uint64_t word_of(const Completion& entry) {
  return device::load<Order::acquire, Scope::system>(reinterpret_cast<const std::uint64_t*>(&entry));
}

}  // namespace

Completion Reaper::completion(std::uint64_t position) const {
  const std::uint64_t word = word_of(completions_[index(position)]);
  return Completion{static_cast<std::uint32_t>(word), static_cast<std::int32_t>(word >> 32U)};
}

Quad Reaper::quad_at(std::uint64_t position, std::uint32_t quad) const {
  return device::load_quad<Scope::system>(&ring_[index(position + quad / 4)].quad[quad % 4]);
}

void Reaper::complete_here(std::uint64_t position, std::int32_t status) {
  const std::uint64_t word = lap(position) | static_cast<std::uint64_t>(static_cast<std::uint32_t>(status)) << 32U;
  device::store<Order::release, Scope::system>(reinterpret_cast<std::uint64_t*>(completions_ + index(position)), word);
}

bool Reaper::done(std::uint64_t position) const {
  // In this order: an entry is overwritten only after reaped_ has passed it.
  if (completion(position).lap == lap(position)) return true;
  return reaped() > position;
}

bool Reaper::succeeded(std::uint64_t position) const {
  const Completion entry = completion(position);
  return entry.lap == lap(position) && entry.status == status::ok;
}

Failure Reaper::result(std::uint64_t position) {
  const std::lock_guard guard(lock_);
  if (reaped() <= position) return failure_at(position, completion(position).status);
  if (const auto at = failures_.find(position); at != failures_.end()) return at->second;
  if (!ended_from_ || position < *ended_from_) return Failure{};
  const Completion entry = completion(position);
  return entry.lap == lap(position) && entry.status != status::ok ? failure_at(position, entry.status) : Failure{};
}

Reaper::Cancel Reaper::cancel(std::uint64_t position) {
  const std::lock_guard guard(lock_);
  if (position < reaped() || completion(position).lap == lap(position)) return Cancel::done;
  if (!asked_.insert(position).second) return Cancel::asked_before;
  // One word, so that its fetcher sees the task with or without the mark. Nobody else writes it while the task is in flight.
  std::uint32_t* const word = &ring_[index(position)].quad[0].word[1];
  const std::uint32_t now = device::load<Order::relaxed, Scope::system>(word);
  device::store<Order::relaxed, Scope::system>(word, now | device::cancels::kMark);
  return Cancel::asked;
}

Reaper::Outcome Reaper::outcome(std::uint64_t position) {
  if (!done(position)) return Outcome::pending;
  const std::lock_guard guard(lock_);
  const bool failed = position < reaped() ? failures_.contains(position) : completion(position).status != status::ok;
  return failed ? Outcome::failed : Outcome::succeeded;
}

std::vector<std::uint64_t> Reaper::failed_positions() {
  const std::lock_guard guard(lock_);
  std::vector<std::uint64_t> positions;
  positions.reserve(failures_.size());
  for (const auto& [position, failure] : failures_) positions.push_back(position);
  if (!begun_) return positions;
  for (const auto& [position, progress] : *begun_)
    if (progress.status != status::ok && !failures_.contains(position)) positions.push_back(position);
  std::ranges::sort(positions);
  return positions;
}

std::uint32_t Reaper::opcode_at(std::uint64_t position) const {
  return device::load<Order::relaxed, Scope::system>(&ring_[index(position)].quad[0].word[0]) & device::Header::kOpcodeMask;
}

std::optional<Failure::Cause> Reaper::cause_of(std::uint64_t position) const {
  for (;;) {
    const Quad head = quad_at(position, 0);
    const Header header = Header::from(head.word[0], head.word[1]);
    // The cancelled predecessor, whose own cause is searched next: it is not recorded yet.
    std::optional<std::uint64_t> cancelled;
    const auto look_at = [&](std::uint64_t before, bool has_failed) -> std::optional<Failure::Cause> {
      if (const auto noted = failures_.find(before); noted != failures_.end()) {
        const Failure& failure = noted->second;
        if (failure.status == status::cancelled && !failure.asked) return failure.cause;
        return Failure::Cause{before, failure.status, failure.ran, failure.graph};
      }
      if (before < reaped()) {
        const bool forgotten = failures_.size() >= kMostFailures && before < failures_.begin()->first;
        if (has_failed || forgotten) return Failure::Cause{before, 0, "", ""};
        return std::nullopt;
      }
      const Completion entry = completion(before);
      if (entry.lap != lap(before) || entry.status == status::ok) return std::nullopt;
      if (entry.status != status::cancelled || asked_.contains(before)) {
        const Ran ran = ran_at(before, entry.status);
        return Failure::Cause{before, entry.status, ran.ran, ran.graph};
      }
      if (!cancelled) cancelled = before;
      return std::nullopt;
    };
    const bool failed = (header.flags & flag::failed) == flag::failed;
    if ((header.flags & flag::after) != 0 && !failed) {
      const device::WaitList list = device::WaitList::from(head.word[2]);
      for (std::uint32_t i = 0; i < list.count; ++i) {
        const Quad entry = quad_at(position, list.first + i);
        if (entry.word[2] == device::WaitList::hard) continue;
        const std::uint64_t before = entry.word[0] | static_cast<std::uint64_t>(entry.word[1]) << 32U;
        if (auto cause = look_at(before, entry.word[2] == device::WaitList::failed)) return cause;
      }
    } else if ((header.flags & flag::link) != 0 && (header.flags & flag::hard) == 0) {
      const std::uint64_t before = position - (static_cast<std::uint32_t>(position) - head.word[2]);
      if (auto cause = look_at(before, failed)) return cause;
    }
    if (!cancelled) return std::nullopt;
    position = *cancelled;
  }
}

std::uint64_t Reaper::launched_at(std::uint64_t position) const {
  const Quad head = quad_at(position, 0);
  if (!source_of(Header::from(head.word[0], head.word[1])).launches) return 0;
  const Quad arguments = quad_at(position, 1);
  return arguments.word[0] | static_cast<std::uint64_t>(arguments.word[1]) << 32U;
}

Reaper::Ran Reaper::ran_at(std::uint64_t position, std::int32_t status) const {
  const std::uint64_t head = launched_at(position);
  if (head == 0) {
    const bool tells_why = status == status::exception || status == status::out_of_bounds;
    return {name_of_(opcode_at(position)), tells_why ? failed_node(position, 0, status).second : "", ""};
  }
  Ran all{"", "", title_of_graph(head)};
  if (status != status::cancelled && status != status::interrupted) std::tie(all.ran, all.why) = failed_node(position, head, status);
  return all;
}

Failure Reaper::failure_at(std::uint64_t position, std::int32_t status) const {
  Failure failure;
  failure.status = status;
  Ran ran = ran_at(position, status);
  failure.ran = std::move(ran.ran);
  failure.why = std::move(ran.why);
  failure.graph = std::move(ran.graph);
  if (status == status::interrupted) {
    failure.why = "its progress was unknown";
    if (begun_)
      if (const auto at = begun_->find(position); at != begun_->end()) failure.why = at->second.how_far;
    return failure;
  }
  if (status != status::cancelled) failure.inside = failed_inside(position);
  failure.asked = status == status::cancelled && asked_.contains(position);
  if (status == status::cancelled && !failure.asked) failure.cause = cause_of(position);
  return failure;
}

bool Reaper::note_failure(std::uint64_t position, std::int32_t status) noexcept {
  try {
    // Resolves the name now: once the entry is reaped, the opcode may be reused.
    failures_.emplace(position, failure_at(position, status));
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (failures_.size() > kMostFailures) failures_.erase(failures_.begin());
  return true;
}

void Reaper::reap_locked(std::uint64_t tail) noexcept {
  std::uint64_t at = reaped_.load(std::memory_order_relaxed);
  while (at < tail) {
    // Successes come in long runs of equal entries up to the end of the ring.
    const std::uint64_t success = lap(at);
    const std::uint64_t end = std::min(tail, at + (1U << shift_) - index(at));
    for (const Completion* entry = completions_ + index(at); at != end && word_of(*entry) == success; ++entry) ++at;
    if (at == end) continue;
    const Completion entry = completion(at);
    if (entry.lap != lap(at)) break;
    if (entry.status != 0 && !note_failure(at, entry.status)) break;
    ++at;
  }
  if (!asked_.empty()) asked_.erase(asked_.begin(), asked_.lower_bound(at));
  reaped_.store(at, std::memory_order_release);
}

void Reaper::reap(std::uint64_t tail) noexcept {
  const std::lock_guard guard(lock_);
  reap_locked(tail);
}

void Reaper::try_reap(std::uint64_t tail) noexcept {
  if (!lock_.try_lock()) return;
  const std::lock_guard guard(lock_, std::adopt_lock);
  reap_locked(tail);
}

void Reaper::complete_all(std::uint64_t tail, std::optional<Begun> begun) noexcept {
  const std::lock_guard guard(lock_);
  begun_.swap(begun);
  ended_from_ = reaped();
  for (std::uint64_t position = reaped(); position < tail; ++position) {
    if (completion(position).lap == lap(position)) continue;
    std::int32_t status = begun_ ? status::cancelled : status::interrupted;
    if (begun_)
      if (const auto at = begun_->find(position); at != begun_->end()) status = at->second.status;
    complete_here(position, status);
  }
  reap_locked(tail);
}

}  // namespace dwell::runtime
