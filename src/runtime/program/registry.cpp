#include "runtime/program/registry.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "base/callback.hpp"
#include "jit/source/fingerprint.hpp"
#include "jit/source/source.hpp"
#include "runtime/caught.hpp"
#include "runtime/generation/shell.hpp"

namespace dwell::runtime {

namespace {

// The time for which a compiled job waits to share a hand-over with jobs being compiled: about ten hand-overs, short against a compilation.
constexpr std::chrono::milliseconds kGather{10};

// Symbols name their content: equal sources give equal symbols, so that caches and loaded code can be shared.
void name_symbols(jit::Unit& unit) {
  static std::atomic<unsigned> unknown{0};
  const std::string stem =
      "dwell_" + unit.name + "_" +
      (unit.fingerprint.empty() ? std::to_string(getpid()) + "_" + std::to_string(unknown++) : unit.fingerprint.substr(0, 32));
  for (std::size_t i = 0; i < unit.exports.size(); ++i) unit.exports[i].symbol = i == 0 ? stem : stem + "_" + std::to_string(i);
}

jit::Unit unit_of(const std::string& name, const Source& source, const CompileOptions& options) {
  jit::Unit unit;
  unit.name = name;
  unit.text = source.text;
  unit.file = source.file.empty() ? name + ".op" : source.file;
  unit.line = source.line;
  unit.options = options;
  return unit;
}

bool same_request(const jit::Unit& a, const jit::Unit& b) {
  return a.name == b.name && a.text == b.text && a.file == b.file && a.line == b.line && a.options == b.options &&
         std::ranges::equal(a.exports, b.exports, {}, &jit::Export::expression, &jit::Export::expression);
}

}  // namespace

// One caller's part in a job. Registry::mutex_ guards all but `report`; `stop` is made before other threads know the request.
struct Registry::Request {
  Report report;
  std::weak_ptr<Job> job;  // none before it has entered
  bool stopped = false;
  std::optional<std::stop_callback<std::function<void()>>> stop;
};

// A source that is to become a version. Registry::mutex_ guards `stage`, `failure` and `requests`. The version belongs to the compiling
// thread in stage compiling; it and `failure` belong to the handing thread in stage handed_over.
struct Registry::Job {
  enum class Stage { waiting, compiling, compiled, ready, handed_over, settled };

  DefinitionPointer definition;
  bool defines = false;  // it creates the definition
  bool urgent = false;   // a caller waits for it
  CompileOptions options;
  ImageTable::Change change;
  std::uint64_t number = 0;   // in the order of entering
  std::uint64_t visited = 0;  // the last mark of awaits_use
  bool tried = false;         // after a failed batch, alone or with the definitions it uses; owned by the handing thread
  Stage stage = Stage::waiting;
  std::optional<Error> failure;
  std::vector<RequestPointer> requests;
};

Registry::Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue,
                   detail::Shell* shell, Settings settings)
    : compiler_(std::move(compiler)),
      shell_(shell),
      options_(std::move(settings.compile)),
      tier_(settings.tier),
      table_(*compiler_, backend, keeper, queue, settings.tier.value_or(Tier::relocatable), settings.parts, settings.limits,
             settings.observers, std::move(settings.needs_heap)),
      events_(settings.observers.events),
      warn_(std::move(settings.warn)),
      keeper_(keeper),
      pool_(settings.threads),
      promoter_(table_, pool_, queue, warn_) {
  // Delay before compiling ahead the loop that the first use of a part needs (need). A program that ends before compiles none.
  constexpr std::chrono::milliseconds kStarted{300};
  if (table_.parts() == device::part::all || settings.tier == Tier::lto) return;
  try {
    pool_.run_at(CompilePool::Clock::now() + kStarted, [this] {
      try {
        compiler_->prepare(device::part::all);
      } catch (...) {
        // need() compiles it again, and throws the error.
      }
    });
  } catch (...) {
    // Without a thread or memory, the first user compiles it.
  }
}

