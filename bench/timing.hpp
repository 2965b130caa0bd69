// Clocks and waiting for benchmarks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/relax.hpp"

namespace dwell::bench {

using Clock = std::chrono::steady_clock;

inline double nanoseconds(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }
inline double nanoseconds_since(Clock::time_point start) { return nanoseconds(Clock::now() - start); }

// Waits by polling, but yields now and then: the awaited thread may need this processor.
template <class Done>
void spin_until(Done done) {
  for (std::uint32_t round = 1; !done(); ++round) {
    relax();
    if (round % 64 == 0) std::this_thread::yield();
  }
}

inline void spin_for(std::chrono::nanoseconds time) {
  const Clock::time_point until = Clock::now() + time;
  while (Clock::now() < until) relax();
}

// Pseudo-random numbers, the same in every run, so that dwell and peers get the same ones.
class Random {
 public:
  // Returns 0 to limit - 1.
  std::uint32_t below(std::uint32_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(((state_ >> 32U) * limit) >> 32U);
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

// Times each of `count` calls of once(i), with busy pauses of 0 to `pause` between, after a hundredth of untimed calls numbered from
// `count` on. Calls look(i) after each, untimed.
template <class Once, class Look>
std::vector<double> time_with_pauses(std::size_t count, std::chrono::nanoseconds pause, Once once, Look look) {
  std::vector<double> times(count);
  Random random;
  for (std::size_t i = 0; i < count / 100 + 1; ++i) {
    once(count + i);
    look(count + i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    spin_for(std::chrono::nanoseconds(random.below(static_cast<std::uint32_t>(pause.count()) + 1)));
    const Clock::time_point start = Clock::now();
    once(i);
    times[i] = nanoseconds_since(start);
    look(i);
  }
  return times;
}
// As above, with pauses of 0 to 10 us.
template <class Once, class Look>
std::vector<double> time_at_random(std::size_t count, Once once, Look look) {
  return time_with_pauses(count, std::chrono::microseconds(10), once, look);
}
template <class Once>
std::vector<double> time_at_random(std::size_t count, Once once) {
  return time_at_random(count, once, [](std::size_t) {});
}
// Returns how often the above call `once`.
constexpr std::size_t calls_at_random(std::size_t count) { return count + count / 100 + 1; }

}  // namespace dwell::bench
