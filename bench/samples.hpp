// Many measurements in a few numbers.
#pragma once

#include <cstddef>
#include <vector>

namespace dwell::bench {

// Quantiles are values that were measured: the smallest one that at least that part of all lie at or below.
struct Spread {
  std::size_t count = 0;
  double least = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;  // 99.9 %
  double most = 0;
};

// All zero for no values.
Spread spread_of(std::vector<double> values);

// A figure that was measured once, or computed.
inline Spread one(double value) { return {1, value, value, value, value, value, value}; }

}  // namespace dwell::bench
