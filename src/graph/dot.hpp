// Graphs in the language of Graphviz.
#pragma once

#include <string>

#include <dwell/detail/graph_data.hpp>

#include "graph/times.hpp"

namespace dwell::graph {

// The graph's name is its label. One statement a node and an edge; nodes show their names, operators, and groups when there are several.
// Control nodes are points, host nodes boxes, branches diamonds whose edges show the values. With `times`, nodes show theirs, and the
// critical path is bold.
std::string dot_of(const detail::GraphData& graph, const Times* times = nullptr);

}  // namespace dwell::graph
