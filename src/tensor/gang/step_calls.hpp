// The host's side of a gang that stays on the device between calls (device/resident_member.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace dwell::tensor::gang {

// Puts the inputs of calls, polls for their results, and sees to it that a kernel is there: the first call launches one, and while calls
// keep coming the next one waits behind it before its lease ends. Used by one thread at a time.
class StepCalls {
 public:
  // In memory of the host, as StepMemory has it.
  struct Memory {
    std::uint64_t* control = nullptr;
    std::uint64_t* inputs = nullptr;
    const std::uint64_t* outputs = nullptr;
    const std::uint32_t* left = nullptr;
  };
  // Launches kernel `number` behind all before it. What it throws comes out of begin and done; the call stays, and begin may try again.
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

  // Tells all kernels to leave. None that has been launched takes a call that begins later.
  void leave() const;
  // Returns whether all have.
  bool have_left() const { return left() == launched_; }
  std::uint32_t launched() const { return launched_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::uint32_t left() const;
  void launch();
  void look_ahead();

  Memory memory_;
  std::uint32_t outputs_;
  std::chrono::nanoseconds lease_;
  Launch launch_;
  std::uint32_t call_ = 0;      // the last one that has begun
  std::uint32_t done_ = 0;      // the last one whose results are there
  std::uint32_t seen_ = 0;      // words of the results of call_
  std::uint32_t launched_ = 0;  // kernels
  std::uint32_t last_ = 0;      // the kernel that has been alone on the device since `since_`
  Clock::time_point since_;
};

}  // namespace dwell::tensor::gang
