// The host's side of a gang that stays on the device between calls (device/resident_member.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/mutex.hpp"

namespace dwell::tensor::gang {

// Puts the inputs of calls, polls for their results, and sees to it that a kernel is there: a call that finds none launches one, and while
// calls keep coming look_ahead launches the next one behind it before its lease ends. Used by one thread at a time, the caller, but for
// look_ahead and launched. A call that finds a kernel takes no lock.
class StepCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // In memory of the host, as StepMemory has it.
  struct Memory {
    std::uint64_t* control = nullptr;
    std::uint64_t* inputs = nullptr;
    const std::uint64_t* outputs = nullptr;
    const std::uint32_t* left = nullptr;
  };
  // Launches kernel `number` behind all before it. Called by the caller and by look_ahead, one at a time. Errors come out of begin and
  // done; the call stays, and begin may try again.
  using Launch = std::function<void(std::uint32_t number)>;

  // `outputs`: words of a call's results, one at least. `lease`: how long a kernel stays at most.
  StepCalls(const Memory& memory, std::uint32_t outputs, std::chrono::nanoseconds lease, Launch launch);

  // Puts words of the next call, from word `first` on.
  void put(std::uint32_t first, std::span<const std::byte> bytes) const;
  // Begins the call, whose words are all there.
  void begin();
  // Returns whether all results are there. Launches a kernel if none would take the call.
  bool done();
  // Gets results of the last call that is done.
  void get(std::uint32_t first, std::span<std::byte> bytes) const;

  // Tells all kernels to leave. Waits for a launch under way. No kernel is launched until the next call begins.
  void leave();
  // Returns whether all have.
  bool have_left() const { return left() == launched(); }
  // Any thread.
  std::uint32_t launched() const {
    // Relaxed: who acts on it looks again under the mutex. Pairs with the store of launch.
    return launched_.load(std::memory_order_relaxed);
  }

  // Launches the next kernel once the last one is half through its lease and calls keep coming; drops errors of the launch. Returns whether
  // to call it again after `between_looks`; else after the next launch of the caller. Called by one thread at a time, the caller or one
  // beside it. Does not touch the memory of the host, which may be gone.
  bool look_ahead(Clock::time_point now = Clock::now());
  std::chrono::nanoseconds between_looks() const { return std::max<std::chrono::nanoseconds>(lease_ / 8, std::chrono::microseconds(50)); }

 private:
  std::uint32_t left() const;
  void launch_if_gone();
  void launch() DWELL_REQUIRES(mutex_);

  const Memory memory_;
  const std::uint32_t outputs_;
  const std::chrono::nanoseconds lease_;
  const Launch launch_;
  // Written by the caller of the step alone.
  std::uint32_t call_ = 0;              // the last one that has begun
  std::uint32_t seen_ = 0;              // words of the results of call_
  std::atomic<std::uint32_t> done_{0};  // the last call whose results are there; stored by the caller
  // The number of the last kernel that the caller has seen to have left; stored by the caller.
  std::atomic<std::uint32_t> left_seen_{0};

  Mutex mutex_;                             // of launches
  std::atomic<std::uint32_t> launched_{0};  // kernels; stored under the mutex
  // True once a call has launched a kernel behind the last `leave`; until then nothing is launched ahead.
  bool may_launch_ahead_ DWELL_GUARDED_BY(mutex_) = false;
  std::uint32_t looked_done_ DWELL_GUARDED_BY(mutex_) = 0;  // done_ at the last look
  Clock::time_point called_ DWELL_GUARDED_BY(mutex_);       // the time of the last look that has seen a new call
  Clock::time_point since_ DWELL_GUARDED_BY(mutex_);        // about when the last kernel has begun
};

}  // namespace dwell::tensor::gang
