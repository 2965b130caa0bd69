// A summary of many measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace dwell::bench {

// Quantiles are measured values: the smallest at or above that part of all values.
struct Spread {
  std::size_t count = 0;
  double least = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;  // 99.9 %
  double most = 0;
};

// Returns the summary of values; all zero if there are none.
Spread spread_of(std::vector<double> values);

// Returns the summary of a figure that was measured once, or computed.
inline Spread one(double value) { return {1, value, value, value, value, value, value}; }

}  // namespace dwell::bench
