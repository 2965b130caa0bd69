#include "graph/layout.hpp"

#include <algorithm>
#include <cstring>
#include <string>

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

void Layout::connect(const GraphData& graph) {
  const std::size_t count = graph.nodes.size();
  first_.assign(count + 2, 0);
  in_degree_.assign(count, 0);
  bool forwards = true;  // every edge leads to a node that was added later: then there is no cycle
  for (const auto& [before, behind] : graph.edges) {
    ++first_[before + 2];
    ++in_degree_[behind];
    forwards = forwards && before < behind;
  }
  for (std::size_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
  successor_.resize(graph.edges.size());
  for (const auto& [before, behind] : graph.edges) successor_[first_[before + 1]++] = behind;
  first_.pop_back();
  if (!forwards) find_cycle(graph);
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
      at += slots_for(data.words) + (data.groups > 1 || out > kFewSuccessors ? 1 : 0);
      if (out > 2) edges += out;
      if (out == 0) ++sinks_;
      if (data.words > detail::kMaxWords) blocks += cells_for(data.words * sizeof(std::uint32_t));
      if (at > device::kMostCells) break;
      if (out != 1 || data.groups != 1) break;
      const std::uint32_t next = successor_[first_[node]];
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

  std::uint32_t edge = 0;  // place of the next one
  const auto edge_to = [&](std::uint32_t node, bool only) { return cell_[node] | (only ? kOnly : 0); };
  const auto write_header = [&](std::uint32_t cell, Header header, std::span<const std::uint32_t> successors, bool from_start) {
    const std::uint64_t number = address / kCell + cell;
    header.drains = static_cast<std::uint32_t>(number >> 32U);
    const std::size_t at = static_cast<std::size_t>(cell) * kCell;
    std::uint32_t link[4] = {cell, static_cast<std::uint32_t>(successors.size()), 0, 0};
    const auto only = [&](std::uint32_t node) { return from_start || in_degree_[node] == 1; };
    if (successors.size() > 2) {
      link[2] = edge;
      for (const std::uint32_t node : successors)
        store(to, static_cast<std::size_t>(edges_) * kCell + sizeof(std::uint32_t) * edge++, edge_to(node, only(node)));
    } else {
      for (std::size_t i = 0; i < successors.size(); ++i) link[2 + i] = edge_to(successors[i], only(successors[i]));
    }
    const std::uint32_t words[3] = {header.word0(), header.word1(), static_cast<std::uint32_t>(number)};
    for (std::size_t i = 0; i < 4; ++i) store(to, at + i * sizeof(device::Quad), link[i]);
    for (std::size_t i = 0; i < 3; ++i) store(to, at + 4 + i * 4, words[i]);
  };

  write_header(start, Header{0, 0, 1, flag::node | flag::share | flag::aside, 0}, starts_, true);
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const GraphData::NodeData& data = graph.nodes[node];
    std::uint32_t flags = flag::node | data.flags;
    if (chained_[node]) flags |= flag::chain;
    if (data.groups != 1) flags |= flag::share | flag::aside;
    const std::uint32_t opcode = data.op == detail::kNoOperator ? 0 : opcodes[data.op];
    const std::uint32_t out = degree(node);
    write_header(cell_[node], Header{opcode, data.groups, slots_for(data.words), flags, 0}, {successor_.data() + first_[node], out}, false);
    if (data.words > detail::kMaxWords) {
      const std::uint64_t block = address + static_cast<std::uint64_t>(block_[node]) * kCell;
      store(to, static_cast<std::size_t>(cell_[node]) * kCell + payload_at(device::kHeaderWords), static_cast<std::uint32_t>(block));
      store(to, static_cast<std::size_t>(cell_[node]) * kCell + payload_at(device::kHeaderWords + 1),
            static_cast<std::uint32_t>(block >> 32U));
    }
    for (std::uint32_t i = 0; i < data.words; ++i) store(to, word_at(graph, node, i), graph.words[data.first_word + i]);
    if (in_degree_[node] > 1) {
      const device::NodeState state{device::arrivals(in_degree_[node]), in_degree_[node], 0};
      std::memcpy(to + static_cast<std::size_t>(states_) * kCell + (cell_[node] - kFirstRecord) * sizeof(state), &state, sizeof(state));
    }
  }
}

}  // namespace dwell::graph
