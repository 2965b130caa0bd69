// A diagnosis of waiting tasks: their reasons, and which task blocks which.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dwell {

// The state of a task that is not complete.
enum class Doing : std::uint8_t {
  runs,            // on TaskState::workers; a graph by one of its nodes; a wide task, or one that makes others, by a part of it
  waits_to_start,  // for the tasks TaskState::waits_for: by link, after, or a drain
  waits_for_host,  // for the launch of a kernel or the callback of a host node; TaskState::named says which
  waits_for_gang,  // for as many free workers as it has groups; TaskState::workers have joined
  // For a free worker, for its own children (nodes of a graph, tasks of an operator), or for its turn with a graph that operators launch
  // too. Then TaskState::named says which workers run nodes of that graph; these may be this task's or another's.
  waits_to_run,
  parked,  // ready, but Runtime::park has taken the loop off the device
  lost,    // ready or begun, but no worker runs it or its children; proved by the watchdog (errc::stalled)
};

// One task, or launch of a graph, that is not complete.
struct TaskState {
  struct OnWorker {
    std::uint32_t worker = 0;
    // For a graph, or one that operators launched for the task: the worker's first node. It moves on to others without reporting.
    std::string node;
    std::chrono::nanoseconds since{0};  // time in this state, as sampled every 5 ms
  };
  std::uint64_t position = 0;  // of its ticket
  std::string name;            // operator and version, "add (version 2)"; of a launch "graph 'step'", "a graph" without a name
  bool graph = false;
  bool cancelled = false;    // by Runtime::cancel: it ends when its turn comes
  std::uint32_t groups = 1;  // of a wide task or a gang
  Doing doing = Doing::waits_to_run;
  std::vector<std::uint64_t> waits_for;  // positions of tickets, oldest first; for a callback that waits for a task, that task
  std::vector<std::string> named;
  std::vector<OnWorker> workers;
};

// A snapshot of the tasks that are not complete. Not atomic: each task was in the described state when it was read.
struct Diagnosis {
  static constexpr std::size_t kMost = 64;

  std::vector<TaskState> tasks;  // the oldest kMost, oldest first
  std::uint64_t total = 0;       // all tasks that are not complete
  // Cycles of tasks that wait for each other, by position; at most 4. They never end by themselves.
  std::vector<std::vector<std::uint64_t>> cycles;
  std::uint32_t workers = 0;  // of the image that runs
  std::uint32_t busy = 0;     // workers that run, or may run, a task
  bool parked = false;        // by Runtime::park
  bool stalled = false;       // the watchdog has proved that nothing moves (Options::stall_timeout)
};

// Formats it for people: the number of tasks, the cycles, and a line for each task.
std::string to_string(const Diagnosis& diagnosis);

}  // namespace dwell
