// Programs without dwell on the CPU: peers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dwell::bench {

// A plain thread pool: a queue under a mutex, a condition variable for workers, and one for the waiting thread.
class CpuPool {
 public:
  explicit CpuPool(unsigned threads);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  void run(std::function<void()> task);
  // Waits for all tasks so far.
  void wait();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<std::function<void()>> tasks_;
  std::size_t pending_ = 0;  // queued or running
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// A thread that only answers a flag: the lower bound of a hand-over to another thread.
class FlagThread {
 public:
  FlagThread();
  ~FlagThread();
  FlagThread(const FlagThread&) = delete;
  FlagThread& operator=(const FlagThread&) = delete;

  void round();

 private:
  static constexpr std::uint32_t kStop = ~0U;

  alignas(128) std::atomic<std::uint32_t> flag_{0};
  alignas(128) std::atomic<std::uint32_t> answer_{0};
  std::uint32_t round_ = 0;
  std::thread thread_;
};

// Adds 1024 floats, with the arithmetic of operators.hpp.
void add_on_cpu(const float* first, const float* second, float* sum);

// Three arrays in ordinary memory, for peers on the CPU.
struct CpuAdds {
  explicit CpuAdds(std::size_t floats);
  void run(std::size_t task);
  void poison();
  std::size_t wrong() const;

  std::vector<float> first;
  std::vector<float> second;
  std::vector<float> sums;
};

}  // namespace dwell::bench
