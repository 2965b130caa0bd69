// Operators by name, and the jobs that turn sources into their current versions.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/operator.hpp>

#include "base/mutex.hpp"
#include "runtime/observe/observers.hpp"
#include "runtime/program/compile_pool.hpp"
#include "runtime/program/definition.hpp"
#include "runtime/program/image_table.hpp"
#include "runtime/program/promoter.hpp"
#include "runtime/program/rundown.hpp"

namespace dwell::runtime {

// Compiles definitions on the caller's thread or in a pool, and passes compiled versions to the image table. Versions that become ready
// during a hand-over share the next one. Versions of one definition become current in the order of their requests. A version that uses
// operators with pending definitions waits until these are compiled, and shares their hand-over. Members may be called from any thread.
//
// A source is a job with the stages waiting, compiling, compiled, ready, handed over, settled; each stage may be followed by settled.
// Stages change under the mutex, and no step that can fail lies between a change and the next one that it needs. Each caller has a request
// of the job: equal sources share a job, and the job is cancelled with its last request. Each request is reported once, outside the mutex.
class Registry {
 public:
  using DefinitionPointer = std::shared_ptr<detail::DefinitionState>;
  // Called once with the outcome (null: success), on a caller's thread or the pool's. Must neither throw nor run the user's code.
  using Report = std::function<void(const DefinitionPointer&, const Error*)>;

  struct Settings {
    CompileOptions compile = {};                   // default for definitions
    unsigned threads = 0;                          // of the pool
    std::optional<Tier> tier = Tier::relocatable;  // empty: the promoter decides
    Parts parts = Parts::used;
    Promoter::Warn warn = {};
    Limits limits = {};
    Observers observers = {};
    std::function<void()> needs_heap = {};  // called before an operator that uses the heap becomes part of the image
  };
  Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, detail::Shell* shell,
           Settings settings);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  DefinitionPointer define(const std::string& name, const Source& source, const Definition& how = {});
  void redefine(const DefinitionPointer& definition, const Source& source, const CompileOptions* options = nullptr);
  void rollback(detail::DefinitionState& definition);

  // As the two above, but return at once. A request equal to a pending or completed one of the same name shares its job. A request stopped
  // before the hand-over ends with errc::cancelled at once; equal requests continue.
  void define_async(const std::string& name, const Source& source, const Definition& how, Report report, const std::stop_token& stop);
  void redefine_async(const DefinitionPointer& definition, const Source& source, const CompileOptions* options, Report report,
                      const std::stop_token& stop);
  // Prepares `job` for run_next, which runs it on a thread of the pool ahead of all compilations. Exceptions of the job go to
  // Settings::warn.
  CompilePool::Errand prepare(CompilePool::Job job);
  void run_next(CompilePool::Errand errand) { pool_.run_next(std::move(errand)); }

  // Called before tasks that need these parts of the loop are placed. Warns when it takes long. Throws as ImageTable::require.
  void need(std::uint32_t parts) {
    if ((parts & ~table_.parts()) != 0) [[unlikely]]
      bring(parts);
  }

  // Returns a shared owner of an operator of this registry.
  std::shared_ptr<detail::OperatorState> share(const detail::OperatorState& op);

  const ImageTable& table() const { return table_; }
  jit::Compiler& compiler() const { return *compiler_; }

  // Refuses further changes with errc::closed. Jobs that are not being handed over end with errc::cancelled. Waits for the current
  // hand-over, for compilations of the pool, for reports and for errands. Must not be called by a job of the pool. A second call does
  // nothing.
  void close() noexcept;

 private:
  void bring(std::uint32_t parts);
  void warn_of_long_wait();

  struct Job;
  struct Request;
  using JobPointer = std::shared_ptr<Job>;
  using RequestPointer = std::shared_ptr<Request>;

  JobPointer first_job(const std::string& name, const Source& source, const Definition& how);
  JobPointer next_job(const DefinitionPointer& definition, const Source& source, const CompileOptions* options);
  // Wraps a report to also record the definition's time for a timeline.
  Report noted(Report report, const std::string& name) const;
  // Makes a request that `stop` can cancel from now on.
  RequestPointer make_request(Report report, const std::stop_token& stop);
  // Compiles on this thread and returns when the job is settled. Throws the job's failure.
  void finish_here(const JobPointer& job);
  // Has the pool compile an entered job; `request` is its first.
  void finish_in_pool(const JobPointer& job, const RequestPointer& request) noexcept;
  // Compiles the job and passes it on.
  void process(const JobPointer& job) noexcept;
  void compile(Job& job);
  // Adds these jobs to the image, and stores each one's failure. The calling thread owns them meanwhile.
  void hand_over(std::span<const JobPointer> batch) noexcept;
  // `job` and the untried definitions of the batch that it uses, directly or through others.
  static std::vector<JobPointer> with_used(const JobPointer& job, std::span<const JobPointer> batch);
  void call_off(const RequestPointer& request) noexcept;

