// Connects the watchdog to a runtime; computes the runtime's diagnosis.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/diagnosis.hpp>
#include <dwell/error.hpp>

#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/launch_gates.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/ring_view.hpp"
#include "runtime/graphs.hpp"
#include "runtime/kernels/launches.hpp"
#include "runtime/program/registry.hpp"
#include "runtime/watch/diagnose.hpp"
#include "runtime/watch/watchdog.hpp"

namespace dwell::runtime {

// Reads the state of incomplete tasks from the parts of a runtime. Does not own the parts, which outlive it. Members may be called from any
// thread; those of Watched only by the watchdog, except look.
class RuntimeWatch final : private Watched {
 public:
  struct Parts {
    RingView ring;
    SubmissionQueue& queue;
    Keeper& keeper;
    Registry& registry;
    Launches& launches;
    LaunchGates& gates;
    HostCalls& host_calls;
    Graphs& graphs;
    std::chrono::nanoseconds lease_time;
    std::function<void(std::string_view)> warn;
  };
  // `timeout`: Options::stall_timeout; 0: no watchdog. Throws errc::out_of_memory.
  RuntimeWatch(Parts parts, std::chrono::nanoseconds timeout);
  ~RuntimeWatch() override { stop(); }
  RuntimeWatch(const RuntimeWatch&) = delete;
  RuntimeWatch& operator=(const RuntimeWatch&) = delete;

  // As Runtime::diagnose.
  Diagnosis diagnose() const { return diagnose(holds(0)); }

  // Returns the current state.
  Circumstances circumstances() const { return circumstances(false); }
  const RingView& ring() const { return parts_.ring; }

  // Ends the watchdog; stalled() is false from now on.
  void stop() noexcept {
    if (watchdog_) watchdog_->stop();
  }
  // Returns whether the watchdog says that the runtime has stalled. Costs a load.
  bool stalled() const { return watchdog_ != nullptr && watchdog_->stalled(); }
  // Throws errc::stalled if the runtime has stalled, and the verdict holds for the task at `position`.
  void check(std::uint64_t position) const {
    if (stalled()) [[unlikely]]
      check_slowly(position);
  }
  // As check, but returns it.
  bool holds(std::uint64_t position) const { return stalled() && watchdog_->verdict_on(position).has_value(); }
  // Called when blocked tasks may continue.
  void moved() noexcept {
    if (stalled()) watchdog_->moved();
  }

 private:
  Look look() override;
  std::optional<std::uint64_t> settle() override;
  bool has_resumed() override;
  bool has_passed() override;
  Error verdict() override;

  Diagnosis diagnose(bool proven) const;
  Circumstances circumstances(bool proven) const;
  // Returns a number that changes when a worker starts a task.
  std::uint64_t digest_of_records() const;
  bool waits_for_others() const;
  void check_slowly(std::uint64_t position) const;

  Parts parts_;
  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds patience_;  // for leases to roll, without long tasks
  std::uint32_t settled_at_ = 0;             // the last lease before settle's end
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace dwell::runtime
