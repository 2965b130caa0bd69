// Metrics as those who scrape them see them: named families of labelled samples. The formats differ, the names do not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/metrics.hpp>

namespace dwell::observe {

struct MetricLabel {
  std::string_view name;
  std::string value;
};

struct MetricBucket {
  double most = 0;  // seconds: the bucket counts what is at most this
  std::uint64_t cumulative = 0;
};

struct MetricSample {
  std::vector<MetricLabel> labels;
  double value = 0;         // of a histogram: the sum
  std::uint64_t count = 0;  // of a histogram, which has this many values; its last bucket, without an end, is not among `buckets`
  std::vector<MetricBucket> buckets;
};

struct MetricFamily {
  enum class Type : std::uint8_t { counter, gauge, histogram };

  std::string_view name;  // of a counter: without _total
  Type type = Type::counter;
  std::string_view unit;  // empty, or what the name ends with
  std::string_view help;
  std::vector<MetricSample> samples;
};

// All families that have samples. What only Metering::times finds out is left out where that was never on.
std::vector<MetricFamily> metric_families(const Metrics& metrics);

}  // namespace dwell::observe