Registry::~Registry() { close(); }

void Registry::bring(std::uint32_t parts) {
  constexpr std::chrono::seconds kLong{1};
  std::shared_ptr<std::atomic<bool>> waits;
  // Without a thread or memory, does not warn.
  static_cast<void>(failure_of(errc::out_of_memory, [&] {
    if (!warn_) return;
    waits = std::make_shared<std::atomic<bool>>(true);
    pool_.run_at(CompilePool::Clock::now() + kLong, [this, waits] {
      if (*waits) warn_of_long_wait();
    });
  }));
  struct End {
    const std::shared_ptr<std::atomic<bool>>& waits;
    ~End() {
      if (waits != nullptr) *waits = false;
    }
  } const end{waits};
  table_.require(parts);
}

void Registry::warn_of_long_wait() {
  static_cast<void>(failure_of(errc::invalid_argument, [&] {
    std::string running;
    for (const InFlightTasks::Holder& holder : keeper_.in_flight().holders(keeper_.workers(), false))
      running += (running.empty() ? ": " : "; ") + (holder.launch ? "a graph" : table_.name_of(holder.opcode)) + ", ticket " +
                 std::to_string(holder.position);
    warn_("dwell: the first use of a part of the loop has waited for 1 s: the new image waits for the running tasks" + running +
          ". If one of them waits for a later task, neither ends: open the runtime with all parts (the option "
          "parts)");
  }));
}

void Registry::check_open() const {
  if (closed_) throw Error(errc::closed, "the runtime of this operator is closed");
}

// ---- Requests ------------------------------------------------------------------------------------------------------------------

Registry::JobPointer Registry::first_job(const std::string& name, const Source& source, const Definition& how) {
  jit::check_operator_name(name);
  auto job = std::make_shared<Job>();
  job->defines = true;
  job->definition = std::make_shared<detail::DefinitionState>();
  detail::DefinitionState& definition = *job->definition;
  definition.name = name;
  job->options = definition.options = how.options ? *how.options : options_;
  definition.request = unit_of(name, source, definition.options);
  for (const std::string& expression : how.instances.empty() ? std::vector{name} : how.instances) {
    for (const detail::OperatorState& other : definition.instances) {
      if (detail::same_expression(other.name, expression))
        throw Error(errc::invalid_argument, "operator '" + name + "': its instance " + expression + " is named twice",
                    {"operator", expression});
    }
    detail::OperatorState& instance = definition.instances.emplace_back();
    instance.name = expression;
    instance.shell = shell_;
    instance.definition = &definition;
    definition.request.exports.push_back({expression, {}});
  }
  auto version = std::make_unique<Version>();
  version->unit = definition.request;
  job->change = {job->definition, std::move(version)};
  return job;
}

Registry::JobPointer Registry::next_job(const DefinitionPointer& definition, const Source& source, const CompileOptions* options) {
  auto job = std::make_shared<Job>();
  job->definition = definition;
  auto version = std::make_unique<Version>();
  {
    // The previous version may still be pending.
    const Lock lock(mutex_);
    const auto order = orders_.find(definition.get());
    job->options = options != nullptr ? *options : order != orders_.end() ? order->second.back()->options : definition->options;
  }
  version->unit = unit_of(definition->name, source, job->options);
  version->unit.exports = definition->request.exports;
  job->change = {definition, std::move(version)};
  return job;
}

void Registry::enter(const JobPointer& job) {
  check_open();
  detail::DefinitionState* const definition = job->definition.get();
  auto& order = orders_[definition];
  try {
    order.push_back(job);
    if (job->defines && !names_.try_emplace(definition->name, job->definition).second)
      throw Error(errc::invalid_argument, "operator '" + definition->name + "' is defined already: call its `redefine` to replace it",
                  {"operator", definition->name});
  } catch (...) {
    std::erase(order, job);
    if (order.empty()) orders_.erase(definition);
    throw;
  }
  job->number = entered_++;
  for (const RequestPointer& request : job->requests) request->job = job;
}

