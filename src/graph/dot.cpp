#include "graph/dot.hpp"

#include <map>
#include <vector>

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

std::string edge_of(std::uint32_t before, std::uint32_t behind) {
  return "  n" + std::to_string(before) + " -> n" + std::to_string(behind);
}

// What leads from a branch to each of its successors, the last one first.
std::vector<std::string> choices_of(const detail::GraphData::Branch& branch) {
  const bool counts = branch.kind == detail::BranchKind::choose;
  std::vector<std::string> choices;
  if (branch.may_pass()) choices.emplace_back(counts ? "else" : "0");
  for (std::size_t body = branch.bodies.size(); body-- > 0;) {
    const std::string value = counts ? std::to_string(body) : body == 0 ? "not 0" : "0";
    choices.insert(choices.end(), branch.bodies[body].sources, value);
  }
  return choices;
}

}  // namespace

std::string dot_of(const detail::GraphData& graph) {
  std::string text = "digraph {\n";
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    const std::string name = node.name != detail::kNoName ? escaped(graph.names[node.name]) : std::string();
    const auto with_name = [&](const std::string& what) { return (name.empty() ? name : name + "\\n") + what; };
    text += "  n" + std::to_string(i);
    if (node.op == detail::kBranch) {
      text += " [shape=diamond, label=\"" + with_name(text_of(graph.branch_of(i)->kind)) + "\"];\n";
    } else if (node.groups == 0) {
      text += " [shape=point, xlabel=\"" + name + "\"];\n";
    } else {
      std::string label = with_name(escaped(graph.operators[node.op]->name));
      if (node.groups > 1) label += "\\n" + std::to_string(node.groups) + " groups";
      text += " [label=\"" + label + "\"];\n";
    }
  }
  std::map<std::uint32_t, std::vector<std::string>> choices;  // by branch: what leads to each successor, the last one first
  for (const auto& branch : graph.branches) choices[branch.node] = choices_of(branch);
  for (const auto& [before, behind] : graph.edges) {
    text += edge_of(before, behind);
    if (const auto at = choices.find(before); at != choices.end()) {
      text += " [label=\"" + at->second.back() + "\"]";
      at->second.pop_back();
    }
    text += ";\n";
  }
  for (const auto& branch : graph.branches)
    if (branch.kind == detail::BranchKind::repeat_while)
      text += edge_of(branch.bodies.front().exit, branch.node) + " [style=dashed, constraint=false];\n";
  return text + "}\n";
}

}  // namespace dwell::graph
