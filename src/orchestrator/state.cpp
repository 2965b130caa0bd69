#include "orchestrator/state.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include <dwell/error.hpp>
#include <dwell/task.hpp>

namespace dwell::detail {

namespace {

using orchestrator::Policy;

Policy::Time now() { return std::chrono::duration_cast<Policy::Time>(std::chrono::steady_clock::now().time_since_epoch()); }

// The limit of which `excess` speaks, as the program knows it.
std::string name_of(const Policy::Excess& excess) {
  return std::string(excess.of_type ? "JobLimits::" : "OrchestratorOptions::") + excess.what;
}

Error refusal(const std::string& type, const Policy::Excess& excess, bool for_ever) {
  const std::string limit = name_of(excess);
  const std::string what = excess.what;
  const std::string text = for_ever ? "a job of type '" + type + "' needs " + std::to_string(excess.value) +
                                          (what == "memory" ? " bytes of memory" : " " + what) + ", " + limit + " is " +
                                          std::to_string(excess.limit) + ": raise the limit, or let the job need less (JobNeed)"
                                    : std::to_string(excess.limit) + " jobs of type '" + type + "' wait, as many as " + limit +
                                          " lets: submit it again when some have ended, or raise the limit";
  return {errc::resource_limit, text, {"job", limit, excess.value, excess.limit}};
}

// Whether each of `before` is among `now`, in the same order.
bool covers(const std::vector<JobValues::Place>& now, const std::vector<JobValues::Place>& before) {
  auto at = now.begin();
  return std::ranges::all_of(before, [&](const JobValues::Place& place) {
    at = std::find(at, now.end(), place);
    return at != now.end();
  });
}

Error no_memory() { return {errc::out_of_memory, "the host has no memory for a job"}; }

// All are called; the first exception is the result.
std::exception_ptr call_all(std::uint64_t runtime, const Job& job, std::vector<JobRecord::Callback> callbacks) noexcept {
  std::exception_ptr first;
  if (callbacks.empty()) return first;
  const Callback call(runtime, "a callback of Job::then");
  for (const JobRecord::Callback& callback : callbacks) {
    try {
      callback(job);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  callbacks.clear();  // what they hold goes as they are called
  return first;
}

}  // namespace

OrchestratorState::OrchestratorState(Runtime& on, const OrchestratorOptions& how)
    : runtime_(on), number_(on.info().runtime), options_(how), no_memory_(no_memory()), policy_({}) {
  const Lock lock(mutex_);
  update_limits();
}

// The number of workers is that of the image, which changes with definitions.
void OrchestratorState::update_limits() {
  const std::uint64_t workers = options_.workers != 0 ? options_.workers : std::max(runtime_.info().workers, 1U);
  policy_.limit({workers, options_.memory});
}

// The exception that is being handled.
Error OrchestratorState::failure_now() const noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return no_memory_;
  } catch (const std::exception& problem) {
    try {
      return {errc::invalid_argument, problem.what()};
    } catch (...) {
      return no_memory_;
    }
  } catch (...) {
    return no_memory_;
  }
}

// ---- Types ---------------------------------------------------------------------------------------------------------------------

std::shared_ptr<JobTypeRecord> OrchestratorState::define(std::string_view name, Graph graph, const JobOptions& options) {
  const std::string text(name);
  const auto refuse = [&](const std::string& why, const char* which, std::uint64_t value, std::uint64_t limit) {
    throw Error(errc::invalid_argument, "Orchestrator::define: type '" + text + "' " + why, {"job type", which, value, limit});
  };
  if (name.empty()) refuse("has no name", "", 0, 0);
  if (options.priority > 7)
    refuse("has priority " + std::to_string(options.priority) + ": priorities are 0 to 7", "priority", options.priority, 7);
  if (options.weight == 0) refuse("has weight 0: weights are 1 and more", "weight", 0, 1);
  {
    const Lock lock(mutex_);
    if (closing_) throw Error(errc::closed, "the orchestrator is closed");
  }
  auto record = std::make_shared<JobTypeRecord>(JobTypeRecord{text, std::move(graph), options, 0, 0, this});
  KeptExec exec{runtime_.instantiate(record->graph), {}, 0};
  record->bytes = exec.exec.bytes();

  const Lock lock(mutex_);
  if (std::ranges::any_of(kinds_, [&](const Kind& kind) { return kind.record->name == text; })) refuse("is defined already", "name", 0, 0);
  update_limits();
  Policy alone(policy_.limits());
  if (const auto excess = alone.never(alone.add(options), {0, record->bytes})) throw refusal(text, *excess, true);
  Kind& kind = kinds_.emplace_back();
  record->number = policy_.add(options);
  kind.record = record;
  kind.counts.type = text;
  kind.execs = 1;
  kind.idle.push_back(std::move(exec));
  idle_bytes_ += record->bytes;
  return record;
}

std::vector<KeptExec> OrchestratorState::take_idle() {
  std::vector<KeptExec> all;
  for (Kind& kind : kinds_) {
    kind.execs -= kind.idle.size();
    std::ranges::move(kind.idle, std::back_inserter(all));
    kind.idle.clear();
  }
  idle_bytes_ = 0;
  return all;
}

void OrchestratorState::trim() {
  std::vector<KeptExec> dropped;  // without the lock
  const Lock lock(mutex_);
  if (closing_) throw Error(errc::closed, "the orchestrator is closed");
  dropped = take_idle();
}

KeptExec OrchestratorState::take_idle(Kind& kind) {
  KeptExec exec = std::move(kind.idle.back());
  kind.idle.pop_back();
  idle_bytes_ -= kind.record->bytes;
  return exec;
}

void OrchestratorState::make_room(Kind& kind, std::vector<KeptExec>& dropped) {
  const auto bytes_of = [](const Kind& each) { return each.idle.size() * each.record->bytes; };
  const std::uint64_t own = kind.record->options.limits.memory;
  const std::uint64_t used = policy_.in_use(kind.record->number).need.memory;
  while (own != 0 && !kind.idle.empty() && used + bytes_of(kind) > own) {
    dropped.push_back(take_idle(kind));
    --kind.execs;
  }
  while (options_.memory != 0 && idle_bytes_ != 0 && policy_.in_use().need.memory + idle_bytes_ > options_.memory) {
    Kind& most = *std::ranges::max_element(kinds_, {}, bytes_of);
    dropped.push_back(take_idle(most));
    --most.execs;
  }
}

// ---- Admission -----------------------------------------------------------------------------------------------------------------

std::shared_ptr<JobRecord> OrchestratorState::submit(const std::shared_ptr<JobTypeRecord>& type, JobValues values, bool or_throw) {
  if (type == nullptr) throw Error(errc::invalid_argument, "the job type is empty: make one with Orchestrator::define");
  if (type->owner != this) throw Error(errc::invalid_argument, "job type '" + type->name + "' belongs to another orchestrator");
  auto job = std::make_shared<JobRecord>();
  const JobNeed need = values.need.value_or(type->options.need);
  job->owner = weak_from_this();
  job->type = type;
  job->need = {need.workers, need.memory + type->bytes};
  job->values = std::move(values);
  job->submitted = now();
  {
    const Lock lock(mutex_);
    if (closing_) throw Error(errc::closed, "the orchestrator is closed");
    JobStatistics& counts = kinds_[type->number].counts;
    if (const auto excess = policy_.never(type->number, job->need)) {
      ++counts.refused;
      throw refusal(type->name, *excess, true);
    }
    if (const auto excess = policy_.full(type->number)) {
      ++counts.refused;
      if (!or_throw) return nullptr;
      throw refusal(type->name, *excess, false);
    }
    job->number = policy_.enqueue(type->number, job->need);
    try {
      jobs_.emplace(job->number, job);
    } catch (...) {
      policy_.remove(type->number, job->number);
      throw;
    }
    ++counts.submitted;
  }
  admit_all();
  return job;
}

void OrchestratorState::admit_all() {
  const Lock serial(admission_);
  admitting_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (admit_one()) {}
  admitting_.store({}, std::memory_order_relaxed);
}

bool OrchestratorState::admit_one() {
  std::optional<Policy::Admitted> next;
  std::shared_ptr<JobRecord> job;
  std::optional<KeptExec> exec;
  std::vector<KeptExec> dropped;  // without the lock
  {
    const Lock lock(mutex_);
    if (abandoned_) return false;
    next = policy_.admit(now());
    if (!next) return false;
    job = jobs_.at(next->job);
    Kind& kind = kinds_[next->type];
    if (!kind.idle.empty()) {
      exec = take_idle(kind);
    } else {
      ++kind.execs;
    }
    make_room(kind, dropped);
  }
  dropped.clear();

  std::optional<Error> why;
  if (!exec) {
    exec = make_exec(*job->type, why);
    if (!exec) {
      const Lock lock(mutex_);
      Kind& kind = kinds_[next->type];
      --kind.execs;
      if (why->kind() == errc::out_of_memory && policy_.in_use().jobs > 1 && !job->is_cancelled) {
        policy_.put_back(*next, now());
        ++kind.counts.out_of_memory;
        return true;
      }
    }
  }
  std::optional<Ticket> ticket;
  if (exec) {
    try {
      ticket = launch(*job, *exec);
    } catch (...) {
      why = failure_now();
      const Lock lock(mutex_);
      --kinds_[next->type].execs;  // its arguments may be half set
    }
  }
  if (!ticket) {
    leave_unheard(job, finish(job, std::move(why)));
    return true;
  }

  bool is_cancelled = false;
  {
    const Lock lock(mutex_);
    Kind& kind = kinds_[next->type];
    const Policy::Use& use = policy_.in_use(next->type);
    kind.counts.most_admitted = std::max(kind.counts.most_admitted, use.jobs);
    kind.counts.most_workers = std::max(kind.counts.most_workers, use.need.workers);
    kind.counts.most_memory = std::max(kind.counts.most_memory, use.need.memory);
    job->admitted = now();
    kind.waited.add(job->admitted - job->submitted);
    job->exec = std::move(exec);
    job->ticket = ticket;
    is_cancelled = job->is_cancelled;
  }
  {
    const Lock lock(job->mutex);
    job->state = JobState::admitted;
  }
  try {
    if (is_cancelled) runtime_.cancel(*ticket);
  } catch (...) {
    // Its ticket says what became of it.
  }
  try {
    ticket->then([self = shared_from_this(), job](const Ticket&) { self->ended(job); });
  } catch (...) {
    // There is no thread, or no memory, to hear of its end.
    ended(job);
  }
  return true;
}

std::optional<KeptExec> OrchestratorState::make_exec(const JobTypeRecord& type, std::optional<Error>& why) {
  // The memory of what is dropped is free when the device has come past all that was submitted before: at once, or some milliseconds later.
  // A second is for machines whose threads wait for a processor.
  constexpr int kAttempts = 36;
  bool has_dropped = false;
  for (int attempt = 1;; ++attempt) {
    try {
      return KeptExec{runtime_.instantiate(type.graph), {}, 0};
    } catch (...) {
      why = failure_now();
    }
    if (why->kind() != errc::out_of_memory) return std::nullopt;
    bool is_alone = false;
    {
      std::vector<KeptExec> dropped;  // without the lock
      const Lock lock(mutex_);
      dropped = take_idle();
      has_dropped = has_dropped || !dropped.empty();
      is_alone = policy_.in_use().jobs == 1;
    }
    // The end of another job is worth more than waiting.
    if (!has_dropped || attempt == (is_alone ? kAttempts : 2)) return std::nullopt;
    if (attempt > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1 << std::min(attempt - 2, 5)));
  }
}