Registry::DefinitionPointer Registry::define(const std::string& name, const Source& source, const Definition& how) {
  const HostSpan span(events_, TraceEvent::Kind::define, name);
  const JobPointer job = first_job(name, source, how);
  finish_here(job);
  return job->definition;
}

void Registry::redefine(const DefinitionPointer& definition, const Source& source, const CompileOptions* options) {
  const HostSpan span(events_, TraceEvent::Kind::define, definition->name);
  finish_here(next_job(definition, source, options));
}

void Registry::rollback(detail::DefinitionState& definition) {
  Lock lock(mutex_);
  check_open();
  ++outside_;
  lock.unlock();
  const std::optional<Error> failure = failure_of(errc::link_failed, [&] { table_.rollback(definition); });
  lock.lock();
  --outside_;
  changed_.notify_all();
  if (failure) throw Error(*failure);
}

Registry::Report Registry::noted(Report report, const std::string& name) const {
  if (events_ == nullptr || (events_->wanted() & HostEvents::kTimeline) == 0) return report;
  return [events = events_, begun = HostEvents::now(), name, report = std::move(report)](const DefinitionPointer& definition,
                                                                                         const Error* failure) {
    events->note(TraceEvent::Kind::define, begun, 0, 1, name, failure != nullptr);
    report(definition, failure);
  };
}

Registry::RequestPointer Registry::make_request(Report report, const std::stop_token& stop) {
  auto request = std::make_shared<Request>();
  request->report = std::move(report);
  if (!stop.stop_possible()) return request;
  // Weak, because the request owns the callback. The rundown admits the callback only while the registry exists. If the stop has been
  // requested already, emplace calls back at once.
  request->stop.emplace(stop, [this, weak = std::weak_ptr(request), visits = stops_] {
    // The capture may be destroyed with the request, before the visit ends.
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const std::shared_ptr<Rundown> keep = visits;
    const Rundown::Visit visit(*keep);
    if (!visit) return;
    if (const RequestPointer held = weak.lock()) call_off(held);
  });
  return request;
}

void Registry::finish_here(const JobPointer& job) {
  // The report owns the promise too: set_value may still run in it when this thread goes on.
  const auto promise = std::make_shared<std::promise<void>>();
  std::future<void> future = promise->get_future();
  job->urgent = true;
  job->requests.push_back(make_request(
      [promise](const DefinitionPointer&, const Error* failure) {
        if (failure == nullptr)
          promise->set_value();
        else
          promise->set_exception(std::make_exception_ptr(*failure));
      },
      {}));
  {
    const Lock lock(mutex_);
    enter(job);
  }
  process(job);
  future.get();
}

void Registry::define_async(const std::string& name, const Source& source, const Definition& how, Report report,
                            const std::stop_token& stop) {
  const JobPointer job = first_job(name, source, how);
  const RequestPointer request = make_request(noted(std::move(report), name), stop);
  job->requests.push_back(request);
  {
    Lock lock(mutex_);
    check_open();
    const auto at = names_.find(name);
    if (at == names_.end() || !same_request(at->second->request, job->definition->request)) {
      enter(job);
      ++in_pool_;
    } else if (const auto order = orders_.find(at->second.get()); order != orders_.end() && order->second.front()->defines) {
      const JobPointer& same = order->second.front();
      same->requests.push_back(request);
      request->job = same;
      const bool stopped = request->stopped;
      lock.unlock();
      if (stopped) call_off(request);
      return;
    } else {
      const DefinitionPointer there = at->second;
      ++outside_;
      lock.unlock();
      request->report(there, nullptr);
      lock.lock();
      --outside_;
      changed_.notify_all();
      return;
    }
  }
  finish_in_pool(job, request);
}

