// The tasks of a runtime: submission, completion, and waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include <dwell/options.hpp>

#include "backend/backend.hpp"
#include "runtime/complete/completions.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/generation/open_check.hpp"
#include "runtime/graphs.hpp"
#include "runtime/kernels/kernels.hpp"
#include "runtime/memory/buffers.hpp"
#include "runtime/memory/heap_memory.hpp"
#include "runtime/observe/observation.hpp"
#include "runtime/program/registry.hpp"
#include "runtime/tasks/begun.hpp"
#include "runtime/tasks/ends.hpp"
#include "runtime/tasks/intake.hpp"
#include "runtime/tasks/outcomes.hpp"
#include "runtime/watch/preemptor.hpp"
#include "runtime/watch/runtime_watch.hpp"

namespace dwell::runtime {

// Members may be called from any thread.
class Tasks {
 public:
  struct Parts {
    const Core* runtime;     // as of Intake
    const Options& options;  // read by the constructor alone
    OpenCheck check_open;
    backend::Backend& backend;
    const Devices& devices;  // these outlive it
    Device& device;          // the one that runs the tasks
    Graphs& graphs;
    Observation& observation;
    Registry& registry;
    Kernels& kernels;
    Completions& completions;
    Buffers& buffers;
    HeapMemory& heap;
    std::function<void(std::string_view)> warn;
  };
  // Throws errc::out_of_memory.
  explicit Tasks(const Parts& parts);
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  Intake& intake() { return intake_; }
  Ends& ends() { return ends_; }
  Outcomes& outcomes() { return outcomes_; }
  const BegunTasks& begun() const { return begun_; }
  RuntimeWatch& watch() { return watch_; }
  // As in Ends; recorded in traces.
  bool wait(std::uint64_t position, std::optional<Ends::Clock::time_point> deadline) {
    HostSpan span(&events_, TraceEvent::Kind::wait);
    span.id = position;
    return ends_.wait(position, deadline);
  }
  Preemptor* preemptor() { return preemptor_.get(); }  // null without priorities

 private:
  HostEvents& events_;
  // In place, one indirection less for submitters.
  RuntimeWatch watch_;
  Intake intake_;
  Ends ends_;
  Outcomes outcomes_;
  BegunTasks begun_;
  std::unique_ptr<Preemptor> preemptor_;
};

}  // namespace dwell::runtime
