#include "bench/samples.hpp"

#include <gtest/gtest.h>

namespace dwell::bench {
namespace {

TEST(Samples, NoneAreZero) {
  const Spread none = spread_of({});
  EXPECT_EQ(none.count, 0U);
  EXPECT_EQ(none.most, 0.0);
}

TEST(Samples, QuantilesAreNearestRank) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);
  const Spread spread = spread_of(values);
  EXPECT_EQ(spread.count, 200U);
  EXPECT_EQ(spread.least, 1);
  EXPECT_EQ(spread.p50, 100);
  EXPECT_EQ(spread.p90, 180);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.p999, 200);
  EXPECT_EQ(spread.most, 200);
}

TEST(Samples, FewAreAmongThemselves) {
  EXPECT_EQ(spread_of({7}).p99, 7);
  EXPECT_EQ(spread_of({3, 1, 2}).p50, 2);
  EXPECT_EQ(spread_of({2, 1}).p50, 1);
  EXPECT_EQ(spread_of({2, 1}).p99, 2);
}

}  // namespace
}  // namespace dwell::bench