void Registry::redefine_async(const DefinitionPointer& definition, const Source& source, const CompileOptions* options, Report report,
                              const std::stop_token& stop) {
  const JobPointer job = next_job(definition, source, options);
  const RequestPointer request = make_request(noted(std::move(report), definition->name), stop);
  job->requests.push_back(request);
  {
    const Lock lock(mutex_);
    enter(job);
    ++in_pool_;
  }
  finish_in_pool(job, request);
}

void Registry::finish_in_pool(const JobPointer& job, const RequestPointer& request) noexcept {
  const std::optional<Error> no_thread = failure_of(errc::out_of_memory, [&] {
    pool_.run([this, job] {
      process(job);
      Lock lock(mutex_);
      --in_pool_;
      go_on();
    });
  });
  Lock lock(mutex_);
  if (no_thread) {
    --in_pool_;
    if (job->stage == Job::Stage::waiting) {
      settle(job, *no_thread);
      advance();
    }
    go_on();
  }
  const bool stopped = request->stopped;
  lock.unlock();
  if (stopped) call_off(request);
}

CompilePool::Errand Registry::prepare(CompilePool::Job job) {
  return pool_.prepare([this, job = std::make_shared<CompilePool::Job>(std::move(job))]() mutable {
    const Callback callback(shell_ == nullptr ? 0 : shell_->lineage->runtime, "the callback of a definition");
    const auto called = std::exchange(job, nullptr);  // its captures are destroyed here
    const std::optional<Error> thrown = failure_of(errc::invalid_argument, *called);
    if (!thrown || !warn_) return;
    static_cast<void>(failure_of(errc::invalid_argument, [&] { warn_("dwell: a callback threw: " + thrown->message()); }));
  });
}

// ---- Compiling -----------------------------------------------------------------------------------------------------------------

void Registry::process(const JobPointer& job) noexcept {
  {
    const Lock lock(mutex_);
    if (job->stage != Job::Stage::waiting) return;  // cancelled
    job->stage = Job::Stage::compiling;
  }
  std::optional<Error> failure = failure_of(errc::compile_failed, [&] { compile(*job); });
  Lock lock(mutex_);
  if (job->stage != Job::Stage::compiling) return;
  job->failure = std::move(failure);
  job->stage = Job::Stage::compiled;
  advance();
  go_on();
}

void Registry::compile(Job& job) {
  const HostSpan span(events_, TraceEvent::Kind::compile, job.definition->name);
  Version& version = *job.change.fresh;
  version.object = jit::compile_by_fingerprint(*compiler_, version.unit, [this](jit::Unit& unit) {
    name_symbols(unit);
    return compiler_->compile(unit);
  });
  if (tier_ == Tier::lto) version.inlinable = compile_inlinable(*compiler_, version);
  auto& instances = job.definition->instances;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const Signature& signature = version.object.entries[i].signature;
    if (job.defines)
      instances[i].signature = signature;
    else if (signature != instances[i].signature)
      throw Error(errc::signature_mismatch,
                  "operator '" + instances[i].name + "' takes " + instances[i].signature.text() + ", its new source takes " +
                      signature.text() + ": define it under another name",
                  {"operator", instances[i].name});
  }
}

// ---- Handing over --------------------------------------------------------------------------------------------------------------

Registry::Job* Registry::defining(const std::string& name) const noexcept {
  const auto at = names_.find(name);
  if (at == names_.end()) return nullptr;
  const auto order = orders_.find(at->second.get());
  return order != orders_.end() && order->second.front()->defines ? order->second.front().get() : nullptr;
}

bool Registry::awaits_use(Job& job, std::uint64_t visit) const noexcept {
  job.visited = visit;
  for (const jit::Use& use : job.change.fresh->object.uses) {
    Job* const other = defining(use.name);
    if (other == nullptr || other->visited == visit || other->failure || other->stage >= Job::Stage::handed_over) continue;
    if (other->stage < Job::Stage::compiled || awaits_use(*other, visit)) return true;
  }
  return false;
}

void Registry::advance() noexcept {
  for (auto order = orders_.begin(); order != orders_.end();) advance((order++)->first);  // may be erased
}

