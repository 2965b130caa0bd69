// Threads that compile in the background.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Runs jobs on threads of low priority, which are started when there is work for them. Members may be called from any thread, except
// that stop and the destructor must not be called from a job.
class CompilePool {
 public:
  using Job = std::function<void()>;  // must not throw
  using Clock = std::chrono::steady_clock;

  // At most `threads` at once; 0: half of the processors, one to eight.
  explicit CompilePool(unsigned threads);
  ~CompilePool() { stop(); }
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Jobs run in the order in which they come, those of `run_next` before all others. After stop nothing happens.
  void run(Job job) { add(std::move(job), false); }
  void run_next(Job job) { add(std::move(job), true); }
  void run_at(Clock::time_point when, Job job);

  // Drops the jobs that have not begun and waits for those that have.
  void stop();

 private:
  void add(Job job, bool next);
  void work();
  void start_thread() DWELL_REQUIRES(mutex_);

  const std::size_t most_;
  Mutex mutex_;
  Condition changed_;
  std::deque<Job> jobs_ DWELL_GUARDED_BY(mutex_);
  std::multimap<Clock::time_point, Job> timed_ DWELL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ DWELL_GUARDED_BY(mutex_);
  std::size_t idle_ DWELL_GUARDED_BY(mutex_) = 0;
  bool stopped_ DWELL_GUARDED_BY(mutex_) = false;
};

}  // namespace dwell::runtime
