// Adds graphs to graphs.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <dwell/graph.hpp>

#include "device/graph_layout.hpp"

namespace dwell {

namespace detail {

namespace {

// The nodes of a graph without predecessors, and those without successors.
struct Border {
  std::vector<std::uint32_t> sources, sinks;
};
Border border_of(const GraphData& graph) {
  std::vector<std::uint8_t> has(graph.nodes.size(), 0);  // 1: predecessors, 2: successors
  for (const auto& [before, behind] : graph.edges) {
    has[before] |= 2U;
    has[behind] |= 1U;
  }
  for (const GraphData::Branch& branch : graph.branches)
    for (const GraphData::Body& body : branch.bodies) has[body.exit] |= 2U;  // also for a loop
  Border border;
  for (std::uint32_t node = 0; node < has.size(); ++node) {
    if ((has[node] & 1U) == 0) border.sources.push_back(node);
    if ((has[node] & 2U) == 0) border.sinks.push_back(node);
  }
  return border;
}

// Appends to a graph, and rolls back unless the addition is kept.
class Addition {
 public:
  explicit Addition(GraphData& to)
      : to_(to),
        nodes_(to.nodes.size()),
        words_(to.words.size()),
        edges_(to.edges.size()),
        uses_(to.uses.size()),
        names_(to.names.size()),
        operators_(to.operators.size()),
        branches_(to.branches.size()),
        callbacks_(to.callbacks.size()),
        execs_(to.execs.size()),
        shell_(to.shell) {}
  ~Addition() {
    if (kept_) return;
    to_.nodes.resize(nodes_);
    to_.words.resize(words_);
    to_.edges.resize(edges_);
    to_.uses.resize(uses_);
    to_.names.resize(names_);
    to_.operators.resize(operators_);
    to_.last_operator = 0;
    to_.branches.resize(branches_);
    to_.callbacks.resize(callbacks_);
    to_.execs.resize(execs_);
    to_.shell = shell_;
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;

  // Adds the nodes of another graph. Returns the index of its first.
  std::uint32_t copy(std::string_view name, const GraphData& from) {
    const auto first = static_cast<std::uint32_t>(to_.nodes.size());
    const auto first_word = static_cast<std::uint32_t>(to_.words.size());
    if (from.nodes.size() > kMostNodes - first) throw_too_many_nodes();
    std::vector<std::uint32_t> operators;
    for (const auto& op : from.operators) operators.push_back(to_.place_of(op));
    if (to_.shell == nullptr) to_.shell = from.shell;
    if (from.shell != nullptr && from.shell != to_.shell)
      throw Error(errc::invalid_argument, "the graph that is added belongs to another runtime", {"graph", std::string(name)});
    from.check_bodies();
    to_.words.insert(to_.words.end(), from.words.begin(), from.words.end());
    for (GraphData::NodeData node : from.nodes) {
      node.first_word += first_word;
      if (node.groups != 0) node.op = operators[node.op];
      if (node.name != kNoName)
        node.name = add_name(name.empty() ? from.names[node.name] : std::string(name) + '/' + from.names[node.name]);
      to_.nodes.push_back(node);
    }
    for (const auto& [before, behind] : from.edges) to_.edges.emplace_back(first + before, first + behind);
    for (GraphData::Use use : from.uses) {
      use.node += first;
      to_.uses.push_back(use);
    }
    for (GraphData::Branch branch : from.branches) {
      branch.node += first;
      branch.end += first;
      for (GraphData::Body& body : branch.bodies) {
        body.first += first;
        body.behind += first;
        body.exit += first;
        body.edges = to_.edges.size();
      }
      to_.branches.push_back(std::move(branch));
    }
    to_.callbacks.insert(to_.callbacks.end(), from.callbacks.begin(), from.callbacks.end());
    to_.execs.insert(to_.execs.end(), from.execs.begin(), from.execs.end());
    return first;
  }

  // Adds a control node.
  std::uint32_t control(std::string_view name, std::uint32_t what = kNoOperator) {
    const auto node = static_cast<std::uint32_t>(to_.nodes.size());
    if (node >= kMostNodes) throw_too_many_nodes();
    const std::uint32_t place = name.empty() ? kNoName : add_name(std::string(name));
    to_.nodes.push_back({static_cast<std::uint32_t>(to_.words.size()), 0, what, place, 0, 0});
    return node;
  }

  // Returns the nodes through which edges reach each of `to`: themselves if they are few enough, else control nodes.
  std::vector<std::uint32_t> few(std::vector<std::uint32_t> to) {
    while (to.size() > device::kFewSuccessors) {
      std::vector<std::uint32_t> through;
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (i % device::kFewSuccessors == 0) through.push_back(control(""));
        to_.edges.emplace_back(through.back(), to[i]);
      }
      to = std::move(through);
    }
    return to;
  }

