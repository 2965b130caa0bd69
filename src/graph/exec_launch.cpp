// Launches of an exec: their order, and the changes that they carry.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/exec.hpp"
#include "graph/launching.hpp"
#include "runtime/core.hpp"

namespace dwell::detail {

void ExecState::add_last(runtime::Core& core, Waits& waits) {
  if (!launched_ || core.done(last_)) return;
  // Launches of an exec run one after the other, regardless of their results.
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
    // An intermediate task waits for some of them.
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
  if (!changes_.nodes().empty()) note_changes(core);
  if (changes_.words().size() > kMostWords) {
    // A launch cannot carry this many changes: write them while no launch runs, and nobody reads the exec.
    if (launched_) core.wait(last_, std::nullopt);
    for (const std::uint64_t position : tasks_) core.wait(position, std::nullopt);
    write(core);
    changes_.clear();
  }
  // Other threads launch the exec unchanged until then.
  if (changes_.count() != 0) add_tasks(core, waits);
  const std::size_t count = changes_.count();
  std::array<std::uint32_t, kMaxWords> words{};
  words[0] = static_cast<std::uint32_t>(offset);
  words[1] = static_cast<std::uint32_t>(offset >> 32U);
  words[2] = static_cast<std::uint32_t>(count);
  std::uint32_t used = 3;
  const std::uint32_t task_flags = flags | kGraph | (groups != 0 ? kShare : kWide) | kMemory | system_ | (waits.count != 0 ? kAfter : 0);
  std::optional<std::uint64_t> position;
  if (count <= device::kMostChanges) {
    std::ranges::copy(changes_.words(), words.begin() + used);
    used += static_cast<std::uint32_t>(changes_.words().size());
    position = core.launch_graph(task_of(words.data(), used, task_flags, groups, &waits), switches, graph.graph_name);
  } else {
    position = core.launch_graph(words.data(), changes_.words(), task_flags, groups, waits.count != 0 ? &waits : nullptr, switches,
                                 graph.graph_name);
  }
  if (!position) return std::nullopt;  // an operator's version has changed meanwhile
  changes_.clear();
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
  if (changes_.count() != 0) {
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

}  // namespace dwell::detail
