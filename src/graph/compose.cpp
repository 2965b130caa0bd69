// Graphs that are added to graphs.
#include <algorithm>

#include <dwell/graph.hpp>

namespace dwell {

namespace detail {

namespace {

// Appends to a graph, and takes all of it back unless it is kept.
class Addition {
 public:
  explicit Addition(GraphData& to)
      : to_(to),
        nodes_(to.nodes.size()),
        words_(to.words.size()),
        edges_(to.edges.size()),
        uses_(to.uses.size()),
        names_(to.names.size()) {}
  ~Addition() {
    if (kept_) return;
    to_.nodes.resize(nodes_);
    to_.words.resize(words_);
    to_.edges.resize(edges_);
    to_.uses.resize(uses_);
    to_.names.resize(names_);
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;

  // Adds the nodes of another graph. Returns the place of its first.
  std::uint32_t copy(std::string_view name, const GraphData& from) {
    const auto first = static_cast<std::uint32_t>(to_.nodes.size());
    const auto first_word = static_cast<std::uint32_t>(to_.words.size());
    if (from.nodes.size() > kMostNodes - first) throw_too_many_nodes();
    std::vector<std::uint32_t> operators;
    for (const auto& op : from.operators) operators.push_back(to_.place_of(op));
    to_.words.insert(to_.words.end(), from.words.begin(), from.words.end());
    for (GraphData::NodeData node : from.nodes) {
      node.first_word += first_word;
      if (node.op != kNoOperator) node.op = operators[node.op];
      if (node.name != kNoName)
        node.name = add_name(name.empty() ? from.names[node.name] : std::string(name) + '/' + from.names[node.name]);
      to_.nodes.push_back(node);
    }
    for (const auto& [before, behind] : from.edges) to_.edges.emplace_back(first + before, first + behind);
    for (GraphData::Use use : from.uses) {
      use.node += first;
      to_.uses.push_back(use);
    }
    return first;
  }

  // Adds a control node.
  std::uint32_t control(std::string_view name) {
    const auto node = static_cast<std::uint32_t>(to_.nodes.size());
    if (node >= kMostNodes) throw_too_many_nodes();
    const std::uint32_t place = name.empty() ? kNoName : add_name(std::string(name));
    to_.nodes.push_back({static_cast<std::uint32_t>(to_.words.size()), 0, kNoOperator, place, 0, 0});
    return node;
  }

  void keep() { kept_ = true; }

 private:
  std::uint32_t add_name(std::string name) {
    to_.names.push_back(std::move(name));
    return static_cast<std::uint32_t>(to_.names.size() - 1);
  }

  GraphData& to_;
  const std::size_t nodes_, words_, edges_, uses_, names_;
  bool kept_ = false;
};

// Nodes of a graph that wait for none, or that none waits for.
struct Border {
  std::vector<std::uint32_t> sources, sinks;
};
Border border_of(const GraphData& graph) {
  std::vector<std::uint8_t> has(graph.nodes.size(), 0);  // 1: predecessors, 2: successors
  for (const auto& [before, behind] : graph.edges) {
    has[before] |= 2U;
    has[behind] |= 1U;
  }
  Border border;
  for (std::uint32_t node = 0; node < has.size(); ++node) {
    if ((has[node] & 1U) == 0) border.sources.push_back(node);
    if ((has[node] & 2U) == 0) border.sinks.push_back(node);
  }
  return border;
}

}  // namespace

GraphData::Added GraphData::add(std::string_view name, const GraphData& sub) {
  if (&sub == this) return add(name, GraphData(sub));
  const Border border = border_of(sub);
  Addition addition(*this);
  Added added{};
  added.first = addition.copy(name, sub);
  const auto one_of = [&](const std::vector<std::uint32_t>& inner) {
    return inner.size() == 1 ? added.first + inner.front() : addition.control(name);
  };
  added.entry = one_of(border.sources);
  added.exit = border.sinks.empty() ? added.entry : one_of(border.sinks);
  if (border.sources.size() > 1)
    for (const std::uint32_t node : border.sources) edges.emplace_back(added.entry, added.first + node);
  if (border.sinks.size() > 1)
    for (const std::uint32_t node : border.sinks) edges.emplace_back(added.first + node, added.exit);
  addition.keep();
  return added;
}

}  // namespace detail

SubGraph Graph::add(std::string_view name, const Graph& sub) {
  const auto count = static_cast<std::uint32_t>(sub.size());
  const detail::GraphData::Added added = data_->add(name, *sub.data_);
  return {Node(data_.get(), added.entry, added.exit), added.first, count};
}

Node SubGraph::inside(const Node& node) const {
  if (node.graph_ == nullptr || node.last_ >= count_ || node.index_ >= count_)
    throw Error(errc::invalid_argument, "SubGraph::inside: the graph that was added has no such node", {"node", "", node.index_, count_});
  return {graph_, first_ + node.index_, first_ + node.last_};
}

SubGraph SubGraph::inside(const SubGraph& sub) const { return {inside(static_cast<const Node&>(sub)), first_ + sub.first_, sub.count_}; }

}  // namespace dwell
