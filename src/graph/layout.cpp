#include "graph/layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::graph {

using detail::GraphData;
using device::Header;
using device::kCell;
using device::kFewSuccessors;
using device::kFirstRecord;
using device::kOnly;
namespace flag = device::flag;

namespace {

constexpr std::uint32_t cells_for(std::size_t bytes) { return static_cast<std::uint32_t>((bytes + kCell - 1) / kCell); }

// Argument words that a record itself holds.
std::uint32_t words_inside(std::uint32_t words) { return words > detail::kMaxWords ? 2 : words; }

void store(std::byte* to, std::size_t at, std::uint32_t value) { std::memcpy(to + at, &value, sizeof(value)); }

// The place of payload word `word` of a record, in bytes.
std::size_t payload_at(std::uint32_t word) {
  const std::uint32_t in_slot = word % device::kSlotWords;
  return static_cast<std::size_t>(word / device::kSlotWords) * kCell + in_slot / 3 * sizeof(device::Quad) + 4 + in_slot % 3 * 4;
}

}  // namespace

std::uint32_t slots_for(std::uint32_t words) {
  return (device::kHeaderWords + words_inside(words) + device::kSlotWords - 1) / device::kSlotWords;
}

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
    in_degree_[branch.end] = 1;  // one body has run, or none
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
  // Each node that is left has a predecessor that is left: walking backwards comes round.
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
  return in_degree_[next] == 1 && graph.nodes[next].groups == 1 && slots_for(graph.nodes[next].words) <= device::kChainSlots;
}

std::size_t Layout::edges_for(const GraphData& graph, std::uint32_t node) const {
  const auto listed = [](std::size_t successors) { return successors > 2 ? successors : 0; };
  if (graph.nodes[node].op != detail::kBranch) return listed(degree(node));
  const GraphData::Branch& branch = *graph.branch_of(node);
  std::size_t edges = branch.values() * device::kChoiceWords;
  for (const GraphData::Body& body : branch.bodies) edges += listed(body.sources);
  return edges;
}

