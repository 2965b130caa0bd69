// The decision of dwell.torch when to start bursts.
#include "python/dwell/torch/csrc/burst_pace.hpp"

#include <gtest/gtest.h>

namespace dwell::pytorch {
namespace {

using std::chrono::microseconds;

class BurstPaceTest : public testing::Test {
 protected:
  // The shortest time after which a burst is worth its cost.
  microseconds rest() {
    pace_.begins(now_);
    microseconds rest{0};
    while (!pace_.worth(now_ + rest)) ++rest;
    return rest;
  }

  BurstPace pace_;
  BurstPace::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(BurstPaceTest, InitialEstimateIsTenMicroseconds) { EXPECT_EQ(rest(), microseconds(320)); }

TEST_F(BurstPaceTest, ExpensiveBurstsAreRare) {
  for (int i = 0; i < 100; ++i) pace_.took(microseconds(50));
  EXPECT_NEAR(static_cast<double>(rest().count()), 1600, 2);
}

TEST_F(BurstPaceTest, CheapBurstsAreFrequent) {
  for (int i = 0; i < 100; ++i) pace_.took(microseconds(5));
  EXPECT_NEAR(static_cast<double>(rest().count()), 160, 2);
}

TEST_F(BurstPaceTest, OutlierChangesLittle) {
  pace_.took(std::chrono::seconds(1));
  EXPECT_EQ(rest(), microseconds(440));
  for (int i = 0; i < 100; ++i) pace_.took(microseconds(10));
  EXPECT_NEAR(static_cast<double>(rest().count()), 320, 2);
}

TEST_F(BurstPaceTest, TheTimeCountsFromTheFirstOperation) {
  pace_.begins(now_);
  now_ += std::chrono::seconds(10);
  EXPECT_TRUE(pace_.worth(now_));
  pace_.begins(now_);
  EXPECT_FALSE(pace_.worth(now_));
}

}  // namespace
}  // namespace dwell::pytorch
