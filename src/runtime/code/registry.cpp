#include "runtime/code/registry.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "jit/source/fingerprint.hpp"
#include "jit/source/source.hpp"

namespace dwell::runtime {

namespace {

// How long what is compiled waits for others that are being compiled, to share a hand-over with them. About ten hand-overs long, and
// short beside a compilation.
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

// A source on its way to being a version. `stage`, `failure` and `reports` are guarded by Registry::mutex_; the version belongs to whoever
// the stage says works on it.
struct Registry::Job {
  enum class Stage { waiting, compiling, compiled, ready, handed_over, settled };

  DefinitionPointer definition;
  bool defines = false;  // it makes the definition
  bool urgent = false;   // somebody waits for it
  CompileOptions options;
  ImageTable::Change change;
  Stage stage = Stage::waiting;
  std::optional<Error> failure;
  std::vector<Report> reports;
  std::optional<std::stop_callback<std::function<void()>>> stop;
};

Registry::Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue,
                   detail::Shell* shell, Settings settings)
    : compiler_(std::move(compiler)),
      shell_(shell),
      options_(std::move(settings.compile)),
      tier_(settings.tier),
      table_(*compiler_, backend, keeper, queue, settings.tier.value_or(Tier::relocatable), settings.limits),
      pool_(settings.threads),
      promoter_(table_, pool_, queue, std::move(settings.warn)) {}

Registry::~Registry() { close(); }

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
        throw Error(errc::invalid_argument, "operator '" + name + "': its instance " + expression + " is named twice");
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
    // Those of the version before may still be on their way.
    const std::lock_guard lock(mutex_);
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
  if (job->defines && !names_.try_emplace(job->definition->name, job->definition).second) {
    throw Error(errc::invalid_argument,
                "operator '" + job->definition->name + "' is defined already: use Operator::redefine to replace it");
  }
  orders_[job->definition.get()].push_back(job);
}

Registry::DefinitionPointer Registry::define(const std::string& name, const Source& source, const Definition& how) {
  const JobPointer job = first_job(name, source, how);
  finish_here(job);
  return job->definition;
}

void Registry::redefine(const DefinitionPointer& definition, const Source& source, const CompileOptions* options) {
  finish_here(next_job(definition, source, options));
}

void Registry::rollback(detail::DefinitionState& definition) {
  {
    const std::lock_guard lock(mutex_);
    check_open();
  }
  table_.rollback(definition);
}

void Registry::finish_here(const JobPointer& job) {
  // Owned by the report too: it may still be in the promise when this thread goes on.
  const auto promise = std::make_shared<std::promise<void>>();
  job->urgent = true;
  job->reports.emplace_back([promise](const DefinitionPointer&, const Error* failure) {
    if (failure == nullptr)
      promise->set_value();
    else
      promise->set_exception(std::make_exception_ptr(*failure));
  });
  {
    const std::lock_guard lock(mutex_);
    enter(job);
  }
  process(job);
  promise->get_future().get();
}

void Registry::define_async(const std::string& name, const Source& source, const Definition& how, Report report,
                            const std::stop_token& stop) {
  const JobPointer job = first_job(name, source, how);
  {
    std::unique_lock lock(mutex_);
    check_open();
    const auto at = names_.find(name);
    if (at != names_.end() && same_request(at->second->request, job->definition->request)) {
      const DefinitionPointer there = at->second;
      if (const auto order = orders_.find(there.get()); order != orders_.end() && order->second.front()->defines) {
        order->second.front()->reports.push_back(std::move(report));
      } else {
        lock.unlock();
        report(there, nullptr);
      }
      return;
    }
    job->reports.push_back(std::move(report));
    enter(job);
    ++in_pool_;
  }
  finish_in_pool(job, stop);
}

void Registry::redefine_async(const DefinitionPointer& definition, const Source& source, const CompileOptions* options, Report report,
                              const std::stop_token& stop) {
  const JobPointer job = next_job(definition, source, options);
  job->reports.push_back(std::move(report));
  {
    const std::lock_guard lock(mutex_);
    enter(job);
    ++in_pool_;
  }
  finish_in_pool(job, stop);
}

void Registry::finish_in_pool(const JobPointer& job, const std::stop_token& stop) {
  pool_.run([this, job] {
    process(job);
    std::unique_lock lock(mutex_);
    --in_pool_;
    hand_over_ready(lock);
  });
  // Weak, because the job owns the callback. When the stop was asked for before, this calls it off here.
  if (stop.stop_possible()) {
    auto& callback = job->stop;
    callback.emplace(stop, [this, weak = std::weak_ptr(job)] {
      if (const JobPointer held = weak.lock()) call_off(held);
    });
  }
}

// ---- Compiling -----------------------------------------------------------------------------------------------------------------

