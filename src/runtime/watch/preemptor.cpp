#include "runtime/watch/preemptor.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "device/levels.hpp"
#include "runtime/device/backoff.hpp"
#include "runtime/device/sources.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {

namespace {

namespace flag = device::flag;
using Record = InFlightTasks::Record;

}  // namespace

std::vector<Preemption::Holder> held_all_along(const RingView& ring, const Circumstances& before, const Circumstances& after, bool all) {
  const SubmissionQueue& queue = ring.queue();
  std::map<std::pair<std::optional<std::uint64_t>, std::string>, Preemption::Holder> holders;
  const auto add = [&](const std::optional<RingView::Task>& task, const std::string& name, const Record& record) {
    const std::optional<std::uint64_t> position = task ? std::optional(task->position) : std::nullopt;
    Preemption::Holder& holder = holders[{position, name}];
    holder.position = position;
    holder.name = name;
    holder.graph = task && task->graph != 0;
    if (holder.graph) holder.graph_name = after.graph_name_of(task->graph);
    holder.priority = device::levels::priority_of(task ? task->header.level : 0);
    holder.workers.push_back(record.worker);
    holder.since = std::max<std::chrono::nanoseconds>(holder.since, record.since);
  };
  for (const Record& record : after.records) {
    const auto was = std::ranges::find(before.records, record.worker, &Record::worker);
    if (record.over || was == before.records.end() || was->word != record.word) continue;
    if (record.kind == Record::Kind::task) {
      const std::optional<RingView::Task> task = ring.at(record.position);
      // Skip the requests of other threads: they run nothing.
      if (!task || queue.done(record.position) || (task->header.groups == 0 && task->graph == 0)) continue;
      add(task, task->graph != 0 ? "" : after.name_of(record.opcode), record);
    } else if (record.kind == Record::Kind::node) {
      const auto node = after.node_at(record.offset);
      if (!node) continue;
      const std::vector<RingView::Task> owners = owners_of(node->second, ring, after);
      if (owners.size() == 1) {
        const RingView::Task& task = owners.front();
        add(task, task.graph != 0 ? node->first : after.name_of(task.header.opcode) + ", node " + node->first, record);
      } else if (!owners.empty() && all) {
        add(std::nullopt, "node " + node->first + " of " + title_of(after.graph_name_of(node->second)), record);
      }
    } else if (all) {
      add(std::nullopt, "a task that an operator has made", record);
    }
  }
  std::vector<Preemption::Holder> list;
  list.reserve(holders.size());
  for (auto& [key, holder] : holders) list.push_back(std::move(holder));
  std::ranges::stable_sort(list, std::greater(), &Preemption::Holder::since);
  return list;
}

std::optional<std::uint64_t> Preemptor::request(unsigned priority) {
  const Lock lock(mutex_);
  std::optional<std::uint64_t>& last = last_[priority];
  if (last && !queue_.done(*last)) return last;
  std::uint64_t position = 0;
  if (!queue_.try_submit_request(device::levels::priority_of(priority), &position)) return std::nullopt;
  return last = position;
}

std::optional<std::uint64_t> Preemptor::drain_before(std::uint64_t position) const {
  for (std::uint64_t at = queue_.reaped(); at < position; ++at) {
    if (queue_.done(at)) continue;
    const auto header = ring_.header_at(at);
    if (header && source_of(*header).is_task && (header->flags & flag::drain) != 0 && !queue_.done(at)) return at;
  }
  return std::nullopt;
}

Preemption Preemptor::preempt(unsigned priority, std::chrono::nanoseconds timeout) {
  if (priority >= kPriorities)
    throw Error(errc::invalid_argument, "preempt: priority is " + std::to_string(priority) + ": priorities are 0, the least urgent, to 7",
                {"argument", "priority", priority, kPriorities - 1});
  if (timeout.count() < 0)
    throw Error(errc::invalid_argument, "preempt: the timeout is negative: give a time, or 0", {"argument", "timeout"});
  const auto start = Clock::now();
  // Clamped: the longest times exceed the clock's range.
  const auto deadline = start + std::min<std::chrono::nanoseconds>(timeout, Clock::time_point::max() - start);
  Preemption result;
  if (keeper_.workers() == 0) {  // no operator is defined, so nothing runs
    result.in_time = true;
    return result;
  }
  const Circumstances before = know_();
  std::optional<std::uint64_t> position = request(priority);
  keeper_.submitted();
  for (Backoff backoff(true); !position && Clock::now() < deadline;) {
    if (!backoff.wait()) continue;
    if (keeper_.failed()) throw keeper_.failure();
    queue_.pass_over_idle();
    queue_.reap_done();
    position = request(priority);
    keeper_.submitted();
  }
  result.in_time = position && wait_(*position, deadline);
  result.waited = Clock::now() - start;
  const Circumstances after = know_();
  if (!result.in_time) {
    result.parked = after.parked;
    result.behind_drain = drain_before(position.value_or(queue_.tail()));
  }
  result.holders = held_all_along(ring_, before, after, !result.in_time && !result.parked && !result.behind_drain);
  return result;
}

}  // namespace dwell::runtime

namespace dwell {

std::string to_string(const Preemption& preemption) {
  using std::chrono::duration_cast;
  const auto text_of = [](std::chrono::nanoseconds time) {
    const auto us = duration_cast<std::chrono::microseconds>(time).count();
    return us < 10'000 ? std::to_string(us) + " us" : std::to_string(us / 1000) + " ms";
  };
  std::string text = (preemption.in_time ? "a worker was free after " : "no worker was free within ") + text_of(preemption.waited);
  if (preemption.parked) text += "; the runtime is parked";
  if (preemption.behind_drain)
    text += "; none was asked for: the drain of ticket " + std::to_string(*preemption.behind_drain) + " is not complete";
  text += '\n';
  for (const Preemption::Holder& holder : preemption.holders) {
    text += holder.position
                ? "ticket " + std::to_string(*holder.position) + " of " +
                      (holder.graph ? runtime::title_of(holder.graph_name) + (holder.name.empty() ? "" : ", node ") : "operator ") +
                      holder.name
                : holder.name;
    if (holder.position) text += ", priority " + std::to_string(holder.priority) + ",";
    text += holder.workers.size() == 1 ? " holds worker " : " holds workers ";
    constexpr std::size_t kMost = 6;
    for (std::size_t i = 0; i < std::min(holder.workers.size(), kMost); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(holder.workers[i]);
    if (holder.workers.size() > kMost) text += " and " + std::to_string(holder.workers.size() - kMost) + " more";
    text += " for " + text_of(holder.since) + "\n";
  }
  return text;
}

}  // namespace dwell
