// An orchestrator behind its handle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <dwell/detail/prepared_then.hpp>
#include <dwell/orchestrator.hpp>

#include "base/callback.hpp"
#include "base/mutex.hpp"
#include "orchestrator/histogram.hpp"
#include "orchestrator/job_record.hpp"
#include "orchestrator/policy.hpp"

namespace dwell::detail {

// Who does what:
//   submit          a job waits; then admits all that the policy lets
//   admission       one thread at a time: takes the next job of the policy, an exec, prepares to be called at its end, launches it
//   ended           called by the runtime's thread that calls back: what the job needed is free, its waiters hear of it, admits others,
//                   then calls the job's callbacks
// When jobs wait and the policy admits none, one is in flight (the policy's invariant), and `ended` will be called for it: by the end of
// its launch, or by Runtime::close or rebuild. So nothing has to poll, and no job waits for ever.
//
// Callbacks of jobs that could not be launched are left in unheard_ by a thread that submits, whose locks they may want. They wait for the
// next `ended`, which is under way or to come: a job that has callbacks was submitted before, and so waited for the end of another one.
//
// Memory: submit and define take what a job or a type needs until its end, and throw before anything has changed. Admission and ends take
// none but in the attempts to make an exec, to prepare and to launch; when one of these fails the job is put back, or fails. They must not
// throw: a job would be lost, for which everybody waits. What goes from place to place is a node of a list or a map.
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

  // A type as it is now.
  struct Kind {
    std::shared_ptr<JobTypeRecord> record;
    KeptExecs idle;
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
  void admit_all() noexcept;
  bool admit_one() noexcept DWELL_REQUIRES(admission_);
  // What an admitted job needs to be launched: an exec, unless it has one, and `heard`. Returns why it cannot be had.
  std::optional<Error> equip(const std::shared_ptr<JobRecord>& job, KeptExecs& exec, std::optional<PreparedThen>& heard) noexcept
      DWELL_REQUIRES(admission_);
  // The launch of an admitted job. Throws its failure.
  Ticket launch(const JobRecord& job, KeptExec& exec) DWELL_REQUIRES(admission_);
  // An exec for one more job. Returns why there is none.
  std::optional<Error> make_exec(const JobTypeRecord& type, KeptExecs& exec) noexcept DWELL_REQUIRES(admission_);
  // The job's launch has ended. Throws the first exception of a callback.
  void ended(const std::shared_ptr<JobRecord>& job);
  // What the job's ticket says of it.
  std::optional<Error> outcome_of(const JobRecord& job) const noexcept;
  // An admitted job ends so. Returns what is to be called.
  JobCalls finish(const std::shared_ptr<JobRecord>& job, std::optional<Error> why) noexcept;
  // A job that waited, and does so no more, ends so.
  void finish_waiting(const std::shared_ptr<JobRecord>& job) noexcept;
  static JobCalls end(const std::shared_ptr<JobRecord>& job, JobState how, std::optional<Error> why) noexcept;
  void leave_unheard(JobCalls& calls) noexcept;
  // Takes idle execs out of the pools until the limits of memory hold.
  void make_room(Kind& kind, KeptExecs& dropped) noexcept DWELL_REQUIRES(mutex_);
  void take_all_idle(KeptExecs& into) noexcept DWELL_REQUIRES(mutex_);
  void take_idle(Kind& kind, KeptExecs& into) noexcept DWELL_REQUIRES(mutex_);  // one, of which `execs` still knows
  void keep_idle(Kind& kind, KeptExecs& exec) noexcept DWELL_REQUIRES(mutex_);
  void update_limits() DWELL_REQUIRES(mutex_);
  Error failure_now() const noexcept;

  Runtime& runtime_;
  const std::uint64_t number_;  // of the runtime, as of Callback
  const OrchestratorOptions options_;
  const Error no_memory_;
  const Error cancelled_;  // says less than one that is made when a job is cancelled

  Mutex admission_;
  std::atomic<std::thread::id> admitting_{};  // relaxed: a thread asks only whether it is itself
  bool has_priorities_ DWELL_GUARDED_BY(admission_) = true;

  mutable Mutex mutex_;
  Condition changed_;
  Policy policy_ DWELL_GUARDED_BY(mutex_);
  std::deque<Kind> kinds_ DWELL_GUARDED_BY(mutex_);                                    // by number of the policy
  std::map<std::uint64_t, std::shared_ptr<JobRecord>> jobs_ DWELL_GUARDED_BY(mutex_);  // that have not ended, by number
  std::uint64_t idle_bytes_ DWELL_GUARDED_BY(mutex_) = 0;
  JobCalls unheard_ DWELL_GUARDED_BY(mutex_);
  std::uint32_t inside_ DWELL_GUARDED_BY(mutex_) = 0;
  bool closing_ DWELL_GUARDED_BY(mutex_) = false;
  bool abandoned_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::detail