Ticket OrchestratorState::launch(const JobRecord& job, KeptExec& exec) {
  // An exec notes every buffer that it is given, until the next update.
  constexpr std::uint32_t kJobsAnUpdate = 64;
  if (exec.jobs >= kJobsAnUpdate || !covers(job.values.places, exec.set)) {
    exec.exec.update(job.type->graph);
    exec.set.clear();
    exec.jobs = 0;
  }
  for (const auto& set : job.values.set) set(exec.exec);
  exec.set = job.values.places;
  ++exec.jobs;
  const std::uint32_t level = job.type->options.priority;
  if (level == JobOptions().priority || !has_priorities_) return runtime_.launch(exec.exec);
  try {
    return runtime_.launch(exec.exec, priority(level));
  } catch (const Error& error) {
    if (error.kind() != errc::unsupported) throw;
  }
  const Ticket ticket = runtime_.launch(exec.exec);
  has_priorities_ = false;
  return ticket;
}

// ---- Ends ----------------------------------------------------------------------------------------------------------------------

void OrchestratorState::ended(const std::shared_ptr<JobRecord>& job) {
  const Inside inside(*this);
  std::optional<Error> why;
  try {
    job->ticket->wait();  // it has ended
  } catch (...) {
    why = failure_now();
  }
  std::vector<JobRecord::Callback> callbacks = finish(job, std::move(why));
  if (admitting_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    // The runtime is closed, or the launch was waited for: the admission that called goes on.
    leave_unheard(job, std::move(callbacks));
    return;
  }
  admit_all();
  Calls unheard;
  {
    const Lock lock(mutex_);
    unheard.swap(unheard_);
  }
  std::exception_ptr first = call_all(number_, Job(job), std::move(callbacks));
  for (auto& [other, its] : unheard) {
    const std::exception_ptr problem = call_all(number_, other, std::move(its));
    if (!first) first = problem;
  }
  if (first) std::rethrow_exception(first);  // Options::warn hears of it
}

