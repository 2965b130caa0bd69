// Shared by the tests of graph launches: operators that launch graphs, and graphs that detect overlapping launches.
#pragma once

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {

// Launches a graph `count` times, without order.
inline constexpr const char* kRepeat = R"(
DWELL_OPERATOR(repeat)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})";
using Repeat = void(Exec, u32);

// A tree of tasks, whose leaves launch the graph.
inline constexpr const char* kLaunchTree = R"(
DWELL_USES(launch_tree, dwell::u32, dwell::Exec)
DWELL_OPERATOR(launch_tree)(dwell::Group g, dwell::u32 levels, dwell::Exec exec) {
  if (levels == 0) { g.launch(exec); return; }
  g.spawn(uses::launch_tree, levels - 1, exec);
  g.spawn(uses::launch_tree, levels - 1, exec);
})";
using LaunchTree = void(u32, Exec);

// Cells of a graph that detects overlapping launches: running launches, overlaps, ended launches.
inline constexpr const char* kEnter = R"(
DWELL_OPERATOR(enter)(dwell::Group g, dwell::Span<dwell::u32> cells) {
  using namespace dwell::device;
  if (g.rank() == 0 && fetch_add<Order::acq_rel>(&cells[0], 1u) != 0) fetch_add<Order::relaxed>(&cells[1], 1u);
})";
inline constexpr const char* kExit = R"(
DWELL_OPERATOR(exit)(dwell::Group g, dwell::Span<dwell::u32> cells) {
  using namespace dwell::device;
  if (g.rank() != 0) return;
  fetch_add<Order::relaxed>(&cells[2], 1u);
  fetch_add<Order::acq_rel>(&cells[0], ~0u);
})";
using Cells = void(Span<u32>);

class GraphLaunchSuite : public GraphSuite {
 protected:
  void prepare(const Options& with) {
    open(with);
    repeat = runtime->define<Repeat>("repeat", kRepeat);
    enter = runtime->define<Cells>("enter", kEnter);
    exit = runtime->define<Cells>("exit", kExit);
  }
  void prepare() { prepare(options()); }

  // A graph of `width` nodes, each of which adds 1 to its own cell behind the first three, between two nodes that detect overlaps.
  GraphExec guarded(const Buffer<u32>& cells, u32 width) {
    Graph graph;
    const Node first = graph.add("enter", enter, cells);
    Node last = graph.add("exit", exit, cells);
    for (u32 i = 0; i < width; ++i) last.after(graph.add(add, cells, 3 + i, 1U).after(first));
    if (width == 0) last.after(first);
    return runtime->instantiate(graph);
  }
  // Expects that each node has run once in each of `launches`, and that no two launches overlapped.
  static void expect_launches(const Buffer<u32>& cells, u32 launches) {
    const std::vector<u32> found = read(cells);
    EXPECT_EQ(found[0], 0U);
    EXPECT_EQ(found[1], 0U) << "launches of one exec overlap";
    for (std::size_t i = 2; i < found.size(); ++i) EXPECT_EQ(found[i], launches) << "cell " << i;
  }

  Operator<Repeat> repeat;
  Operator<Cells> enter;
  Operator<Cells> exit;
};

}  // namespace dwell::test
