#include "graph/layout.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::graph {

using detail::GraphData;
using device::kCell;
using device::kFewSuccessors;
using device::kFirstRecord;
using device::kOnly;

namespace {

constexpr std::uint32_t cells_for(std::size_t bytes) { return static_cast<std::uint32_t>((bytes + kCell - 1) / kCell); }

}  // namespace

Layout::Layout(const GraphData& graph) {
  connect(graph);
  place(graph);
}

bool Layout::connect(std::size_t nodes, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges) {
  first_.assign(nodes + 2, 0);
  in_degree_.assign(nodes, 0);
  bool forwards = true;
  for (const auto& [before, behind] : edges) {
    ++first_[before + 2];
    ++in_degree_[behind];
    forwards = forwards && before < behind;
  }
  for (std::size_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
  successor_.resize(edges.size());
  for (const auto& [before, behind] : edges) successor_[first_[before + 1]++] = behind;
  first_.pop_back();
  return forwards;
}

void Layout::connect(const GraphData& graph) {
  if (!connect(graph.nodes.size(), graph.edges)) find_cycle(graph);
  if (!graph.branches.empty()) connect_branches(graph);
}

void Layout::connect_branches(const GraphData& graph) {
  graph.check_bodies();
  auto edges = graph.edges;
  for (const GraphData::Branch& branch : graph.branches)
    if (branch.kind == detail::BranchKind::repeat_while) edges.emplace_back(branch.bodies.front().exit, branch.node);
  connect(graph.nodes.size(), edges);
  for (const GraphData::Branch& branch : graph.branches) {
    in_degree_[branch.end] = 1;  // one body, or none, precedes it
    if (branch.kind != detail::BranchKind::repeat_while) continue;
    --in_degree_[branch.node];
    successor_[first_[branch.bodies.front().exit]] |= kOnly;
  }
}

void Layout::find_cycle(const GraphData& graph) const {
  std::vector<std::uint32_t> left = in_degree_;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t node = 0; node < left.size(); ++node)
    if (left[node] == 0) ready.push_back(node);
  std::size_t done = 0;
  for (; done < ready.size(); ++done)
    for (std::uint32_t i = first_[ready[done]]; i < first_[ready[done] + 1]; ++i)
      if (--left[successor_[i]] == 0) ready.push_back(successor_[i]);
  if (done == graph.nodes.size()) return;
  // Each remaining node has a remaining predecessor: walking backwards finds a cycle.
  std::vector<std::uint32_t> before(graph.nodes.size(), 0);
  for (const auto& [from, to] : graph.edges)
    if (left[from] != 0) before[to] = from;
  auto node = static_cast<std::uint32_t>(std::ranges::find_if(left, [](std::uint32_t of) { return of != 0; }) - left.begin());
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!seen[node]) {
    seen[node] = true;
    node = before[node];
  }
  std::vector<std::uint32_t> cycle{node};
  for (std::uint32_t at = before[node]; at != node; at = before[at]) cycle.push_back(at);
  std::ranges::reverse(cycle);
  std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());  // clang 14 does not compile std::ranges::rotate
  std::string text;
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) text += graph.text_of(cycle[i]) + " -> ";
  if (cycle.size() > kShown) text += "... " + std::to_string(cycle.size() - kShown) + " more -> ";
  throw Error(errc::invalid_argument,
              "the graph has a cycle: " + text + graph.text_of(cycle.front()) + "; each waits for the one before it",
              {"node", graph.text_of(cycle.front()), cycle.size(), 0});
}

bool Layout::continues(const GraphData& graph, std::uint32_t next) const {
  return in_degree_[next] == 1 && graph.nodes[next].is_alone() && slots_for(graph.nodes[next].words) <= device::kChainSlots;
}

std::size_t Layout::edges_for(const GraphData& graph, std::uint32_t node) const {
  const auto listed = [](std::size_t successors) { return successors > 2 ? successors : 0; };
  if (graph.nodes[node].op != detail::kBranch) return listed(degree(node));
  const GraphData::Branch& branch = *graph.branch_of(node);
  std::size_t edges = branch.values() * device::kChoiceWords;
  for (const GraphData::Body& body : branch.bodies) edges += listed(body.sources);
  return edges;
}

std::uint32_t Layout::shared_cells(const GraphData& graph, std::uint32_t node) const {
  const GraphData::NodeData& data = graph.nodes[node];
  if (data.is_gang()) return sizeof(device::NodeGang) / kCell;
  return data.groups > 1 || (degree(node) > kFewSuccessors && data.op != detail::kBranch) ? 1 : 0;
}

void Layout::place(const GraphData& graph) {
  const std::size_t count = graph.nodes.size();
  cell_.assign(count, 0);
  chained_.assign(count, false);
  for (std::uint32_t node = 0; node < count; ++node)
    if (in_degree_[node] == 0) starts_.push_back(node);
  std::uint64_t at = kFirstRecord + 1 + (starts_.size() > kFewSuccessors ? 1 : 0);
  std::uint64_t edges = starts_.size() > 2 ? starts_.size() : 0;
  std::uint64_t blocks = 0;
  for (std::uint32_t first = 0; first < count; ++first) {
    // The nodes of a chain follow their first one.
    for (std::uint32_t node = first; cell_[node] == 0;) {
      const GraphData::NodeData& data = graph.nodes[node];
      const std::uint32_t out = degree(node);
      cell_[node] = static_cast<std::uint32_t>(at);
      at += slots_for(data.words) + shared_cells(graph, node);
      edges += edges_for(graph, node);
      if (out == 0) ++sinks_;
      if (data.words > detail::kMaxWords) blocks += cells_for(data.words * sizeof(std::uint32_t));
      if (at > device::kMostCells) break;
      if (out != 1 || !data.is_alone()) break;
      const std::uint32_t next = successor_[first_[node]] & ~kOnly;
      if (!continues(graph, next) || cell_[next] != 0) break;
      chained_[node] = true;
      node = next;
    }
  }
  const std::uint64_t states = at;
  const std::uint64_t edge_cells = states + cells_for((states - kFirstRecord) * sizeof(device::NodeState));
  const std::uint64_t block_cells = edge_cells + cells_for(edges * sizeof(std::uint32_t)) + device::kPadding;
  if (block_cells + blocks > device::kMostCells)
    throw Error(errc::invalid_argument, "a graph of " + std::to_string(count) + " nodes takes more than 64 GiB of device memory: divide it",
                {"graph", "", block_cells + blocks, device::kMostCells});
  states_ = static_cast<std::uint32_t>(states);
  edges_ = static_cast<std::uint32_t>(edge_cells);
  cells_ = static_cast<std::uint32_t>(block_cells + blocks);
  if (blocks == 0) return;
  block_.assign(count, 0);
  std::uint64_t block = block_cells;
  for (std::uint32_t node = 0; node < count; ++node) {
    if (graph.nodes[node].words <= detail::kMaxWords) continue;
    block_[node] = static_cast<std::uint32_t>(block);
    block += cells_for(graph.nodes[node].words * sizeof(std::uint32_t));
  }
}

std::size_t Layout::word_at(const GraphData& graph, std::uint32_t node, std::uint32_t word) const {
  if (graph.nodes[node].words > detail::kMaxWords) return static_cast<std::size_t>(block_[node]) * kCell + word * sizeof(std::uint32_t);
  return static_cast<std::size_t>(cell_[node]) * kCell + payload_at(device::kHeaderWords + word);
}

}  // namespace dwell::graph
