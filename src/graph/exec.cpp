#include "graph/exec.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/graph.hpp>
#include <dwell/runtime.hpp>

#include "graph/dot.hpp"
#include "graph/followers.hpp"
#include "live/value_text.hpp"
#include "runtime/core.hpp"
#include "runtime/program/argument_check.hpp"

namespace dwell {

namespace detail {

namespace {

// Those that are named, and those that their nodes may launch.
std::vector<std::shared_ptr<ExecState>> all_of(std::span<const std::shared_ptr<ExecState>> execs) {
  std::vector<std::shared_ptr<ExecState>> all;
  for (const auto& exec : execs) {
    all.push_back(exec);
    all.insert(all.end(), exec->execs.begin(), exec->execs.end());
  }
  // An exec's number is higher than those of all that its nodes launch. Who locks several locks them in this order.
  std::ranges::sort(all, {}, [](const auto& exec) { return exec->number; });
  all.erase(std::unique(all.begin(), all.end()), all.end());  // clang 14 cannot read std::ranges::unique
  return all;
}

}  // namespace

ExecState::ExecState(runtime::Core& core, Shell* of, const GraphData& from)
    : shell(of), graph(from), layout(graph), execs(all_of(graph.execs)), number(core.graphs().next_number()) {
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
  for (const std::uint32_t node : changed_)
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

void ExecState::clear_changes() {
  for (std::size_t i = 0; i < changes_.size(); i += 2) change_of_[changes_[i]] = 0;
  changes_.clear();
  changed_.clear();
}

bool ExecState::names(std::uint64_t begin, std::uint64_t end) const {
  const Lock lock(mutex_);
  return uses_.names(begin, end);
}

std::string ExecState::why(std::uint64_t position, std::uint32_t cell) const {
  return host_nodes ? host_nodes->why(position, cell) : std::string();
}

ExecState::NodeFacts ExecState::facts_of(std::uint32_t node) const {
  const GraphData::NodeData& data = graph.nodes[node];
  const std::string_view name = data.name != kNoName ? std::string_view(graph.names[data.name]) : std::string_view();
  return {layout.cell(node), name, data.groups != 0, std::span(graph.words).subspan(data.first_word, data.words)};
}

std::string ExecState::node_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  return node != graph::Cells::kNone ? graph.text_of(node) : std::string();
}

std::string ExecState::name_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  return node != graph::Cells::kNone && graph.nodes[node].name != kNoName ? graph.names[graph.nodes[node].name] : std::string();
}

std::string ExecState::called_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone) return {};
  std::string name = name_at(cell);
  return name.empty() ? "#" + std::to_string(node) : name;
}

std::string ExecState::title_at(std::uint32_t cell, const std::string& op) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone) return {};
  if (graph.operator_of(node) == nullptr) return graph.text_of(node);
  return called_at(cell) + ": " + op;
}

std::string ExecState::arguments_at(std::uint32_t cell) const {
  const std::uint32_t node = node_in(cell);
  const OperatorState* const op = node != graph::Cells::kNone ? graph.operator_of(node) : nullptr;
  if (op == nullptr) return {};
  const GraphData::NodeData& data = graph.nodes[node];
  const Lock lock(words_mutex_);
  const std::string text = live::text_of_arguments(op->signature, std::span(graph.words).subspan(data.first_word, data.words));
  return !text.empty() && node < set_.size() && set_[node] ? text + " as set last" : text;
}

std::vector<std::uint32_t> ExecState::next_at(std::uint32_t cell, std::size_t most) const {
  const std::uint32_t node = node_in(cell);
  if (node == graph::Cells::kNone && cell != device::kFirstRecord) return {};
  std::vector<std::uint32_t> next =
      cell == device::kFirstRecord ? graph::first_nodes(graph, layout, most) : graph::followers(graph, layout, node, most);
  for (std::uint32_t& its : next) its = layout.cell(its);
  return next;
}

ExecState::Left ExecState::left(std::span<const std::uint32_t> ready) const {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<std::uint32_t> open;
  const auto add = [&](std::span<const std::uint32_t> edges) {
    for (const std::uint32_t edge : edges) {
      const std::uint32_t node = edge & ~device::kOnly;
      if (seen[node]) continue;
      seen[node] = true;
      open.push_back(node);
    }
  };
  for (const std::uint32_t cell : ready) {
    const std::uint32_t node = node_in(cell);
    if (node != graph::Cells::kNone) add(std::span(&node, 1));
    if (cell == device::kFirstRecord) add(layout.starts());
  }
  Left left{0, 0};
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    // Which callbacks run, and which of them have returned, nobody has noted.
    if (graph.nodes[node].op == kHostNode) add(std::span(&node, 1));
    if (graph.nodes[node].op == kHostNode || graph.nodes[node].groups != 0) ++left.all;
  }
  for (std::size_t at = 0; at < open.size(); ++at) {
    const std::uint32_t node = open[at];
    if (graph.nodes[node].op == kHostNode || graph.nodes[node].groups != 0) ++left.nodes;
    add(layout.successors(node));
  }
  return left;
}

