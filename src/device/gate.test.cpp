#include "device/gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device {
namespace {

using gate::Passage;
using test::Bench;

u32 value_of(const Bench& bench) { return load<Order::relaxed, Scope::device>(gate::word(bench.lease)); }
bool closed(const Bench& bench) { return gate::closing(value_of(bench)); }

// Until another thread that has just come loses its patience, or a little longer or shorter.
void wait_for_about_patience(u32 turn) {
  const u64 start = now_ns();
  while (now_ns() - start < (gate::kPatience << kTickShift) - 2000 + turn % 200 * 20) {}
}

TEST(Gate, ClosingItSaysThatTheLeaseIsOver) {
  const Bench bench;
  EXPECT_FALSE(closed(bench));
  gate::close(bench.lease, false);
  EXPECT_TRUE(closed(bench));
  EXPECT_EQ(bench.control().crew.lease_over, bench.lease.number);
}

TEST(Gate, ItBecomesFirmBesideThoseWhoWait) {
  const Bench bench;
  gate::close(bench.lease, false);
  *gate::word(bench.lease) += 1;  // somebody has arrived
  gate::close(bench.lease, true);
  EXPECT_EQ(value_of(bench), gate::kClosing | gate::kFirm | 1U);
  gate::close(bench.lease, false);
  EXPECT_EQ(value_of(bench), gate::kClosing | gate::kFirm | 1U);
}

TEST(Gate, TheLastToArriveLeavesLast) {
  for (int turn = 0; turn < 200; ++turn) {
    const Bench bench(7, 3);
    gate::close(bench.lease, true);
    std::atomic<int> left{0};
    std::atomic<int> left_last{0};
    const auto arrive = [&] {
      const Passage passage = gate::pass(bench.lease);
      left += passage == Passage::leave ? 1 : 0;
      left_last += passage == Passage::leave_last ? 1 : 0;
    };
    {
      const std::jthread one(arrive);
      const std::jthread two(arrive);
      arrive();
    }
    ASSERT_EQ(left, 2);
    ASSERT_EQ(left_last, 1);
  }
}

TEST(Gate, WhoeverWaitsInVainOpensItAgain) {
  const Bench bench;
  gate::close(bench.lease, false);
  EXPECT_EQ(gate::pass(bench.lease), Passage::stay);
  EXPECT_FALSE(closed(bench));
  EXPECT_EQ(value_of(bench) & gate::kArrivedMask, 0U);
  EXPECT_EQ(gate::attempt(value_of(bench)), 1U);
}

TEST(Gate, WhoeverArrivesWhenItHasJustOpenedStaysAtOnce) {
  u32 shortest = ~0U;
  for (int turn = 0; turn < 20; ++turn) {
    const Bench bench;
    const u32 start = now_ticks();
    EXPECT_EQ(gate::pass(bench.lease), Passage::stay);
    shortest = std::min(shortest, now_ticks() - start);
    EXPECT_EQ(value_of(bench) & gate::kArrivedMask, 0U) << "it must not count as arrived";
  }
  EXPECT_LT(shortest, gate::kPatience / 2);
}

TEST(Gate, AllOrNobodyLeave) {
  // The second to arrive comes about when the first loses its patience: whatever the first does, the second does too.
  for (u32 turn = 0; turn < 2000; ++turn) {
    const Bench bench;
    gate::close(bench.lease, false);
    Passage first{};
    Passage second{};
    {
      const std::jthread other([&] { first = gate::pass(bench.lease); });
      while ((value_of(bench) & gate::kArrivedMask) == 0 && gate::attempt(value_of(bench)) == 0) {}
      wait_for_about_patience(turn);
      if (!closed(bench)) gate::close(bench.lease, false);
      second = gate::pass(bench.lease);
    }
    if (first == Passage::stay)
      ASSERT_EQ(second, Passage::stay);
    else
      ASSERT_EQ(second, Passage::leave_last);
  }
}

TEST(Gate, WhoeverArrivesAtAFirmGateLeaves) {
  const Bench bench(7, 3);
  gate::close(bench.lease, true);
  EXPECT_EQ(gate::pass(bench.lease), Passage::leave);
  EXPECT_EQ(gate::pass(bench.lease), Passage::leave);
  EXPECT_EQ(gate::pass(bench.lease), Passage::leave_last) << "with the last one all claims are stored";
}

TEST(Gate, WhoeverWaitsLeavesWhenTheGateBecomesFirm) {
  for (u32 turn = 0; turn < 2000; ++turn) {
    const Bench bench(7, 3);
    gate::close(bench.lease, false);
    Passage passage{};
    {
      const std::jthread waiting([&] { passage = gate::pass(bench.lease); });
      while ((value_of(bench) & gate::kArrivedMask) == 0 && gate::attempt(value_of(bench)) == 0) {}
      wait_for_about_patience(turn);
      gate::close(bench.lease, true);
    }
    // It may have lost its patience before; then its arrival is taken back, and nobody takes back one at a firm gate.
    const u32 value = value_of(bench);
    ASSERT_EQ(passage == Passage::leave ? 1U : 0U, value & gate::kArrivedMask);
    ASSERT_EQ(passage == Passage::leave ? 0U : 1U, gate::attempt(value));
    ASSERT_EQ(value & (gate::kFirm | gate::kClosing), gate::kFirm | gate::kClosing);
  }
}

TEST(Gate, EachLeaseHasItsOwn) {
  Bench bench;
  gate::close(bench.lease, true);
  ++bench.lease.number;
  EXPECT_FALSE(closed(bench));
}

// ---- When a worker closes it ----

TEST(Gate, ALeaseHasItsTime) {
  Bench bench;
  bench.lease.lease_ticks = 100'000;
  gate::Timer timer = gate::Timer::start();
  timer = gate::tick(bench.lease, timer, 0, 0, false);
  EXPECT_EQ(timer.over, 0U);
  EXPECT_FALSE(closed(bench));
  timer.since -= 100'001;
  EXPECT_EQ(gate::tick(bench.lease, timer, 0, 0, false).over, 1U);
  EXPECT_TRUE(closed(bench));
}

TEST(Gate, ALeaseThatSomebodyEndedIsOverAtOnce) {
  const Bench bench;
  gate::Timer timer = gate::Timer::start();
  timer.since -= 1;
  EXPECT_EQ(gate::tick(bench.lease, timer, 0, bench.lease.number, false).over, 1U);
}

TEST(Gate, AWorkerWithNothingToDoClosesItWhenAllIsDone) {
  Bench bench;
  bench.lease.idle_ticks = 100'000;
  gate::Timer timer = gate::Timer::start();
  EXPECT_EQ(gate::tick(bench.lease, timer, 0, 0, true).over, 0U);
  timer.quiet_since -= 100'001;
  EXPECT_EQ(gate::tick(bench.lease, timer, 0, 0, false).over, 0U) << "another worker has something to do";
  EXPECT_EQ(gate::tick(bench.lease, timer, 0, 0, true).over, 1U);
}

TEST(Gate, AttemptsComeAfterLongerAndLongerPauses) {
  const Bench bench;
  for (u32 attempt = 1; attempt <= 5; ++attempt) {
    const u32 pause = gate::kPause << (attempt < 3 ? attempt : 3U);
    const u32 value = attempt * gate::kAttempt;
    gate::Timer timer = gate::Timer::start();
    timer.attempt = attempt;
    timer.since -= pause / 2;
    const u32 over = gate::tick(bench.lease, timer, value, bench.lease.number, false).over;
    if (now_ticks() - timer.since <= pause) {
      EXPECT_EQ(over, 0U) << "attempt " << attempt;  // else this thread lost its processor in between
    }
    timer.since -= pause;
    EXPECT_EQ(gate::tick(bench.lease, timer, value, bench.lease.number, false).over, 1U) << "attempt " << attempt;
  }
}

TEST(Gate, APauseBeginsWhenTheGateIsSeenOpenAgain) {
  const Bench bench;
  gate::Timer timer = gate::Timer::start();
  timer.since -= 1'000'000;
  timer = gate::tick(bench.lease, timer, 3 * gate::kAttempt, bench.lease.number, false);
  EXPECT_EQ(timer.over, 0U);
  EXPECT_EQ(timer.attempt, 3U);
  EXPECT_LT(now_ticks() - timer.since, 1'000'000U);
}

}  // namespace
}  // namespace dwell::device