  // Adds a body of a branch, with edges from the branch's node. device/graph_layout.hpp says why no node has many successors.
  GraphData::Body body(std::uint32_t branch, std::string_view name, const GraphData& from) {
    const Border border = border_of(from);
    const std::size_t first_edge = to_.edges.size();
    GraphData::Body added{};
    added.first = copy(name, from);
    added.nodes = static_cast<std::uint32_t>(from.nodes.size());
    divide(added.first, first_edge);
    added.exit = border.sinks.size() == 1 ? added.first + border.sinks.front() : control("");
    if (border.sinks.size() > 1)
      for (const std::uint32_t node : border.sinks) to_.edges.emplace_back(added.first + node, added.exit);
    std::vector<std::uint32_t> sources;
    for (const std::uint32_t node : border.sources) sources.push_back(added.first + node);
    if (from.nodes.empty()) sources.push_back(added.exit);
    sources = few(std::move(sources));
    added.sources = static_cast<std::uint32_t>(sources.size());
    // Only control nodes follow a branch.
    for (const std::uint32_t node : sources) to_.edges.emplace_back(branch, node);
    added.behind = static_cast<std::uint32_t>(to_.nodes.size());
    return added;
  }

  void keep() { kept_ = true; }

 private:
  std::uint32_t add_name(std::string name) {
    to_.names.push_back(std::move(name));
    return static_cast<std::uint32_t>(to_.names.size() - 1);
  }

  // Limits the successors of nodes, among the nodes and edges from these on.
  void divide(std::uint32_t first_node, std::size_t first_edge) {
    std::vector<std::uint32_t> successors(to_.nodes.size() - first_node, 0);
    for (std::size_t i = first_edge; i < to_.edges.size(); ++i) ++successors[to_.edges[i].first - first_node];
    const auto has_many = [&](std::uint32_t node) {
      return successors[node - first_node] > device::kFewSuccessors && to_.nodes[node].op != kBranch;
    };
    std::vector<std::pair<std::uint32_t, std::uint32_t>> many;
    std::copy_if(to_.edges.begin() + static_cast<std::ptrdiff_t>(first_edge), to_.edges.end(), std::back_inserter(many),
                 [&](const auto& edge) { return has_many(edge.first); });
    if (many.empty()) return;
    to_.edges.erase(std::remove_if(to_.edges.begin() + static_cast<std::ptrdiff_t>(first_edge), to_.edges.end(),
                                   [&](const auto& edge) { return has_many(edge.first); }),
                    to_.edges.end());
    std::ranges::stable_sort(many, {}, &std::pair<std::uint32_t, std::uint32_t>::first);
    for (std::size_t i = 0; i < many.size();) {
      const std::uint32_t from = many[i].first;
      std::vector<std::uint32_t> to;
      for (; i < many.size() && many[i].first == from; ++i) to.push_back(many[i].second);
      for (const std::uint32_t node : few(std::move(to))) to_.edges.emplace_back(from, node);
    }
  }

  GraphData& to_;
  const std::size_t nodes_, words_, edges_, uses_, names_, operators_, branches_, callbacks_, execs_;
  Shell* const shell_;
  bool kept_ = false;
};

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

std::uint32_t GraphData::Branch::values() const { return kind == BranchKind::choose ? static_cast<std::uint32_t>(bodies.size()) + 1 : 2; }

std::uint32_t GraphData::Branch::body_for(std::uint32_t value) const {
  if (kind == BranchKind::choose) return value;
  return value != 0 ? 0 : 1;
}

void GraphData::check_bodies() const {
  if (branches.empty()) return;
  std::vector<std::uint32_t> body_of(nodes.size(), 0);  // the innermost body, from 1
  std::vector<std::size_t> limits{edges.size()};
  for (const Branch& branch : branches)
    for (const Body& body : branch.bodies) {
      std::fill(body_of.begin() + body.first, body_of.begin() + body.behind, static_cast<std::uint32_t>(limits.size()));
      limits.push_back(body.edges);
    }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto& [before, behind] = edges[i];
    if (nodes[before].op == kBranch || nodes[behind].op == kBranchEnd) continue;
    const std::uint32_t body = body_of[before];
    if (body == body_of[behind] && i < limits[body]) continue;
    throw Error(errc::invalid_argument,
                "node " + text_of(behind) + " waits for " + text_of(before) +
                    " inside of a conditional node's body, or across its border: name the conditional node, or order nodes before their "
                    "graph is added",
                {"node", text_of(behind)});
  }
}

const GraphData::Branch* GraphData::branch_of(std::uint32_t node) const {
  const auto at = std::ranges::find(branches, node, &Branch::node);
  return at != branches.end() ? &*at : nullptr;
}

std::uint32_t GraphData::add(std::string_view name, BranchKind kind, const SliceParts& value, const std::vector<const GraphData*>& bodies) {
  if (std::ranges::find(bodies, this) != bodies.end()) {
    const auto copy = std::make_unique<GraphData>(*this);
    std::vector<const GraphData*> others = bodies;
    std::ranges::replace(others, this, copy.get());
    return add(name, kind, value, others);
  }
  std::uint32_t word[3];  // of a span
  Sink sink{*this, word};
  if (value.use->shell == nullptr) throw_unusable_buffer(value.use, shell);
  if (value.words.size() == 0)
    throw Error(errc::invalid_argument, "conditional node '" + std::string(name) + "': the value has no element",
                {"node", std::string(name)});
  Addition addition(*this);
  if (shell == nullptr) shell = value.use->shell;
  Branch branch{kind, addition.control(name, kBranch), 0, {}};
  put_slice(sink, shell, value);
  words.insert(words.end(), word, word + sink.words);
  nodes.back().words = sink.words;
  nodes.back().flags = static_cast<std::uint16_t>(sink.flags);
  add_use(value, branch.node);
  const std::size_t place = branches.size();
  branches.push_back(branch);  // before the branches in its bodies
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    std::string prefix(name);
    if (kind == BranchKind::choose) prefix += '/' + std::to_string(i);
    if (kind == BranchKind::run_if && i == 1) prefix += "/else";
    branch.bodies.push_back(addition.body(branch.node, name.empty() ? name : prefix, *bodies[i]));
  }
  branch.end = addition.control("", kBranchEnd);
  if (branch.may_pass()) edges.emplace_back(branch.node, branch.end);
  if (kind != BranchKind::repeat_while)
    for (const Body& body : branch.bodies) edges.emplace_back(body.exit, branch.end);
  branches[place] = std::move(branch);
  for (std::size_t i = place; i < branches.size(); ++i)
    for (Body& body : branches[i].bodies) body.edges = edges.size();
  addition.keep();
  return static_cast<std::uint32_t>(place);
}

std::uint32_t GraphData::add(std::string_view name, std::function<void()> callback) {
  if (!callback)
    throw Error(errc::invalid_argument, "add_host: the callback of node '" + std::string(name) + "' is empty", {"node", std::string(name)});
  Addition addition(*this);
  callbacks.push_back(std::make_shared<const std::function<void()>>(std::move(callback)));
  const std::uint32_t node = addition.control(name, kHostNode);
  addition.keep();
  return node;
}

}  // namespace detail

