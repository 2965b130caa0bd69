// Runtime::capture: turns a thread's tasks into nodes of a graph.
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dwell/graph.hpp>
#include <dwell/runtime.hpp>

#include "base/accesses.hpp"
#include "runtime/core.hpp"
#include "runtime/device/recorder.hpp"
#include "runtime/device/sources.hpp"

namespace dwell {

namespace graph {

namespace {

class Capture final : public runtime::Recorder {
 public:
  explicit Capture(runtime::Core& core) : core_(core) {
    if (mine.recorder != nullptr) throw Error(errc::invalid_argument, "`capture` inside of `capture`: end the one before it first");
    mine = {&core, this};
    runtime::CurrentSubmitter::mine = {};  // the next task of this thread takes the slow path, which records it
  }
  ~Capture() override { mine = {}; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::uint64_t record(detail::OperatorState& op, const detail::Task& task) override {
    const auto node = static_cast<std::uint32_t>(graph_.nodes.size());
    if (node >= detail::kMostNodes) detail::throw_too_many_nodes();
    if ((task.flags & detail::kSource) != 0 && !detail::is_of(task.flags, detail::kGang))
      throw Error(errc::unsupported,
                  "capture: " + std::string(runtime::source_of(task.flags).name) + " cannot be captured: submit it apart from the graph");
    if (failure_) std::rethrow_exception(failure_);
    before_.clear();
    order(task);
    try {
      return add(op, task, node);
    } catch (...) {
      // The node may be recorded only in part.
      failure_ = std::current_exception();
      throw;
    }
  }

  detail::GraphData take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(graph_);
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;

  std::uint64_t add(detail::OperatorState& op, const detail::Task& task, std::uint32_t node) {
    const std::size_t first = graph_.words.size();
    for (std::uint32_t i = 0; i < task.words; ++i) graph_.words.push_back(word(task, i));
    see_memory(op, task, node);
    graph_.execs.insert(graph_.execs.end(), task.execs, task.execs + task.exec_count);
    constexpr std::uint32_t kKept = detail::kWide | detail::kSystem | detail::kMemory | detail::kSource;
    graph_.nodes.push_back({static_cast<std::uint32_t>(first), task.words, place_of(op), detail::kNoName,
                            static_cast<std::uint16_t>(task.groups), static_cast<std::uint16_t>(task.flags & kKept)});
    ends_.push_back(true);
    if ((task.flags & detail::kDrain) != 0) {
      for (std::uint32_t i = 0; i < node; ++i)
        if (ends_[i]) before_.push_back(i);
    } else if (drain_ != kNone) {
      before_.push_back(drain_);
    }
    std::ranges::sort(before_);
    before_.erase(std::unique(before_.begin(), before_.end()), before_.end());  // clang 14 cannot read std::ranges::unique
    // An edge to a drain is implied by any edge to a later node.
    for (const Accesses::Node earlier : before_) {
      const auto from = static_cast<std::uint32_t>(earlier);
      if (from == drain_ && before_.size() > 1) continue;
      graph_.edges.emplace_back(from, node);
      ends_[from] = false;
    }
    if ((task.flags & detail::kDrain) != 0) drain_ = node;
    return detail::kCaptured | node;
  }

  static std::uint32_t word(const detail::Task& task, std::uint32_t i) {
    return i < detail::kFirstSlotWords ? task.word(i) : task.rest[i - detail::kFirstSlotWords];
  }

  // Adds edges for `link` and `after`.
  void order(const detail::Task& task) {
    const auto refuse = [](const std::string& what) {
      throw Error(errc::unsupported, "capture: " + what +
                                         " has no counterpart in a graph, where a node is cancelled when one that it "
                                         "waits for fails");
    };
    if ((task.flags & detail::kLevel) != 0)
      throw Error(errc::unsupported, "capture: a node has no priority of its own: launch the graph with priority");
    if ((task.flags & detail::kHard) != 0) refuse("hard_link");
    if ((task.flags & detail::kLink) != 0 && !graph_.nodes.empty()) before_.push_back(graph_.nodes.size() - 1);
    if (task.waits == nullptr) return;
    for (std::uint32_t i = 0; i < task.waits->count; ++i) {
      const std::uint64_t position = task.waits->position[i];
      if ((position & detail::kCaptured) != detail::kCaptured)
        throw Error(errc::invalid_argument, "capture: after names a task that was not captured: launch the graph after it instead");
      const std::uint64_t from = position & ~detail::kCaptured;
      if (from >= graph_.nodes.size()) throw Error(errc::invalid_argument, "capture: after names a task of another capture");
      if ((task.waits->any_result >> i & 1U) != 0) refuse("after_any_result");
      before_.push_back(from);
    }
  }

  // Records reads and writes of the spans among the arguments.
  void see_memory(const detail::OperatorState& op, const detail::Task& task, std::uint32_t node) {
    std::uint32_t at = 0;
    for (const Parameter& parameter : op.signature.parameters()) {
      const bool is_span = parameter.kind == Kind::span || parameter.kind == Kind::const_span;
      if (is_span) {
        const std::uint64_t high = word(task, at + 1);
        const std::uint64_t address = word(task, at) | (high & 0xFFFFFU) << 32U;
        const std::uint64_t size = word(task, at + 2) | (high >> 20U) << 32U;
        graph_.uses.push_back({nullptr, address, node});
        accesses_.add(node, address, address + size * parameter.bytes, parameter.kind == Kind::span, before_);
      }
      at += device::words_of(parameter);
    }
  }

  std::uint32_t place_of(detail::OperatorState& op) {
    std::vector<std::shared_ptr<detail::OperatorState>>& known = graph_.operators;
    if (graph_.last_operator < known.size() && known[graph_.last_operator].get() == &op) return graph_.last_operator;
    const auto at = std::ranges::find(known, &op, [](const auto& one) { return one.get(); });
    if (at != known.end()) return graph_.last_operator = static_cast<std::uint32_t>(at - known.begin());
    return graph_.find(core_.registry().share(op));
  }

  runtime::Core& core_;
  detail::GraphData graph_;
  Accesses accesses_;
  std::vector<Accesses::Node> before_;  // predecessors of the current node
  std::vector<bool> ends_;              // by node: it has no successor so far
  std::uint32_t drain_ = kNone;         // the last one
  std::exception_ptr failure_;          // a task was recorded only in part: capture fails
};

}  // namespace

}  // namespace graph

Graph Runtime::capture(const std::function<void()>& tasks) {
  const auto core = detail::Shell::require(shell_);
  graph::Capture capture(*core);
  tasks();
  Graph graph;
  *graph.data_ = capture.take();
  return graph;
}

}  // namespace dwell
