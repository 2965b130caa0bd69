// Detects failures of the device.
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

// Detects faults of the device and tasks that exceed the timeout. Keeps the first failure. Members may be called from any thread.
class FailureWatch {
 public:
  using Holder = InFlightTasks::Holder;
  // Formats the failure's message, with a clause that names the operators of workers' tasks. `running`: these tasks have not ended.
  using Describe = std::function<std::string(const std::string& why, const std::vector<Holder>&, bool running)>;

  struct Parts {
    backend::Backend& backend;  // outlives it, as do the tasks
    InFlightTasks& in_flight;
    Describe describe;
    std::chrono::nanoseconds task_timeout;   // 0: no limit
    std::function<std::uint32_t()> workers;  // of the image that runs
    std::function<void()> ask_to_leave;      // asks the workers to leave the device at once
    std::function<void()> announce;          // called once, when `failed` becomes true; must not throw
  };
  explicit FailureWatch(Parts parts) : parts_(std::move(parts)) {}
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  // Returns whether the device is known to have failed, and the error.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Error failure() const;

  // Checks whether the device has failed. Throws std::bad_alloc; then it may be called again.
  bool lost();
  // As lost(), and gives the device up when a task has run for longer than task_timeout. Called periodically.
  void look();
  // Returns the error to throw after the backend has thrown `error`: the device's failure if it has one, which names the tasks that ran.
  Error explain(const Error& error);

  // Fails a device on which something hangs: `why` is the failure, and no thread waits for the device any more.
  void give_up(const Error& why);
  // Fails the device after a failed driver call: the failure is `why`, with the tasks that may have caused it.
  void fail(const Error& why) noexcept;

 private:
  // Returns `why` with a clause that names those tasks.
  std::string with_suspects(const std::string& why) const;
  // Stores the failure; false if there is one already. Not visible before announce.
  bool note(const Error& why) noexcept;
  void announce() noexcept;

  Parts parts_;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::optional<Error> failure_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
