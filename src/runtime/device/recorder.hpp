// Who takes the tasks that a thread submits, instead of the ring.
#pragma once

#include <cstdint>

#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>

namespace dwell::detail {
struct OperatorState;
}

namespace dwell::runtime {

class Core;

// Takes what one thread submits to one runtime while it captures. Called by that thread alone.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Returns what stands for the task's position in its ticket, with detail::kCaptured.
  virtual std::uint64_t record(detail::OperatorState& op, const detail::Task& task) = 0;

  // The calling thread's at a runtime, or null.
  static Recorder* of(const Core* core) { return mine.core == core ? mine.recorder : nullptr; }

  // Throws errc::invalid_argument for a position that stands for a captured task.
  static void refuse(std::uint64_t position) {
    if ((position & detail::kCaptured) != detail::kCaptured) return;
    throw Error(errc::invalid_argument,
                "the ticket is of a task that was captured: it serves in `after` of the same capture only; use the ticket of the graph's "
                "launch");
  }

  struct Current {
    const Core* core = nullptr;
    Recorder* recorder = nullptr;
  };
  static constinit thread_local Current mine;
};

inline constinit thread_local Recorder::Current Recorder::mine{};

}  // namespace dwell::runtime
