// Queries of an exec's nodes: names, arguments, next nodes, the rest of a launch.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/exec.hpp"
#include "graph/followers.hpp"
#include "live/value_text.hpp"
#include "runtime/program/definition.hpp"

namespace dwell::detail {

ExecState::NodeFacts ExecState::facts_of(std::uint32_t node) const {
  const GraphData::NodeData& data = graph.nodes[node];
  const std::string_view name = data.name != kNoName ? std::string_view(graph.names[data.name]) : std::string_view();
  return {layout.cell(node), name, data.groups != 0, std::span(graph.words).subspan(data.first_word, data.words)};
}

std::string ExecState::why(std::uint64_t position, std::uint32_t cell) const {
  return host_nodes ? host_nodes->why(position, cell) : std::string();
}

std::string ExecState::node_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  return node != graph::Cells::kNone ? graph.text_of(node) : std::string();
}

std::string ExecState::name_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  return node != graph::Cells::kNone && graph.nodes[node].name != kNoName ? graph.names[graph.nodes[node].name] : std::string();
}

std::string ExecState::called_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone) return {};
  std::string name = name_at(cell);
  return name.empty() ? "#" + std::to_string(node) : name;
}

std::string ExecState::title_at(std::uint32_t cell, const std::string& op) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone) return {};
  if (graph.operator_of(node) == nullptr) return graph.text_of(node);
  return called_at(cell) + ": " + op;
}

std::string ExecState::arguments_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  const OperatorState* const op = node != graph::Cells::kNone ? graph.operator_of(node) : nullptr;
  if (op == nullptr) return {};
  const GraphData::NodeData& data = graph.nodes[node];
  const Lock lock(words_mutex_);
  const std::string text = live::text_of_arguments(op->signature, std::span(graph.words).subspan(data.first_word, data.words));
  return !text.empty() && node < set_.size() && set_[node] ? text + " as set last" : text;
}

std::vector<std::uint32_t> ExecState::next_at(std::uint32_t cell, std::size_t most) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone && cell != device::kFirstRecord) return {};
  std::vector<std::uint32_t> next =
      cell == device::kFirstRecord ? graph::first_nodes(graph, layout, most) : graph::followers(graph, layout, node, most);
  for (std::uint32_t& its : next) its = layout.cell(its);
  return next;
}

ExecState::Left ExecState::left(std::span<const std::uint32_t> ready) const {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<std::uint32_t> open;
  const auto add = [&](std::span<const std::uint32_t> edges) {
    for (const std::uint32_t edge : edges) {
      const std::uint32_t node = edge & ~device::kOnly;
      if (seen[node]) continue;
      seen[node] = true;
      open.push_back(node);
    }
  };
  for (const std::uint32_t cell : ready) {
    const std::uint32_t node = node_in(cell);
    if (node != graph::Cells::kNone) add(std::span(&node, 1));
    if (cell == device::kFirstRecord) add(layout.starts());
  }
  Left left{0, 0};
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    // Running and returned callbacks are not recorded.
    if (graph.nodes[node].op == kHostNode) add(std::span(&node, 1));
    if (graph.nodes[node].op == kHostNode || graph.nodes[node].groups != 0) ++left.all;
  }
  for (std::size_t at = 0; at < open.size(); ++at) {
    const std::uint32_t node = open[at];
    if (graph.nodes[node].op == kHostNode || graph.nodes[node].groups != 0) ++left.nodes;
    add(layout.successors(node));
  }
  return left;
}

}  // namespace dwell::detail
