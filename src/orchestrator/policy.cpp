#include "orchestrator/policy.hpp"

#include <algorithm>
#include <utility>

namespace dwell::orchestrator {

namespace {

bool fits(std::uint64_t used, std::uint64_t more, std::uint64_t limit) { return limit == 0 || (used <= limit && more <= limit - used); }

}  // namespace

Policy::Type Policy::add(const JobOptions& options) {
  types_.emplace_back().options = options;
  return types_.size() - 1;
}

std::optional<Policy::Excess> Policy::never(Type type, Need need) const {
  const JobLimits& own = types_[type].options.limits;
  if (!fits(0, need.workers, own.workers)) return Excess{"workers", true, need.workers, own.workers};
  if (!fits(0, need.memory, own.memory)) return Excess{"memory", true, need.memory, own.memory};
  if (!fits(0, need.workers, limits_.workers)) return Excess{"workers", false, need.workers, limits_.workers};
  if (!fits(0, need.memory, limits_.memory)) return Excess{"memory", false, need.memory, limits_.memory};
  return std::nullopt;
}

std::optional<Policy::Excess> Policy::full(Type type) const {
  const State& state = types_[type];
  const std::uint64_t limit = state.options.limits.waiting;
  if (fits(state.waiting.size(), 1, limit)) return std::nullopt;
  return Excess{"waiting", true, state.waiting.size() + 1, limit};
}

std::uint64_t Policy::enqueue(Type type, Need need) {
  State& state = types_[type];
  if (state.waiting.empty() && state.in_use.jobs == 0) state.had = std::max(state.had, floor_);
  state.waiting.emplace_hint(state.waiting.end(), last_ + 1, Waiting{need, 0});
  return ++last_;
}

bool Policy::remove(Type type, std::uint64_t job) noexcept { return types_[type].waiting.erase(job) != 0; }

bool Policy::has_own_room(const State& type) const {
  const JobLimits& own = type.options.limits;
  const Need& need = type.waiting.begin()->second.need;
  return fits(type.in_use.jobs, 1, own.at_once) && fits(type.in_use.need.workers, need.workers, own.workers) &&
         fits(type.in_use.need.memory, need.memory, own.memory);
}

bool Policy::has_common_room(const State& type) const {
  // A limit that has become smaller meanwhile keeps no job from running alone.
  if (in_use_.jobs == 0) return true;
  const Need& need = type.waiting.begin()->second.need;
  return !type.stalled && fits(in_use_.need.workers, need.workers, limits_.workers) &&
         fits(in_use_.need.memory, need.memory, limits_.memory);
}

// The dominant share, for the weight.
double Policy::share(const State& type) const {
  const auto of = [](std::uint64_t used, std::uint64_t limit) {
    return limit == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(limit);
  };
  return std::max(of(type.in_use.need.workers, limits_.workers), of(type.in_use.need.memory, limits_.memory)) /
         static_cast<double>(type.options.weight);
}

double Policy::had(const State& type, Time now) const { return type.had + share(type) * static_cast<double>((now - type.since).count()); }

// To be called before the share of a type changes.
void Policy::settle(State& type, Time now) {
  type.had = had(type, now);
  type.since = now;
}

bool Policy::is_before(const State& one, const State& other, Time now) const {
  if (one.options.priority != other.options.priority) return one.options.priority > other.options.priority;
  const double share_of_one = share(one);
  const double share_of_other = share(other);
  if (share_of_one != share_of_other) return share_of_one < share_of_other;
  const double had_of_one = had(one, now);
  const double had_of_other = had(other, now);
  if (had_of_one != had_of_other) return had_of_one < had_of_other;
  return one.waiting.begin()->first < other.waiting.begin()->first;
}

void Policy::take(State& type, Need need) {
  for (Use* const use : {&type.in_use, &in_use_}) {
    ++use->jobs;
    use->need.workers += need.workers;
    use->need.memory += need.memory;
  }
}

void Policy::give(State& type, Need need) {
  for (Use* const use : {&type.in_use, &in_use_}) {
    --use->jobs;
    use->need.workers -= need.workers;
    use->need.memory -= need.memory;
  }
}

std::optional<Policy::Admitted> Policy::admit(Time now) noexcept {
  State* first = nullptr;
  State* oldest = nullptr;  // of those that were passed over too often
  for (State& type : types_) {
    if (type.waiting.empty() || !has_own_room(type)) continue;
    const auto& [job, head] = *type.waiting.begin();
    if (head.passed_over >= kAge && (oldest == nullptr || job < oldest->waiting.begin()->first)) oldest = &type;
    if (has_common_room(type) && (first == nullptr || is_before(type, *first, now))) first = &type;
  }
  if (oldest != nullptr) first = has_common_room(*oldest) ? oldest : nullptr;
  if (first == nullptr) return std::nullopt;

  for (State& type : types_) {
    if (&type == first || type.waiting.empty() || !has_own_room(type)) continue;
    // Behind others of its priority it stands by right: it has its share. Were that counted, long jobs would drive out short ones.
    if (type.options.priority < first->options.priority || is_before(type, *first, now)) ++type.waiting.begin()->second.passed_over;
  }
  Queue::node_type head = first->waiting.extract(first->waiting.begin());
  Admitted admitted{static_cast<Type>(first - types_.data()), head.key(), head.mapped().need, std::move(head)};
  settle(*first, now);
  floor_ = std::max(floor_, first->had);
  take(*first, admitted.need);
  return admitted;
}

void Policy::put_back(Admitted job, Time now) noexcept {
  State& type = types_[job.type];
  settle(type, now);
  give(type, job.need);
  type.waiting.insert(std::move(job.place));
  type.stalled = true;
}

void Policy::end(Type type, Need need, Time now) noexcept {
  settle(types_[type], now);
  give(types_[type], need);
  for (State& each : types_) each.stalled = false;
}

}  // namespace dwell::orchestrator
