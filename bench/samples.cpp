#include "bench/samples.hpp"

#include <algorithm>
#include <cmath>

namespace dwell::bench {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
    return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
  };
  return {values.size(), values.front(), quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), values.back()};
}

}  // namespace dwell::bench
