// The lock around the submission queue, biased to the thread that submits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/submit/membarrier.hpp"

namespace dwell::runtime {

// A mutex that costs its owner two plain stores and two plain loads. A locked instruction would drain the store buffer of ring stores
// for every task, ten times what a task costs otherwise; and a lock that several submitting threads wrest from each other costs each
// task the journey of a cache line.
//
// So a thread owns the lock for many turns. Whoever else comes waits behind `line_`, one at a time, and says so in `next_`: an owner
// that goes on submitting hands the lock on after a while, for the price of one cache line. From one that does not, it is taken
// with membarrier, and for a while nobody owns the lock, each thread taking its turn inside `line_`: the longer, the more often an
// owner did not stay.
// Invariants: the owner is inside only while its seat says so and it has since seen owner_ name itself; owner_ is changed by the owner
// while it is inside, to next_, and by the thread that holds line_, to itself, which then waits until the old owner's seat says that it
// has left. Not recursive. Modelled in tests/model/submit_lock.pml.
// Source of the idea: biased locking (Kawachiya et al., OOPSLA 2002) with an asymmetric fence; cohort locks (Dice et al., PPoPP 2012).
class SubmitLock {
 public:
  void lock() {
    Seat* const me = Seat::mine();
    if (owner_.load(std::memory_order_relaxed) == me) {
      me->inside.store(1, std::memory_order_relaxed);
      frequent_fence();
      if (owner_.load(std::memory_order_relaxed) == me) {
        holder_ = me;
        return;
      }
      me->inside.store(0, std::memory_order_release);
    }
    lock_slowly(me);
  }

  void unlock() {
    if (Seat* const me = holder_; me != nullptr) {
      if (next_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
        hand_on();
      me->inside.store(0, std::memory_order_release);  // pairs with the acquire in take_from
      return;
    }
    line_.clear(std::memory_order_release);
  }

 private:
  // A thread, and whether it is inside a lock that it owns; it is inside one at most. Never freed, so that whoever looks at an owner
  // that has ended reads valid memory; a later thread gets it, and the bias with it, which does no harm.
  struct alignas(64) Seat {
    std::atomic<std::uint32_t> inside{0};

    static Seat* mine() {
      Seat* const seat = current_;
      return seat != nullptr ? seat : take();
    }

   private:
    static Seat* take();
    static constinit thread_local Seat* current_;
  };

  void lock_slowly(Seat* me);
  bool take_from(Seat* owner, Seat* me);
  void own(Seat* me);
  void hand_on();

  static constexpr std::uint32_t kFewest = 16;
  static constexpr std::uint32_t kMost = 1U << 16U;

  // Lines apart: whoever waits polls the first, the holder writes the second each time.
  alignas(64) std::atomic<Seat*> owner_{nullptr};
  alignas(64) Seat* holder_ = nullptr;  // the owner that is inside; null when it is a thread that holds line_
  alignas(64) std::atomic<Seat*> next_{nullptr};
  std::atomic<std::uint32_t> turns_{0};              // of the owner since somebody waits
  std::chrono::steady_clock::time_point hand_on_{};  // when the owner's time is over; the owner's
  alignas(64) std::atomic_flag line_;                // held for tens of nanoseconds where nobody owns the lock
  std::uint32_t unowned_ = 0;                        // turns since nobody does; guarded by line_, as is the next
  std::uint32_t until_owned_ = kFewest;              // turns after which somebody shall
};

}  // namespace dwell::runtime
