// When dwell.torch starts bursts.
#include "python/dwell/torch/csrc/burst_pace.hpp"

#include <gtest/gtest.h>

namespace dwell::pytorch {
namespace {

using std::chrono::microseconds;

class BurstPaceTest : public testing::Test {
 protected:
  // Looks so often until so many operations have been collected, `each` taking the host so long; the burst before ends at `end`.
  void collect(std::int64_t operations, microseconds each, BurstPace::Clock::time_point end) {
    for (std::int64_t i = BurstPace::kLook; i <= operations; i += BurstPace::kLook) {
      now_ += each * BurstPace::kLook;
      pace_.looked(now_, now_ >= end);
    }
  }

  BurstPace pace_;
  BurstPace::Clock::time_point now_{};
};

TEST_F(BurstPaceTest, AtFirstAnOperationIsTakenForAMicrosecond) {
  pace_.looked(now_, true);
  EXPECT_FALSE(pace_.worth(99));
  EXPECT_TRUE(pace_.worth(100));
}

TEST_F(BurstPaceTest, SlowOperationsStartSoon) {
  pace_.started(now_, 100);
  collect(160, microseconds(10), now_ + microseconds(1000));
  EXPECT_TRUE(pace_.worth(16));
  EXPECT_FALSE(pace_.worth(8));
}

TEST_F(BurstPaceTest, WhatHasEndedBeforeTheFirstLookTakesNoTime) {
  pace_.started(now_, 100);
  collect(16, microseconds(1), now_);
  EXPECT_FALSE(pace_.worth(1'000'000));
}

TEST_F(BurstPaceTest, ATimeInWhichNobodyLooksIsNotThatOfTheDevice) {
  pace_.started(now_, 100);
  collect(32, microseconds(1), now_ + microseconds(40));
  now_ += std::chrono::seconds(10);
  pace_.looked(now_, true);
  EXPECT_TRUE(pace_.worth(400));
  EXPECT_FALSE(pace_.worth(300));
}

TEST_F(BurstPaceTest, BurstsBehindEachOtherCountTogether) {
  pace_.started(now_, 100);
  const auto end = now_ + microseconds(1000);
  collect(16, microseconds(10), end);
  pace_.started(now_, 100);
  collect(160, microseconds(10), end);
  EXPECT_TRUE(pace_.worth(32));
  EXPECT_FALSE(pace_.worth(16));
}

TEST_F(BurstPaceTest, BehindAnInterruptionNothingIsTakenForQuick) {
  pace_.started(now_, 100);
  collect(16, microseconds(1), now_);
  pace_.interrupted();
  EXPECT_TRUE(pace_.worth(100));
  pace_.started(now_, 100);
  collect(160, microseconds(10), now_ + microseconds(1000));
  pace_.interrupted();
  EXPECT_TRUE(pace_.worth(16)) << "but what was slow still is";
}

TEST_F(BurstPaceTest, AnInterruptedBurstIsNotMeasured) {
  pace_.started(now_, 100);
  pace_.interrupted();
  collect(160, microseconds(10), now_ + microseconds(1000));
  EXPECT_TRUE(pace_.worth(100));
  EXPECT_FALSE(pace_.worth(99));
}

}  // namespace
}  // namespace dwell::pytorch