void OrchestratorState::leave_unheard(const std::shared_ptr<JobRecord>& job, std::vector<JobRecord::Callback> callbacks) {
  if (callbacks.empty()) return;
  const Lock lock(mutex_);
  unheard_.emplace_back(Job(job), std::move(callbacks));
}

std::vector<JobRecord::Callback> OrchestratorState::finish(const std::shared_ptr<JobRecord>& job, std::optional<Error> why) {
  JobState how = JobState::done;
  if (why) how = why->kind() == errc::cancelled ? JobState::cancelled : JobState::failed;
  job->values = {};               // before anybody hears of the end
  std::vector<KeptExec> dropped;  // without the lock
  const Inside inside(*this);
  {
    const Lock lock(mutex_);
    Kind& kind = kinds_[job->type->number];
    const Policy::Time time = now();
    policy_.end(job->type->number, job->need, time);
    if (job->ticket) kind.ran.add(time - job->admitted);
    if (how == JobState::done) ++kind.counts.done;
    if (how == JobState::failed) ++kind.counts.failed;
    if (how == JobState::cancelled) ++kind.counts.cancelled;
    if (job->exec) {
      kind.idle.push_back(std::move(*job->exec));
      job->exec.reset();
      idle_bytes_ += kind.record->bytes;
      make_room(kind, dropped);
    }
    jobs_.erase(job->number);
  }
  return job->end(how, std::move(why));
}

