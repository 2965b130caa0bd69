#include "graph/exec.hpp"

#include <algorithm>
#include <utility>

#include <dwell/error.hpp>

#include "graph/dot.hpp"
#include "graph/launching.hpp"
#include "runtime/core.hpp"

namespace dwell::detail {

ExecState::ExecState(runtime::Core& core, Shell* of, const GraphData& from)
    : shell(of), graph(from), layout(graph), execs(with_launched(graph.execs)), number(core.graphs().next_number()) {
  for (const auto& node : graph.nodes) system_ |= node.flags & kSystem;
  core.buffers().check_alive(graph.uses, [this](std::uint32_t node) { return graph.text_of(node); });
  core.buffers().collect();
  auto piece = core.arena().take(layout.bytes());
  offset = piece->offset();
  memory = core.buffers().own(std::move(piece));
  if (!graph.callbacks.empty()) {
    core.host_calls().prepare();
    std::vector<std::uint32_t> cells;
    std::vector<std::string> names;
    for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
      if (graph.nodes[node].op != kHostNode) continue;
      cells.push_back(layout.cell(node));
      names.push_back(graph.text_of(node));
    }
    host_nodes = std::make_unique<graph::HostNodes>(core.buffers(), graph.callbacks, std::move(cells), std::move(names));
  }
  {
    const Lock lock(mutex_);
    uses_ = graph::Uses(std::exchange(graph.uses, {}));
    opcodes_.reserve(graph.operators.size());
    for (const auto& op : graph.operators) opcodes_.push_back(op->alias.load(std::memory_order_relaxed));
    write(core);
  }
}

ExecState::~ExecState() {
  if (const auto core = shell->core()) core->graphs().remove(offset);
}

void ExecState::publish(runtime::Core& core) {
  const auto lease = core.graphs().add(offset, layout.bytes(), number, shared_from_this(), core.keeper().newest());
  if (runtime::FlightRecorder* const flight = core.flight(); flight != nullptr)
    first_noted_ = flight->add(*this, offset, layout.bytes(), lease, core.queue().tail());
}

void ExecState::note_changes(runtime::Core& core) const {
  runtime::FlightRecorder* const flight = core.flight();
  if (flight == nullptr) return;
  for (const std::uint32_t node : changes_.nodes())
    flight->set_arguments(first_noted_, node, std::span(graph.words).subspan(graph.nodes[node].first_word, graph.nodes[node].words));
}

void ExecState::write(runtime::Core& core) {
  const std::span<const std::uint32_t> opcodes = opcodes_;
  core.arena().at_rest([&](const backend::Allocation& arena) {
    core.backend().write_to_device(arena.device() + offset, layout.bytes(), [&](std::byte* to) {
      layout.write(graph, opcodes, static_cast<std::uint32_t>(offset / device::kCell), to);
      auto& head = *reinterpret_cast<device::GraphHead*>(to);
      head.number = number;
      if (host_nodes) host_nodes->write(head);
    });
  });
}

bool ExecState::names(std::uint64_t begin, std::uint64_t end) const {
  const Lock lock(mutex_);
  return uses_.names(begin, end);
}

void ExecState::bind() {
  for (std::uint32_t i = 0; i < opcodes_.size(); ++i) {
    const std::uint32_t now = graph.operators[i]->alias.load(std::memory_order_relaxed);
    if (now == opcodes_[i]) continue;
    changes_.prepare(layout.bytes(), static_cast<std::size_t>(std::ranges::count(graph.nodes, i, &GraphData::NodeData::op)));
    opcodes_[i] = now;
    for (std::uint32_t node = 0; node < graph.nodes.size(); ++node)
      if (graph.nodes[node].op == i)
        changes_.change(layout.opcode_at(node), now | static_cast<std::uint32_t>(graph.nodes[node].groups) << 16U);
  }
}

std::uint64_t ExecState::reaped() const {
  const auto core = shell->core();
  return core ? core->queue().reaped() : ~0ULL;
}

void ExecState::set(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count,
                    std::optional<std::uint64_t> memory_at) {
  const Lock lock(mutex_);
  const std::uint64_t ended = memory_at ? reaped() : 0;
  const Lock words_lock(words_mutex_);
  prepare_words(count, 1);
  if (memory_at) uses_.set(node, first, *memory_at, ended);
  set_words(node, first, words, count);
}

