#include "graph/times.hpp"

#include <algorithm>
#include <cstdio>

#include "device/graph_layout.hpp"

namespace dwell::graph {

using detail::GraphData;

GraphData with_clocks(const GraphData& from, std::uint64_t times) {
  GraphData to;
  to.graph_name = from.graph_name;
  to.shell = from.shell;
  to.words = from.words;
  to.operators = from.operators;
  to.names = from.names;
  to.callbacks = from.callbacks;
  to.execs = from.execs;
  std::vector<std::uint32_t> first;  // by node: its copy, with its clocks
  std::vector<std::uint32_t> last;
  const auto clock = [&](std::uint32_t node, std::uint32_t ends) {
    const std::uint64_t at = times + node * sizeof(device::NodeTime);
    to.nodes.push_back({static_cast<std::uint32_t>(to.words.size()), 3, detail::kClock, detail::kNoName, 0, 0});
    to.words.insert(to.words.end(), {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32U), ends});
  };
  for (std::uint32_t node = 0; node < from.nodes.size(); ++node) {
    const bool runs = from.nodes[node].groups != 0 || from.nodes[node].op == detail::kHostNode;
    const auto at = static_cast<std::uint32_t>(to.nodes.size());
    if (runs) clock(node, 0);
    to.nodes.push_back(from.nodes[node]);
    if (runs) {
      clock(node, 1);
      to.edges.emplace_back(at, at + 1);
      to.edges.emplace_back(at + 1, at + 2);
    }
    first.push_back(at);
    last.push_back(static_cast<std::uint32_t>(to.nodes.size() - 1));
  }
  const std::size_t inner = to.edges.size();
  for (const auto& [before, behind] : from.edges) to.edges.emplace_back(last[before], first[behind]);
  for (GraphData::Use use : from.uses) {
    use.node = first[use.node] + (first[use.node] != last[use.node] ? 1 : 0);
    to.uses.push_back(use);
  }
  for (GraphData::Branch branch : from.branches) {
    branch.node = first[branch.node];
    branch.end = first[branch.end];
    for (GraphData::Body& body : branch.bodies) {
      body.behind = body.behind < first.size() ? first[body.behind] : static_cast<std::uint32_t>(to.nodes.size());
      body.first = body.first < first.size() ? first[body.first] : body.behind;
      body.exit = last[body.exit];
      body.edges += inner;
    }
    to.branches.push_back(std::move(branch));
  }
  return to;
}

std::vector<std::uint32_t> critical_path(const GraphData& graph, const Times& times) {
  constexpr std::uint32_t kNone = ~0U;
  const std::size_t count = graph.nodes.size();
  auto edges = graph.edges;
  for (const GraphData::Branch& branch : graph.branches)
    if (branch.kind == detail::BranchKind::repeat_while) edges.emplace_back(branch.bodies.front().exit, branch.end);
  std::vector<std::uint32_t> begin(count + 1, 0);
  std::vector<std::uint32_t> left(count, 0);
  for (const auto& [before, behind] : edges) {
    ++begin[before + 1];
    ++left[behind];
  }
  for (std::size_t i = 1; i <= count; ++i) begin[i] += begin[i - 1];
  std::vector<std::uint32_t> successor(edges.size());
  auto next = begin;
  for (const auto& [before, behind] : edges) successor[next[before]++] = behind;

  std::vector<std::chrono::nanoseconds> way(count, std::chrono::nanoseconds(0));  // the longest path that ends with the node
  std::vector<std::uint32_t> from(count, kNone);
  std::vector<std::uint32_t> ready;
  std::uint32_t longest = kNone;
  for (std::uint32_t node = 0; node < count; ++node)
    if (left[node] == 0) ready.push_back(node);
  for (std::size_t done = 0; done < ready.size(); ++done) {
    const std::uint32_t node = ready[done];
    way[node] += times.nodes[node].total;
    if (longest == kNone || way[node] > way[longest]) longest = node;
    for (std::uint32_t i = begin[node]; i < begin[node + 1]; ++i) {
      const std::uint32_t behind = successor[i];
      if (from[behind] == kNone || way[node] > way[behind]) {
        way[behind] = way[node];
        from[behind] = node;
      }
      if (--left[behind] == 0) ready.push_back(behind);
    }
  }
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = longest; at != kNone; at = from[at]) path.push_back(at);
  std::ranges::reverse(path);
  return path;
}

std::string text_of(std::chrono::nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  char text[32];
  if (ns < 1e3)
    std::snprintf(text, sizeof(text), "%.0f ns", ns);
  else if (ns < 1e6)
    std::snprintf(text, sizeof(text), "%.3g us", ns / 1e3);
  else
    std::snprintf(text, sizeof(text), "%.3g ms", ns / 1e6);
  return text;
}

}  // namespace dwell::graph
