// Runs and measures the tasks of a job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

#include "job.hpp"
#include "latencies.hpp"

namespace dwell::tool {

// Figures of one version of one operator.
struct VersionFigures {
  std::size_t operator_index = 0;
  std::uint32_t version = 1;
  Latencies latencies;
  std::chrono::nanoseconds busy{0};  // from the first submitted to the last seen complete

  double tasks_a_second() const {
    return busy.count() == 0 ? 0.0 : static_cast<double>(latencies.count()) * 1e9 / static_cast<double>(busy.count());
  }
};

struct SwapFigures {
  std::chrono::nanoseconds took{0};       // the call of redefine
  std::chrono::nanoseconds pause{0};      // the hand-over: from the end of the old loop to the start of the new one
  std::uint64_t submitted_meanwhile = 0;  // tasks submitted during the call
};

struct StreamFigures {
  std::vector<VersionFigures> versions;  // versions that ran, by operator, then version
  std::optional<SwapFigures> swap;
  std::chrono::nanoseconds took{0};  // from the first submitted to the last seen complete
};

// Operators and arguments of a job's tasks, ready to be submitted; in the order of job.operators and job.tasks.
struct PreparedJob {
  std::vector<Operator<>> operators;
  std::vector<Arguments> arguments;
  std::optional<Source> swap_source;  // set if job.swap is
};

// The most tasks in flight at once: an eighth of the ring, since a task takes up to eight slots.
inline constexpr std::size_t kMostInFlight = 8192;

// Submits all tasks in the order of the job and waits for them. A second thread makes the swap, if there is one, once its number of tasks
// is submitted. Meanwhile this thread continues to submit, but keeps at least half of the rest until the swap is made. Calls `progress` now
// and then with the number of tasks seen complete. A failed task is not repeated, its successors are cancelled, and the others run; then
// throws Failure with Exit::failed, at the first failed task.
StreamFigures run_stream(Runtime& runtime, const Job& job, PreparedJob& prepared, const std::function<void(std::uint64_t)>& progress);

// Reads the device's clock between tasks, with tasks of its own operator.
class DeviceClock {
 public:
  // Throws what Runtime::define, Runtime::allocate and Runtime::submit throw. Submits the runtime's first link: later tasks report their
  // completion on the device. A task linked to one that does not would hold back all others, as a drain.
  DeviceClock(Runtime& runtime, std::size_t readings);

  // Submits reading `index`, after all earlier tasks and before all later ones.
  Ticket submit(std::size_t index);
  // Returns the times between successive readings, once all are complete.
  std::vector<std::chrono::nanoseconds> intervals() const;

 private:
  Runtime& runtime_;
  Operator<void(Span<std::uint64_t>, std::uint32_t)> read_;
  Buffer<std::uint64_t> times_;
};

// Runs the job's tasks again, with all their repetitions, each alone: after the previous one is complete. Returns the time of each by
// `clock`, which needs one reading more than the job has tasks. Throws Failure with Exit::failed, at the first failed task.
std::vector<std::chrono::nanoseconds> time_tasks(Runtime& runtime, const Job& job, PreparedJob& prepared, DeviceClock& clock,
                                                 const std::function<void(std::uint64_t)>& progress);

}  // namespace dwell::tool
