// Latencies of any number of tasks in little memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace dwell::tool {

// Counts times in buckets of one part in 128 of their value: quantiles are exact to 1 %, count and maximum exactly so. Up to 2^63 ns.
class Latencies {
 public:
  Latencies();

  void add(std::chrono::nanoseconds time);

  std::uint64_t count() const { return count_; }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }
  // The time that a part `q` (0 to 1) of all lie at or below; 0 when there are none.
  std::chrono::nanoseconds quantile(double q) const;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace dwell::tool
