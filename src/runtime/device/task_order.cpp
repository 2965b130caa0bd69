#include "runtime/device/task_order.hpp"

#include <utility>

namespace dwell::runtime {

using device::Header;
namespace flag = device::flag;

void TaskOrder::drop_ended(WaitingFor& tasks) const {
  const std::uint32_t count = std::exchange(tasks.count, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto [task, kind] = std::pair(tasks.position[i], tasks.kind[i]);
    const Reaper::Outcome outcome = kind == WaitingFor::Kind::failed ? Reaper::Outcome::failed : reaper_.outcome(task);
    if (outcome == Reaper::Outcome::pending)
      tasks.add(task, kind);
    else if (kind == WaitingFor::Kind::failed || (kind == WaitingFor::Kind::soft && outcome == Reaper::Outcome::failed && !tasks.failed))
      tasks.add(task, WaitingFor::Kind::failed);
  }
}

bool TaskOrder::needs_drain(const WaitingFor& tasks) const {
  for (std::uint32_t i = 0; i < tasks.count; ++i)
    if (tasks.kind[i] != WaitingFor::Kind::failed && !slots_.is_tracked(tasks.position[i])) return true;
  return false;
}

void TaskOrder::wait_for_previous(const Submitter& me, bool hard, WaitingFor& tasks, bool& drains) const {
  if (me.previous >= reaper_.reaped()) {
    // From here on it keeps its slot until the waiting task is complete.
    drains = drains || !me.tracked;
    tasks.add(me.previous, hard ? WaitingFor::Kind::hard : WaitingFor::Kind::soft);
  } else if (!hard && !tasks.failed && reaper_.outcome(me.previous) == Reaper::Outcome::failed) {
    // It is complete, and its slot may have been reused. The host has its outcome.
    tasks.add(me.previous, WaitingFor::Kind::failed);
  }
}

TaskHead TaskOrder::head(std::uint64_t position, const Header& task, std::uint32_t words, WaitingFor& tasks) {
  TaskHead head{task, static_cast<std::uint32_t>(position), false};
  Header& header = head.header;
  header.drains = drains_;
  if ((header.flags & flag::drain) != 0) {
    drains_ = (drains_ + 1) & Header::kDrainMask;
    // All earlier tasks have ended when a drain starts: it only needs those that may cancel it.
    const std::uint32_t count = std::exchange(tasks.count, 0);
    for (std::uint32_t i = 0; i < count; ++i)
      if (tasks.kind[i] != WaitingFor::Kind::hard) tasks.add(tasks.position[i], tasks.kind[i]);
  }
  if (track_) header.flags |= flag::tracked;
  plain_word1_ = Header{0, 0, 0, track_ ? flag::tracked : 0, drains_}.word1();
  if (tasks.count == 1 && position - tasks.position[0] < (1ULL << 32U)) {
    header.flags |= flag::link;
    if (tasks.kind[0] == WaitingFor::Kind::hard) header.flags |= flag::hard;
    if (tasks.kind[0] == WaitingFor::Kind::failed) header.flags |= flag::failed;
    head.named = static_cast<std::uint32_t>(tasks.position[0]);
  } else if (tasks.count != 0) {
    header.flags |= flag::after;
    head.named = device::WaitList{RingSlots::first_free_quad(words), tasks.count}.word();
    head.list = true;
  }
  return head;
}

}  // namespace dwell::runtime
