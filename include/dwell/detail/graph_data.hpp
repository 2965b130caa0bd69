// What a Graph holds. Internal: may change at any time.
#pragma once

#include <cstdint>
#include <functional>
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
inline constexpr std::uint32_t kBranch = ~1U;      // of one with bodies, of which a value chooses one
inline constexpr std::uint32_t kBranchEnd = ~2U;   // of the one behind these
inline constexpr std::uint32_t kHostNode = ~3U;    // of one that stands for a callback
inline constexpr std::uint32_t kClock = ~4U;       // of one that reads the clock

enum class BranchKind : std::uint32_t { run_if, repeat_while, choose };
// "if", "while", "switch".
const char* text_of(BranchKind kind);

// Vectors rather than objects that own each other: a graph may be built, launched once and dropped, at some tens of nanoseconds a node.
struct GraphData {
  struct NodeData {
    std::uint32_t first_word;  // of its arguments, in `words`
    std::uint32_t words;
    std::uint32_t op;      // place in `operators`, or what a control node is
    std::uint32_t name;    // place in `names`, or kNoName
    std::uint16_t groups;  // 0 of a control node
    std::uint16_t flags;   // as Task::flags

    bool is_gang() const { return is_of(flags, kGang); }
    // Returns whether one worker alone runs its operator.
    bool is_alone() const { return groups == 1 && !is_gang(); }
  };
  // Memory of a buffer that a node names, and maybe nodes behind it.
  struct Use {
    const BufferUse* use;
    std::uint64_t address;
    std::uint32_t node;
  };

  // Nodes that run, or not, or several times, as a branch says: a graph that was added.
  struct Body {
    std::uint32_t first;
    std::uint32_t nodes;    // of that graph; others follow
    std::uint32_t behind;   // the node behind its last one
    std::uint32_t exit;     // the node that ends last
    std::uint32_t sources;  // successors of the branch in this body
    std::size_t edges;      // edges when it was complete: later ones do not belong here

    bool operator==(const Body&) const = default;
  };
  // `edges` has those from `node` to its bodies, in their order, then to `end` if a value leads past them; and those from their exits to
  // `end`, but for a loop, whose exit leads back.
  struct Branch {
    BranchKind kind;
    std::uint32_t node;
    std::uint32_t end;
    std::vector<Body> bodies;

    bool operator==(const Branch&) const = default;
    // The number of the body for a value, larger values being as the last one: bodies.size() for none.
    std::uint32_t values() const;
    std::uint32_t body_for(std::uint32_t value) const;
    bool may_pass() const { return kind != BranchKind::run_if || bodies.size() == 1; }
  };

  std::string graph_name;  // empty: none
  Shell* shell = nullptr;  // the runtime of its operators
  std::vector<NodeData> nodes;
  std::vector<std::uint32_t> words;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // {before, behind}
  std::vector<Use> uses;
  std::vector<std::shared_ptr<OperatorState>> operators;
  std::uint32_t last_operator = 0;
  std::vector<std::string> names;
  std::vector<Branch> branches;                                         // each before those in its bodies
  std::vector<std::shared_ptr<const std::function<void()>>> callbacks;  // of the host nodes, in the order of these
  std::vector<std::shared_ptr<ExecState>> execs;                        // that nodes may launch

  // Takes the arguments of the node that is being added, into memory of the caller's; what detail::put fills.
  struct Sink {
    GraphData& data;
    std::uint32_t* word;
    std::uint32_t words = 0;
    std::uint32_t flags = 0;
    std::uint32_t groups = 1;

    void add_exec(std::shared_ptr<ExecState> state) { data.execs.push_back(std::move(state)); }
    void add(std::uint32_t value) { word[words++] = value; }
    void add(SpanWords span) {
      add(static_cast<std::uint32_t>(span.low >> 32U));
      add(static_cast<std::uint32_t>(span.high));
      add(static_cast<std::uint32_t>(span.high >> 32U));
    }
  };

  // Notes what a node names, unless the last use says so.
  void add_use(const SliceParts& slice, std::uint32_t node) {
    const std::uint64_t address = slice.words.address();
    if (uses.empty() || uses.back().use != slice.use || uses.back().address != address) uses.push_back({slice.use, address, node});
  }

  // The place of an operator, which it keeps alive. Throws errc::invalid_argument for an empty handle, and one of another runtime.
  std::uint32_t place_of(const std::shared_ptr<OperatorState>& op) {
    if (last_operator < operators.size() && operators[last_operator] == op) [[likely]]
      return last_operator;
    return find(op);
  }
  std::uint32_t find(const std::shared_ptr<OperatorState>& op);
  // Null of a control node.
  const OperatorState* operator_of(std::uint32_t node) const { return nodes[node].groups == 0 ? nullptr : operators[nodes[node].op].get(); }
  // The branch whose node this is, or null.
  const Branch* branch_of(std::uint32_t node) const;
  // Throws errc::invalid_argument for an edge that bodies rule out.
  void check_bodies() const;
  // How a node is called in messages: "'name' (operator axpy)", "#3 (operator axpy)", "#3 (no operator)", "'name' (while)",
  // "'name' (callback)".
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
  // Adds a branch. Returns its place in `branches`. Adds nothing when it throws.
  std::uint32_t add(std::string_view name, BranchKind kind, const SliceParts& value, const std::vector<const GraphData*>& bodies);
  // Adds a host node. Returns its number. Adds nothing when it throws.
  std::uint32_t add(std::string_view name, std::function<void()> callback);
};

[[noreturn]] void throw_too_many_nodes();
[[noreturn]] void throw_foreign_node();
void check_node_arguments(const OperatorBase& op, const Parameter* given, std::uint32_t count);

}  // namespace dwell::detail
