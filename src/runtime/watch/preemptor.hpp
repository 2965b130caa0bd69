// Waits for a free worker at a priority, and reports who did not yield.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <dwell/preemption.hpp>

#include "base/mutex.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/ring_view.hpp"
#include "runtime/watch/diagnose.hpp"

namespace dwell::runtime {

// Returns the tasks that the same workers hold in both snapshots. `all`: no worker was free meanwhile, so workers without a record run
// tasks that operators have made.
std::vector<Preemption::Holder> held_all_along(const RingView& ring, const Circumstances& before, const Circumstances& after, bool all);

// Submits *requests*: tasks with no group, which queue like every task of their priority, and complete when a worker would have run them.
// Members may be called from any thread.
class Preemptor {
 public:
  using Clock = std::chrono::steady_clock;
  // As Ends::wait.
  using Wait = std::function<bool(std::uint64_t position, std::optional<Clock::time_point> deadline)>;
  using Know = std::function<Circumstances()>;

  Preemptor(const RingView& ring, SubmissionQueue& queue, Keeper& keeper, Wait wait, Know know)
      : ring_(ring), queue_(queue), keeper_(keeper), wait_(std::move(wait)), know_(std::move(know)) {}
  Preemptor(const Preemptor&) = delete;
  Preemptor& operator=(const Preemptor&) = delete;

  // As Runtime::preempt, for a runtime with priorities. Throws errc::invalid_argument, and as `wait`.
  Preemption preempt(unsigned priority, std::chrono::nanoseconds timeout);

 private:
  static constexpr unsigned kPriorities = 8;
  // Places a request, or reuses the incomplete last one of the priority. Nothing when the ring has no room.
  std::optional<std::uint64_t> request(unsigned priority);
  // Returns the incomplete drain before the task at `position`.
  std::optional<std::uint64_t> drain_before(std::uint64_t position) const;

  const RingView ring_;
  SubmissionQueue& queue_;
  Keeper& keeper_;
  const Wait wait_;
  const Know know_;
  Mutex mutex_;
  std::array<std::optional<std::uint64_t>, kPriorities> last_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
