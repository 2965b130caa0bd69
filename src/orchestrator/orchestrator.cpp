#include <dwell/orchestrator.hpp>

#include <chrono>

#include "orchestrator/job_record.hpp"
#include "orchestrator/state.hpp"

namespace dwell {

std::string_view text_of(JobState state) noexcept {
  switch (state) {
    case JobState::waiting: return "waiting";
    case JobState::admitted: return "admitted";
    case JobState::done: return "done";
    case JobState::failed: return "failed";
    case JobState::cancelled: return "cancelled";
  }
  return "?";
}

namespace {

template <class Record>
Record& require(const std::shared_ptr<Record>& record, const char* what) {
  if (record == nullptr) throw Error(errc::invalid_argument, what);
  return *record;
}

constexpr const char* kNoType = "the job type is empty: make one with Orchestrator::define";
constexpr const char* kNoJob = "the job is empty: make one with Orchestrator::submit";

bool is_end(JobState state) { return state >= JobState::done; }

}  // namespace

const std::string& JobType::name() const { return require(record_, kNoType).name; }
std::size_t JobType::bytes() const { return require(record_, kNoType).bytes; }

JobState Job::state() const {
  const detail::JobRecord& job = require(record_, kNoJob);
  const Lock lock(job.mutex);
  return job.state;
}

std::optional<Error> Job::error() const {
  const detail::JobRecord& job = require(record_, kNoJob);
  const Lock lock(job.mutex);
  return job.error;
}

void Job::wait() const {
  const detail::JobRecord& job = require(record_, kNoJob);
  Lock lock(job.mutex);
  while (!is_end(job.state)) job.ended.wait(lock);
  if (job.error) throw Error(*job.error);
}

bool Job::wait_for(std::chrono::nanoseconds timeout) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  // The longest times lie beyond the end of the clock.
  if (timeout >= Clock::time_point::max() - start) {
    wait();
    return true;
  }
  const detail::JobRecord& job = require(record_, kNoJob);
  Lock lock(job.mutex);
  while (!is_end(job.state)) {
    if (job.ended.wait_until(lock, start + timeout) == std::cv_status::timeout && !is_end(job.state)) return false;
  }
  if (job.error) throw Error(*job.error);
  return true;
}

bool Job::cancel() const {
  const std::shared_ptr<detail::OrchestratorState> owner = require(record_, kNoJob).owner.lock();
  return owner != nullptr && owner->cancel(record_);
}

void Job::then(std::function<void(const Job&)> f) const {
  detail::JobRecord& job = require(record_, kNoJob);
  {
    const Lock lock(job.mutex);
    if (!is_end(job.state)) {
      job.callbacks.push_back(std::move(f));
      return;
    }
  }
  f(*this);
}

Orchestrator::Orchestrator(Runtime& runtime, const OrchestratorOptions& options)
    : state_(std::make_shared<detail::OrchestratorState>(runtime, options)) {}

Orchestrator::~Orchestrator() {
  if (state_->called_back())
    state_->abandon();
  else
    close();
}

JobType Orchestrator::define(std::string_view name, Graph graph, const JobOptions& options) {
  return JobType(state_->define(name, std::move(graph), options));
}

Job Orchestrator::submit(const JobType& type, JobArguments arguments) {
  return Job(state_->submit(type.record_, std::move(arguments.values_), true));
}

std::optional<Job> Orchestrator::try_submit(const JobType& type, JobArguments arguments) {
  std::shared_ptr<detail::JobRecord> job = state_->submit(type.record_, std::move(arguments.values_), false);
  if (job == nullptr) return std::nullopt;
  return Job(std::move(job));
}

void Orchestrator::trim() { state_->trim(); }
void Orchestrator::close(Close how) { state_->close(how); }
OrchestratorStatistics Orchestrator::statistics() const { return state_->statistics(); }

}  // namespace dwell