void Registry::advance(detail::DefinitionState* definition) noexcept {
  for (;;) {
    const auto order = orders_.find(definition);
    if (order == orders_.end()) return;
    const auto next = std::ranges::find_if(order->second, [](const JobPointer& job) { return job->stage < Job::Stage::ready; });
    if (next == order->second.end() || (*next)->stage != Job::Stage::compiled) return;
    const JobPointer job = *next;  // NOLINT(performance-unnecessary-copy-initialization): settle takes it out of the order
    if (job->failure) {
      settle(job, job->failure);
      continue;
    }
    if (awaits_use(*job, ++visits_)) return;
    job->stage = Job::Stage::ready;
    if (ready_++ == 0) wait_until_ = CompilePool::Clock::now() + kGather;
    if (job->urgent) ++ready_urgent_;
  }
}

bool Registry::is_time() const { return in_pool_ == 0 || ready_urgent_ != 0 || CompilePool::Clock::now() >= wait_until_; }

bool Registry::set_alarm() noexcept {
  if (alarm_set_) return true;
  alarm_set_ = !failure_of(errc::out_of_memory, [this, at = wait_until_] {
    pool_.run_at(at, [this] {
      Lock lock(mutex_);
      alarm_set_ = false;
      go_on();
    });
  });
  return alarm_set_;
}

void Registry::take_ready(std::vector<JobPointer>& batch) noexcept {
  for (const auto& [definition, order] : orders_)
    for (const JobPointer& job : order)
      if (job->stage == Job::Stage::ready) batch.push_back(job);
  std::ranges::sort(batch, {}, &Job::number);
}

void Registry::go_on() noexcept {
  for (;;) {
    report_settled();
    if (handing_over_ || ready_ == 0) return;
    if (!is_time() && set_alarm()) return;
    std::vector<JobPointer> batch;
    if (const std::optional<Error> failure = failure_of(errc::out_of_memory, [&batch, count = ready_] { batch.reserve(count); })) {
      settle_all([](const Job& job) { return job.stage == Job::Stage::ready; }, [&](const Job&) { return *failure; });
      continue;
    }
    take_ready(batch);
    handing_over_ = true;
    ready_ = ready_urgent_ = 0;
    for (const JobPointer& job : batch) job->stage = Job::Stage::handed_over;
    {
      const Unlocked unlocked(mutex_);
      hand_over(batch);
    }
    for (const JobPointer& job : batch) settle(job, job->failure);
    handing_over_ = false;
    changed_.notify_all();
  }
}

std::vector<Registry::JobPointer> Registry::with_used(const JobPointer& job, std::span<const JobPointer> batch) {
  std::vector<JobPointer> together = {job};
  for (std::size_t i = 0; i < together.size(); ++i) {
    const JobPointer user = together[i];
    for (const jit::Use& use : user->change.fresh->object.uses) {
      for (const JobPointer& other : batch) {
        const bool is_used = !other->tried && other->defines && other->definition->name == use.name;
        if (is_used && std::ranges::find(together, other) == together.end()) together.push_back(other);
      }
    }
  }
  return together;
}

void Registry::hand_over(std::span<const JobPointer> batch) noexcept {
  HostSpan span(events_, TraceEvent::Kind::hand_over);
  const auto apply = [this](std::span<const JobPointer> jobs) {
    std::vector<ImageTable::Change> changes;
    std::optional<Error> failure = failure_of(errc::link_failed, [&] {
      changes.reserve(jobs.size());
      for (const JobPointer& job : jobs) changes.push_back(std::move(job->change));
      table_.apply(changes);
    });
    if (failure)
      for (std::size_t i = 0; i < changes.size(); ++i) jobs[i]->change = std::move(changes[i]);
    return failure;
  };
  const std::optional<Error> failure = apply(batch);
  span.failed = failure.has_value();
  if (!tier_) promoter_.changed();
  if (!failure) return;
  if (batch.size() == 1) {
    batch.front()->failure = failure;
    return;
  }
  // One job's failure must not fail the others: try each alone, together with the definitions it uses.
  for (const JobPointer& job : batch) {
    if (job->tried) continue;
    std::vector<JobPointer> together;
    job->failure = failure_of(errc::out_of_memory, [&] { together = with_used(job, batch); });
    if (!job->failure) job->failure = apply(together);
    job->tried = true;
    if (job->failure) continue;
    for (const JobPointer& other : together) other->tried = true;
  }
}

