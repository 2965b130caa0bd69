// Task graphs: tasks and their order, built once and launched many times, without the host between start and end.
//
//   Graph g;
//   Node a = g.add(load, input), b = g.add("left", work, left), c = g.add("right", work, right), d = g.add(join, output);
//   b.after(a);
//   c.after(a);
//   d.after(b, c);
//   GraphExec exec = runtime.instantiate(g);
//   for (...) runtime.launch(exec).wait();
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <dwell/arguments.hpp>
#include <dwell/detail/graph_data.hpp>
#include <dwell/operator.hpp>
#include <dwell/task.hpp>

namespace dwell {

class GangProgram;
class Graph;
class GraphExec;
class Runtime;

// Names a task of a graph, a conditional node, or a sub-graph. A small value; valid as long as its Graph lives.
class Node {
 public:
  Node() = default;
  // Starts this node only after all of `nodes` have succeeded. If one fails or is cancelled, this one is cancelled. Throws
  // errc::invalid_argument for nodes of another graph.
  template <class... Nodes>
  requires(std::is_convertible_v<const Nodes&, const Node&>&&...) Node& after(const Nodes&... nodes) {
    (add_edge(nodes), ...);
    return *this;
  }
  Node& after(std::span<const Node> nodes) {
    for (const Node& node : nodes) add_edge(node);
    return *this;
  }
  // The name that errors and Graph::dot show.
  Node& name(std::string_view name);

  bool operator==(const Node& other) const noexcept { return graph_ == other.graph_ && index_ == other.index_ && last_ == other.last_; }

 private:
  friend class Graph;
  friend class GraphExec;
  friend class SubGraph;
  Node(detail::GraphData* graph, std::uint32_t index) : Node(graph, index, index) {}
  Node(detail::GraphData* graph, std::uint32_t index, std::uint32_t last) : graph_(graph), index_(index), last_(last) {}
  void add_edge(const Node& before) {
    if (graph_ == nullptr || before.graph_ != graph_) [[unlikely]]
      detail::throw_foreign_node();
    graph_->edges.emplace_back(before.last_, index_);
  }

  detail::GraphData* graph_ = nullptr;
  std::uint32_t index_ = 0;  // the node that takes its predecessors
  std::uint32_t last_ = 0;   // the node that takes its successors; differs only for a sub-graph
};

// Names all nodes of a graph that was added to another, or of the bodies of a conditional node. Its successors start after all its nodes;
// none of its nodes starts before its predecessors end.
class SubGraph : public Node {
 public:
  SubGraph() = default;
  // Returns the copy of a node of the added graph, or of the body with this number. Throws errc::invalid_argument if it does not exist.
  Node inside(const Node& node, std::size_t body = 0) const;
  SubGraph inside(const SubGraph& sub, std::size_t body = 0) const;
  // Named by `add`.
  Node& name(std::string_view name) = delete;

 private:
  friend class Graph;
  static constexpr std::uint32_t kConditional = ~0U;
  SubGraph(const Node& node, std::uint32_t first, std::uint32_t count) : Node(node), first_(first), count_(count) {}
  // Returns the index of the copy of node 0 of the added graph, to which `node` must belong.
  std::uint32_t offset_of(const Node& node, std::size_t body) const;

  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;  // nodes of the added graph, or kConditional
};

// A u32 that the device reads: the first element of a buffer. The buffer must live as long as buffers that tasks name.
class DeviceValue {
 public:
  DeviceValue(const Buffer<std::uint32_t>& buffer) : parts_(buffer) {}
  DeviceValue(const Slice<std::uint32_t>& slice) : parts_(slice) {}
  DeviceValue(const Slice<const std::uint32_t>& slice) : parts_(slice) {}
  // Throws errc::invalid_argument for elements of another type, and for a view of memory that is in no buffer.
  explicit DeviceValue(const BufferView& view);

 private:
  friend class Graph;
  detail::SliceParts parts_;
};

// Tasks and their order. Holds no device memory. Not thread-safe: the caller serialises all calls.
class Graph {
 public:
  Graph() : data_(std::make_unique<detail::GraphData>()) {}
  // Sets a name, which errors, timelines, diagnoses and the flight recorder show for launches of its execs.
  explicit Graph(std::string_view name) : Graph() { this->name(name); }
  // Sets the name; empty: none. Execs keep the name that the graph had when they were instantiated.
  Graph& name(std::string_view name) {
    data_->graph_name = name;
    return *this;
  }
  const std::string& name() const noexcept { return data_->graph_name; }

