// Graphs in Graphviz's DOT language.
#pragma once

#include <string>

#include <dwell/detail/graph_data.hpp>

#include "graph/times.hpp"

namespace dwell::graph {

// Formats a graph. Its name is the label. One statement per node and edge; nodes show their names, operators, and groups if several.
// Control nodes are points, host nodes boxes, branches diamonds whose edges show the values. With `times`, nodes show theirs, and the
// critical path is bold.
std::string dot_of(const detail::GraphData& graph, const Times* times = nullptr);

}  // namespace dwell::graph
