// The result of preemption: which tasks yielded, and which did not.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dwell {

// The result of Runtime::preempt.
struct Preemption {
  // A task that held workers during the whole call, according to in-flight records.
  struct Holder {
    // Its ticket's position; empty for tasks that operators have made, and for nodes of a graph that several tasks may have launched.
    std::optional<std::uint64_t> position;
    // Operator and version. For a graph the worker's first node, empty before it; for a graph that operators launched, both.
    std::string name;
    bool graph = false;
    unsigned priority = 0;  // tasks of this priority or a lower one cannot preempt it
    std::vector<std::uint32_t> workers;
    std::chrono::nanoseconds since{0};  // how long it has held the worker it has held longest
    std::string graph_name = {};        // empty without one
  };
  bool in_time = false;                // a worker became free for the priority before the timeout
  std::chrono::nanoseconds waited{0};  // until a worker was free, or until the timeout
  std::vector<Holder> holders;         // the longest holder first
  // The reason why no worker was requested: an incomplete drain, by its ticket, or Runtime::park.
  std::optional<std::uint64_t> behind_drain;
  bool parked = false;
};

// Formats it for people.
std::string to_string(const Preemption& preemption);

}  // namespace dwell