  // Adds a task: as Runtime::submit, with groups(n) or gang(n) as the only modifier. The graph and its execs keep a GraphExec among the
  // arguments alive. Buffers must live until the graph is instantiated, and as long as it is launched. Throws errc::signature_mismatch,
  // errc::invalid_argument (an operator or a buffer of another runtime), errc::stale_handle.
  template <class Function, class... Given>
  Node add(const Operator<Function>& op, const Given&... arguments) {
    static_assert(!(false || ... || detail::kIsOrder<Given>), "the order of nodes is told by Node::after");
    static_assert(!(false || ... || detail::kIsPriority<Given>), "the nodes of a graph have the priority with which it is launched");
    static_assert(!(false || ... || detail::kIsRepeat<Given>), "a node runs once a launch: submit the task that is repeated instead");
    detail::GraphData& data = *data_;
    const std::uint32_t place = data.place_of(op.state_);
    if constexpr (std::is_same_v<Function, void>) {
      static constexpr detail::Given<Given...> given;
      detail::check_node_arguments(op, given.list, given.count);
    } else {
      static_assert(Operator<Function>::template fits<Given...>(), "the arguments do not fit the operator's parameters");
    }
    constexpr std::uint32_t kWords = (0U + ... + detail::words_of<Given>());
    static_assert(kWords <= detail::kMostWords, "a task takes at most 65536 bytes of arguments");
    const auto index = static_cast<std::uint32_t>(data.nodes.size());
    const std::size_t first = data.words.size();
    const std::size_t uses = data.uses.size();
    const std::size_t execs = data.execs.size();
    if (index >= detail::kMostNodes) [[unlikely]]
      detail::throw_too_many_nodes();
    std::uint32_t word[kWords == 0 ? 1 : kWords];
    detail::GraphData::Sink sink{data, word};
    try {
      (put(sink, index, arguments), ...);
      data.words.insert(data.words.end(), word, word + kWords);
      data.nodes.push_back({static_cast<std::uint32_t>(first), kWords, place, detail::kNoName, static_cast<std::uint16_t>(sink.groups),
                            static_cast<std::uint16_t>(sink.flags)});
    } catch (...) {
      data.words.resize(first);
      data.uses.resize(uses);
      data.execs.resize(execs);
      throw;
    }
    return Node(&data, index);
  }
  template <class Function, class... Given>
  Node add(std::string_view name, const Operator<Function>& op, const Given&... arguments) {
    // First: nothing may fail once the node is added.
    data_->names.emplace_back(name);
    try {
      const Node node = add(op, arguments...);
      data_->nodes[node.index_].name = static_cast<std::uint32_t>(data_->names.size() - 1);
      return node;
    } catch (...) {
      data_->names.pop_back();
      throw;
    }
  }

  // As above, with arguments collected at run time. Also throws errc::invalid_argument for modifiers other than groups(n) and gang(n).
  Node add(const Operator<>& op, const Arguments& arguments);

  // Adds a program of a gang (gang_program.hpp, made with GangSettings::in_loop): one run of it. The program and the memory that it names
  // live as long as the exec is launched. Throws as above, errc::invalid_argument for a program that is an ordinary kernel.
  Node add(std::string_view name, const GangProgram& program);
  Node add(const GangProgram& program);

  // Copies the current nodes of another graph, or of this one, into it. A node 'x' of a sub-graph 'sub' is called 'sub/x'. Throws
  // errc::invalid_argument for a graph of another runtime, and for too many nodes.
  SubGraph add(std::string_view name, const Graph& sub);
  SubGraph add(const Graph& sub) { return add("", sub); }

  // Conditional nodes: add copies of other graphs (bodies). The device chooses one by `value` when the node's predecessors have ended. The
  // node ends with the chosen body, or at once if none is chosen. Each comment below shows the name of a body's node 'x' for a node 'name'.
  // Add no edges from or to nodes inside, nor between them: instantiate throws errc::invalid_argument. Throw as `add`, and
  // errc::invalid_argument for a value without an element.
  //
  // Runs `body` if the value is not 0, else `otherwise`. 'name/x', 'name/else/x'.
  SubGraph add_if(std::string_view name, const DeviceValue& value, const Graph& body);
  SubGraph add_if(std::string_view name, const DeviceValue& value, const Graph& body, const Graph& otherwise);
  // Runs `body` while the value is not 0, read before each round. 'name/x'.
  SubGraph add_while(std::string_view name, const DeviceValue& value, const Graph& body);
  // Runs bodies[value]; none if the value is too large. 'name/0/x'.
  SubGraph add_switch(std::string_view name, const DeviceValue& value, std::span<const Graph* const> bodies);
  SubGraph add_switch(std::string_view name, const DeviceValue& value, std::initializer_list<const Graph*> bodies) {
    return add_switch(name, value, std::span(bodies.begin(), bodies.size()));
  }

  // Adds a host node, which calls `callback` on a thread of the runtime: once per launch, in a loop once per round. The call begins when
  // the node's predecessors have succeeded and their writes are visible to the host. Successors start when it has returned, and see its
  // writes to host memory and by Buffer::write. No worker of the device waits meanwhile.
  // If it throws, the node has failed: Ticket::wait of the launch throws errc::task_failed with the name of the node and the text of the
  // exception.
  // Callbacks of a runtime run one after the other, in the order in which their nodes become ready. While one waits in a call of a runtime
  // (Ticket::wait, Runtime::wait_all, submit with a full ring), others run on another thread. A callback may take long and use the runtime,
  // but must not wait for its own launch, nor close or rebuild the runtime (errc::invalid_argument). Inside it, Buffer::read and
  // Buffer::write do not wait for tasks, since those may follow its launch: wait for their tickets instead.
  // The graph and its execs keep the callback; any thread may drop it. Throws errc::invalid_argument for an empty function and for too many
  // nodes.
  Node add_host(std::string_view name, std::function<void()> callback);

