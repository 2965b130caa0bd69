// Which nodes with operators come next behind a node, and which first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <dwell/detail/graph_data.hpp>

#include "graph/layout.hpp"

namespace dwell::graph {

// The nodes with operators that start when `node` and all else that they wait for have succeeded, `most` at most: its successors, and those
// of the control nodes, host nodes and clock nodes among them. Conditional nodes end the search: what is behind them may run without this
// node. It looks at some hundred edges, so of many control nodes it does not see all. The same for each call.
std::vector<std::uint32_t> followers(const detail::GraphData& graph, const Layout& layout, std::uint32_t node, std::size_t most);
// The same of those that start when the graph is launched.
std::vector<std::uint32_t> first_nodes(const detail::GraphData& graph, const Layout& layout, std::size_t most);

}  // namespace dwell::graph
