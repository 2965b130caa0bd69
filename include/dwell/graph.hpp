// Task graphs: tasks and their order, made once and launched as often as wanted, without the host between start and end.
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

class Graph;
class GraphExec;
class Runtime;

// A task of a graph, a conditional node, or all of a sub-graph. A small value that names it; valid as long as its Graph lives.
class Node {
 public:
  Node() = default;
  // This node starts only when all of `nodes` have succeeded. If one fails or is cancelled, this one is cancelled. Throws
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
  std::uint32_t index_ = 0;  // whose predecessors are this one's
  std::uint32_t last_ = 0;   // whose successors are this one's: the same but for a sub-graph
};

// The nodes of a graph that was added to another, or of several that a conditional node chooses from: as a Node it stands for all of them.
// Its successors start after all its nodes; none of its nodes starts before its predecessors end.
class SubGraph : public Node {
 public:
  SubGraph() = default;
  // What has become of a node of the graph that was added; of several, of that with this number. Throws errc::invalid_argument when there
  // is none.
  Node inside(const Node& node, std::size_t body = 0) const;
  SubGraph inside(const SubGraph& sub, std::size_t body = 0) const;
  // It is named when it is added.
  Node& name(std::string_view name) = delete;

 private:
  friend class Graph;
  static constexpr std::uint32_t kConditional = ~0U;
  SubGraph(const Node& node, std::uint32_t first, std::uint32_t count) : Node(node), first_(first), count_(count) {}
  // What node 0 of a graph that was added has become, of which `node` must be one.
  std::uint32_t offset_of(const Node& node, std::size_t body) const;

  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;  // nodes of the graph that was added, or kConditional
};

// A u32 in a buffer that the device reads: the first element. The buffer must live as long as those that tasks name.
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

// Tasks and their order. Holds no memory of a device; all its members are the caller's to serialise.
class Graph {
 public:
  Graph() : data_(std::make_unique<detail::GraphData>()) {}
  // With a name, by which launches of its execs go wherever tasks are shown: in errors, timelines, diagnoses, the flight recorder.
  explicit Graph(std::string_view name) : Graph() { this->name(name); }
  // The same; empty for none. Execs keep the name that the graph had when they were instantiated.
  Graph& name(std::string_view name) {
    data_->graph_name = name;
    return *this;
  }
  const std::string& name() const noexcept { return data_->graph_name; }

