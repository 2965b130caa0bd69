#include "jit/base/file_stamp.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace dwell::jit {
namespace {

TEST(FileStamp, TimesSaturate) {
  constexpr auto most = std::numeric_limits<time_t>::max();
  EXPECT_EQ(since_1970({1, 2}), std::chrono::nanoseconds(1'000'000'002));
  EXPECT_GT(since_1970({most, 999'999'999}), std::chrono::hours(24 * 365 * 200));
  EXPECT_LT(since_1970({-most, 0}), -std::chrono::hours(24 * 365 * 200));
}

}  // namespace
}  // namespace dwell::jit
