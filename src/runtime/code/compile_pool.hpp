// Threads that compile in the background.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

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
  // Needs mutex_.
  void start_thread();

  const std::size_t most_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::multimap<Clock::time_point, Job> timed_;
  std::vector<std::jthread> threads_;
  std::size_t idle_ = 0;
  bool stopped_ = false;
};

}  // namespace dwell::runtime
