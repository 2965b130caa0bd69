// Captures a thread's tasks instead of submitting them to the ring.
#pragma once

#include <cstdint>

#include <dwell/detail/task.hpp>
#include <dwell/error.hpp>

namespace dwell::detail {
struct OperatorState;
}

namespace dwell::runtime {

class Core;

// Records the tasks that one thread submits to one runtime during a capture. Called by that thread only.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Returns the task's position for its ticket, with detail::kCaptured.
  virtual std::uint64_t record(detail::OperatorState& op, const detail::Task& task) = 0;

  // Returns the calling thread's recorder at a runtime, or null.
  static Recorder* of(const Core* core) { return mine.core == core ? mine.recorder : nullptr; }

  // Throws errc::invalid_argument for the position of a captured task.
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
