// Who gave way to a more urgent task, and who did not.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dwell {

// What came of Runtime::preempt.
struct Preemption {
  // A task that had workers from the call to its end, as far as in-flight records tell.
  struct Holder {
    // Of its ticket; nothing for tasks that operators have made, and for nodes of a graph that several tasks may have launched.
    std::optional<std::uint64_t> position;
    // Operator and version; of a graph, the node with which the worker has begun, empty before the first; of one that operators launched,
    // both.
    std::string name;
    bool graph = false;
    unsigned priority = 0;  // nobody is asked to give way to a task of this priority or a lower one
    std::vector<std::uint32_t> workers;
    std::chrono::nanoseconds since{0};  // for how long it has had the one that it has longest
    std::string graph_name = {};        // of a graph that has one
  };
  bool in_time = false;                // a worker was free for the priority before the timeout
  std::chrono::nanoseconds waited{0};  // until one was, or until the timeout
  std::vector<Holder> holders;         // those that have had a worker longest come first
  // Why no worker was asked for: a drain that is not complete, by its ticket, or Runtime::park.
  std::optional<std::uint64_t> behind_drain;
  bool parked = false;
};

// Some lines for a person.
std::string to_string(const Preemption& preemption);

}  // namespace dwell