void Registry::process(const JobPointer& job) {
  {
    const std::lock_guard lock(mutex_);
    if (job->stage != Job::Stage::waiting) return;  // called off
    job->stage = Job::Stage::compiling;
  }
  std::optional<Error> failure;
  try {
    compile(*job);
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = Error(errc::compile_failed, "operator " + job->definition->name + ": " + error.what());
  }
  std::unique_lock lock(mutex_);
  if (job->stage != Job::Stage::compiling) return;
  job->failure = std::move(failure);
  job->stage = Job::Stage::compiled;
  advance(lock, job->definition.get());
  hand_over_ready(lock);
}

void Registry::compile(Job& job) {
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
      throw Error(errc::signature_mismatch, "operator '" + instances[i].name + "' takes " + instances[i].signature.text() +
                                                ", its new source takes " + signature.text() + ": define it under another name");
  }
}

// ---- Handing over --------------------------------------------------------------------------------------------------------------

void Registry::advance(std::unique_lock<std::mutex>& lock, detail::DefinitionState* definition) {
  for (;;) {
    const auto order = orders_.find(definition);
    if (order == orders_.end()) return;
    const auto next = std::ranges::find_if(order->second, [](const JobPointer& job) { return job->stage < Job::Stage::ready; });
    if (next == order->second.end() || (*next)->stage != Job::Stage::compiled) return;
    const JobPointer job = *next;
    if (job->failure) {
      settle(lock, job, &*job->failure);
      continue;
    }
    job->stage = Job::Stage::ready;
    if (ready_.empty()) wait_until_ = CompilePool::Clock::now() + kGather;
    ready_.push_back(job);
  }
}

bool Registry::is_time() const {
  return in_pool_ == 0 || CompilePool::Clock::now() >= wait_until_ ||
         std::ranges::any_of(ready_, [](const auto& job) { return job->urgent; });
}

void Registry::hand_over_ready(std::unique_lock<std::mutex>& lock) {
  while (!handing_over_ && !ready_.empty()) {
    if (!is_time()) {
      if (std::exchange(alarm_set_, true)) return;
      pool_.run_at(wait_until_, [this] {
        std::unique_lock later(mutex_);
        alarm_set_ = false;
        hand_over_ready(later);
      });
      return;
    }
    handing_over_ = true;
    std::vector<JobPointer> batch;
    batch.swap(ready_);
    for (const JobPointer& job : batch) job->stage = Job::Stage::handed_over;
    lock.unlock();
    std::vector<std::optional<Error>> failures = hand_over(batch);
    lock.lock();
    for (std::size_t i = 0; i < batch.size(); ++i) settle(lock, batch[i], failures[i] ? &*failures[i] : nullptr);
    handing_over_ = false;
    changed_.notify_all();
  }
}

std::vector<std::optional<Error>> Registry::hand_over(const std::vector<JobPointer>& batch) {
  std::vector<std::optional<Error>> failures(batch.size());
  const auto apply = [&](std::size_t first, std::size_t count) -> std::optional<Error> {
    std::vector<ImageTable::Change> changes;
    for (std::size_t i = first; i < first + count; ++i) changes.push_back(std::move(batch[i]->change));
    std::optional<Error> failure;
    try {
      table_.apply(changes);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = Error(errc::link_failed, error.what());
    }
    if (failure)
      for (std::size_t i = 0; i < count; ++i) batch[first + i]->change = std::move(changes[i]);
    return failure;
  };
  const std::optional<Error> failure = apply(0, batch.size());
  if (!tier_) promoter_.changed();
  if (!failure) return failures;
  if (batch.size() == 1) return {failure};
  // One of them is to blame: each for itself, so that the others are not lost with it.
  for (std::size_t i = 0; i < batch.size(); ++i) failures[i] = apply(i, 1);
  return failures;
}

void Registry::settle(std::unique_lock<std::mutex>& lock, const JobPointer& job, const Error* failure) {
  job->stage = Job::Stage::settled;
  const auto order = orders_.find(job->definition.get());
  std::erase(order->second, job);
  if (order->second.empty()) orders_.erase(order);
  if (failure == nullptr) job->definition->options = job->options;
  if (failure != nullptr && job->defines) names_.erase(job->definition->name);
  std::vector<Report> reports;
  reports.swap(job->reports);
  const std::optional<Error> said = failure != nullptr ? std::optional(*failure) : std::nullopt;
  lock.unlock();
  for (const Report& report : reports) report(job->definition, said ? &*said : nullptr);
  lock.lock();
}

void Registry::call_off(const JobPointer& job) {
  std::unique_lock lock(mutex_);
  if (job->stage >= Job::Stage::handed_over) return;
  std::erase(ready_, job);
  const Error failure(errc::cancelled, "the definition of operator '" + job->definition->name + "' was called off");
  settle(lock, job, &failure);
  advance(lock, job->definition.get());
  hand_over_ready(lock);
}

void Registry::close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  promoter_.stop();
  pool_.stop();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !handing_over_; });
  ready_.clear();
  while (!orders_.empty()) {
    const JobPointer job = orders_.begin()->second.front();
    const Error failure(errc::cancelled,
                        "the definition of operator '" + job->definition->name + "' was called off: the runtime is closed");
    settle(lock, job, &failure);
  }
}

}  // namespace dwell::runtime
