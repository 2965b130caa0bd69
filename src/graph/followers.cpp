#include "graph/followers.hpp"

#include <algorithm>

#include "device/graph_layout.hpp"

namespace dwell::graph {

std::vector<std::uint32_t> followers(const detail::GraphData& graph, const Layout& layout, std::uint32_t node, std::size_t most) {
  constexpr std::size_t kMostEdges = 512;
  std::vector<std::uint32_t> found;
  std::vector<std::uint32_t> passed{node};  // whose successors count
  std::size_t edges = 0;
  for (std::size_t at = 0; at < passed.size(); ++at) {
    for (const std::uint32_t edge : layout.successors(passed[at])) {
      if (found.size() == most || edges++ == kMostEdges) return found;
      const std::uint32_t next = edge & ~device::kOnly;
      const detail::GraphData::NodeData& data = graph.nodes[next];
      if (data.groups == 0 && (data.op == detail::kBranch || data.op == detail::kBranchEnd)) continue;
      std::vector<std::uint32_t>& list = data.groups != 0 ? found : passed;
      if (std::ranges::find(list, next) == list.end()) list.push_back(next);
    }
  }
  return found;
}

}  // namespace dwell::graph
