// Who waits for whom: from the ring, and from what the host knows besides, to a Diagnosis.
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

// What the host knows of the tasks in flight beside the ring. A snapshot.
struct Circumstances {
  // The callback of a host node, which the device has called and the host has not answered.
  struct Callback {
    std::uint32_t launch = 0;                // position of the launch, modulo 2^32
    std::string name;                        // of the node
    bool begun = false;                      // it runs
    std::optional<std::uint64_t> waits_for;  // a task of this runtime for which it waits, however long that takes
    std::chrono::nanoseconds since{0};
  };
  std::vector<InFlightTasks::Record> records;
  std::vector<Callback> callbacks;
  std::map<std::uint64_t, std::string> gates;  // by position: the launch that opens it
  std::uint32_t workers = 0;
  bool parked = false;
  bool proven = false;  // no worker runs a task whose record is marked as over, or has none
  std::function<std::string(std::uint32_t opcode)> name_of;
  // The node whose record has this offset, and the offset of its exec; nothing when the exec is gone.
  std::function<std::optional<std::pair<std::string, std::uint64_t>>(std::uint64_t offset)> node_at;
  // The name of the graph whose exec begins at this offset; empty without one.
  std::function<std::string(std::uint64_t exec)> graph_name_of;
  // The positions of launches of the exec at this offset, and of tasks whose operators may launch it. May name one twice, and one that is
  // complete.
  std::function<std::vector<std::uint64_t>(std::uint64_t exec)> users;
};

// The tasks in flight of which one has the nodes of an exec run that run now, oldest first: its launch by the host that does not wait for
// another task, and tasks whose operators may launch it. Of several, nothing in host memory says which it is.
std::vector<RingView::Task> owners_of(std::uint64_t exec, const RingView& ring, const Circumstances& known);

// Looks at what is in flight, however much that is. Reads host memory alone and waits for nothing. Throws std::bad_alloc.
Diagnosis diagnose(const RingView& ring, const Circumstances& known);

// One line: the circles, else the first tasks and what they wait for.
std::string in_short(const Diagnosis& diagnosis);

}  // namespace dwell::runtime
