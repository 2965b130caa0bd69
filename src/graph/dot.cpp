#include "graph/dot.hpp"

#include "runtime/code/definition.hpp"

namespace dwell::graph {

namespace {

std::string escaped(const std::string& text) {
  std::string to;
  for (const char c : text) {
    if (c == '"' || c == '\\') to += '\\';
    to += c;
  }
  return to;
}

}  // namespace

std::string dot_of(const detail::GraphData& graph) {
  std::string text = "digraph {\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    const std::string name = node.name != detail::kNoName ? escaped(graph.names[node.name]) : std::string();
    text += "  n" + std::to_string(i);
    if (node.op == detail::kNoOperator) {
      text += " [shape=point, xlabel=\"" + name + "\"];\n";
      continue;
    }
    std::string label = (name.empty() ? name : name + "\\n") + escaped(graph.operators[node.op]->name);
    if (node.groups > 1) label += "\\n" + std::to_string(node.groups) + " groups";
    text += " [label=\"" + label + "\"];\n";
  }
  for (const auto& [before, behind] : graph.edges) text += "  n" + std::to_string(before) + " -> n" + std::to_string(behind) + ";\n";
  return text + "}\n";
}

}  // namespace dwell::graph
