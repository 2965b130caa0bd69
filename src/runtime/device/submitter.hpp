// A thread at a submission queue: the places of the ring that it alone may fill.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dwell::runtime {

class SubmissionQueue;

// Places [at, end) are the thread's. It fills them one after the other, and each costs it two plain stores and one load of lines that
// nobody else writes. The holder of the queue's lock may take back those that are left: it clears `end`, makes every thread of the process
// execute a fence (membarrier), and waits until the thread is not inside. From then on the thread finds no place, and `at` stands still
// until the thread has had the lock. So the frequent side pays for no fence. Modelled in tests/model/submit.pml. Source of the idea: biased
// locking (Kawachiya et al., OOPSLA 2002) with an asymmetric fence.
//
// Lives as long as its queue; when the thread has ended, a later thread at the same queue gets it. So `at` never falls.
struct alignas(128) Submitter {
  // Twice the next place, plus 1 while the thread is inside: between seeing that a place is its own and having filled it. Written by the
  // thread alone.
  std::atomic<std::uint64_t> at{0};
  // Twice one past the last place, or 0. Written under the queue's lock.
  std::atomic<std::uint64_t> end{0};
  static constexpr std::uint32_t kTracked = 64U << 4U;  // in word1 (src/device/ring.hpp)

  // The rest of this line is the thread's alone.
  std::uint32_t word1 = 0;         // header word 1 that tasks of one slot and no order have at these places
  bool any = false;                // the thread has submitted a task to this queue
  bool tracked = false;            // the task at `previous` leaves word on the device when it completes
  std::uint64_t previous = 0;      // the place of the thread's last task but for those of [previous_end, at)
  std::uint64_t previous_end = 0;  // where `at` stood then

  using Clock = std::chrono::steady_clock;
  Clock::time_point returned{};  // when the thread last had the lock

  // Guarded by the queue's lock.
  alignas(64) std::uint64_t given = 0;  // one past the last place, as it was given
  std::uint64_t seen = 0;               // what `at` was when somebody last looked
  Clock::time_point seen_since{};
  Clock::time_point since{};  // when the places were given
  std::uint32_t size = 1;     // places that it is given at once
  bool was_full = false;      // it asked in vain, because the ring was full
  bool listed = false;        // in SubmissionQueue::shared_

  std::uint64_t place() const { return at.load(std::memory_order_relaxed) / 2; }
  bool inside() const { return (at.load(std::memory_order_acquire) & 1U) != 0; }  // pairs with leave

  // Called by the thread: says that it is inside, and returns its place. The caller then looks at `end`.
  std::uint64_t enter() {
    const std::uint64_t now = at.load(std::memory_order_relaxed);
    at.store(now | 1U, std::memory_order_relaxed);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // against the thread that takes back: membarrier is the other half
    return now / 2;
  }
  // Called by the thread, which has submitted a task of another sort than plain.
  void note(std::uint64_t task, bool leaves_word) {
    any = true;
    previous = task;
    tracked = leaves_word;
  }
  // Called by the thread: takes the last plain task into account.
  void note_plain() {
    if (place() == previous_end) return;
    note(place() - 1, (word1 & kTracked) != 0);
    previous_end = place();
  }

  // Called by the thread: the places before `next` are filled.
  void leave(std::uint64_t next) { at.store(next * 2, std::memory_order_release); }
};

// The submitter that the calling thread used last.
struct CurrentSubmitter {
  std::uint64_t queue = 0;  // its queue's number, from 1
  Submitter* submitter = nullptr;

  // In the block that the loader sets up: one instruction away, also from a shared library.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local CurrentSubmitter mine;
};

// Which thread has which submitter. May be called from any thread.
namespace submitters {
// A queue begins; returns its number. It ends.
std::uint64_t open(SubmissionQueue& queue);
void close(std::uint64_t number);
// The calling thread's submitter at a queue, made if there is none; it is also CurrentSubmitter::mine from now on. Null in a thread whose
// thread-local objects are being destroyed.
Submitter* mine(SubmissionQueue& queue, std::uint64_t number);
// The same, or null if there is none.
Submitter* find(std::uint64_t number);
}  // namespace submitters

}  // namespace dwell::runtime
