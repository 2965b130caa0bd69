// What a runtime's tasks wait for, and who holds up whom.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dwell {

// What a task that is not complete does, or waits for.
enum class Doing : std::uint8_t {
  runs,            // on TaskState::workers. Of a graph: a node of it; of a task that makes others, or is wide: it, or a part of it
  waits_to_start,  // for the tasks TaskState::waits_for: by link, after, or a drain
  waits_for_host,  // for what TaskState::named says: the launch of a kernel, or the callback of a host node
  waits_for_gang,  // for as many free workers as it has groups; TaskState::workers have joined
  // For a free worker, for what it has made itself (nodes of a graph, tasks of an operator), or for its turn with a graph that operators
  // launch too: then TaskState::named says which workers run nodes of that, which may be this task's or another's.
  waits_to_run,
  parked,  // it may start, and Runtime::park has taken the loop off the device
  lost,    // it could run, or has begun, and no worker runs it or anything that it has made: the watchdog has proved it (errc::stalled)
};

// One task, or launch of a graph, that is not complete.
struct TaskState {
  struct OnWorker {
    std::uint32_t worker = 0;
    // Of a graph, or of one that operators have launched for the task: the node with which the worker has begun; it goes on to others
    // without a word.
    std::string node;
    std::chrono::nanoseconds since{0};  // for how long, as far as anybody has looked (every 5 ms)
  };
  std::uint64_t position = 0;  // of its ticket
  std::string name;            // operator and version, "add (version 2)"; of a launch "graph 'step'", "a graph" without a name
  bool graph = false;
  bool cancelled = false;    // Runtime::cancel has been called: it ends when its turn comes
  std::uint32_t groups = 1;  // of a wide task or a gang
  Doing doing = Doing::waits_to_run;
  std::vector<std::uint64_t> waits_for;  // positions, oldest first: of tickets; of a callback that waits for a task, that task
  std::vector<std::string> named;
  std::vector<OnWorker> workers;
};

// A snapshot of what is not complete. Several moments of one: each task was as described while it was looked at.
struct Diagnosis {
  static constexpr std::size_t kMost = 64;

  std::vector<TaskState> tasks;  // the oldest kMost, oldest first
  std::uint64_t total = 0;       // of all that are not complete
  // Tasks each of which waits for the next, and the last for the first: they never end by themselves. Positions; at most 4 such circles.
  std::vector<std::vector<std::uint64_t>> cycles;
  std::uint32_t workers = 0;  // of the image that runs
  std::uint32_t busy = 0;     // of them run, or may run, a task
  bool parked = false;        // by Runtime::park
  bool stalled = false;       // the watchdog has proved that nothing moves (Options::stall_timeout)
};

// Some lines for a person: how many tasks wait, the circles, and a line for each task.
std::string to_string(const Diagnosis& diagnosis);

}  // namespace dwell
