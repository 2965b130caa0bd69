#include "top_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keys.hpp"
#include "tests/unit/live.hpp"

namespace dwell::tool {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

TopState state_with(Metering metering = Metering::times) {
  TopState state;
  state.runtimes = {1};
  state.runtime = 1;
  state.take(test::metrics_after(2, metering));
  state.take(test::metrics_after(4, metering));
  return state;
}

std::vector<std::string> names(const TopState& state) {
  std::vector<std::string> names;
  for (const OperatorRow& row : state.operators()) names.push_back(row.name);
  return names;
}

TEST(TopState, FiguresAreThoseOfTheInterval) {
  const TopState state = state_with();
  EXPECT_EQ(state.seconds, 2);
  EXPECT_EQ(state.tasks_per_second(), 1010);
  const std::vector<OperatorRow> rows = state.operators();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "axpy");
  EXPECT_EQ(rows[0].tasks_per_s, 1000);
  EXPECT_EQ(rows[0].tasks, 4000U);
  EXPECT_THAT(rows[0].mean_ns, testing::Optional(2000.0));
  EXPECT_THAT(rows[0].p50_ns, testing::Optional(DoubleNear(2000, 500)));
  EXPECT_THAT(rows[0].share, testing::Optional(DoubleNear(0.001, 1e-9)));
  EXPECT_THAT(rows[1].share, testing::Optional(DoubleNear(0.005, 1e-9)));
  EXPECT_EQ(rows[1].failures, 3U);
  EXPECT_THAT(state.workers(), ElementsAre(DoubleNear(0.002, 1e-9), DoubleNear(0.01, 1e-9)));
}

TEST(TopState, OneSnapshotGivesNoRates) {
  TopState state;
  EXPECT_THAT(state.operators(), IsEmpty());
  state.take(test::metrics_after(2));
  EXPECT_FALSE(state.interval);
  EXPECT_EQ(state.operators().size(), 2U);
  EXPECT_FALSE(state.operators()[0].mean_ns);
  EXPECT_THAT(state.workers(), IsEmpty());
}

TEST(TopState, AnotherGenerationBeginsAnew) {
  TopState state = state_with();
  Metrics next = test::metrics_after(5);
  next.generation = 2;
  state.take(next);
  EXPECT_FALSE(state.interval);
  EXPECT_EQ(state.now->generation, 2U);
}

TEST(TopState, CountsAloneKnowNoTimes) {
  const TopState state = state_with(Metering::counts);
  EXPECT_EQ(state.operators()[0].tasks_per_s, 1000);
  EXPECT_FALSE(state.operators()[0].p50_ns);
  EXPECT_FALSE(state.operators()[0].share);
  EXPECT_THAT(state.workers(), ElementsAre(1, DoubleNear(0.01, 1e-9)));
}

TEST(TopState, WithoutMeteringTheRingCounts) {
  const TopState state = state_with(Metering::off);
  EXPECT_EQ(state.tasks_per_second(), 1010);
  EXPECT_THAT(state.workers(), IsEmpty());
}

TEST(TopState, KeysSort) {
  TopState state = state_with();
  EXPECT_THAT(names(state), ElementsAre("axpy", "zip"));
  for (const char key : {'f', 'p', 's'}) {
    press(state, 't');
    press(state, key);
    EXPECT_THAT(names(state), ElementsAre("zip", "axpy")) << key;
  }
  press(state, 'n');
  EXPECT_THAT(names(state), ElementsAre("axpy", "zip"));
  press(state, key_right);
  EXPECT_EQ(state.sort, Column::tasks) << "the columns are a ring";
  press(state, key_left);
  press(state, key_left);
  EXPECT_EQ(state.sort, Column::version);
}

TEST(TopState, KeysScrollWithinTheTable) {
  TopState state = state_with();
  press(state, key_up);
  EXPECT_EQ(state.scroll, 0U);
  for (int i = 0; i < 5; ++i) press(state, key_down);
  EXPECT_EQ(state.scroll, 1U);
  press(state, key_home);
  EXPECT_EQ(state.scroll, 0U);
  press(state, key_page_down);
  EXPECT_EQ(state.scroll, 1U);
}

TEST(TopState, TabShowsTheNextRuntime) {
  TopState state = state_with();
  press(state, '\t');
  EXPECT_TRUE(state.now) << "there is no other one";
  state.runtimes = {1, 4};
  press(state, '\t');
  EXPECT_EQ(state.runtime, 4U);
  EXPECT_FALSE(state.now);
  press(state, '\t');
  EXPECT_EQ(state.runtime, 1U);
}

TEST(TopState, OtherKeys) {
  TopState state;
  EXPECT_TRUE(press(state, ' '));
  EXPECT_TRUE(state.paused);
  EXPECT_TRUE(press(state, 'h'));
  EXPECT_TRUE(state.help);
  EXPECT_TRUE(press(state, 'z'));
  EXPECT_FALSE(press(state, 'q'));
  EXPECT_FALSE(press(state, 3));
}

TEST(TopState, KeepsTheLastLinesOfTheLog) {
  TopState state;
  state.take(std::vector<LogRecord>(TopState::kLogLines, test::log_line("old")));
  state.take(std::vector<LogRecord>{test::log_line("new")});
  EXPECT_EQ(state.log.size(), TopState::kLogLines);
  EXPECT_EQ(state.log.back().text, "new");
}

}  // namespace
}  // namespace dwell::tool
