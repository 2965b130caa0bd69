// Graphs in the language of Graphviz.
#pragma once

#include <string>

#include <dwell/detail/graph_data.hpp>

namespace dwell::graph {

// One statement a node and an edge; nodes show their names, operators, and groups when there are several. Control nodes are points,
// branches diamonds whose edges show the values.
std::string dot_of(const detail::GraphData& graph);

}  // namespace dwell::graph
