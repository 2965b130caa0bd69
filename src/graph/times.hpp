// Times of a graph's nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <dwell/graph.hpp>

namespace dwell::graph {

// The times of one launch.
struct Times {
  std::vector<NodeTime> nodes;  // by node; empty for control and conditional nodes
  std::chrono::system_clock::time_point taken;
};

// Returns the graph with a clock node before and after each node that runs something. Clock nodes write a device::NodeTime for each node of
// `from`, from the address `times` on.
detail::GraphData with_clocks(const detail::GraphData& from, std::uint64_t times);

// Returns the nodes of the longest path through the graph by time, in order. Counts all rounds of a loop.
std::vector<std::uint32_t> critical_path(const detail::GraphData& graph, const Times& times);

// "320 ns", "12.3 us", "4.56 ms".
std::string text_of(std::chrono::nanoseconds time);

}  // namespace dwell::graph
