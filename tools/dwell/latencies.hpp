// A histogram of any number of latencies in little memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace dwell::tool {

// Counts times up to 2^63 ns in buckets of 1/128 of their value: quantiles are precise to 1 %, count and maximum exact.
class Latencies {
 public:
  Latencies();

  void add(std::chrono::nanoseconds time);

  std::uint64_t count() const { return count_; }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }
  // Returns the time at or below which a part `q` (0 to 1) of all lies; 0 if there are none.
  std::chrono::nanoseconds quantile(double q) const;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace dwell::tool
