#include "bench/cpu_pool.hpp"

#include <utility>

#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

CpuPool::CpuPool(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

CpuPool::~CpuPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CpuPool::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++pending_;
  }
  work_.notify_one();
}

void CpuPool::wait() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return pending_ == 0; });
}

void CpuPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
    if (--pending_ == 0) done_.notify_all();
  }
}

FlagThread::FlagThread()
    : thread_([this] {
        for (std::uint32_t seen = 0;;) {
          std::uint32_t value = seen;
          spin_until([&] { return (value = flag_.load(std::memory_order_acquire)) != seen; });
          if (value == kStop) return;
          seen = value;
          answer_.store(seen, std::memory_order_release);
        }
      }) {}

FlagThread::~FlagThread() {
  flag_.store(kStop, std::memory_order_release);
  thread_.join();
}

void FlagThread::round() {
  flag_.store(++round_, std::memory_order_release);
  spin_until([this] { return answer_.load(std::memory_order_acquire) == round_; });
}

void add_on_cpu(const float* first, const float* second, float* sum) {
  for (std::size_t i = 0; i < Adds::kFloats; ++i) sum[i] = first[i] + second[i];
}

CpuAdds::CpuAdds(std::size_t floats) : first(floats), second(floats), sums(floats) {
  fill_first(first, 0);
  fill_second(second, 0);
  poison();
}

void CpuAdds::run(std::size_t task) {
  const std::size_t at = (task & (sums.size() / Adds::kFloats - 1)) * Adds::kFloats;
  add_on_cpu(first.data() + at, second.data() + at, sums.data() + at);
}

void CpuAdds::poison() { fill_poison(sums); }

std::size_t CpuAdds::wrong() const { return count_wrong(sums, 0); }

}  // namespace dwell::bench
