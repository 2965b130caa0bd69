#include "runtime/device/failure_watch.hpp"

#include <algorithm>
#include <functional>

#include "runtime/caught.hpp"

namespace dwell::runtime {

Error FailureWatch::failure() const {
  const Lock lock(mutex_);
  return *failure_;
}

bool FailureWatch::lost() {
  if (failed()) return true;
  const std::string fault = parts_.backend.fault();
  if (fault.empty()) return false;
  if (note(Error(errc::device_lost, with_suspects("the device failed: " + fault)))) announce();
  return true;
}

void FailureWatch::look() {
  if (lost()) return;
  parts_.in_flight.look();
  if (parts_.task_timeout.count() == 0) return;
  std::vector<Holder> late = parts_.in_flight.holders(parts_.workers(), false);
  std::erase_if(late, [this](const Holder& holder) { return holder.since <= parts_.task_timeout; });
  if (late.empty()) return;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(parts_.task_timeout);
  give_up(Error(
      errc::task_timeout,
      parts_.describe("a task has run for more than " + std::to_string(limit.count()) + " ms (the option task_timeout)", late, true)));
}

Error FailureWatch::explain(const Error& error) {
  if (error.kind() != errc::device_lost) return error;
  {
    // Before lost(): a device that was given up has a recorded failure, but no fault.
    const Lock lock(mutex_);
    if (failure_) return *failure_;
  }
  return lost() ? failure() : error;
}

void FailureWatch::give_up(const Error& why) {
  // In this order: the start of a lease on the abandoned device fails too, and must not record its failure first.
  if (note(why)) {
    // Workers that do not hang leave without running more tasks.
    parts_.ask_to_leave();
    parts_.backend.abandon();
    announce();
  }
}

void FailureWatch::fail(const Error& why) noexcept {
  const Error named = error_or_no_memory([&] { return Error(why.kind(), with_suspects(why.message())); });
  if (note(named)) announce();
}

std::string FailureWatch::with_suspects(const std::string& why) const {
  const std::vector<Holder> running = parts_.in_flight.holders(parts_.workers(), false);
  if (!running.empty()) return parts_.describe(why, running, true);
  // A task's faulting store may be reported after its end, unless the task has an argument that is an address.
  std::vector<Holder> last = parts_.in_flight.holders(parts_.workers(), true);
  std::ranges::sort(last, std::greater(), &Holder::position);
  return parts_.describe(why, last, false);
}

bool FailureWatch::note(const Error& why) noexcept {
  const Lock lock(mutex_);
  if (failure_) return false;
  failure_.emplace(why);
  return true;
}

void FailureWatch::announce() noexcept {
  failed_.store(true, std::memory_order_release);
  parts_.announce();
}

}  // namespace dwell::runtime