// ---- Settling ------------------------------------------------------------------------------------------------------------------

void Registry::settle(const JobPointer& job, std::optional<Error> failure) noexcept {
  if (job->stage == Job::Stage::ready) {
    --ready_;
    if (job->urgent) --ready_urgent_;
  }
  job->stage = Job::Stage::settled;
  job->failure = std::move(failure);
  const auto order = orders_.find(job->definition.get());
  settled_.splice(settled_.end(), order->second, std::ranges::find(order->second, job));
  if (order->second.empty()) orders_.erase(order);
  if (!job->failure)
    job->definition->options = std::move(job->options);
  else if (job->defines)
    names_.erase(job->definition->name);
}

template <class Which, class Why>
void Registry::settle_all(Which which, Why why) noexcept {
  for (auto order = orders_.begin(); order != orders_.end();) {
    auto& jobs = (order++)->second;  // erased with its last job
    auto at = jobs.begin();
    for (std::size_t left = jobs.size(); left != 0; --left) {
      const JobPointer job = *at++;
      if (which(*job)) settle(job, why(*job));
    }
  }
}

void Registry::report_settled() noexcept {
  if (reporting_) return;
  reporting_ = true;
  while (!settled_.empty()) {
    std::list<JobPointer> jobs;
    jobs.swap(settled_);
    const Unlocked unlocked(mutex_);
    for (const JobPointer& job : jobs)
      for (const RequestPointer& request : job->requests) request->report(job->definition, job->failure ? &*job->failure : nullptr);
    jobs.clear();
  }
  reporting_ = false;
  changed_.notify_all();
}

namespace {

Error called_off(const detail::DefinitionState& definition, const char* why) noexcept {
  return error_or_no_memory([&] {
    return Error(errc::cancelled, "the definition of operator '" + definition.name + "' was called off" + why,
                 {"operator", definition.name});
  });
}

}  // namespace

void Registry::call_off(const RequestPointer& request) noexcept {
  Lock lock(mutex_);
  request->stopped = true;
  const JobPointer job = request->job.lock();
  if (job == nullptr || job->stage >= Job::Stage::handed_over) return;
  const auto at = std::ranges::find(job->requests, request);
  if (at == job->requests.end()) return;
  const Error failure = called_off(*job->definition, "");
  if (job->requests.size() == 1) {
    settle(job, failure);
    advance();
    go_on();
    return;
  }
  // The job has other requests.
  job->requests.erase(at);
  ++outside_;
  lock.unlock();
  request->report(job->definition, &failure);
  lock.lock();
  --outside_;
  changed_.notify_all();
}

std::shared_ptr<detail::OperatorState> Registry::share(const detail::OperatorState& op) {
  const Lock lock(mutex_);
  const DefinitionPointer& definition = names_.at(op.definition->name);
  const auto at = std::ranges::find(definition->instances, &op, [](const detail::OperatorState& one) { return &one; });
  return {definition, &*at};
}

void Registry::close() noexcept {
  promoter_.stop();
  Lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  settle_all([](const Job& job) { return job.stage < Job::Stage::handed_over; },
             [](const Job& job) { return called_off(*job.definition, ": the runtime is closed"); });
  report_settled();
  while (handing_over_ || reporting_ || outside_ != 0) changed_.wait(lock);
  lock.unlock();
  stops_->close();
  pool_.stop();
}

}  // namespace dwell::runtime
