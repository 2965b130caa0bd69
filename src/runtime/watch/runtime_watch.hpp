// The watchdog's eyes at a runtime, and the runtime's diagnosis.
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

// Reads what the parts of a runtime know of tasks that are not complete. Owns none of the parts, which outlive it. Members may be called
// from any thread; those of Watched by the watchdog alone, but for look.
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
  // `timeout`: Options::stall_timeout; 0: there is no watchdog. Throws errc::out_of_memory.
  RuntimeWatch(Parts parts, std::chrono::nanoseconds timeout);
  ~RuntimeWatch() override { stop(); }
  RuntimeWatch(const RuntimeWatch&) = delete;
  RuntimeWatch& operator=(const RuntimeWatch&) = delete;

  // As Runtime::diagnose.
  Diagnosis diagnose() const { return diagnose(holds(0)); }

  // What is known now.
  Circumstances circumstances() const { return circumstances(false); }
  const RingView& ring() const { return parts_.ring; }

  // Ends the watchdog; nothing has stalled from now on.
  void stop() noexcept {
    if (watchdog_) watchdog_->stop();
  }
  // Whether the watchdog says that the runtime has stalled. Costs a load.
  bool stalled() const { return watchdog_ != nullptr && watchdog_->stalled(); }
  // Throws errc::stalled when that is so, and holds for the task at `position`.
  void check(std::uint64_t position) const {
    if (stalled()) [[unlikely]]
      check_slowly(position);
  }
  // The same as an answer.
  bool holds(std::uint64_t position) const { return stalled() && watchdog_->verdict_on(position).has_value(); }
  // Tasks may go on that have not.
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
  // A number that changes when a worker takes something up.
  std::uint64_t digest_of_records() const;
  bool waits_for_others() const;
  void check_slowly(std::uint64_t position) const;

  Parts parts_;
  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds patience_;  // for leases to roll when no task runs long
  std::uint32_t settled_at_ = 0;             // the last lease before settle's end
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace dwell::runtime