  // Adds a task: as Runtime::submit, with groups(n) as the only modifier. A GraphExec among the arguments is kept by the graph and its
  // execs. Buffers must live until the graph is instantiated, and as long as
  // it is launched. Throws errc::signature_mismatch, errc::invalid_argument (an operator or a buffer of another runtime),
  // errc::stale_handle.
  template <class Function, class... Given>
  Node add(const Operator<Function>& op, const Given&... arguments) {
    static_assert(!(false || ... || detail::kIsOrder<Given>), "the order of nodes is told by Node::after");
    static_assert(!(false || ... || detail::kIsPriority<Given>), "the nodes of a graph have the priority with which it is launched");
    static_assert(!(false || ... || detail::kIsGang<Given>), "a node is run by groups(n), not by a gang: submit the gang instead");
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
    // First, as nothing may fail behind the node.
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

  // The same with arguments that were collected at run time. Throws errc::invalid_argument too for modifiers other than groups(n) among
  // them.
  Node add(const Operator<>& op, const Arguments& arguments);

  // Adds the nodes of another graph, or a second time its own, as they are now: a node 'x' of a sub-graph 'sub' is called 'sub/x'. Throws
  // errc::invalid_argument for a graph of another runtime, and for too many nodes.
  SubGraph add(std::string_view name, const Graph& sub);
  SubGraph add(const Graph& sub) { return add("", sub); }

  // Conditional nodes: add copies of other graphs, of which the device chooses one by `value` when the node's predecessors have ended. The
  // node is passed when the chosen nodes have ended, or at once when none is chosen. Nodes of a body 'x' of 'name' are called as said
  // behind each. Their order is that of their own graphs: after this, no node outside is ordered with one inside, nor two inside
  // (instantiate throws errc::invalid_argument). Throw as `add`, and errc::invalid_argument for a value without an element.
  //
  // Runs `body` if the value is not 0, else `otherwise`. 'name/x', 'name/else/x'.
  SubGraph add_if(std::string_view name, const DeviceValue& value, const Graph& body);
  SubGraph add_if(std::string_view name, const DeviceValue& value, const Graph& body, const Graph& otherwise);
  // Runs `body` while the value is not 0, at which it looks before each time. 'name/x'.
  SubGraph add_while(std::string_view name, const DeviceValue& value, const Graph& body);
  // Runs that of `bodies` whose number the value is; none if it is too large. 'name/0/x'.
  SubGraph add_switch(std::string_view name, const DeviceValue& value, std::span<const Graph* const> bodies);
  SubGraph add_switch(std::string_view name, const DeviceValue& value, std::initializer_list<const Graph*> bodies) {
    return add_switch(name, value, std::span(bodies.begin(), bodies.size()));
  }

  // A host node: `callback` is called on a thread of the runtime when the node's predecessors have succeeded and the host can see what they
  // wrote; when it has returned, the nodes behind are started, and see what it wrote in host memory and with Buffer::write. If it throws,
  // the node has failed: Ticket::wait of the launch throws errc::task_failed with the name of the node and the text of the exception. No
  // worker of the device waits meanwhile. A callback is called once in each launch, in a loop once in each round. Those of a runtime are
  // called one after the other, in the order in which their nodes become ready; while one waits in a call of a runtime (Ticket::wait,
  // Runtime::wait_all, submit with a full ring), others are called on another thread. A callback may take long and use the runtime, but not
  // wait for its own launch, nor close or rebuild the runtime (errc::invalid_argument). In a callback Buffer::read and Buffer::write wait
  // for no tasks of its runtime, since those may stand behind its launch: wait for the tickets of what is to be seen. The callback is kept
  // as long as the graph and its execs, and may be dropped on any thread. Throws errc::invalid_argument for an empty function and for too
  // many nodes.
  Node add_host(std::string_view name, std::function<void()> callback);

  // Nodes, those of sub-graphs and what holds these together included.
  std::size_t size() const noexcept { return data_->nodes.size(); }
  // The graph in the language of Graphviz.
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

// How long a node has taken in the launch of GraphExec::measure.
struct NodeTime {
  std::uint64_t runs = 0;             // 0 of one that was cancelled or not chosen, more than 1 in a loop
  std::chrono::nanoseconds total{0};  // of all runs, by the device's clock; the steps of the loop before and behind are included
};

// A graph on a device, ready to be launched: by the host, and by operators that have it as an argument of type Exec (Group::launch). Copies
// name the same one. Dropping the last one is safe while launches are in flight: its
// memory goes when they have ended. Takes 80 bytes of device memory a node with up to 36 bytes of arguments, and 4 an edge. All members
// may be called from any thread.
class GraphExec {
 public:
  GraphExec() = default;

  // Gives a node another argument from the next launch on; launches so far keep theirs. `node` is one of the graph that was instantiated
  // (or of an equal one), `index` counts the operator's parameters. Costs a few stores. Throws errc::signature_mismatch for a value of
  // another type, errc::invalid_argument, errc::stale_handle. Argument 0 of a conditional node is its value: a Buffer<u32> or Slice<u32>. A
  // host node has no arguments.
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
  // The same with a list of one argument that was collected at run time.
  void set(const Node& node, std::uint32_t index, const Arguments& one);
  // What `set` takes there. Throws as it.
  Parameter parameter(const Node& node, std::uint32_t index) const;
  // Takes over all arguments that differ in `graph`, which has the same operators and edges as the one that was instantiated. Callbacks of
  // host nodes stay as they are, and the name. Throws errc::invalid_argument, naming the first difference.
  void update(const Graph& graph);

  // Launches the graph once, behind its launches so far and before later ones, with two readings of the device's clock around each node,
  // and returns when that launch has ended: then `time` and `dot` know how long each node takes. Nodes do what they always do; they follow
  // each other more slowly, and other launches cost what they did. Takes three times the exec's memory meanwhile. Throws as Runtime::launch
  // and Ticket::wait; then the times of before stay.
  void measure();
  // What `measure` has found last for a node that runs something; nothing before, and of other nodes.
  NodeTime time(const Node& node) const;

  // As Graph::name.
  const std::string& name() const;
  std::size_t size() const;
  // The device memory that it takes.
  std::size_t bytes() const;
  // As Graph::dot. Behind `measure` with the time of each node, the mean of its runs, and with the critical path in bold.
  std::string dot() const;

  explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
  friend class Runtime;
  friend struct detail::ExecWords;
  explicit GraphExec(std::shared_ptr<detail::ExecState> state) : state_(std::move(state)) {}

  // One argument, in memory of the caller's that has room for it.
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
