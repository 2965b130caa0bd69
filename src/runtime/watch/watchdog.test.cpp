#include "runtime/watch/watchdog.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

// A runtime whose state a test sets.
class Scene final : public Watched {
 public:
  Look look() override { return {pending, excused, progress, tail}; }
  std::optional<std::uint64_t> settle() override {
    ++settles;
    if (!settle_works) return std::nullopt;
    const std::uint64_t settled = settled_before ? progress.load() : ++progress;  // marks change the state, but are not progress
    if (moves_at_once) ++progress;
    return settled;
  }
  bool has_resumed() override { return resumed; }
  bool has_passed() override {
    ++passes;
    return passes_through;
  }
  Error verdict() override {
    ++verdicts;
    return Error(errc::stalled, "verdict " + std::to_string(verdicts));
  }

  std::atomic<bool> pending{true};
  std::atomic<bool> excused{false};
  std::atomic<std::uint64_t> progress{1};
  std::atomic<std::uint64_t> tail{10};
  std::atomic<bool> settle_works{true};
  std::atomic<bool> settled_before{false};  // all is marked already
  std::atomic<bool> moves_at_once{false};   // after settle
  std::atomic<bool> resumed{true};
  std::atomic<bool> passes_through{true};
  std::atomic<int> settles{0};
  std::atomic<int> passes{0};
  std::atomic<int> verdicts{0};
};

class WatchdogTest : public testing::Test {
 protected:
  static constexpr auto kTimeout = 40ms;
  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 10'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
    return condition();
  }
  // Returns whether no verdict comes for much longer than the timeout.
  bool stays_silent() {
    for (int i = 0; i < 200; ++i) {
      if (watchdog_->stalled()) return false;
      std::this_thread::sleep_for(2ms);
    }
    return scene_.verdicts == 0;
  }
  void open() { watchdog_.emplace(scene_, kTimeout); }

  Scene scene_;
  std::optional<Watchdog> watchdog_;
};

TEST_F(WatchdogTest, ReportsStallsAfterTheTimeout) {
  const auto start = Watchdog::Clock::now();
  open();
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  EXPECT_GE(Watchdog::Clock::now() - start, kTimeout);
  EXPECT_EQ(scene_.settles, 1);
  EXPECT_EQ(scene_.passes, 1);
  const std::optional<Error> verdict = watchdog_->verdict_on(9);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->kind(), errc::stalled);
  EXPECT_EQ(verdict->message(), "verdict 1");
  EXPECT_FALSE(watchdog_->verdict_on(10).has_value()) << "it came behind the verdict";
  EXPECT_TRUE(watchdog_->stalled());
  std::this_thread::sleep_for(3 * kTimeout);
  EXPECT_EQ(scene_.verdicts, 1) << "once is enough";
}

TEST_F(WatchdogTest, LaterTasksGetTheirOwnVerdict) {
  open();
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  const auto then = Watchdog::Clock::now();
  scene_.tail = 12;
  scene_.settled_before = true;
  while (!watchdog_->verdict_on(11)) {
    ASSERT_TRUE(watchdog_->verdict_on(9).has_value()) << "the first one stands meanwhile";
    ASSERT_LT(Watchdog::Clock::now() - then, 20s);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(Watchdog::Clock::now() - then, kTimeout / 2);
  EXPECT_EQ(scene_.settles, 2);
  EXPECT_EQ(watchdog_->verdict_on(9)->message(), "verdict 2");
}

TEST_F(WatchdogTest, ProgressLiftsAVerdict) {
  open();
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  scene_.progress += 1;
  EXPECT_FALSE(watchdog_->verdict_on(9).has_value()) << "at once";
  EXPECT_FALSE(watchdog_->stalled());
  // The watch continues.
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  EXPECT_EQ(watchdog_->verdict_on(9)->message(), "verdict 2");
  scene_.pending = false;
  EXPECT_TRUE(eventually([&] { return !watchdog_->stalled(); }));
}

TEST_F(WatchdogTest, CallerMayLiftTheVerdict) {
  open();
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  watchdog_->moved();
  EXPECT_FALSE(watchdog_->stalled());
  EXPECT_FALSE(watchdog_->verdict_on(0).has_value());
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); })) << "nothing has moved after all";
  EXPECT_EQ(scene_.settles, 2) << "with a proof of its own";
}

TEST_F(WatchdogTest, NothingPendingIsNoStall) {
  scene_.pending = false;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_EQ(scene_.settles, 0);
}

TEST_F(WatchdogTest, ExternalWaitsExcuseAStall) {
  scene_.excused = true;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_EQ(scene_.settles, 0);
}

TEST_F(WatchdogTest, ATaskThatRunsLongIsNoStall) {
  scene_.settle_works = false;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_GT(scene_.settles, 1);
}

TEST_F(WatchdogTest, ProgressAfterTheResumeCounts) {
  scene_.moves_at_once = true;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_GT(scene_.settles, 1);
}

TEST_F(WatchdogTest, ProgressIsNoStall) {
  open();
  for (int i = 0; i < 200; ++i) {
    scene_.progress += 1;
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(scene_.verdicts, 0);
}

TEST_F(WatchdogTest, LoopThatDoesNotResumeIsNoStall) {
  scene_.resumed = false;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_EQ(scene_.settles, 1);
  scene_.resumed = true;
  EXPECT_TRUE(eventually([&] { return watchdog_->stalled(); }));
}

TEST_F(WatchdogTest, UnansweredPassIsNoStall) {
  scene_.passes_through = false;
  open();
  EXPECT_TRUE(stays_silent());
  EXPECT_GT(scene_.passes, 1);
}

TEST_F(WatchdogTest, StopEndsTheWatchAndLiftsTheVerdict) {
  open();
  ASSERT_TRUE(eventually([&] { return watchdog_->stalled(); }));
  watchdog_->stop();
  EXPECT_FALSE(watchdog_->stalled());
  const int verdicts = scene_.verdicts;
  std::this_thread::sleep_for(3 * kTimeout);
  EXPECT_EQ(scene_.verdicts, verdicts);
  watchdog_->stop();
}

}  // namespace
}  // namespace dwell::runtime
