#include "observe/trace_arrows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dwell::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TraceArrows, LeadFromTasksToTheirWaiters) {
  TraceArrows arrows;
  arrows.add(std::vector<TraceArrow>{{1, 2}, {1, 3}, {2, 3}});
  EXPECT_THAT(arrows.begin(1), ElementsAre(1U, 2U));
  EXPECT_THAT(arrows.begin(1), IsEmpty()) << "each is told once";
  EXPECT_THAT(arrows.end(2), ElementsAre(1U));
  EXPECT_THAT(arrows.begin(2), ElementsAre(3U));
  EXPECT_THAT(arrows.end(3), ElementsAre(2U, 3U));
}

TEST(TraceArrows, OfTasksThatNeverRunAreBounded) {
  TraceArrows arrows(10);
  // All of one task: the limit counts arrows, not tasks.
  for (std::uint64_t i = 0; i < 11; ++i) arrows.add(std::vector<TraceArrow>{{1, 100 + i}});
  EXPECT_EQ(arrows.begin(1).size(), 11U);
  arrows.add(std::vector<TraceArrow>{{2, 3}});
  EXPECT_THAT(arrows.end(100), IsEmpty()) << "begun, and forgotten";
  EXPECT_THAT(arrows.begin(2), ElementsAre(12U)) << "no number is used again";
  EXPECT_THAT(arrows.end(3), ElementsAre(12U));
}

TEST(TraceArrows, EndedArrowsUseNoMemory) {
  TraceArrows arrows(10);
  for (std::uint64_t i = 0; i < 100; ++i) {
    arrows.add(std::vector<TraceArrow>{{i, i + 1}});
    EXPECT_THAT(arrows.begin(i), ElementsAre(i + 1));
    EXPECT_THAT(arrows.end(i + 1), ElementsAre(i + 1));
  }
}

TEST(TraceArrows, EndOfALaunchJoinsItsBeginOnce) {
  TraceArrows arrows(2);
  arrows.begin_launch(5);
  EXPECT_FALSE(arrows.end_launch(6));
  EXPECT_TRUE(arrows.end_launch(5));
  EXPECT_FALSE(arrows.end_launch(5));
  for (const std::uint64_t position : {7U, 8U, 9U}) arrows.begin_launch(position);
  EXPECT_FALSE(arrows.end_launch(7)) << "forgotten, before they fill the memory";
  EXPECT_TRUE(arrows.end_launch(9));
}

}  // namespace
}  // namespace dwell::observe