void ExecState::prepare_words(std::size_t words, std::size_t nodes) {
  changes_.prepare(layout.bytes(), words, nodes);
  if (set_.empty()) set_.resize(graph.nodes.size());
}

void ExecState::set_words(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t& now = graph.words[graph.nodes[node].first_word + first + i];
    if (now == words[i]) continue;
    now = words[i];
    set_[node] = true;
    if (changes_.change(layout.word_at(graph, node, first + i), words[i])) changes_.note(node);
  }
}

void ExecState::update(const GraphData& other) {
  const auto differs = [&](const std::string& what) {
    throw Error(errc::invalid_argument, "update: " + what + "; instantiate the graph instead", {"graph", "", 0, 0});
  };
  if (other.nodes.size() != graph.nodes.size())
    differs("the graph has " + std::to_string(other.nodes.size()) + " nodes, the exec " + std::to_string(graph.nodes.size()));
  if (other.edges != graph.edges) differs("the edges differ");
  if (other.execs != graph.execs) differs("its nodes launch other graphs");
  if (other.branches != graph.branches) differs("the conditional nodes differ");
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const auto& mine = graph.nodes[node];
    const auto& its = other.nodes[node];
    if (other.operator_of(node) != graph.operator_of(node)) differs("node " + graph.text_of(node) + " has another operator");
    if ((its.op == kHostNode) != (mine.op == kHostNode)) differs("node " + graph.text_of(node) + " is a host node in one of them only");
    if (its.is_gang() != mine.is_gang()) differs("a gang runs node " + graph.text_of(node) + " in one of them only");
    if (its.groups != mine.groups) differs("node " + graph.text_of(node) + " has another number of groups");
    if (its.flags != mine.flags) differs("node " + graph.text_of(node) + " has buffers in another kind of memory");
  }
  const Lock lock(mutex_);
  const std::uint64_t ended = reaped();
  const Lock words_lock(words_mutex_);
  std::size_t words = 0;
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const GraphData::NodeData& its = other.nodes[node];
    for (std::uint32_t i = 0; i < its.words; ++i)
      words += graph.words[graph.nodes[node].first_word + i] != other.words[its.first_word + i] ? 1 : 0;
  }
  if (words != 0) prepare_words(words, words);
  uses_.set_all(other.uses, ended);
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node)
    set_words(node, 0, other.words.data() + other.nodes[node].first_word, other.nodes[node].words);
}

void ExecState::measure(runtime::Core& core) {
  const std::size_t count = graph.nodes.size();
  const auto taken = core.buffers().allocate(count, sizeof(device::NodeTime), Memory::device);
  std::uint64_t position = 0;
  {
    std::optional<Launching> all;
    if (!execs.empty()) all.emplace(core, execs);
    const Lock lock(mutex_);
    GraphData now = graph;
    now.uses = uses_.next();
    const auto clocked = std::make_shared<ExecState>(core, shell, graph::with_clocks(now, taken->allocation->device()));
    clocked->publish(core);
    Waits waits;
    add_last(core, waits);
    add_tasks(core, waits);
    position = last_ = clocked->launch(core, 0, waits, all ? &*all : nullptr);
    changing_ = position;
    launched_ = true;
  }
  core.wait(position, std::nullopt);
  if (const std::optional<Error> error = core.error_of(position)) throw Error(*error);
  std::vector<device::NodeTime> found(count);
  if (count != 0) core.backend().copy_to_host(found.data(), taken->allocation->device(), count * sizeof(device::NodeTime));
  graph::Times times;
  for (const device::NodeTime& of : found) times.nodes.push_back({of.runs, std::chrono::nanoseconds(static_cast<std::int64_t>(of.total))});
  times.taken = std::chrono::system_clock::now();
  const Lock lock(mutex_);
  times_ = std::move(times);
}

NodeTime ExecState::time(std::uint32_t node) const {
  const Lock lock(mutex_);
  return times_ && node < times_->nodes.size() ? times_->nodes[node] : NodeTime{};
}

std::string ExecState::dot() const {
  const Lock lock(mutex_);
  return graph::dot_of(graph, times_ ? &*times_ : nullptr);
}

}  // namespace dwell::detail
