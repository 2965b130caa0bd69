// Threads that compile in the background.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Runs jobs on threads of low priority, which it starts as they are needed. Members may be called from any thread; stop and the destructor
// must not be called from a job. run, run_at and prepare throw errc::out_of_memory when the pool has no thread and cannot start one, and
// std::bad_alloc; then nothing is queued.
class CompilePool {
 public:
  using Job = std::function<void()>;  // must not throw
  using Clock = std::chrono::steady_clock;

  // A job that is certain to run: run_next cannot fail, stop does not drop it.
  class Errand {
   public:
    Errand() = default;

   private:
    friend class CompilePool;
    std::list<Job> job_;  // one
  };

  // At most `threads` at once; 0: half of the processors, one to eight.
  explicit CompilePool(unsigned threads);
  ~CompilePool() { stop(); }
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Jobs run in the order in which they come. After stop they are dropped.
  void run(Job job);
  void run_at(Clock::time_point when, Job job);
  // Takes all steps that can fail before run_next.
  Errand prepare(Job job);
  // Runs before all jobs; on the calling thread when the pool has stopped.
  void run_next(Errand errand) noexcept;

  // Drops jobs that have not begun. Waits for running ones and for errands.
  void stop() noexcept;

 private:
  void work() noexcept;
  // Starts a thread for one more job, unless one is idle or there are enough.
  void make_thread() DWELL_REQUIRES(mutex_);

  const std::size_t most_;
  Mutex mutex_;
  Condition changed_;
  std::list<Job> errands_ DWELL_GUARDED_BY(mutex_);
  std::list<Job> jobs_ DWELL_GUARDED_BY(mutex_);
  std::multimap<Clock::time_point, Job> timed_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ DWELL_GUARDED_BY(mutex_);
  std::size_t serving_ DWELL_GUARDED_BY(mutex_) = 0;  // threads that will look for a job again
  std::size_t idle_ DWELL_GUARDED_BY(mutex_) = 0;     // among them, those without a job
  bool stopped_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
