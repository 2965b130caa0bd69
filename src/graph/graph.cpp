#include <dwell/graph.hpp>

#include <algorithm>

#include "graph/dot.hpp"
#include "graph/exec.hpp"
#include "runtime/api/argument_check.hpp"
#include "runtime/core.hpp"

namespace dwell {

namespace detail {

std::uint32_t GraphData::find(const std::shared_ptr<OperatorState>& op) {
  if (!op) throw Error(errc::invalid_argument, "the operator handle is empty: it names no operator");
  const auto at = std::ranges::find(operators, op);
  if (at == operators.end()) {
    if (shell != nullptr && shell != op->shell)
      throw Error(errc::invalid_argument, "operator '" + op->name + "' belongs to another runtime than the rest of the graph",
                  {"operator", op->name});
    if (op->shell->core() == nullptr) throw op->gone();
    operators.push_back(op);
    shell = op->shell;
    return last_operator = static_cast<std::uint32_t>(operators.size() - 1);
  }
  return last_operator = static_cast<std::uint32_t>(at - operators.begin());
}

const char* text_of(BranchKind kind) { return kind == BranchKind::run_if ? "if" : kind == BranchKind::repeat_while ? "while" : "switch"; }

std::string GraphData::text_of(std::uint32_t node) const {
  const NodeData& data = nodes[node];
  const OperatorState* const op = operator_of(node);
  const Branch* const branch = data.op == kBranch ? branch_of(node) : nullptr;
  const std::string of = op != nullptr          ? " (operator " + op->name + ")"
                         : branch != nullptr    ? std::string(" (") + detail::text_of(branch->kind) + ")"
                         : data.op == kHostNode ? " (callback)"
                                                : " (no operator)";
  return (data.name != kNoName ? "'" + names[data.name] + "'" : "#" + std::to_string(node)) + of;
}

void throw_too_many_nodes() {
  throw Error(errc::invalid_argument, "a graph has at most " + std::to_string(kMostNodes) + " nodes",
              {"graph", "", kMostNodes, kMostNodes});
}

void throw_foreign_node() { throw Error(errc::invalid_argument, "Node::after: the nodes belong to different graphs, or to none"); }

void check_node_arguments(const OperatorBase& op, const Parameter* given, std::uint32_t count) {
  runtime::check_arguments("operator", op.name(), op.signature(), {given, count}, accepts);
}

}  // namespace detail

Node Graph::add_host(std::string_view name, std::function<void()> callback) {
  const std::uint32_t node = data_->add(name, std::move(callback));
  return {data_.get(), node};
}

Node& Node::name(std::string_view name) {
  if (graph_ == nullptr) detail::throw_foreign_node();
  auto& node = graph_->nodes[index_];
  if (node.name == detail::kNoName) {
    graph_->names.emplace_back(name);
    node.name = static_cast<std::uint32_t>(graph_->names.size() - 1);
  } else {
    graph_->names[node.name] = name;
  }
  return *this;
}

std::string Graph::dot() const { return graph::dot_of(*data_); }

}  // namespace dwell
