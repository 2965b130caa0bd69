#include "latencies.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace dwell::tool {
namespace {

using std::chrono::nanoseconds;

TEST(Latencies, WithoutSamplesAreZero) {
  const Latencies none;
  EXPECT_EQ(none.count(), 0U);
  EXPECT_EQ(none.quantile(0.5), nanoseconds(0));
  EXPECT_EQ(none.max(), nanoseconds(0));
}

TEST(Latencies, SmallOnesAreExact) {
  Latencies list;
  for (int i = 100; i >= 1; --i) list.add(nanoseconds(i));
  EXPECT_EQ(list.quantile(0.5), nanoseconds(50));
  EXPECT_EQ(list.quantile(0.99), nanoseconds(99));
  EXPECT_EQ(list.quantile(0), nanoseconds(1));
  EXPECT_EQ(list.quantile(1), nanoseconds(100));
  EXPECT_EQ(list.max(), nanoseconds(100));
}

TEST(Latencies, LargeOnesAreOffByOneInAHundredAtMost) {
  for (std::int64_t time = 1; time < std::numeric_limits<std::int64_t>::max() / 3; time = time * 3 + 1) {
    Latencies list;
    list.add(nanoseconds(time));
    list.add(nanoseconds(time * 2));
    const auto median = static_cast<double>(list.quantile(0.5).count());
    EXPECT_GE(median, static_cast<double>(time));
    EXPECT_LE(median, static_cast<double>(time) * 1.01);
    EXPECT_EQ(list.quantile(1), nanoseconds(time * 2));
  }
  Latencies extremes;
  extremes.add(nanoseconds::max());
  extremes.add(nanoseconds(-5));
  EXPECT_EQ(extremes.quantile(0.5), nanoseconds(0));
  EXPECT_EQ(extremes.max(), nanoseconds::max());
}

}  // namespace
}  // namespace dwell::tool
