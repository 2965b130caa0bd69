// Finds the next nodes with operators after a node, and the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <dwell/detail/graph_data.hpp>

#include "graph/layout.hpp"

namespace dwell::graph {

// Returns at most `most` nodes with operators that follow `node`: its successors, and those of control, host and clock nodes among them.
// Conditional nodes end the search: nodes behind them may run without this node. Visits some hundred edges, so it may miss nodes behind
// many control nodes. Deterministic.
std::vector<std::uint32_t> followers(const detail::GraphData& graph, const Layout& layout, std::uint32_t node, std::size_t most);
// Returns those that start when the graph is launched.
std::vector<std::uint32_t> first_nodes(const detail::GraphData& graph, const Layout& layout, std::size_t most);

}  // namespace dwell::graph
