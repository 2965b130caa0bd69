// The layout of a graph in device memory (device/graph_layout.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <dwell/detail/graph_data.hpp>

#include "device/graph_layout.hpp"

namespace dwell::graph {

// Returns the slots of a record with this many argument words. A record with more than fit holds the address of their block.
constexpr std::uint32_t slots_for(std::uint32_t words) {
  const std::uint32_t inside = words > detail::kMaxWords ? 2 : words;
  return (device::kHeaderWords + inside + device::kSlotWords - 1) / device::kSlotWords;
}
// Returns the offset of payload word `word` of a record, in bytes.
constexpr std::size_t payload_at(std::uint32_t word) {
  const std::uint32_t in_slot = word % device::kSlotWords;
  return static_cast<std::size_t>(word / device::kSlotWords) * device::kCell + in_slot / 3 * sizeof(device::Quad) + 4 + in_slot % 3 * 4;
}

// The places of a graph's data in its exec, computed before the exec has an address. Nodes of a chain are contiguous.
class Layout {
 public:
  // Throws errc::invalid_argument for a cycle, listing its nodes, and for a graph beyond the layout's limits.
  explicit Layout(const detail::GraphData& graph);

  std::size_t bytes() const { return static_cast<std::size_t>(cells_) * device::kCell; }
  // Writes the exec for its place in the arena, from cell `first` on. `to` has bytes() bytes, `opcodes` one for each operator of the graph.
  void write(const detail::GraphData& graph, std::span<const std::uint32_t> opcodes, std::uint32_t first, std::byte* to) const;

  // The cell of a node's record, and the place of one of its argument words, in bytes from the exec's begin.
  std::uint32_t cell(std::uint32_t node) const { return cell_[node]; }
  std::size_t word_at(const detail::GraphData& graph, std::uint32_t node, std::uint32_t word) const;
  // A node's successors, with kOnly where an edge leads back.
  std::span<const std::uint32_t> successors(std::uint32_t node) const { return {successor_.data() + first_[node], degree(node)}; }
  // Returns the nodes without predecessors.
  std::span<const std::uint32_t> starts() const { return starts_; }
  // Returns the offset of the word with a node's opcode and groups.
  std::size_t opcode_at(std::uint32_t node) const { return static_cast<std::size_t>(cell_[node]) * device::kCell + 4; }

 private:
  class Writer;

  void connect(const detail::GraphData& graph);
  // Fills first_, successor_ and in_degree_. Returns whether every edge leads to a node that was added later.
  bool connect(std::size_t nodes, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);
  void connect_branches(const detail::GraphData& graph);
  void find_cycle(const detail::GraphData& graph) const;
  void place(const detail::GraphData& graph);
  // Returns whether a node can be placed right after its only predecessor.
  bool continues(const detail::GraphData& graph, std::uint32_t next) const;
  std::uint32_t degree(std::uint32_t node) const { return first_[node + 1] - first_[node]; }

  // Returns the number of edge entries of a node, and the cells after its record with the state of shared work.
  std::size_t edges_for(const detail::GraphData& graph, std::uint32_t node) const;
  std::uint32_t shared_cells(const detail::GraphData& graph, std::uint32_t node) const;

  // Successors by node, in one array: those of node i are successor_[first_[i] .. first_[i + 1]). With kOnly where an edge leads back.
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> successor_;
  std::vector<std::uint32_t> in_degree_;
  std::vector<std::uint32_t> cell_;
  std::vector<bool> chained_;          // by node: its only successor's record follows its own
  std::vector<std::uint32_t> block_;   // by node, the cell of the block of arguments that do not fit its record; else empty
  std::vector<std::uint32_t> starts_;  // nodes without predecessors
  std::uint32_t sinks_ = 0;
  std::uint32_t states_ = 0;  // cells
  std::uint32_t edges_ = 0;
  std::uint32_t cells_ = 0;
};

}  // namespace dwell::graph
