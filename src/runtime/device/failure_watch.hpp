// Whether the device has failed, and the error that says how.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/in_flight.hpp"

namespace dwell::runtime {

// Notices faults of the device and tasks that run for too long. Keeps the first failure. Members may be called from any thread.
class FailureWatch {
 public:
  using Holder = InFlightTasks::Holder;
  // Says why the runtime has failed, with a clause that names the operators of workers' tasks. `running`: these tasks have not ended.
  using Describe = std::function<std::string(const std::string& why, const std::vector<Holder>&, bool running)>;

  struct Parts {
    backend::Backend& backend;  // outlives it, as the tasks do
    InFlightTasks& in_flight;
    Describe describe;
    std::chrono::nanoseconds task_timeout;   // 0: a task may run for as long as it likes
    std::function<std::uint32_t()> workers;  // of the image that runs
    std::function<void()> ask_to_leave;      // asks the workers to leave the device at once
    std::function<void()> announce;          // called once, when `failed` says so from now on; must not throw
  };
  explicit FailureWatch(Parts parts) : parts_(std::move(parts)) {}
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  // Whether the device is known to have failed, and the error that says how.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Error failure() const;

  // Asks the device whether it has failed. Throws std::bad_alloc; then it may be asked again.
  bool lost();
  // The same, and gives the device up when a task has run for longer than task_timeout. To be called now and then.
  void look();
  // The error to throw when a call of the backend has thrown `error`: the failure when the device has one, which names the tasks that ran.
  Error explain(const Error& error);

  // Something hangs on the device: `why` is the failure, and no thread waits for the device any more.
  void give_up(const Error& why);
  // A call of the driver has failed with `why`: the failure, with the tasks that may have brought the device down.
  void fail(const Error& why) noexcept;

 private:
  // `why`, and a clause that names those tasks.
  std::string with_suspects(const std::string& why) const;
  // False when there is a failure already. Nobody sees it before announce.
  bool note(const Error& why) noexcept;
  void announce() noexcept;

  Parts parts_;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