  // The number of nodes, with those of sub-graphs and the internal ones that join them.
  std::size_t size() const noexcept { return data_->nodes.size(); }
  // Returns the graph in Graphviz's DOT language.
  std::string dot() const;

 private:
  friend class Runtime;
  friend class GraphExec;

  template <class T>
  void put(detail::GraphData::Sink& sink, std::uint32_t node, const T& value) {
    detail::put(sink, data_->shell, value);
    if constexpr (detail::kIsBuffer<T>) data_->add_use(detail::SliceParts(value), node);
  }

  SubGraph add_branch(std::string_view name, detail::BranchKind kind, const DeviceValue& value, std::span<const Graph* const> bodies);

  std::unique_ptr<detail::GraphData> data_;
};

// The times of a node, from GraphExec::measure.
struct NodeTime {
  std::uint64_t runs = 0;             // 0: cancelled or not chosen; more than 1 in a loop
  std::chrono::nanoseconds total{0};  // all runs, by the device's clock, with the loop's steps before and after
};

// A graph on a device, launched by the host, or by operators that have it as an argument of type Exec (Group::launch). Copies name the same
// one. The last one may be dropped while launches are in flight: its memory is freed when they have ended. Takes 80 bytes of device memory
// a node with up to 36 bytes of arguments, and 4 an edge. All members may be called from any thread.
class GraphExec {
 public:
  GraphExec() = default;

  // Changes an argument of a node for later launches; earlier ones keep theirs. `node` belongs to the instantiated graph (or to an equal
  // one), `index` counts the operator's parameters. Argument 0 of a conditional node is its value: a Buffer<u32> or Slice<u32>. A host node
  // has no arguments. Costs a few stores. Throws errc::signature_mismatch for a value of another type, errc::invalid_argument,
  // errc::stale_handle.
  template <class T>
  void set(const Node& node, std::uint32_t index, const T& value) {
    static_assert(!detail::kIsModifier<T>, "an argument of the operator");
    static_assert(!detail::kIsExec<T>, "the graphs that nodes launch are those with which the graph was instantiated");
    static constexpr detail::Given<T> given;
    constexpr std::uint32_t kWords = detail::words_of<T>();
    static_assert(kWords <= detail::kMostWords, "a task takes at most 65536 bytes of arguments");
    std::uint32_t word[kWords];
    Words words{word};
    detail::put(words, shell(), value);
    set_words(node, index, given.list[0], words);
  }
  // As above, with a list of one argument collected at run time.
  void set(const Node& node, std::uint32_t index, const Arguments& one);
  // Returns the type that `set` takes there. Throws as `set`.
  Parameter parameter(const Node& node, std::uint32_t index) const;
  // Copies from `graph` all arguments that differ. `graph` must have the same operators and edges as the instantiated graph. Keeps the
  // callbacks of host nodes, and the name. Throws errc::invalid_argument, naming the first other difference.
  void update(const Graph& graph);

  // Launches the graph once, between its earlier and later launches, and reads the device's clock before and after each node. Returns when
  // that launch has ended; then `time` and `dot` have the times. The nodes follow each other more slowly; other launches are not slowed
  // down. Takes three times the exec's memory meanwhile. Throws as Runtime::launch and Ticket::wait; then the previous times stay.
  void measure();
  // Returns the last result of `measure` for a node; empty before, and for nodes that run nothing.
  NodeTime time(const Node& node) const;

  // As Graph::name.
  const std::string& name() const;
  std::size_t size() const;
  // Its device memory.
  std::size_t bytes() const;
  // As Graph::dot. After `measure` with the mean time of each node, and the critical path in bold.
  std::string dot() const;

  explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
  friend class Runtime;
  friend struct detail::ExecWords;
  explicit GraphExec(std::shared_ptr<detail::ExecState> state) : state_(std::move(state)) {}

  // A sink for one argument, in the caller's memory.
  struct Words {
    std::uint32_t* word;
    std::uint32_t words = 0;
    std::uint32_t flags = 0;
    std::uint32_t groups = 1;
    void add(std::uint32_t value) { word[words++] = value; }
    void add(detail::SpanWords span) {
      add(static_cast<std::uint32_t>(span.low >> 32U));
      add(static_cast<std::uint32_t>(span.high));
      add(static_cast<std::uint32_t>(span.high >> 32U));
    }
  };
  const detail::Shell* shell() const;
  const Signature& parameters_of(const Node& node) const;
  void set_words(const Node& node, std::uint32_t index, const Parameter& given, const Words& words);

  std::shared_ptr<detail::ExecState> state_;
};

}  // namespace dwell
