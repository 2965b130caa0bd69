#include <dwell/graph.hpp>

#include <algorithm>

#include "graph/dot.hpp"
#include "graph/exec.hpp"
#include "runtime/core.hpp"
#include "runtime/program/argument_check.hpp"

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

void throw_foreign_node() { throw Error(errc::invalid_argument, "after: the nodes belong to different graphs, or to none"); }

void check_node_arguments(const OperatorBase& op, const Parameter* given, std::uint32_t count) {
  runtime::check_arguments("operator", op.name(), op.signature(), {given, count}, accepts);
}

}  // namespace detail

Node Graph::add_host(std::string_view name, std::function<void()> callback) {
  const std::uint32_t node = data_->add(name, std::move(callback));
  return {data_.get(), node};
}

DeviceValue::DeviceValue(const BufferView& view) : parts_(view.use_, view.words_) {
  if (view.use_ == nullptr || view.type() != ElementType::u32)
    throw Error(errc::invalid_argument,
                "the value of a conditional node is a buffer of u32, not a view of " + std::string(name_of(view.type())),
                {"view", "", 0, 0});
}

Node Graph::add(const Operator<>& op, const Arguments& arguments) {
  constexpr std::uint32_t kOrder = detail::kLink | detail::kHard | detail::kDrain | detail::kAfter | detail::kLevel;
  detail::GraphData& data = *data_;
  const std::uint32_t place = data.place_of(op.state_);
  const std::vector<Parameter>& given = arguments.parameters();
  detail::check_node_arguments(op, given.data(), static_cast<std::uint32_t>(given.size()));
  const Arguments::List& list = arguments.list_;
  const bool is_other = (list.flags & detail::kSource) != 0 && !detail::is_of(list.flags, detail::kGang);
  if (is_other || (list.flags & kOrder) != 0)
    throw Error(errc::invalid_argument,
                "a node takes groups or a gang alone: use `after` for its order, launch the graph with a priority, and submit a task "
                "that is repeated",
                {"operator", op.name()});
  if (arguments.shell_ != nullptr && arguments.shell_ != data.shell) detail::throw_foreign_arguments(arguments.shell_);
  const auto index = static_cast<std::uint32_t>(data.nodes.size());
  if (index >= detail::kMostNodes) [[unlikely]]
    detail::throw_too_many_nodes();
  const std::size_t first = data.words.size();
  const std::size_t uses = data.uses.size();
  const std::size_t execs = data.execs.size();
  try {
    data.words.insert(data.words.end(), list.word.begin(), list.word.end());
    for (const detail::SliceParts& use : arguments.uses_) data.add_use(use, index);
    data.execs.insert(data.execs.end(), list.execs.begin(), list.execs.end());
    data.nodes.push_back({static_cast<std::uint32_t>(first), list.words, place, detail::kNoName, static_cast<std::uint16_t>(list.groups),
                          static_cast<std::uint16_t>(list.flags)});
  } catch (...) {
    data.words.resize(first);
    data.uses.erase(data.uses.begin() + static_cast<std::ptrdiff_t>(uses), data.uses.end());
    data.execs.resize(execs);
    throw;
  }
  return {&data, index};
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
