// The lock around the submission queue, biased to the thread that submits.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "runtime/membarrier.hpp"

namespace dwell::runtime {

// A mutex that costs the thread it is biased to two plain stores and two plain loads. A locked instruction would drain the store buffer
// of ring stores for every task, ten times what a task costs otherwise. Another thread takes the bias away with membarrier; after a run
// of locks by one thread it is granted again, later each time it had to be taken away.
// Source of the idea: biased locking (Kawachiya et al., OOPSLA 2002) with an asymmetric fence.
// Invariant: the owner is inside only while inside_ is set and it has since seen owner_ name itself; who takes the bias away waits for
// inside_ to be clear after a membarrier. Not recursive.
class SubmitLock {
 public:
  void lock() {
    const std::uint64_t me = self();
    if (owner_.load(std::memory_order_relaxed) == me) {
      inside_.store(1, std::memory_order_relaxed);
      frequent_fence();
      if (owner_.load(std::memory_order_relaxed) == me) {
        // The owner alone reads and writes this between lock and unlock.
        biased_ = true;
        return;
      }
      inside_.store(0, std::memory_order_release);
    }
    lock_shared_mode(me);
  }

  void unlock() {
    if (biased_) {
      biased_ = false;
      inside_.store(0, std::memory_order_release);  // pairs with the acquire in lock_shared_mode
      return;
    }
    spin_.clear(std::memory_order_release);
  }

 private:
  // Tells threads apart. A thread may get the number of one that has ended, and then has its bias too, which does no harm.
  static std::uint64_t self() {
    thread_local char here;
    return reinterpret_cast<std::uint64_t>(&here);
  }

  void lock_shared_mode(std::uint64_t me) {
    for (std::uint32_t round = 1; spin_.test_and_set(std::memory_order_acquire); ++round) {
      while (spin_.test(std::memory_order_relaxed)) {
        relax();
        if (++round % 1024 == 0) std::this_thread::yield();
      }
    }
    const std::uint64_t owner = owner_.load(std::memory_order_relaxed);
    if (owner != 0) {
      owner_.store(0, std::memory_order_relaxed);
      membarrier();
      while (inside_.load(std::memory_order_acquire) != 0) relax();
      if (owner != me && needed_ < kMostNeeded) needed_ *= 2;
      in_a_row_ = 0;
    }
    in_a_row_ = last_ == me ? in_a_row_ + 1 : 0;
    last_ = me;
    if (in_a_row_ >= needed_ && kHaveMembarrier) owner_.store(me, std::memory_order_relaxed);
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  static constexpr std::uint32_t kMostNeeded = 1U << 16U;

  alignas(64) std::atomic<std::uint64_t> owner_{0};
  std::atomic<std::uint32_t> inside_{0};
  bool biased_ = false;
  alignas(64) std::atomic_flag spin_;  // held for tens of nanoseconds: a mutex that sleeps would cost more than it guards
  std::uint64_t last_ = 0;             // guarded by spin_, as are the next two
  std::uint32_t in_a_row_ = 0;
  std::uint32_t needed_ = 16;  // locks in a row that earn the bias
};

}  // namespace dwell::runtime