  // Adds a pending job. If it throws, nothing has changed.
  void enter(const JobPointer& job) DWELL_REQUIRES(mutex_);
  void check_open() const DWELL_REQUIRES(mutex_);
  // Makes compiled jobs ready if no earlier job is unfinished and no operator that they use is still to be compiled; settles failed ones.
  void advance() noexcept DWELL_REQUIRES(mutex_);
  void advance(detail::DefinitionState* definition) noexcept DWELL_REQUIRES(mutex_);
  // Returns the pending job that defines the operator `name`, or null.
  Job* defining(const std::string& name) const noexcept DWELL_REQUIRES(mutex_);
  // Whether a definition that a compiled job uses, directly or through pending ones, is still to be compiled. Skips jobs with the mark
  // `visit`.
  bool awaits_use(Job& job, std::uint64_t visit) const noexcept DWELL_REQUIRES(mutex_);
  void settle(const JobPointer& job, std::optional<Error> failure) noexcept DWELL_REQUIRES(mutex_);
  // Settles each job for which `which` is true with the Error that `why` returns.
  template <class Which, class Why>
  void settle_all(Which which, Why why) noexcept DWELL_REQUIRES(mutex_);
  // Moves the ready jobs to `batch`, in the order of requests; `batch` has room for ready_.
  void take_ready(std::vector<JobPointer>& batch) noexcept DWELL_REQUIRES(mutex_);
  bool is_time() const DWELL_REQUIRES(mutex_);
  // Schedules a check in the pool at wait_until_. False if the pool cannot.
  bool set_alarm() noexcept DWELL_REQUIRES(mutex_);

  // The following release the mutex for a while.
  // Reports settled jobs and hands over ready ones, as far as possible.
  void go_on() noexcept DWELL_REQUIRES(mutex_);
  // Reports in the order of settling. One thread at a time reports, for all threads.
  void report_settled() noexcept DWELL_REQUIRES(mutex_);

  const std::unique_ptr<jit::Compiler> compiler_;
  detail::Shell* const shell_;  // for the handles
  const CompileOptions options_;
  const std::optional<Tier> tier_;
  ImageTable table_;

  Mutex mutex_;  // never held while something is compiled, linked or reported
  Condition changed_;
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
  std::map<std::string, DefinitionPointer> names_ DWELL_GUARDED_BY(mutex_);                    // defined or pending
  std::map<detail::DefinitionState*, std::list<JobPointer>> orders_ DWELL_GUARDED_BY(mutex_);  // unsettled jobs, in order
  std::list<JobPointer> settled_ DWELL_GUARDED_BY(mutex_);                                     // settled, but not reported
  std::uint64_t entered_ DWELL_GUARDED_BY(mutex_) = 0;                                         // jobs so far
  std::uint64_t visits_ DWELL_GUARDED_BY(mutex_) = 0;                                          // marks given out
  unsigned ready_ DWELL_GUARDED_BY(mutex_) = 0;                                                // jobs for the next hand-over
  unsigned ready_urgent_ DWELL_GUARDED_BY(mutex_) = 0;                                         // ready jobs with a waiting caller
  bool handing_over_ DWELL_GUARDED_BY(mutex_) = false;
  bool reporting_ DWELL_GUARDED_BY(mutex_) = false;
  unsigned outside_ DWELL_GUARDED_BY(mutex_) = 0;  // threads that roll back or report a single request, without the mutex
  unsigned in_pool_ DWELL_GUARDED_BY(mutex_) = 0;  // jobs that the pool still has to compile
  CompilePool::Clock::time_point wait_until_ DWELL_GUARDED_BY(mutex_);  // deadline for others to join the next hand-over
  bool alarm_set_ DWELL_GUARDED_BY(mutex_) = false;                     // the pool will check at wait_until_

  const std::shared_ptr<Rundown> stops_ = std::make_shared<Rundown>();  // threads inside a stop callback
  HostEvents* const events_;                                            // may be null
  const Promoter::Warn warn_;
  Keeper& keeper_;
  CompilePool pool_;
  Promoter promoter_;
};

}  // namespace dwell::runtime
