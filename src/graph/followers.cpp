#include "graph/followers.hpp"

#include <algorithm>
#include <span>

#include "device/graph_layout.hpp"

namespace dwell::graph {

namespace {

// Searches from these edges.
std::vector<std::uint32_t> search(const detail::GraphData& graph, const Layout& layout, std::span<const std::uint32_t> from,
                                  std::size_t most) {
  constexpr std::size_t kMostEdges = 512;
  std::vector<std::uint32_t> found;
  std::vector<std::uint32_t> passed;  // nodes whose successors are searched
  std::size_t edges = 0;
  for (std::size_t at = 0;; from = layout.successors(passed[at++])) {
    for (const std::uint32_t edge : from) {
      if (found.size() == most || edges++ == kMostEdges) return found;
      const std::uint32_t next = edge & ~device::kOnly;
      const detail::GraphData::NodeData& data = graph.nodes[next];
      if (data.groups == 0 && (data.op == detail::kBranch || data.op == detail::kBranchEnd)) continue;
      std::vector<std::uint32_t>& list = data.groups != 0 ? found : passed;
      if (std::ranges::find(list, next) == list.end()) list.push_back(next);
    }
    if (at == passed.size()) return found;
  }
}

}  // namespace

std::vector<std::uint32_t> followers(const detail::GraphData& graph, const Layout& layout, std::uint32_t node, std::size_t most) {
  return search(graph, layout, layout.successors(node), most);
}

std::vector<std::uint32_t> first_nodes(const detail::GraphData& graph, const Layout& layout, std::size_t most) {
  return search(graph, layout, layout.starts(), most);
}

}  // namespace dwell::graph
