// GraphExec: checks, instantiation and launches.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/graph.hpp>
#include <dwell/runtime.hpp>

#include "graph/exec.hpp"
#include "graph/launching.hpp"
#include "runtime/core.hpp"
#include "runtime/program/argument_check.hpp"

namespace dwell {

namespace {

detail::ExecState& require_exec(const std::shared_ptr<detail::ExecState>& state) {
  if (!state) throw Error(errc::invalid_argument, "the GraphExec is empty: make one with `instantiate`");
  return *state;
}

[[noreturn]] void throw_foreign_exec(const detail::ExecState& exec) {
  if (exec.shell->core() == nullptr) throw exec.shell->gone("graph", "instantiate it again");
  throw Error(errc::invalid_argument, "the GraphExec belongs to another runtime");
}

}  // namespace

GraphExec Runtime::instantiate(const Graph& graph) {
  const auto core = detail::Shell::require(shell_);
  core->check_open();
  const detail::GraphData& data = *graph.data_;
  if (data.shell != nullptr && data.shell != shell_) {
    if (data.shell->core() == nullptr) throw data.shell->gone("graph", "define its operators again and build it anew");
    throw Error(errc::invalid_argument, "the graph's operators belong to another runtime");
  }
  if (data.operators.empty() && core->keeper().workers() == 0)
    throw Error(errc::invalid_argument, "instantiate: the runtime has no operator, so that nothing runs: define one first");
  std::uint32_t parts = device::part::graphs;  // an operator may launch it
  for (const detail::GraphData::NodeData& node : data.nodes) {
    if (!node.is_gang()) continue;
    core->check_gang(node.groups);
    parts |= device::part::gangs;
  }
  core->registry().need(parts);
  core->graphs().collect(core->queue().reaped());
  auto state = core->with_memory([&] { return std::make_shared<detail::ExecState>(*core, shell_, data); });
  state->publish(*core);
  return GraphExec(std::move(state));
}

namespace detail {

ExecWords::ExecWords(const GraphExec& exec, const Shell* shell) : state(exec.state_) {
  const ExecState& of = require_exec(state);
  if (shell != nullptr && of.shell != shell) throw_foreign_exec(of);
  offset = of.offset;
  flags = of.flags();
}

}  // namespace detail

std::optional<std::uint64_t> Runtime::enqueue_launching(runtime::Core& core, detail::OperatorState& op, const detail::Task& task,
                                                        bool waits) {
  const auto enqueue = [&](const detail::Task& its, std::uint64_t switches) {
    return waits ? std::optional(core.enqueue(op, its, switches)) : core.try_enqueue(op, its, switches);
  };
  const std::span execs(task.execs, task.exec_count);
  for (const auto& exec : execs)
    if (exec->shell != shell_) throw_foreign_exec(*exec);
  if (runtime::Recorder::of(&core) != nullptr) return enqueue(task, runtime::SubmissionQueue::kAnySwitches);
  core.check_open();
  detail::Launching all(core, execs);
  return all.place(task.waits != nullptr ? *task.waits : detail::Waits{}, [&](std::uint64_t switches, const detail::Waits& more) {
    detail::Task its = task;
    its.waits = more.count != 0 ? &more : nullptr;
    its.flags = (its.flags & ~detail::kAfter) | (more.count != 0 ? detail::kAfter : 0);
    return enqueue(its, switches);
  });
}

std::uint64_t Runtime::launch_graph(const GraphExec& exec, std::uint32_t flags, const detail::Waits& waits) {
  detail::ExecState& state = require_exec(exec.state_);
  const auto core = detail::Shell::require(shell_);
  if (state.shell != shell_) throw_foreign_exec(state);
  return state.launch(*core, flags, waits);
}

const detail::Shell* GraphExec::shell() const { return require_exec(state_).shell; }

void GraphExec::set(const Node& node, std::uint32_t index, const Arguments& one) {
  if (one.parameters().size() != 1 || !one.list_.execs.empty() || one.list_.groups != 1 || one.wait_list_.count != 0)
    throw Error(errc::invalid_argument, "`set` takes one argument of the operator, a value or memory",
                {"argument", "", one.parameters().size(), 1});
  one.require_of(shell());
  std::vector<std::uint32_t> word = one.list_.word;
  set_words(node, index, one.parameters().front(), Words{word.data(), one.list_.words, one.list_.flags});
}

const Signature& GraphExec::parameters_of(const Node& node) const {
  detail::ExecState& state = require_exec(state_);
  if (node.index_ >= state.graph.nodes.size() || node.graph_ == nullptr)
    throw Error(errc::invalid_argument, "set: the node is none of this graph", {"node", "", node.index_, state.graph.nodes.size()});
  const auto& data = state.graph.nodes[node.index_];
  static const Signature kOfBranch = Signature::of<Span<const std::uint32_t>>();
  const detail::OperatorState* const op = state.graph.operator_of(node.index_);
  if (data.op == detail::kHostNode)
    throw Error(errc::invalid_argument,
                "set: node " + state.graph.text_of(node.index_) +
                    " is a host node and has no arguments: let its callback read what changes, or instantiate the graph anew",
                {"node", state.graph.text_of(node.index_)});
  if (op == nullptr && data.op != detail::kBranch)
    throw Error(errc::invalid_argument,
                "set: node " + state.graph.text_of(node.index_) + " has no arguments: name one inside of the sub-graph",
                {"node", state.graph.text_of(node.index_)});
  return op != nullptr ? op->signature : kOfBranch;
}

Parameter GraphExec::parameter(const Node& node, std::uint32_t index) const {
  const Signature& signature = parameters_of(node);
  if (index >= signature.parameters().size()) {
    const std::string name = require_exec(state_).graph.text_of(node.index_);
    throw Error(
        errc::invalid_argument,
        "set: the argument at index " + std::to_string(index) + " of node " + name + " does not exist: it takes " + signature.text(),
        {"node", name, index, signature.parameters().size()});
  }
  return signature.parameters()[index];
}

void GraphExec::set_words(const Node& node, std::uint32_t index, const Parameter& given, const Words& words) {
  const Parameter declared = parameter(node, index);
  detail::ExecState& state = require_exec(state_);
  const auto& data = state.graph.nodes[node.index_];
  const detail::OperatorState* const op = state.graph.operator_of(node.index_);
  const std::vector<Parameter>& parameters = parameters_of(node).parameters();
  const auto refuse = [&](errc code, const std::string& why) {
    throw Error(code, "set: the argument at index " + std::to_string(index) + " of node " + state.graph.text_of(node.index_) + " " + why,
                {"node", state.graph.text_of(node.index_), index, parameters.size()});
  };
  if (!detail::accepts(declared, given)) refuse(errc::signature_mismatch, "is " + text_of(declared) + ", not " + text_of(given));
  if ((words.flags & ~static_cast<std::uint32_t>(data.flags)) != 0)
    refuse(errc::invalid_argument, "lay in device memory so far: give it a buffer there, or instantiate the graph anew");
  if (op == nullptr && (words.word[2] | words.word[1] >> 20U) == 0) refuse(errc::invalid_argument, "has no element");
  std::optional<std::uint64_t> memory_at;
  if (given.kind == Kind::span || given.kind == Kind::const_span || given.kind == Kind::ring)
    memory_at = words.word[0] | static_cast<std::uint64_t>(words.word[1] & 0xFFFFFU) << 32U;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < index; ++i) first += device::words_of(parameters[i]);
  state.set(node.index_, first, words.word, words.words, memory_at);
}

void GraphExec::measure() {
  detail::ExecState& state = require_exec(state_);
  state.measure(*detail::Shell::require(state.shell));
}
NodeTime GraphExec::time(const Node& node) const { return require_exec(state_).time(node.index_); }

std::string GraphExec::dot() const { return require_exec(state_).dot(); }
void GraphExec::update(const Graph& graph) { require_exec(state_).update(*graph.data_); }
const std::string& GraphExec::name() const { return require_exec(state_).name(); }
std::size_t GraphExec::size() const { return require_exec(state_).graph.nodes.size(); }
std::size_t GraphExec::bytes() const { return require_exec(state_).layout.bytes(); }

}  // namespace dwell
