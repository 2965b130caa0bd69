#include "orchestrator/state.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include <dwell/device/status.hpp>
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

// Returns whether each of `before` is among `now`, in the same order.
bool covers(const std::vector<JobValues::Place>& now, const std::vector<JobValues::Place>& before) {
  auto at = now.begin();
  return std::ranges::all_of(before, [&](const JobValues::Place& place) {
    at = std::find(at, now.end(), place);
    return at != now.end();
  });
}

Error no_memory() { return {errc::out_of_memory, "the host has no memory for a job"}; }
Error cancelled() { return {errc::cancelled, "a job was cancelled before it was admitted"}; }

// All are called; the first exception is the result.
std::exception_ptr call_all(std::uint64_t runtime, JobCall& call) noexcept {
  std::exception_ptr first;
  if (call.callbacks.empty()) return first;
  const Callback inside(runtime, "a callback of Job::then");
  for (const JobRecord::Callback& callback : call.callbacks) {
    try {
      callback(call.job);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  call.callbacks.clear();  // what they hold goes as they are called
  return first;
}

}  // namespace

OrchestratorState::OrchestratorState(Runtime& on, const OrchestratorOptions& how)
    : runtime_(on), number_(on.info().runtime), options_(how), no_memory_(no_memory()), cancelled_(cancelled()), policy_({}) {
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
  KeptExecs exec;
  exec.push_back({runtime_.instantiate(record->graph), {}, 0});
  record->bytes = exec.front().exec.bytes();

  const Lock lock(mutex_);
  if (std::ranges::any_of(kinds_, [&](const Kind& kind) { return kind.record->name == text; })) refuse("is defined already", "name", 0, 0);
  update_limits();
  Policy alone(policy_.limits());
  if (const auto excess = alone.never(alone.add(options), {0, record->bytes})) throw refusal(text, *excess, true);
  Kind& kind = kinds_.emplace_back();
  try {
    kind.counts.type = text;
    record->number = policy_.add(options);
  } catch (...) {
    kinds_.pop_back();
    throw;
  }
  kind.record = record;
  kind.execs = 1;
  keep_idle(kind, exec);
  return record;
}

void OrchestratorState::take_all_idle(KeptExecs& into) noexcept {
  for (Kind& kind : kinds_) {
    kind.execs -= kind.idle.size();
    into.splice(into.end(), kind.idle);
  }
  idle_bytes_ = 0;
}

void OrchestratorState::trim() {
  KeptExecs dropped;  // without the lock
  const Lock lock(mutex_);
  if (closing_) throw Error(errc::closed, "the orchestrator is closed");
  take_all_idle(dropped);
}

void OrchestratorState::take_idle(Kind& kind, KeptExecs& into) noexcept {
  into.splice(into.end(), kind.idle, std::prev(kind.idle.end()));
  idle_bytes_ -= kind.record->bytes;
}

void OrchestratorState::keep_idle(Kind& kind, KeptExecs& exec) noexcept {
  idle_bytes_ += exec.size() * kind.record->bytes;
  kind.idle.splice(kind.idle.end(), exec);
}

void OrchestratorState::make_room(Kind& kind, KeptExecs& dropped) noexcept {
  const auto bytes_of = [](const Kind& each) { return each.idle.size() * each.record->bytes; };
  const std::uint64_t own = kind.record->options.limits.memory;
  const std::uint64_t used = policy_.in_use(kind.record->number).need.memory;
  while (own != 0 && !kind.idle.empty() && used + bytes_of(kind) > own) {
    take_idle(kind, dropped);
    --kind.execs;
  }
  while (options_.memory != 0 && idle_bytes_ != 0 && policy_.in_use().need.memory + idle_bytes_ > options_.memory) {
    Kind& most = *std::ranges::max_element(kinds_, {}, bytes_of);
    take_idle(most, dropped);
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

void OrchestratorState::admit_all() noexcept {
  const Lock serial(admission_);
  admitting_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (admit_one()) {}
  admitting_.store({}, std::memory_order_relaxed);
}

bool OrchestratorState::admit_one() noexcept {
  std::optional<Policy::Admitted> next;
  std::shared_ptr<JobRecord> job;
  KeptExecs exec;  // one, or none
  {
    KeptExecs dropped;  // without the lock
    const Lock lock(mutex_);
    if (abandoned_) return false;
    next = policy_.admit(now());
    if (!next) return false;
    job = jobs_.find(next->job)->second;
    Kind& kind = kinds_[next->type];
    if (!kind.idle.empty()) {
      take_idle(kind, exec);
    } else {
      ++kind.execs;
    }
    make_room(kind, dropped);
  }

  std::optional<PreparedThen> heard;
  std::optional<Error> why = equip(job, exec, heard);
  if (why) {
    KeptExecs dropped;  // without the lock
    const Lock lock(mutex_);
    Kind& kind = kinds_[next->type];
    if (exec.empty()) --kind.execs;
    keep_idle(kind, exec);
    make_room(kind, dropped);
    if (why->kind() == errc::out_of_memory && policy_.in_use().jobs > 1 && !job->is_cancelled) {
      policy_.put_back(*std::move(next), now());
      ++kind.counts.out_of_memory;
      return true;
    }
  }
  std::optional<Ticket> ticket;
  if (!why) {
    try {
      ticket = launch(*job, exec.front());
    } catch (...) {
      why = failure_now();
      const Lock lock(mutex_);
      --kinds_[next->type].execs;  // its arguments may be half set
    }
  }
  if (!ticket) {
    JobCalls calls = finish(job, std::move(why));
    leave_unheard(calls);
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
    job->exec.swap(exec);
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
    heard->call_after(*ticket);
  } catch (...) {
    ended(job);  // a captured launch, of which nobody hears
  }
  return true;
}

std::optional<Error> OrchestratorState::equip(const std::shared_ptr<JobRecord>& job, KeptExecs& exec,
                                              std::optional<PreparedThen>& heard) noexcept {
  if (exec.empty())
    if (std::optional<Error> why = make_exec(*job->type, exec)) return why;
  try {
    heard.emplace(runtime_, [self = shared_from_this(), job](const Ticket&) { self->ended(job); });
  } catch (...) {
    return failure_now();
  }
  return std::nullopt;
}

std::optional<Error> OrchestratorState::make_exec(const JobTypeRecord& type, KeptExecs& exec) noexcept {
  // The memory of what is dropped is free when the device has come past all that was submitted before: at once, or some milliseconds later.
  // A second is for machines whose threads wait for a processor.
  constexpr int kAttempts = 36;
  bool has_dropped = false;
  for (int attempt = 1;; ++attempt) {
    std::optional<Error> why = [&]() -> std::optional<Error> {
      try {
        exec.push_back({runtime_.instantiate(type.graph), {}, 0});
        return std::nullopt;
      } catch (...) {
        return failure_now();
      }
    }();
    if (!why || why->kind() != errc::out_of_memory) return why;
    bool is_alone = false;
    {
      KeptExecs dropped;  // without the lock
      const Lock lock(mutex_);
      take_all_idle(dropped);
      has_dropped = has_dropped || !dropped.empty();
      is_alone = policy_.in_use().jobs == 1;
    }
    // The end of another job is worth more than waiting.
    if (!has_dropped || attempt == (is_alone ? kAttempts : 2)) return why;
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
  JobCalls calls = finish(job, outcome_of(*job));
  if (admitting_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    // The runtime is closed, or the launch was waited for: the admission that called goes on.
    leave_unheard(calls);
    return;
  }
  admit_all();
  {
    const Lock lock(mutex_);
    calls.splice(calls.end(), unheard_);
  }
  std::exception_ptr first;
  for (JobCall& each : calls) {
    const std::exception_ptr problem = call_all(number_, each);
    if (!first) first = problem;
  }
  if (first) std::rethrow_exception(first);  // Options::warn hears of it
}

std::optional<Error> OrchestratorState::outcome_of(const JobRecord& job) const noexcept {
  try {
    job.ticket->wait();  // it has ended
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    // There is no memory for the words of a failure. Whether it is one takes none.
  } catch (...) {
    return failure_now();
  }
  try {
    if (job.ticket->status() == status::ok) return std::nullopt;
  } catch (...) {
    return failure_now();
  }
  return no_memory_;
}

void OrchestratorState::leave_unheard(JobCalls& calls) noexcept {
  const Lock lock(mutex_);
  unheard_.splice(unheard_.end(), calls);
}

JobCalls OrchestratorState::end(const std::shared_ptr<JobRecord>& job, JobState how, std::optional<Error> why) noexcept {
  JobCalls calls;
  calls.swap(job->call);
  calls.front() = {Job(job), job->end(how, std::move(why))};
  if (calls.front().callbacks.empty()) calls.clear();
  return calls;
}

JobCalls OrchestratorState::finish(const std::shared_ptr<JobRecord>& job, std::optional<Error> why) noexcept {
  JobState how = JobState::done;
  if (why) how = why->kind() == errc::cancelled ? JobState::cancelled : JobState::failed;
  job->values = {};   // before anybody hears of the end
  KeptExecs dropped;  // without the lock
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
    if (!job->exec.empty()) {
      keep_idle(kind, job->exec);
      make_room(kind, dropped);
    }
    jobs_.erase(job->number);
  }
  return end(job, how, std::move(why));
}

void OrchestratorState::finish_waiting(const std::shared_ptr<JobRecord>& job) noexcept {
  job->values = {};
  {
    const Lock lock(mutex_);
    ++kinds_[job->type->number].counts.cancelled;
    jobs_.erase(job->number);
  }
  std::optional<Error> why(cancelled_);
  try {
    why = Error(errc::cancelled, "the job of type '" + job->type->name + "' was cancelled before it was admitted",
                {"job", job->type->name, job->number, 0});
  } catch (...) {
    // The shorter one.
  }
  JobCalls calls = end(job, JobState::cancelled, std::move(why));
  for (JobCall& call : calls) static_cast<void>(call_all(number_, call));
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
  {
    const Lock lock(mutex_);
    closing_ = true;
    // At once, so that none is admitted when others end.
    if (how == Close::now)
      for (const auto& [number, job] : jobs_) job->is_called_off = policy_.remove(job->type->number, number);
  }
  std::uint64_t last = 0;
  const auto next = [&]() -> std::shared_ptr<JobRecord> {
    const Lock lock(mutex_);
    const auto at = jobs_.upper_bound(last);
    if (at == jobs_.end()) return nullptr;
    last = at->first;
    return at->second;
  };
  while (const std::shared_ptr<JobRecord> job = how == Close::now ? next() : nullptr) {
    if (job->is_called_off) {
      finish_waiting(job);
      continue;
    }
    try {
      cancel(job);
    } catch (const std::exception&) {
      // The runtime is closed or has failed, and so the job ends; or there is no memory for a request, and it runs.
    }
  }
  KeptExecs dropped;  // without the lock
  Lock lock(mutex_);
  while (!jobs_.empty() || inside_ != 0) changed_.wait(lock);
  take_all_idle(dropped);
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