SubGraph Graph::add(std::string_view name, const Graph& sub) {
  const auto count = static_cast<std::uint32_t>(sub.size());
  const detail::GraphData::Added added = data_->add(name, *sub.data_);
  return {Node(data_.get(), added.entry, added.exit), added.first, count};
}

SubGraph Graph::add_branch(std::string_view name, detail::BranchKind kind, const DeviceValue& value, std::span<const Graph* const> bodies) {
  std::vector<const detail::GraphData*> graphs;
  for (const Graph* const body : bodies) graphs.push_back(body->data_.get());
  const detail::GraphData::Branch& branch = data_->branches[data_->add(name, kind, value.parts_, graphs)];
  return {Node(data_.get(), branch.node, branch.end), branch.node, SubGraph::kConditional};
}

SubGraph Graph::add_if(std::string_view name, const DeviceValue& value, const Graph& body) {
  const Graph* const bodies[] = {&body};
  return add_branch(name, detail::BranchKind::run_if, value, bodies);
}

SubGraph Graph::add_if(std::string_view name, const DeviceValue& value, const Graph& body, const Graph& otherwise) {
  const Graph* const bodies[] = {&body, &otherwise};
  return add_branch(name, detail::BranchKind::run_if, value, bodies);
}

SubGraph Graph::add_while(std::string_view name, const DeviceValue& value, const Graph& body) {
  const Graph* const bodies[] = {&body};
  return add_branch(name, detail::BranchKind::repeat_while, value, bodies);
}

SubGraph Graph::add_switch(std::string_view name, const DeviceValue& value, std::span<const Graph* const> bodies) {
  return add_branch(name, detail::BranchKind::choose, value, bodies);
}

std::uint32_t SubGraph::offset_of(const Node& node, std::size_t body) const {
  const auto refuse = [&](std::size_t nodes) {
    throw Error(errc::invalid_argument, "inside: the graph that was added has no such node", {"node", "", node.last_, nodes});
  };
  std::uint32_t first = first_;
  std::uint32_t count = body == 0 ? count_ : 0;
  if (count_ == kConditional) {
    const detail::GraphData::Branch& branch = *graph_->branch_of(first_);
    if (body >= branch.bodies.size()) refuse(0);
    first = branch.bodies[body].first;
    count = branch.bodies[body].nodes;
  }
  if (node.graph_ == nullptr || node.index_ >= count || node.last_ >= count) refuse(count);
  return first;
}

Node SubGraph::inside(const Node& node, std::size_t body) const {
  const std::uint32_t first = offset_of(node, body);
  return {graph_, first + node.index_, first + node.last_};
}

SubGraph SubGraph::inside(const SubGraph& sub, std::size_t body) const {
  return {inside(static_cast<const Node&>(sub), body), offset_of(sub, body) + sub.first_, sub.count_};
}

}  // namespace dwell
