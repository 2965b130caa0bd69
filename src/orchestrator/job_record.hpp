// What the handles of one job share.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dwell/orchestrator.hpp>

#include "base/mutex.hpp"
#include "orchestrator/policy.hpp"

namespace dwell::detail {

// A type as it was defined. Owned by its handles, its jobs and its orchestrator.
struct JobTypeRecord {
  std::string name;
  Graph graph;
  JobOptions options;
  std::size_t bytes = 0;  // of an exec
  orchestrator::Policy::Type number = 0;
  const OrchestratorState* owner = nullptr;  // compared only: it may be gone
};

// An exec that is kept from job to job.
struct KeptExec {
  GraphExec exec;
  std::vector<JobValues::Place> set;  // arguments that are not those of the type's graph
  std::uint32_t jobs = 0;             // since the last GraphExec::update
};

// As nodes of lists, which go from one list to another without memory.
using KeptExecs = std::list<KeptExec>;

// Callbacks of a job that has ended.
struct JobCall {
  Job job;
  std::vector<std::function<void(const Job&)>> callbacks;
};
using JobCalls = std::list<JobCall>;

// Members without a guard are written before the job is shared, or by the one thread that has admitted it.
struct JobRecord {
  using Callback = std::function<void(const Job&)>;

  // The job has ended. Returns its callbacks, which the caller is to call.
  std::vector<Callback> end(JobState how, std::optional<Error> why) noexcept {
    const Lock lock(mutex);
    state = how;
    error = std::move(why);
    ended.notify_all();
    return std::exchange(callbacks, {});
  }

  std::weak_ptr<OrchestratorState> owner;
  std::shared_ptr<const JobTypeRecord> type;
  std::uint64_t number = 0;
  orchestrator::Policy::Need need;
  JobValues values;
  orchestrator::Policy::Time submitted{0};

  // Guarded by the orchestrator's mutex.
  orchestrator::Policy::Time admitted{0};
  std::optional<Ticket> ticket;
  bool is_cancelled = false;   // before there was a ticket
  KeptExecs exec;              // one while it is in flight
  bool is_called_off = false;  // by close: it waits for nothing any more, and is not in the policy
  JobCalls call{1};            // empty; made with the job, so that its end takes no memory

  mutable Mutex mutex;
  mutable Condition ended;
  JobState state DWELL_GUARDED_BY(mutex) = JobState::waiting;
  std::optional<Error> error DWELL_GUARDED_BY(mutex);
  std::vector<Callback> callbacks DWELL_GUARDED_BY(mutex);
};

}  // namespace dwell::detail
