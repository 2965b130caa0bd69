#include "graph/launching.hpp"

#include <algorithm>

#include "graph/exec.hpp"
#include "runtime/core.hpp"

namespace dwell::detail {

std::vector<std::shared_ptr<ExecState>> with_launched(std::span<const std::shared_ptr<ExecState>> execs) {
  std::vector<std::shared_ptr<ExecState>> all;
  for (const auto& exec : execs) {
    all.push_back(exec);
    all.insert(all.end(), exec->execs.begin(), exec->execs.end());
  }
  std::ranges::sort(all, {}, [](const auto& exec) { return exec->number; });
  all.erase(std::unique(all.begin(), all.end()), all.end());  // clang 14 cannot read std::ranges::unique
  return all;
}

// The analysis does not support locks in a list.
DWELL_THREAD_SAFETY(no_thread_safety_analysis)
Launching::Launching(runtime::Core& core, std::span<const std::shared_ptr<ExecState>> execs) : core_(core), execs_(with_launched(execs)) {
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

}  // namespace dwell::detail
