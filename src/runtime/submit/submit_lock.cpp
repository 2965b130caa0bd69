#include "runtime/submit/submit_lock.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

namespace dwell::runtime {

namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `condition` holds, which is a matter of nanoseconds while the thread waited for has a processor.
template <class Condition>
void spin_until(Condition condition) {
  for (std::uint32_t round = 1; !condition(); ++round) {
    relax();
    if (round % 256 == 0) std::this_thread::yield();
  }
}

// The seats of threads that have ended. Leaked: threads end after static objects are gone.
template <class T>
struct Pool {
  std::mutex mutex;
  std::vector<T*> all;  // so that leak checkers see that they are meant to stay
  std::vector<T*> free;
};
template <class T>
Pool<T>& pool() {
  static auto& one = *new Pool<T>();
  return one;
}

}  // namespace

constinit thread_local SubmitLock::Seat* SubmitLock::Seat::current_ = nullptr;

SubmitLock::Seat* SubmitLock::Seat::take() {
  struct GiveBack {
    ~GiveBack() {
      const std::lock_guard guard(pool<Seat>().mutex);
      pool<Seat>().free.push_back(current_);
      current_ = nullptr;
    }
  };
  {
    const std::lock_guard guard(pool<Seat>().mutex);
    if (!pool<Seat>().free.empty()) {
      current_ = pool<Seat>().free.back();
      pool<Seat>().free.pop_back();
    } else {
      pool<Seat>().free.reserve(pool<Seat>().all.size() + 1);  // so that giving it back never fails
      pool<Seat>().all.reserve(pool<Seat>().all.size() + 1);
      current_ = pool<Seat>().all.emplace_back(new Seat());
    }
  }
  // Constructed once a thread: a seat taken behind its end, by another destructor, stays with it.
  static thread_local GiveBack give_back;
  return current_;
}

void SubmitLock::lock_slowly(Seat* me) {
  spin_until([this] { return !line_.test(std::memory_order_relaxed) && !line_.test_and_set(std::memory_order_acquire); });
  Seat* const owner = owner_.load(std::memory_order_relaxed);
  if (owner != nullptr && owner != me) {
    if (take_from(owner, me)) {
      until_owned_ = kFewest;
      return own(me);
    }
    owner_.store(nullptr, std::memory_order_relaxed);
    until_owned_ = std::min(until_owned_ * 2, kMost);
    unowned_ = 0;
  }
  if (++unowned_ >= until_owned_ && kHaveMembarrier) return own(me);
  holder_ = nullptr;
}

// Makes this thread the owner in place of another. True if that one handed the lock on, false if it had to be taken.
bool SubmitLock::take_from(Seat* owner, Seat* me) {
  constexpr std::uint32_t kPatience = 32;  // pauses in which an owner that goes on submitting has a turn
  next_.store(me, std::memory_order_relaxed);
  std::uint32_t turns = turns_.load(std::memory_order_relaxed);
  bool given = false;
  for (std::uint32_t round = 1; !given; ++round) {
    relax();
    given = owner_.load(std::memory_order_acquire) == me;  // pairs with hand_on: from here on the old owner's seat tells the truth
    if (round % kPatience == 0) {
      const std::uint32_t now = turns_.load(std::memory_order_relaxed);
      if (now == turns && owner->inside.load(std::memory_order_relaxed) == 0) break;
      turns = now;
    }
  }
  if (!given) {
    owner_.store(me, std::memory_order_relaxed);
    // From here on the old owner sees that it is none, or its seat says that it is inside.
    membarrier();
  }
  spin_until([owner] { return owner->inside.load(std::memory_order_acquire) == 0; });
  next_.store(nullptr, std::memory_order_relaxed);
  turns_.store(0, std::memory_order_relaxed);
  return given;
}

// Makes the thread that holds line_ the owner, and lets it in.
void SubmitLock::own(Seat* me) {
  holder_ = me;
  me->inside.store(1, std::memory_order_relaxed);
  owner_.store(me, std::memory_order_relaxed);
  line_.clear(std::memory_order_release);
}

void SubmitLock::hand_on() {
  constexpr std::uint32_t kLook = 32;                   // turns between looks at the clock
  constexpr auto kTime = std::chrono::microseconds(8);  // long against what handing on costs, short for whoever waits
  const std::uint32_t turns = turns_.load(std::memory_order_relaxed) + 1;
  turns_.store(turns, std::memory_order_relaxed);
  if (turns % kLook != 1) return;
  const auto now = std::chrono::steady_clock::now();
  if (turns == 1)
    hand_on_ = now + kTime;
  else if (now >= hand_on_)
    owner_.store(next_.load(std::memory_order_relaxed), std::memory_order_release);
}

}  // namespace dwell::runtime
