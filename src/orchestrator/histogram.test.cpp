#include "orchestrator/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dwell::orchestrator {
namespace {

using std::chrono::nanoseconds;

TEST(Histogram, EmptyIsZero) {
  const JobTimes times = Histogram().times();
  EXPECT_EQ(times.count, 0U);
  EXPECT_EQ(times.p99, nanoseconds(0));
}

TEST(Histogram, SmallTimesAreExact) {
  Histogram histogram;
  for (int i = 0; i < 16; ++i) histogram.add(nanoseconds(i));
  const JobTimes times = histogram.times();
  EXPECT_EQ(times.count, 16U);
  EXPECT_EQ(times.mean, nanoseconds(7));
  EXPECT_EQ(times.p50, nanoseconds(7));
  EXPECT_EQ(times.p99, nanoseconds(15));
  EXPECT_EQ(times.most, nanoseconds(15));
}

TEST(Histogram, QuantilesAreAtMostASixteenthTooHigh) {
  std::mt19937_64 random(3);
  for (const unsigned bits : {6U, 20U, 40U, 62U}) {
    Histogram histogram;
    std::vector<std::int64_t> all(1001);
    for (auto& each : all) {
      each = static_cast<std::int64_t>(random() >> (64 - bits));
      histogram.add(nanoseconds(each));
    }
    std::sort(all.begin(), all.end());
    const JobTimes times = histogram.times();
    const auto check = [&](nanoseconds found, std::int64_t exact) {
      EXPECT_GE(found.count(), exact) << bits;
      EXPECT_LE(static_cast<double>(found.count()), static_cast<double>(exact) * (1 + 1.0 / 16)) << bits;
    };
    check(times.p50, all[500]);
    check(times.p99, all[990]);
    EXPECT_EQ(times.most.count(), all.back());
  }
  // Extreme values.
  Histogram histogram;
  histogram.add(nanoseconds(-5));
  histogram.add(nanoseconds::max());
  EXPECT_EQ(histogram.times().most, nanoseconds::max());
  EXPECT_EQ(histogram.times().p99, nanoseconds::max());
  EXPECT_EQ(histogram.times().p50, nanoseconds(0));
}

}  // namespace
}  // namespace dwell::orchestrator