namespace {

// Room for `more` elements, so that they are added without memory.
template <class T>
void make_room(std::vector<T>& in, std::size_t more) {
  if (in.capacity() - in.size() < more) in.reserve(std::max(2 * in.capacity(), in.size() + more));
}

}  // namespace

void ExecState::prepare_changes(std::size_t words) {
  if (change_of_.empty()) change_of_.resize(layout.bytes() / sizeof(std::uint32_t));
  make_room(changes_, 2 * words);
}

bool ExecState::change(std::size_t at, std::uint32_t value) noexcept {
  std::uint32_t& place = change_of_[at / sizeof(std::uint32_t)];
  if (place != 0) {
    changes_[place] = value;
    return false;
  }
  changes_.push_back(static_cast<std::uint32_t>(at / sizeof(std::uint32_t)));
  changes_.push_back(value);
  place = static_cast<std::uint32_t>(changes_.size() - 1);
  return true;
}

void ExecState::bind() {
  for (std::uint32_t i = 0; i < opcodes_.size(); ++i) {
    const std::uint32_t now = graph.operators[i]->alias.load(std::memory_order_relaxed);
    if (now == opcodes_[i]) continue;
    prepare_changes(static_cast<std::size_t>(std::ranges::count(graph.nodes, i, &GraphData::NodeData::op)));
    opcodes_[i] = now;
    for (std::uint32_t node = 0; node < graph.nodes.size(); ++node)
      if (graph.nodes[node].op == i) change(layout.opcode_at(node), now | static_cast<std::uint32_t>(graph.nodes[node].groups) << 16U);
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
  prepare_changes(words);
  make_room(changed_, nodes);
  if (set_.empty()) set_.resize(graph.nodes.size());
}

void ExecState::set_words(std::uint32_t node, std::uint32_t first, const std::uint32_t* words, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t& now = graph.words[graph.nodes[node].first_word + first + i];
    if (now == words[i]) continue;
    now = words[i];
    set_[node] = true;
    if (change(layout.word_at(graph, node, first + i), words[i]) && (changed_.empty() || changed_.back() != node)) changed_.push_back(node);
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

void ExecState::add_last(runtime::Core& core, Waits& waits) {
  if (!launched_ || core.done(last_)) return;
  // Its launches follow each other, whatever becomes of them.
  if (waits.count == kMostTickets) {
    core.wait(last_, std::nullopt);
  } else {
    waits.any_result |= 1U << waits.count;
    waits.position[waits.count++] = last_;
  }
}

void ExecState::add_tasks(runtime::Core& core, Waits& waits) {
  std::erase_if(tasks_, [&](std::uint64_t position) { return core.done(position); });
  std::vector<std::uint64_t> open = tasks_;
  while (open.size() + waits.count > kMostTickets) {
    if (waits.count == kMostTickets) {
      for (const std::uint64_t position : open) core.wait(position, std::nullopt);
      return;
    }
    // One in between stands for some of them.
    Waits some;
    some.count = static_cast<std::uint32_t>(std::min<std::size_t>(open.size(), kMostTickets));
    some.any_result = (1U << some.count) - 1;
    std::copy_n(open.begin(), some.count, some.position);
    open.erase(open.begin(), open.begin() + some.count);
    const std::uint32_t words[3] = {};
    open.push_back(
        *core.launch_graph(task_of(words, 3, kGraph | kWide | kAfter, 0, &some), runtime::SubmissionQueue::kAnySwitches, graph.graph_name));
  }
  for (const std::uint64_t position : open) {
    waits.any_result |= 1U << waits.count;
    waits.position[waits.count++] = position;
  }
}

std::uint64_t ExecState::launch(runtime::Core& core, std::uint32_t flags, const Waits& waits, Launching* all) {
  if (execs.empty()) {
    const Lock lock(mutex_);
    for (;;)
      if (const auto position = launch_at(core, flags, waits, core.queue().switches())) return *position;
  }
  std::optional<Launching> mine;
  if (all == nullptr) all = &mine.emplace(core, execs);
  return *all->place(waits, [&](std::uint64_t switches, const Waits& more) {
    const Lock lock(mutex_);
    return std::optional(launch_at(core, flags, more, switches).value_or(runtime::SubmissionQueue::kSwitched));
  });
}

std::optional<std::uint64_t> ExecState::launch_at(runtime::Core& core, std::uint32_t flags, Waits waits, std::uint64_t switches) {
  add_last(core, waits);
  if (!host_nodes) return place(core, flags, 1, waits, switches);
  host_nodes->forget(core.queue().reaped());
  core.host_calls().launches({shared_from_this(), host_nodes.get()});
  std::optional<std::uint64_t> position;
  try {
    position = place(core, flags, 1, waits, switches);
  } catch (...) {
    core.host_calls().placed(*host_nodes, std::nullopt);
    throw;
  }
  core.host_calls().placed(*host_nodes, position);
  return position;
}

std::optional<std::uint64_t> ExecState::place(runtime::Core& core, std::uint32_t flags, std::uint32_t groups, Waits& waits,
                                              std::uint64_t switches) {
  runtime::Graphs::Flight flight;
  flight.emplace_back(0, shared_from_this());
  bind();
  if (!changed_.empty()) note_changes(core);
  if (changes_.size() > kMostWords) {
    // More than travels with a launch. Nobody reads the exec between its launches.
    if (launched_) core.wait(last_, std::nullopt);
    for (const std::uint64_t position : tasks_) core.wait(position, std::nullopt);
    write(core);
    clear_changes();
  }
  // Others launch it as it is until then.
  if (!changes_.empty()) add_tasks(core, waits);
  const std::size_t count = changes_.size() / 2;
  std::array<std::uint32_t, kMaxWords> words{};
  words[0] = static_cast<std::uint32_t>(offset);
  words[1] = static_cast<std::uint32_t>(offset >> 32U);
  words[2] = static_cast<std::uint32_t>(count);
  std::uint32_t used = 3;
  const std::uint32_t task_flags = flags | kGraph | (groups != 0 ? kShare : kWide) | kMemory | system_ | (waits.count != 0 ? kAfter : 0);
  std::optional<std::uint64_t> position;
  if (count <= device::kMostChanges) {
    std::ranges::copy(changes_, words.begin() + used);
    used += static_cast<std::uint32_t>(changes_.size());
    position = core.launch_graph(task_of(words.data(), used, task_flags, groups, &waits), switches, graph.graph_name);
  } else {
    position =
        core.launch_graph(words.data(), changes_, task_flags, groups, waits.count != 0 ? &waits : nullptr, switches, graph.graph_name);
  }
  if (!position) return std::nullopt;  // a version has changed meanwhile
  clear_changes();
  core.graphs().launched(*position, std::move(flight));
  core.graphs().collect(core.queue().reaped());
  uses_.launched(*position);
  last_ = *position;
  launched_ = true;
  if (count != 0) changing_ = *position;
  if (core.queue().is_sampled(*position)) [[unlikely]]
    sample(core);
  return position;
}

void ExecState::sample(runtime::Core& core) const {
  for (const GraphData::NodeData& node : graph.nodes)
    if (node.groups != 0) core.samples().take_arguments(opcodes_[node.op], graph.words.data() + node.first_word);
}

bool ExecState::prepare(runtime::Core& core, std::uint64_t switches, Waits& waits) {
  if (tasks_.size() == tasks_.capacity()) {
    std::erase_if(tasks_, [&](std::uint64_t position) { return core.done(position); });
    tasks_.reserve(std::max<std::size_t>(16, 2 * tasks_.size()));
  }
  bind();
  if (!changes_.empty()) {
    Waits before;
    add_last(core, before);
    if (!place(core, 0, 0, before, switches)) return false;
  }
  if (!changing_ || core.done(*changing_)) return true;
  if (waits.count == kMostTickets) {
    core.wait(*changing_, std::nullopt);
  } else {
    waits.any_result |= 1U << waits.count;
    waits.position[waits.count++] = *changing_;
  }
  return true;
}

void ExecState::note_task(std::uint64_t position) noexcept {
  tasks_.push_back(position);  // has room: see prepare
  uses_.launched(position);
}

// The analysis follows no locks of a list.
DWELL_THREAD_SAFETY(no_thread_safety_analysis)
Launching::Launching(runtime::Core& core, std::span<const std::shared_ptr<ExecState>> execs) : core_(core), execs_(all_of(execs)) {
  for (const auto& exec : execs_) {
    locks_.emplace_back(exec->mutex_);
    flight_.emplace_back(0, exec);
  }
}

Launching::~Launching() {
  for (const auto& exec : execs_)
    if (exec->host_nodes && asked_-- > 0) core_.host_calls().placed(*exec->host_nodes, position_, true);
}

DWELL_THREAD_SAFETY(no_thread_safety_analysis)
std::optional<std::uint64_t> Launching::place(const Waits& waits, const Attempt& attempt) {
  for (const auto& exec : execs_) {
    if (!exec->host_nodes) continue;
    exec->host_nodes->forget(core_.queue().reaped());
    core_.host_calls().launches({exec, exec->host_nodes.get()});
    ++asked_;
  }
  for (;;) {
    const std::uint64_t switches = core_.queue().switches();
    Waits all = waits;
    bool current = true;
    for (const auto& exec : execs_) current = current && exec->prepare(core_, switches, all);
    if (!current) continue;
    const std::optional<std::uint64_t> position = attempt(switches, all);
    if (!position) return position;
    if (*position == runtime::SubmissionQueue::kSwitched) continue;
    position_ = position;
    core_.graphs().launched(*position, std::move(flight_));
    core_.graphs().collect(core_.queue().reaped());
    for (const auto& exec : execs_) exec->note_task(*position);
    return position;
  }
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

}  // namespace detail

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
  core->registry().need(device::part::graphs);  // an operator may launch it, too
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
  if (given.kind == Kind::span || given.kind == Kind::const_span)
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
