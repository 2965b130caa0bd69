// Shared by the conformance tests of conditional nodes: a runtime with operators for them, and cells for their values.
#pragma once

#include "tests/conformance/suite.hpp"

namespace dwell::test {

class ConditionalSuite : public DeviceTest {
 protected:
  // Opens a runtime with the operators of the tests.
  void open(Options options) {
    runtime.emplace(std::move(options));
    append = runtime->define<Append>("append", kAppend);
    add = runtime->define<Add>("add", kAdd);
    fail = runtime->define<Fail>("fail", kFail);
    assign = runtime->define<void(Span<u32>, u32, u32)>("assign", R"(
      DWELL_OPERATOR(assign)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
        if (g.rank() == 0) cells[at] = value;
        g.sync();
      })");
    cells = filled<u32>(*runtime, kCells, 0);
  }
  void open() { open(options()); }
  Options rolling() const {
    Options options = this->options();
    options.lease = on_cpu() ? 2ms : 500us;
    return options;
  }

  Slice<u32> cell(u32 at) const { return cells.slice(at, 1); }
  u32 value(u32 at) const { return read(cells)[at]; }
  void clear() { cells.write(std::vector<u32>(kCells, 0)); }
  // A graph that adds to a cell.
  Graph adding(u32 at, u32 value = 1) {
    Graph graph;
    graph.add(add, cells, at, value);
    return graph;
  }
  // Adds a node that decrements a cell.
  Node count_down(Graph& graph, u32 at) { return graph.add("down", add, cells, at, ~0U); }

  static constexpr u32 kCells = 64;
  std::optional<Runtime> runtime;
  Operator<Append> append;
  Operator<Add> add;
  Operator<Fail> fail;
  Operator<void(Span<u32>, u32, u32)> assign;
  Buffer<u32> cells;
};

}  // namespace dwell::test
