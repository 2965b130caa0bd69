// Times in buckets, so that quantiles of any number of them take the same memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <dwell/orchestrator.hpp>

namespace dwell::orchestrator {

// Sixteen buckets for each power of two, so a quantile, which is the upper end of its bucket, is at most a sixteenth too high.
class Histogram {
 public:
  void add(std::chrono::nanoseconds time) {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
    ++buckets_[bucket_of(value)];
    ++count_;
    sum_ += static_cast<double>(value);
    most_ = std::max(most_, value);
  }

  JobTimes times() const {
    JobTimes times;
    if (count_ == 0) return times;
    times.count = count_;
    times.mean = std::chrono::nanoseconds(static_cast<std::int64_t>(sum_ / static_cast<double>(count_)));
    times.p50 = quantile(0.5);
    times.p99 = quantile(0.99);
    times.most = std::chrono::nanoseconds(static_cast<std::int64_t>(most_));
    return times;
  }

 private:
  static constexpr unsigned kBits = 4;

  // Values below 2^kBits have buckets of their own.
  static std::size_t bucket_of(std::uint64_t value) {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= kBits) return static_cast<std::size_t>(value);
    const unsigned shift = width - kBits - 1;
    return ((shift + 1ULL) << kBits) + ((value >> shift) & ((1U << kBits) - 1U));
  }
  // The largest value in a bucket.
  static std::uint64_t upper_end(std::size_t bucket) {
    if (bucket < 1U << kBits) return bucket;
    const std::size_t shift = (bucket >> kBits) - 1;
    const std::uint64_t first = (1ULL << kBits) + (bucket & ((1U << kBits) - 1U));
    return ((first + 1) << shift) - 1;
  }
  // The smallest upper end that at least this part of all lie at or below.
  std::chrono::nanoseconds quantile(double part) const {
    const auto wanted = static_cast<double>(count_) * part;
    std::uint64_t seen = 0;
    std::size_t bucket = 0;
    for (; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket];
      if (static_cast<double>(seen) >= wanted) break;
    }
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(upper_end(bucket), most_)));
  }

  std::array<std::uint64_t, (64 - kBits + 1) << kBits> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace dwell::orchestrator
