#include "runtime/program/compile_pool.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/thread.hpp"

namespace dwell::runtime {

namespace {

std::size_t usual_threads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U); }

// Submitting threads and CPU workers come first. On Linux the priority is the thread's own, and programs that it starts inherit it.
void lower_priority() { static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10)); }

}  // namespace

CompilePool::CompilePool(unsigned threads) : most_(threads != 0 ? threads : usual_threads()) {}

void CompilePool::run(Job job) {
  const Lock lock(mutex_);
  if (stopped_) return;
  make_thread();
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void CompilePool::run_at(Clock::time_point when, Job job) {
  const Lock lock(mutex_);
  if (stopped_) return;
  make_thread();
  timed_.emplace(when, std::move(job));
  changed_.notify_one();
}

CompilePool::Errand CompilePool::prepare(Job job) {
  Errand errand;
  errand.job_.push_back(std::move(job));
  const Lock lock(mutex_);
  if (!stopped_ && serving_ == 0) make_thread();
  return errand;
}

void CompilePool::run_next(Errand errand) noexcept {
  {
    const Lock lock(mutex_);
    if (serving_ != 0) {
      errands_.splice(errands_.end(), errand.job_);
      changed_.notify_one();
      return;
    }
  }
  for (const Job& job : errand.job_) job();
}

void CompilePool::make_thread() {
  if (errands_.size() + jobs_.size() + (timed_.empty() ? 0 : 1) < idle_ || threads_.size() >= most_) return;
  try {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(with_thread("the compilation of operators", "lower the option compile_threads",
                                   [this] { return std::jthread([this] { work(); }); }));
  } catch (...) {
    if (serving_ == 0) throw;
    return;  // other threads will run it
  }
  ++serving_;
  ++idle_;
}

void CompilePool::work() noexcept {
  lower_priority();
  Lock lock(mutex_);
  for (;;) {
    Job job;
    if (!errands_.empty()) {
      job = std::move(errands_.front());
      errands_.pop_front();
    } else if (stopped_) {
      break;
    } else if (!timed_.empty() && timed_.begin()->first <= Clock::now()) {
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
    const pid_t process = getpid();
    job();
    if (process != getpid()) return;  // a callback has forked: the child has nothing to do here
    job = nullptr;                    // its members may lock
    lock.lock();
    ++idle_;
  }
  --serving_;
  --idle_;
}

void CompilePool::stop() noexcept {
  std::list<Job> dropped;
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
