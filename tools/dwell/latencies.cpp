#include "latencies.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dwell::tool {

namespace {

// Each time below 2^kBits has its own bucket; above, each doubling has 2^kBits buckets.
constexpr unsigned kBits = 7;
constexpr std::uint64_t kSteps = 1U << kBits;

std::size_t bucket_of(std::uint64_t time) {
  if (time < kSteps) return time;
  const auto shift = static_cast<unsigned>(std::bit_width(time)) - 1 - kBits;
  return (shift + 1) * kSteps + (time >> shift) - kSteps;
}

// Returns the largest time in a bucket.
std::uint64_t last_of(std::size_t bucket) {
  if (bucket < kSteps) return bucket;
  const std::uint64_t shift = bucket / kSteps - 1;
  return ((bucket % kSteps + kSteps + 1) << shift) - 1;
}

}  // namespace

Latencies::Latencies() : buckets_((64 - kBits) * kSteps) {}

void Latencies::add(std::chrono::nanoseconds time) {
  const std::int64_t value = std::max<std::int64_t>(time.count(), 0);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(value))];
  ++count_;
  max_ = std::max(max_, value);
}

std::chrono::nanoseconds Latencies::quantile(double q) const {
  if (count_ == 0) return std::chrono::nanoseconds(0);
  const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted) return std::chrono::nanoseconds(std::min(static_cast<std::int64_t>(last_of(bucket)), max_));
  }
  return max();
}

}  // namespace dwell::tool
