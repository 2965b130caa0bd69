// The host's counters for Metrics, beside those that its parts keep.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <dwell/metric_rows.hpp>

namespace dwell::runtime {

// A counter for each row of Metrics. Members may be called from any thread.
class HostCounts {
 public:
  // Counts an event of the host: count<&Metrics::credit_waits>().
  template <std::uint64_t Metrics::*metric>
  void count(std::uint64_t more = 1) noexcept {
    constexpr std::size_t kRow = row_of(metric);
    counters_[kRow].fetch_add(more, std::memory_order_relaxed);
  }
  // Adds these counts.
  void read(Metrics& metrics) const noexcept {
    for (std::size_t i = 0; i < counters_.size(); ++i) metrics.*kMetricRows[i].value += counters_[i].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t row_of(std::uint64_t Metrics::*metric) {
    std::size_t row = 0;
    while (kMetricRows[row].value != metric) ++row;
    return row;
  }

  std::array<std::atomic<std::uint64_t>, std::size(kMetricRows)> counters_{};
};

}  // namespace dwell::runtime
