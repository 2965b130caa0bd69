// An orchestrator behind its handle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dwell/orchestrator.hpp>

#include "base/callback.hpp"
#include "base/mutex.hpp"
#include "orchestrator/histogram.hpp"
#include "orchestrator/job_record.hpp"
#include "orchestrator/policy.hpp"

namespace dwell::detail {

// Who does what:
//   submit          a job waits; then admits all that the policy lets
//   admission       one thread at a time: takes the next job of the policy, an exec, launches it, asks to be called at its end
//   ended           called by the runtime's thread that calls back: what the job needed is free, its waiters hear of it, admits others,
//                   then calls the job's callbacks
// When jobs wait and the policy admits none, one is in flight (the policy's invariant), and `ended` will be called for it: by the end of
// its launch, or by Runtime::close or rebuild. So nothing has to poll, and no job waits for ever.
//
// Callbacks of jobs that could not be launched are left in unheard_ by a thread that submits, whose locks they may want. They wait for the
// next `ended`, which is under way or to come: a job that has callbacks was submitted before, and so waited for the end of another one.
//
// Locks: admission_ before mutex_. A job's own mutex is held with no other.
struct OrchestratorState final : std::enable_shared_from_this<OrchestratorState> {
  OrchestratorState(Runtime& on, const OrchestratorOptions& how);

  std::shared_ptr<JobTypeRecord> define(std::string_view name, Graph graph, const JobOptions& options);
  // Null when too many wait and `or_throw` is not set.
  std::shared_ptr<JobRecord> submit(const std::shared_ptr<JobTypeRecord>& type, JobValues values, bool or_throw);
  bool cancel(const std::shared_ptr<JobRecord>& job);
  void trim();
  // Throws errc::invalid_argument in a callback of the runtime, for which it would wait.
  void close(Close how);
  // The end without waiting, for whoever runs such a callback: jobs that wait are cancelled, those that are admitted end by themselves, and
  // the runtime is not used any more behind this.
  void abandon() noexcept;
  bool called_back() const noexcept { return Callback::inside(number_) != nullptr; }
  OrchestratorStatistics statistics() const;

 private:
  using Policy = orchestrator::Policy;
  using Calls = std::vector<std::pair<Job, std::vector<JobRecord::Callback>>>;

  // A type as it is now.
  struct Kind {
    std::shared_ptr<JobTypeRecord> record;
    std::vector<KeptExec> idle;
    std::size_t execs = 0;  // those in use included
    JobStatistics counts;
    orchestrator::Histogram waited;
    orchestrator::Histogram ran;
  };
  // Counts a thread that uses the runtime or calls back, for which close waits.
  class Inside {
   public:
    explicit Inside(OrchestratorState& state) : state_(state) {
      const Lock lock(state_.mutex_);
      ++state_.inside_;
    }
    ~Inside() {
      const Lock lock(state_.mutex_);
      if (--state_.inside_ == 0) state_.changed_.notify_all();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    OrchestratorState& state_;
  };

  bool abandoned() const;
  void admit_all();
  bool admit_one() DWELL_REQUIRES(admission_);
  // The launch of an admitted job. Throws its failure.
  Ticket launch(const JobRecord& job, KeptExec& exec) DWELL_REQUIRES(admission_);
  // An exec for one more job; nothing when the device has no memory for it (`why`).
  std::optional<KeptExec> make_exec(const JobTypeRecord& type, std::optional<Error>& why) DWELL_REQUIRES(admission_);
  // The job's launch has ended.
  void ended(const std::shared_ptr<JobRecord>& job);
  // An admitted job ends so. Returns what is to be called.
  std::vector<JobRecord::Callback> finish(const std::shared_ptr<JobRecord>& job, std::optional<Error> why);
  // A job that waited, and does so no more, ends so.
  void finish_waiting(const std::shared_ptr<JobRecord>& job);
  void leave_unheard(const std::shared_ptr<JobRecord>& job, std::vector<JobRecord::Callback> callbacks);
  // Takes idle execs out of the pools until the limits of memory hold.
  void make_room(Kind& kind, std::vector<KeptExec>& dropped) DWELL_REQUIRES(mutex_);
  std::vector<KeptExec> take_idle() DWELL_REQUIRES(mutex_);
  KeptExec take_idle(Kind& kind) DWELL_REQUIRES(mutex_);  // one, of which `execs` still knows
  void update_limits() DWELL_REQUIRES(mutex_);
  Error failure_now() const noexcept;

  Runtime& runtime_;
  const std::uint64_t number_;  // of the runtime, as of Callback
  const OrchestratorOptions options_;
  const Error no_memory_;

  Mutex admission_;
  std::atomic<std::thread::id> admitting_{};  // relaxed: a thread asks only whether it is itself
  bool has_priorities_ DWELL_GUARDED_BY(admission_) = true;

  mutable Mutex mutex_;
  Condition changed_;
  Policy policy_ DWELL_GUARDED_BY(mutex_);
  std::deque<Kind> kinds_ DWELL_GUARDED_BY(mutex_);                                              // by number of the policy
  std::unordered_map<std::uint64_t, std::shared_ptr<JobRecord>> jobs_ DWELL_GUARDED_BY(mutex_);  // that have not ended, by number
  std::uint64_t idle_bytes_ DWELL_GUARDED_BY(mutex_) = 0;
  Calls unheard_ DWELL_GUARDED_BY(mutex_);
  std::uint32_t inside_ DWELL_GUARDED_BY(mutex_) = 0;
  bool closing_ DWELL_GUARDED_BY(mutex_) = false;
  bool abandoned_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::detail
