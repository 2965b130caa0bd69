#include "bench/metg.hpp"

#include <gtest/gtest.h>

namespace dwell::bench {
namespace {

TEST(Metg, IsTwiceTheOverheadOfAWorker) {
  // Each of 4 workers spends 300 ns more on each task.
  for (const double overhead : {10.0, 300.0, 40'000.0}) {
    const auto run = [&](std::uint32_t rounds) { return 1000.0 / 4 * (rounds * 5.0 + overhead); };
    EXPECT_NEAR(find_metg(run, 5.0, 1000, 4).value_or(0), 2 * overhead, overhead / 8 + 5);
  }
}

TEST(Metg, OfASchedulerThatHandsOutOneTaskAtATime) {
  // 100 ns a task from one queue, whatever the workers do.
  const auto run = [&](std::uint32_t rounds) { return std::max(1000 * 100.0, 1000.0 / 4 * (rounds * 5.0)); };
  EXPECT_NEAR(find_metg(run, 5.0, 1000, 4).value_or(0), 400, 20);
}

TEST(Metg, NothingWhenHalfIsNeverReached) {
  const auto run = [&](std::uint32_t rounds) { return 1000.0 * (rounds * 5.0 + 10); };
  EXPECT_FALSE(find_metg(run, 5.0, 1000, 4));
}

}  // namespace
}  // namespace dwell::bench
