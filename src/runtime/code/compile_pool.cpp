#include "runtime/code/compile_pool.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace dwell::runtime {

namespace {

std::size_t usual_threads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U); }

// Submitting threads and CPU workers come first. On Linux the priority is the thread's own, and programs that it starts inherit it.
void lower_priority() { static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10)); }

}  // namespace

CompilePool::CompilePool(unsigned threads) : most_(threads != 0 ? threads : usual_threads()) {}

void CompilePool::add(Job job, bool next) {
  const Lock lock(mutex_);
  if (stopped_) return;
  if (next)
    jobs_.push_front(std::move(job));
  else
    jobs_.push_back(std::move(job));
  start_thread();
}

void CompilePool::run_at(Clock::time_point when, Job job) {
  const Lock lock(mutex_);
  if (stopped_) return;
  timed_.emplace(when, std::move(job));
  start_thread();
}

void CompilePool::start_thread() {
  if (jobs_.size() + (timed_.empty() ? 0 : 1) > idle_ && threads_.size() < most_) {
    threads_.emplace_back([this] { work(); });
    ++idle_;
  }
  changed_.notify_one();
}

void CompilePool::work() {
  lower_priority();
  Lock lock(mutex_);
  while (!stopped_) {
    Job job;
    if (!timed_.empty() && timed_.begin()->first <= Clock::now()) {
      job = std::move(timed_.begin()->second);
      timed_.erase(timed_.begin());
    } else if (!jobs_.empty()) {
      job = std::move(jobs_.front());
      jobs_.pop_front();
    } else if (!timed_.empty()) {
      const Clock::time_point next = timed_.begin()->first;
      changed_.wait_until(lock, next);
      continue;
    } else {
      changed_.wait(lock);
      continue;
    }
    --idle_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds may lock
    lock.lock();
    ++idle_;
  }
}

void CompilePool::stop() {
  std::deque<Job> dropped;
  std::multimap<Clock::time_point, Job> dropped_timed;
  std::vector<std::jthread> threads;
  {
    const Lock lock(mutex_);
    stopped_ = true;
    dropped.swap(jobs_);
    dropped_timed.swap(timed_);
    threads.swap(threads_);
  }
  changed_.notify_all();
}

}  // namespace dwell::runtime
