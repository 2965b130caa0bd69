// What a Graph holds. Internal: may change at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/detail/task.hpp>
#include <dwell/operator.hpp>

namespace dwell::detail {

inline constexpr std::uint32_t kNoName = ~0U;
inline constexpr std::uint32_t kMostNodes = 1U << 28U;
inline constexpr std::uint32_t kNoOperator = ~0U;  // of a control node, which only holds edges together

// Vectors rather than objects that own each other: a graph may be built, launched once and dropped, at some tens of nanoseconds a node.
struct GraphData {
  struct NodeData {
    std::uint32_t first_word;  // of its arguments, in `words`
    std::uint32_t words;
    std::uint32_t op;      // place in `operators`, or kNoOperator
    std::uint32_t name;    // place in `names`, or kNoName
    std::uint16_t groups;  // 0 of a control node
    std::uint16_t flags;
  };
  // Memory of a buffer that a node names.
  struct Use {
    const BufferUse* use;
    std::uint64_t address;
    std::uint32_t node;
  };

  Shell* shell = nullptr;  // the runtime of its operators
  std::vector<NodeData> nodes;
  std::vector<std::uint32_t> words;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // {before, behind}
  std::vector<Use> uses;
  std::vector<std::shared_ptr<OperatorState>> operators;
  std::uint32_t last_operator = 0;
  std::vector<std::string> names;

  // Takes the arguments of the node that is being added; what detail::put fills.
  struct Sink {
    GraphData& data;
    std::uint32_t flags = 0;
    std::uint32_t groups = 1;

    void add(std::uint32_t value) { data.words.push_back(value); }
    void add(SpanWords span) {
      add(static_cast<std::uint32_t>(span.low >> 32U));
      add(static_cast<std::uint32_t>(span.high));
      add(static_cast<std::uint32_t>(span.high >> 32U));
    }
  };

  // The place of an operator, which it keeps alive. Throws errc::invalid_argument for an empty handle, and one of another runtime.
  std::uint32_t place_of(const std::shared_ptr<OperatorState>& op) {
    if (last_operator < operators.size() && operators[last_operator] == op) [[likely]]
      return last_operator;
    return find(op);
  }
  std::uint32_t find(const std::shared_ptr<OperatorState>& op);
  // Null of a control node.
  const OperatorState* operator_of(std::uint32_t node) const {
    return nodes[node].op == kNoOperator ? nullptr : operators[nodes[node].op].get();
  }
  // How a node is called in messages: "'name' (operator axpy)", "#3 (operator axpy)", "#3 (no operator)".
  std::string text_of(std::uint32_t node) const;

  // Where the nodes of another graph are that was added.
  struct Added {
    std::uint32_t entry;  // whose predecessors are those of all
    std::uint32_t exit;   // whose successors are those of all
    std::uint32_t first;  // what node 0 has become
  };
  // Adds the nodes of another graph, which may be this one, and control nodes where it begins or ends with several. Adds nothing when it
  // throws.
  Added add(std::string_view name, const GraphData& sub);
};

[[noreturn]] void throw_too_many_nodes();
[[noreturn]] void throw_foreign_node();
void check_node_arguments(const OperatorBase& op, const Parameter* given, std::uint32_t count);

}  // namespace dwell::detail