bool Layout::is_shared(const GraphData& graph, std::uint32_t node) const {
  const GraphData::NodeData& data = graph.nodes[node];
  return data.groups > 1 || (degree(node) > kFewSuccessors && data.op != detail::kBranch);
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
      at += slots_for(data.words) + (is_shared(graph, node) ? 1 : 0);
      edges += edges_for(graph, node);
      if (out == 0) ++sinks_;
      if (data.words > detail::kMaxWords) blocks += cells_for(data.words * sizeof(std::uint32_t));
      if (at > device::kMostCells) break;
      if (out != 1 || data.groups != 1) break;
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

void Layout::write(const GraphData& graph, std::span<const std::uint32_t> opcodes, std::uint64_t address, std::byte* to) const {
  std::memset(to, 0, bytes());
  const std::uint32_t start = kFirstRecord;
  device::GraphHead head{};
  head.states = states_;
  head.edges = edges_;
  head.sinks = graph.nodes.empty() ? 1 : sinks_;  // the record before all is one then
  head.start = start;
  std::memcpy(to, &head, sizeof(head));

  std::uint32_t host_nodes = 0;
  std::uint32_t edge = 0;  // place of the next one
  const auto edge_to = [&](std::uint32_t successor, bool from_start) {
    const std::uint32_t node = successor & ~kOnly;
    return cell_[node] | (from_start || (successor & kOnly) != 0 || in_degree_[node] == 1 ? kOnly : 0);
  };
  const auto store_edge = [&](std::uint32_t value) {
    store(to, static_cast<std::size_t>(edges_) * kCell + sizeof(std::uint32_t) * edge++, value);
  };
  // Links 1 to 3 of a record.
  using Links = std::array<std::uint32_t, 3>;
  const auto links_to = [&](std::span<const std::uint32_t> successors, bool from_start) {
    Links link{static_cast<std::uint32_t>(successors.size()), 0, 0};
    if (successors.size() > 2) {
      link[1] = edge;
      for (const std::uint32_t node : successors) store_edge(edge_to(node, from_start));
    } else {
      for (std::size_t i = 0; i < successors.size(); ++i) link[1 + i] = edge_to(successors[i], from_start);
    }
    return link;
  };
  const auto write_header = [&](std::uint32_t cell, Header header, const Links& links) {
    const std::uint64_t number = address / kCell + cell;
    header.drains = static_cast<std::uint32_t>(number >> 32U);
    const std::size_t at = static_cast<std::size_t>(cell) * kCell;
    const std::uint32_t link[4] = {cell, links[0], links[1], links[2]};
    const std::uint32_t words[3] = {header.word0(), header.word1(), static_cast<std::uint32_t>(number)};
    for (std::size_t i = 0; i < 4; ++i) store(to, at + i * sizeof(device::Quad), link[i]);
    for (std::size_t i = 0; i < 3; ++i) store(to, at + 4 + i * 4, words[i]);
  };

  // Writes the choices of a branch; returns its own links.
  const auto write_branch = [&](const GraphData::Branch& branch, std::span<const std::uint32_t> successors) {
    const std::uint32_t choices = edge;
    const std::uint32_t past = cell_[branch.end] | kOnly;
    const Links passes{1, past, 0};
    edge += branch.values() * device::kChoiceWords;
    std::vector<Links> of_body;
    for (const GraphData::Body& body : branch.bodies) {
      of_body.push_back(links_to(successors.first(body.sources), false));
      successors = successors.subspan(body.sources);
    }
    of_body.push_back(passes);
    const std::uint32_t next = std::exchange(edge, choices);
    for (std::uint32_t value = 0; value < branch.values(); ++value)
      for (const std::uint32_t word : of_body[branch.body_for(value)]) store_edge(word);
    edge = next;
    const std::size_t at = static_cast<std::size_t>(cell_[branch.node]) * kCell;
    store(to, at + payload_at(device::kHeaderWords + device::kBranchLast), branch.values() - 1);
    store(to, at + payload_at(device::kHeaderWords + device::kBranchChoices), choices);
    return passes;
  };

  write_header(start, Header{0, 0, 1, flag::node | flag::share | flag::aside, 0}, links_to(starts_, true));
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const GraphData::NodeData& data = graph.nodes[node];
    std::uint32_t flags = flag::node | data.flags;
    if (chained_[node]) flags |= flag::chain;
    if (data.groups != 1) flags |= flag::share | flag::aside;
    const std::span<const std::uint32_t> successors = this->successors(node);
    const bool is_branch = data.op == detail::kBranch;
    if (is_branch) flags |= flag::branch;
    const bool is_host = data.op == detail::kHostNode;
    if (is_host) flags |= flag::host;
    if (data.op == detail::kClock) flags |= flag::clock;
    write_header(cell_[node], Header{data.groups == 0 ? 0 : opcodes[data.op], data.groups, slots_for(data.words), flags, 0},
                 is_branch ? write_branch(*graph.branch_of(node), successors) : links_to(successors, false));
    if (data.words > detail::kMaxWords) {
      const std::uint64_t block = address + static_cast<std::uint64_t>(block_[node]) * kCell;
      store(to, static_cast<std::size_t>(cell_[node]) * kCell + payload_at(device::kHeaderWords), static_cast<std::uint32_t>(block));
      store(to, static_cast<std::size_t>(cell_[node]) * kCell + payload_at(device::kHeaderWords + 1),
            static_cast<std::uint32_t>(block >> 32U));
    }
    if (is_host) store(to, word_at(graph, node, 0), host_nodes++);
    for (std::uint32_t i = 0; i < data.words; ++i) store(to, word_at(graph, node, i), graph.words[data.first_word + i]);
    if (in_degree_[node] > 1) {
      const device::NodeState state{device::arrivals(in_degree_[node]), in_degree_[node], 0};
      std::memcpy(to + static_cast<std::size_t>(states_) * kCell + (cell_[node] - kFirstRecord) * sizeof(state), &state, sizeof(state));
    }
  }
}

}  // namespace dwell::graph
