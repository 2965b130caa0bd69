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

// Runs jobs on threads of low priority, started on demand. Members may be called from any thread; stop and the destructor must not be
// called from a job. run, run_at and prepare throw errc::out_of_memory when the pool has no thread and cannot start one, and
// std::bad_alloc; then nothing is queued.
class CompilePool {
 public:
  using Job = std::function<void()>;  // must not throw
  using Clock = std::chrono::steady_clock;

  // A job that always runs: run_next cannot fail, and stop does not drop it.
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

  // Queues a job in FIFO order. After stop jobs are dropped.
  void run(Job job);
  void run_at(Clock::time_point when, Job job);
  // Performs all steps of run_next that can fail.
  Errand prepare(Job job);
  // Runs an errand before all jobs; on the calling thread when the pool has stopped.
  void run_next(Errand errand) noexcept;

  // Drops jobs that have not begun. Waits for running ones and for errands.
  void stop() noexcept;

 private:
  void work() noexcept;
  // Starts a thread for one more job, unless one is idle or the limit is reached.
  void make_thread() DWELL_REQUIRES(mutex_);

  const std::size_t most_;
  Mutex mutex_;
  Condition changed_;
  std::list<Job> errands_ DWELL_GUARDED_BY(mutex_);
  std::list<Job> jobs_ DWELL_GUARDED_BY(mutex_);
  std::multimap<Clock::time_point, Job> timed_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ DWELL_GUARDED_BY(mutex_);
  std::size_t serving_ DWELL_GUARDED_BY(mutex_) = 0;  // threads that will check for another job
  std::size_t idle_ DWELL_GUARDED_BY(mutex_) = 0;     // among them, those without a job
  bool stopped_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
