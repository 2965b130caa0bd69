#include "graph/dot.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <vector>

#include "base/utf8.hpp"
#include "runtime/program/definition.hpp"

namespace dwell::graph {

namespace {

std::string escaped(const std::string& text) {
  std::string to;
  for (const char c : printable(text, "\n\t")) {
    if (c == '"' || c == '\\') to += '\\';
    to += c;
  }
  return to;
}

std::string edge_of(std::uint32_t before, std::uint32_t behind) {
  return "  n" + std::to_string(before) + " -> n" + std::to_string(behind);
}

// Returns the labels of a branch's edges to its successors, the last one first.
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

// "2026-11-22 23:46:01 UTC".
std::string text_of(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  char text[40];
  gmtime_r(&seconds, &parts);
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

// A line for the time of a node that has run.
std::string time_of(const NodeTime& time) {
  if (time.runs == 0) return "";
  const std::string mean = graph::text_of(time.total / static_cast<std::int64_t>(time.runs));
  return "\\n" + (time.runs > 1 ? std::to_string(time.runs) + " x " + mean : mean);
}

}  // namespace

std::string dot_of(const detail::GraphData& graph, const Times* times) {
  const std::string title = escaped(graph.graph_name);
  std::string text = title.empty() ? "digraph {\n" : "digraph \"" + title + "\" {\n";
  std::string caption = title;
  std::vector<std::uint32_t> behind_of(graph.nodes.size(), ~0U);  // for a node on the critical path the next one there, or itself
  if (times != nullptr) {
    const std::vector<std::uint32_t> path = critical_path(graph, *times);
    std::chrono::nanoseconds all{0};
    for (std::size_t i = 0; i < path.size(); ++i) {
      all += times->nodes[path[i]].total;
      behind_of[path[i]] = path[std::min(i + 1, path.size() - 1)];
    }
    caption += (title.empty() ? "measured " : "\\nmeasured ") + text_of(times->taken) + ": " + text_of(all) + " on the critical path";
  }
  if (!caption.empty()) text += "  label=\"" + caption + "\";\n";
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    const std::string name = node.name != detail::kNoName ? escaped(graph.names[node.name]) : std::string();
    const auto with_name = [&](const std::string& what) {
      std::string label = (name.empty() ? name : name + "\\n") + what;
      if (!node.is_alone() && node.groups != 0)
        label += "\\n" + (node.is_gang() ? "gang of " + std::to_string(node.groups) : std::to_string(node.groups) + " groups");
      if (times != nullptr) label += time_of(times->nodes[i]);
      return label;
    };
    const std::string bold = behind_of[i] != ~0U ? ", style=bold" : "";
    text += "  n" + std::to_string(i);
    if (node.op == detail::kBranch) {
      text += " [shape=diamond, label=\"" + with_name(text_of(graph.branch_of(i)->kind)) + "\"" + bold + "];\n";
    } else if (node.op == detail::kHostNode) {
      text += " [shape=box, label=\"" + with_name("callback") + "\"" + bold + "];\n";
    } else if (node.groups == 0) {
      text += " [shape=point, xlabel=\"" + name + "\"];\n";
    } else {
      text += " [label=\"" + with_name(escaped(graph.operators[node.op]->name)) + "\"" + bold + "];\n";
    }
  }
  std::map<std::uint32_t, std::vector<std::string>> choices;  // by branch: the labels of its edges, the last one first
  for (const auto& branch : graph.branches) choices[branch.node] = choices_of(branch);
  for (const auto& [before, behind] : graph.edges) {
    text += edge_of(before, behind);
    const std::string bold = behind_of[before] == behind ? "style=bold" : "";
    if (const auto at = choices.find(before); at != choices.end()) {
      text += " [label=\"" + at->second.back() + "\"" + (bold.empty() ? "" : ", ") + bold + "]";
      at->second.pop_back();
    } else if (!bold.empty()) {
      text += " [" + bold + "]";
    }
    text += ";\n";
  }
  for (const auto& branch : graph.branches)
    if (branch.kind == detail::BranchKind::repeat_while)
      text += edge_of(branch.bodies.front().exit, branch.node) + " [style=dashed, constraint=false];\n";
  return text + "}\n";
}

}  // namespace dwell::graph
