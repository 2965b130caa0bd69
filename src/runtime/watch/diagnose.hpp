// Computes a Diagnosis from the ring and from the host's state.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dwell/diagnosis.hpp>

#include "runtime/device/in_flight.hpp"
#include "runtime/device/ring_view.hpp"

namespace dwell::runtime {

// The host's state of tasks in flight outside of the ring. A snapshot.
struct Circumstances {
  // A callback of a host node, requested by the device and not answered by the host.
  struct Callback {
    std::uint32_t launch = 0;                // position of the launch, modulo 2^32
    std::string name;                        // of the node
    bool begun = false;                      // it runs
    std::optional<std::uint64_t> waits_for;  // a task of this runtime for which it waits without a time limit
    std::chrono::nanoseconds since{0};
  };
  std::vector<InFlightTasks::Record> records;
  std::vector<Callback> callbacks;
  std::map<std::uint64_t, std::string> gates;  // by position: the launch that opens it
  std::uint32_t workers = 0;
  bool parked = false;
  bool proven = false;  // no worker runs a task whose record is marked as over, or has none
  std::function<std::string(std::uint32_t opcode)> name_of;
  // Returns the node whose record has this offset, and the offset of its exec; nothing if the exec no longer exists.
  std::function<std::optional<std::pair<std::string, std::uint64_t>>(std::uint64_t offset)> node_at;
  // Returns the name of the graph whose exec is at this offset; empty without one.
  std::function<std::string(std::uint64_t exec)> graph_name_of;
  // Returns the positions of launches of the exec at this offset, and of tasks whose operators may launch it. May contain duplicates and
  // complete ones.
  std::function<std::vector<std::uint64_t>(std::uint64_t exec)> users;
};

// Returns the tasks in flight that may own an exec's running nodes, oldest first: its launch by the host that does not wait for another
// task, and tasks whose operators may launch it. Host memory does not show which of several it is.
std::vector<RingView::Task> owners_of(std::uint64_t exec, const RingView& ring, const Circumstances& known);

// Visits all tasks in flight. Reads host memory only and never waits. Throws std::bad_alloc.
Diagnosis diagnose(const RingView& ring, const Circumstances& known);

// Formats one line: the cycles, else the first tasks and what they wait for.
std::string in_short(const Diagnosis& diagnosis);

}  // namespace dwell::runtime
