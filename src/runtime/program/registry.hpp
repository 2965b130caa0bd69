// Operators by name, and how a source becomes their current version.
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

// Takes definitions, compiles each on the caller's thread or on one of a pool, and passes compiled versions to the image table: versions
// that become ready during a hand-over share the next one. Versions of one definition become current in the order of their requests. One
// that uses operators whose definitions are under way waits until these are compiled, and shares their hand-over. Members may be called
// from any thread.
//
// A source is a job with the stages waiting, compiling, compiled, ready, handed over, settled; each stage may be followed by settled.
// Stages change under the mutex, and no step that can fail lies between a change and the next one that it needs. Each caller has a request
// at the job: equal sources share a job, and the job is called off with its last request. Each request is reported once, outside the mutex.
class Registry {
 public:
  using DefinitionPointer = std::shared_ptr<detail::DefinitionState>;
  // Called once with the outcome: null for success. On a thread of a caller's or of the pool. Must neither throw nor run the user's code.
  using Report = std::function<void(const DefinitionPointer&, const Error*)>;

  struct Settings {
    CompileOptions compile = {};                   // for definitions that say nothing else
    unsigned threads = 0;                          // of the pool
    std::optional<Tier> tier = Tier::relocatable;  // nothing: the promoter decides
    Parts parts = Parts::used;
    Promoter::Warn warn = {};
    Limits limits = {};
    Observers observers = {};
  };
  Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, detail::Shell* shell,
           Settings settings);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  DefinitionPointer define(const std::string& name, const Source& source, const Definition& how = {});
  void redefine(const DefinitionPointer& definition, const Source& source, const CompileOptions* options = nullptr);
  void rollback(detail::DefinitionState& definition);

  // As the two above, but they return at once. A request equal to one under way or done under the same name shares its job. A request that
  // is stopped before the hand-over ends with errc::cancelled at once; equal requests go on.
  void define_async(const std::string& name, const Source& source, const Definition& how, Report report, const std::stop_token& stop);
  void redefine_async(const DefinitionPointer& definition, const Source& source, const CompileOptions* options, Report report,
                      const std::stop_token& stop);
  // Prepares `job` for run_next, which runs it on a thread of the pool ahead of all compilations. Exceptions of the job go to
  // Settings::warn.
  CompilePool::Errand prepare(CompilePool::Job job);
  void run_next(CompilePool::Errand errand) { pool_.run_next(std::move(errand)); }

  // Called before what needs these parts of the loop comes to the device. Warns when that takes long. Throws as ImageTable::require.
  void need(std::uint32_t parts) {
    if ((parts & ~table_.parts()) != 0) [[unlikely]]
      bring(parts);
  }

  // Ownership of an operator that is defined here.
  std::shared_ptr<detail::OperatorState> share(const detail::OperatorState& op);

  const ImageTable& table() const { return table_; }
  jit::Compiler& compiler() const { return *compiler_; }

  // Refuses further changes with errc::closed. Jobs that are not being handed over end with errc::cancelled. Waits for the hand-over under
  // way, for compilations of the pool, for reports and for errands. Not to be called by a job of the pool. The second call does nothing.
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
  // The same report, which also notes for a timeline how long the definition has taken.
  Report noted(Report report, const std::string& name) const;
  // A request that `stop` can call off from now on.
  RequestPointer make_request(Report report, const std::stop_token& stop);
  // Compiles on this thread and returns when the job is settled. Throws the job's failure.
  void finish_here(const JobPointer& job);
  // Has a job that has entered compiled in the pool; `request` is its first.
  void finish_in_pool(const JobPointer& job, const RequestPointer& request) noexcept;
  // Compiles and passes on.
  void process(const JobPointer& job) noexcept;
  void compile(Job& job);
  // Brings these jobs into the image; notes in each its failure. They belong to the calling thread meanwhile.
  void hand_over(std::span<const JobPointer> batch) noexcept;
  // `job` and the untried definitions of the batch that it uses, directly or through others.
  static std::vector<JobPointer> with_used(const JobPointer& job, std::span<const JobPointer> batch);
  void call_off(const RequestPointer& request) noexcept;

  // Adds a job to those under way. When it throws nothing has changed.
  void enter(const JobPointer& job) DWELL_REQUIRES(mutex_);
  void check_open() const DWELL_REQUIRES(mutex_);
  // Compiled jobs become ready when none ahead of them is unfinished and nothing that they use is still to be compiled; failed ones are
  // settled.
  void advance() noexcept DWELL_REQUIRES(mutex_);
  void advance(detail::DefinitionState* definition) noexcept DWELL_REQUIRES(mutex_);
  // The job that defines the operator `name`, if it is under way; else null.
  Job* defining(const std::string& name) const noexcept DWELL_REQUIRES(mutex_);
  // Whether a definition that a compiled job uses, directly or through others under way, is still to be compiled. Visits no job twice that
  // has the mark `visit`.
  bool awaits_use(Job& job, std::uint64_t visit) const noexcept DWELL_REQUIRES(mutex_);
  void settle(const JobPointer& job, std::optional<Error> failure) noexcept DWELL_REQUIRES(mutex_);
  // Settles each job for which `which` is true with the Error that `why` returns.
  template <class Which, class Why>
  void settle_all(Which which, Why why) noexcept DWELL_REQUIRES(mutex_);
  // Those for the next hand-over, in the order of requests; `batch` has room for ready_.
  void take_ready(std::vector<JobPointer>& batch) noexcept DWELL_REQUIRES(mutex_);
  bool is_time() const DWELL_REQUIRES(mutex_);
  // Has the pool look again at wait_until_. False when the pool cannot.
  bool set_alarm() noexcept DWELL_REQUIRES(mutex_);

  // The following let go of the mutex for a while.
  // Reports settled jobs and hands over ready ones, as far as possible now.
  void go_on() noexcept DWELL_REQUIRES(mutex_);
  // Reports in the order of settling: one thread at a time, which reports the others' jobs too.
  void report_settled() noexcept DWELL_REQUIRES(mutex_);

  const std::unique_ptr<jit::Compiler> compiler_;
  detail::Shell* const shell_;  // for the handles
  const CompileOptions options_;
  const std::optional<Tier> tier_;
  ImageTable table_;

  Mutex mutex_;  // never held while something is compiled, linked or reported
  Condition changed_;
  bool closed_ DWELL_GUARDED_BY(mutex_) = false;
  std::map<std::string, DefinitionPointer> names_ DWELL_GUARDED_BY(mutex_);                    // defined or under way
  std::map<detail::DefinitionState*, std::list<JobPointer>> orders_ DWELL_GUARDED_BY(mutex_);  // all that is not settled, in order
  std::list<JobPointer> settled_ DWELL_GUARDED_BY(mutex_);                                     // and not reported yet
  std::uint64_t entered_ DWELL_GUARDED_BY(mutex_) = 0;                                         // jobs so far
  std::uint64_t visits_ DWELL_GUARDED_BY(mutex_) = 0;                                          // marks given out
  unsigned ready_ DWELL_GUARDED_BY(mutex_) = 0;                                                // jobs for the next hand-over
  unsigned ready_urgent_ DWELL_GUARDED_BY(mutex_) = 0;                                         // those of them that somebody waits for
  bool handing_over_ DWELL_GUARDED_BY(mutex_) = false;
  bool reporting_ DWELL_GUARDED_BY(mutex_) = false;
  unsigned outside_ DWELL_GUARDED_BY(mutex_) = 0;  // threads that roll back or answer a single request, and have let go of the mutex
  unsigned in_pool_ DWELL_GUARDED_BY(mutex_) = 0;  // jobs that the pool has still to compile
  CompilePool::Clock::time_point wait_until_ DWELL_GUARDED_BY(mutex_);  // for others that may join the next hand-over
  bool alarm_set_ DWELL_GUARDED_BY(mutex_) = false;                     // the pool looks again at that time

  const std::shared_ptr<Rundown> stops_ = std::make_shared<Rundown>();  // threads that call something off
  HostEvents* const events_;                                            // may be null
  const Promoter::Warn warn_;
  Keeper& keeper_;
  CompilePool pool_;
  Promoter promoter_;
};

}  // namespace dwell::runtime
