// How long the nodes of a graph take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <dwell/graph.hpp>

namespace dwell::graph {

// What one launch has taken.
struct Times {
  std::vector<NodeTime> nodes;  // by node; nothing of control nodes and conditional nodes
  std::chrono::system_clock::time_point taken;
};

// The same graph with a clock node before and behind each node that runs something. Clock nodes write a device::NodeTime for each node of
// `from`, from the address `times` on.
detail::GraphData with_clocks(const detail::GraphData& from, std::uint64_t times);

// The nodes, in their order, whose times add up to the longest way through the graph. All rounds of a loop count.
std::vector<std::uint32_t> critical_path(const detail::GraphData& graph, const Times& times);

// "320 ns", "12.3 us", "4.56 ms".
std::string text_of(std::chrono::nanoseconds time);

}  // namespace dwell::graph
