// Operators by name, and how a source becomes their current version.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/operator.hpp>

#include "runtime/code/compile_pool.hpp"
#include "runtime/code/definition.hpp"
#include "runtime/code/image_table.hpp"
#include "runtime/code/promoter.hpp"

namespace dwell::runtime {

// Takes definitions, compiles each on the thread that asked for it or on one of a pool, and passes what is compiled on to the image
// table: what becomes ready while an image is handed over goes into the next one together. Versions of one definition come in the order
// in which they were asked for. Members may be called from any thread.
class Registry {
 public:
  using DefinitionPointer = std::shared_ptr<detail::DefinitionState>;
  // Told once how it went: null for success. On a thread of the caller's or of the registry's; must not throw.
  using Report = std::function<void(const DefinitionPointer&, const Error*)>;

  struct Settings {
    CompileOptions compile = {};                   // for definitions that say nothing else
    unsigned threads = 0;                          // of the pool
    std::optional<Tier> tier = Tier::relocatable;  // nothing: the promoter decides
    Promoter::Warn warn = {};
    Limits limits = {};
  };
  Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, detail::Shell* shell,
           Settings settings);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  DefinitionPointer define(const std::string& name, const Source& source, const Definition& how = {});
  void redefine(const DefinitionPointer& definition, const Source& source, const CompileOptions* options = nullptr);
  void rollback(detail::DefinitionState& definition);

  // As the two above, but they return at once. A request equal to one that is under way or done under the same name is that one. What is
  // called off before its hand-over ends with errc::cancelled, and at once.
  void define_async(const std::string& name, const Source& source, const Definition& how, Report report, const std::stop_token& stop);
  void redefine_async(const DefinitionPointer& definition, const Source& source, const CompileOptions* options, Report report,
                      const std::stop_token& stop);
  // Runs `job`, which must not throw, on a thread of the pool, before all that waits to be compiled.
  void run_soon(CompilePool::Job job) { pool_.run_next(std::move(job)); }

  const ImageTable& table() const { return table_; }
  jit::Compiler& compiler() const { return *compiler_; }

  // From now on every member throws errc::closed; what is under way ends with errc::cancelled. Waits for compilations that run. Not to
  // be called by a job of the pool.
  void close();

 private:
  struct Job;
  using JobPointer = std::shared_ptr<Job>;

  JobPointer first_job(const std::string& name, const Source& source, const Definition& how);
  JobPointer next_job(const DefinitionPointer& definition, const Source& source, const CompileOptions* options);
  // Compiles on this thread and returns when the job is settled; throws what became of it.
  void finish_here(const JobPointer& job);
  void finish_in_pool(const JobPointer& job, const std::stop_token& stop);
  // Compiles and passes on.
  void process(const JobPointer& job);
  void compile(Job& job);
  // What became of each.
  std::vector<std::optional<Error>> hand_over(const std::vector<JobPointer>& batch);
  void call_off(const JobPointer& job);

  // The following need mutex_, through `lock` where they let go of it for a while.
  void enter(const JobPointer& job);
  void check_open() const;
  // Jobs that no earlier one of their definition holds back become ready; those that failed are settled.
  void advance(std::unique_lock<std::mutex>& lock, detail::DefinitionState* definition);
  void settle(std::unique_lock<std::mutex>& lock, const JobPointer& job, const Error* failure);
  void hand_over_ready(std::unique_lock<std::mutex>& lock);
  bool is_time() const;

  const std::unique_ptr<jit::Compiler> compiler_;
  detail::Shell* const shell_;  // for the handles
  const CompileOptions options_;
  const std::optional<Tier> tier_;
  ImageTable table_;

  std::mutex mutex_;  // guards all below; never held while something is compiled, linked or reported
  std::condition_variable changed_;
  bool closed_ = false;
  std::map<std::string, DefinitionPointer> names_;                     // defined or under way
  std::map<detail::DefinitionState*, std::deque<JobPointer>> orders_;  // all that is not settled, in order
  std::vector<JobPointer> ready_;                                      // for the next hand-over
  bool handing_over_ = false;
  unsigned in_pool_ = 0;                       // jobs that the pool has still to compile
  CompilePool::Clock::time_point wait_until_;  // for others that may join the next hand-over

  bool alarm_set_ = false;  // the pool looks again at that time

  CompilePool pool_;
  Promoter promoter_;
};

}  // namespace dwell::runtime