void OrchestratorState::finish_waiting(const std::shared_ptr<JobRecord>& job) {
  job->values = {};
  {
    const Lock lock(mutex_);
    ++kinds_[job->type->number].counts.cancelled;
    jobs_.erase(job->number);
  }
  const Error why(errc::cancelled, "the job of type '" + job->type->name + "' was cancelled before it was admitted",
                  {"job", job->type->name, job->number, 0});
  static_cast<void>(call_all(number_, Job(job), job->end(JobState::cancelled, why)));
}

bool OrchestratorState::cancel(const std::shared_ptr<JobRecord>& job) {
  const Inside inside(*this);
  bool waited = false;
  {
    const Lock lock(mutex_);
    if (!jobs_.contains(job->number)) return false;
    waited = policy_.remove(job->type->number, job->number);
    if (!waited && !job->ticket) {
      job->is_cancelled = true;  // whoever launches it right now will see it
      return true;
    }
  }
  if (!waited) {
    if (abandoned()) throw Error(errc::closed, "the orchestrator is closed");
    return runtime_.cancel(*job->ticket);
  }
  finish_waiting(job);
  admit_all();  // of those that it held back
  return true;
}

bool OrchestratorState::abandoned() const {
  const Lock lock(mutex_);
  return abandoned_;
}

void OrchestratorState::abandon() noexcept {
  {
    const Lock lock(mutex_);
    closing_ = abandoned_ = true;
  }
  // Whoever admits a job uses the runtime meanwhile.
  if (admitting_.load(std::memory_order_relaxed) != std::this_thread::get_id()) const Lock serial(admission_);
  for (;;) {
    std::shared_ptr<JobRecord> waits;
    {
      const Lock lock(mutex_);
      for (const auto& [number, job] : jobs_)
        if (policy_.remove(job->type->number, number)) {
          waits = job;
          break;
        }
    }
    if (waits == nullptr) return;
    finish_waiting(waits);
  }
}

void OrchestratorState::close(Close how) {
  if (const char* const what = Callback::inside(number_); what != nullptr)
    throw Error(errc::invalid_argument,
                std::string("Orchestrator::close was called by ") + what + ", for which it would wait: call it outside");
  std::vector<std::shared_ptr<JobRecord>> waited;
  std::vector<std::shared_ptr<JobRecord>> admitted;
  {
    const Lock lock(mutex_);
    closing_ = true;
    if (how == Close::now) {
      for (const auto& [number, job] : jobs_) (policy_.remove(job->type->number, number) ? waited : admitted).push_back(job);
    }
  }
  for (const auto& job : waited) finish_waiting(job);
  for (const auto& job : admitted) {
    try {
      cancel(job);
    } catch (const Error&) {
      // The runtime is closed or has failed, and so the job ends.
    }
  }
  const std::vector<KeptExec> dropped = [&] {
    Lock lock(mutex_);
    while (!jobs_.empty() || inside_ != 0) changed_.wait(lock);
    return take_idle();
  }();
}

// ---- Statistics ----------------------------------------------------------------------------------------------------------------

OrchestratorStatistics OrchestratorState::statistics() const {
  OrchestratorStatistics all;
  const Lock lock(mutex_);
  for (const Kind& kind : kinds_) {
    const Policy::Use& use = policy_.in_use(kind.record->number);
    JobStatistics& counts = all.types.emplace_back(kind.counts);
    counts.waiting = policy_.waiting(kind.record->number);
    counts.admitted = use.jobs;
    counts.workers = use.need.workers;
    counts.memory = use.need.memory;
    counts.execs = kind.execs;
    counts.idle_memory = kind.idle.size() * kind.record->bytes;
    counts.waited = kind.waited.times();
    counts.ran = kind.ran.times();
  }
  all.workers = policy_.in_use().need.workers;
  all.memory = policy_.in_use().need.memory;
  all.worker_limit = policy_.limits().workers;
  all.memory_limit = policy_.limits().memory;
  return all;
}

}  // namespace dwell::detail
