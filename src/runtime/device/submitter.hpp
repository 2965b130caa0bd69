// A thread's places in the ring.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dwell::runtime {

class SubmissionQueue;

// Places [at, end) belong to the thread. It fills them in order; each costs two plain stores and one load of lines that nobody else writes.
// The holder of the queue's lock may revoke unused places: it clears `end`, makes every thread of the process execute a fence (membarrier),
// and waits until the thread is not inside. Then the thread finds no place, and `at` is constant until the thread has had the lock. So the
// frequent side needs no fence. Modelled in tests/model/submit.pml. Source of the idea: biased locking (Kawachiya et al., OOPSLA 2002) with
// an asymmetric fence.
//
// Lives as long as its queue; a later thread at the same queue reuses that of an ended one. So `at` never decreases.
struct alignas(128) Submitter {
  // Twice the next place, plus 1 while the thread is inside: from checking that it owns the place until it has filled it. Written by the
  // thread only.
  std::atomic<std::uint64_t> at{0};
  // Twice one past the last place, or 0. Written under the queue's lock.
  std::atomic<std::uint64_t> end{0};
  static constexpr std::uint32_t kTracked = 64U << 4U;  // in word1 (src/device/ring.hpp)

  // The rest of this line is private to the thread.
  std::uint32_t word1 = 0;         // header word 1 of one-slot tasks without order at these places
  bool any = false;                // the thread has submitted a task to this queue
  bool tracked = false;            // the task at `previous` records its completion on the device
  std::uint64_t previous = 0;      // the place of the thread's last task before previous_end
  std::uint64_t previous_end = 0;  // the value of `at` then

  using Clock = std::chrono::steady_clock;
  Clock::time_point returned{};  // when the thread last held the lock

  // Guarded by the queue's lock.
  alignas(64) std::uint64_t given = 0;  // one past the last assigned place
  std::uint64_t seen = 0;               // the last observed value of `at`
  Clock::time_point seen_since{};
  Clock::time_point since{};  // when the places were assigned
  std::uint32_t size = 1;     // places assigned at once
  bool was_full = false;      // its last request failed: the ring was full
  bool listed = false;        // in SubmissionQueue::shared_

  std::uint64_t place() const { return at.load(std::memory_order_relaxed) / 2; }
  bool inside() const { return (at.load(std::memory_order_acquire) & 1U) != 0; }  // pairs with leave

  // Called by the thread: enters, and returns its place. The caller then checks `end`.
  std::uint64_t enter() {
    const std::uint64_t now = at.load(std::memory_order_relaxed);
    at.store(now | 1U, std::memory_order_relaxed);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);  // pairs with the membarrier of the thread that revokes
    return now / 2;
  }
  // Called by the thread after it has submitted a task that is not plain.
  void note(std::uint64_t task, bool leaves_word) {
    any = true;
    previous = task;
    tracked = leaves_word;
  }
  // Called by the thread: updates `previous` for the last plain task.
  void note_plain() {
    if (place() == previous_end) return;
    note(place() - 1, (word1 & kTracked) != 0);
    previous_end = place();
  }

  // Called by the thread when the places before `next` are filled.
  void leave(std::uint64_t next) { at.store(next * 2, std::memory_order_release); }
};

// The submitter that the calling thread used last.
struct CurrentSubmitter {
  std::uint64_t queue = 0;  // its queue's number, from 1
  Submitter* submitter = nullptr;

  // Static TLS: accessed by one instruction, also from a shared library.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local CurrentSubmitter mine;
};

// Maps threads to submitters. May be called from any thread.
namespace submitters {
// Registers a queue, and returns its number; removes one.
std::uint64_t open(SubmissionQueue& queue);
void close(std::uint64_t number);
// Returns the calling thread's submitter at a queue, created if needed, and stores it in CurrentSubmitter::mine. Null in a thread whose
// thread-local objects are being destroyed.
Submitter* mine(SubmissionQueue& queue, std::uint64_t number);
// As above, but null if there is none.
Submitter* find(std::uint64_t number);
}  // namespace submitters

}  // namespace dwell::runtime
