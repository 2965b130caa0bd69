// Seats: exactly one worker of a later lease takes over a seat that is left.
#include "device/seat.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::seat_test {
namespace {

using test::Bench;

class SeatTest : public testing::Test {
 protected:
  Lease lease(u32 number) const {
    Lease lease = bench_.lease;
    lease.number = number;
    lease.slot = number % kMostLeases;
    return lease;
  }
  u64 word() const { return load<Order::relaxed, Scope::device>(&bench_.lease.seats[0].word); }

  Bench bench_{7, 2};
};

TEST_F(SeatTest, AFreeSeatIsTakenAtOnce) {
  EXPECT_TRUE(seat::take(lease(1), 0));
  EXPECT_EQ(word(), seat::word_of(1, 0));
  EXPECT_TRUE(seat::leave(lease(1), 0, true));
  EXPECT_EQ(word(), 0U);
}

TEST_F(SeatTest, TheSeatGoesToTheWorkerThatWaits) {
  ASSERT_TRUE(seat::take(lease(1), 0));
  std::jthread next([this] { EXPECT_TRUE(seat::take(lease(2), 0)); });
  while (seat::waiter(word()) != 2) std::this_thread::yield();
  EXPECT_TRUE(seat::leave(lease(1), 0, false));
  EXPECT_EQ(word(), seat::word_of(2, 0)) << "handed over, not freed";
}

TEST_F(SeatTest, HolderKeepsTheSeatIfItsSuccessorGivesUp) {
  ASSERT_TRUE(seat::take(lease(1), 0));
  EXPECT_FALSE(seat::leave(lease(1), 0, false)) << "a free seat may hold the claim of a task";
  EXPECT_EQ(word(), seat::word_of(1, 0));
}

TEST_F(SeatTest, WorkerOfAnEndedLeaseGivesUp) {
  ASSERT_TRUE(seat::take(lease(1), 0));
  std::jthread next([this] { EXPECT_FALSE(seat::take(lease(2), 0)); });
  while (seat::waiter(word()) != 2) std::this_thread::yield();
  seat::call_over(lease(2), 2, false);
  next.join();
  EXPECT_EQ(word(), seat::word_of(1, 0)) << "nobody waits any more";
}

TEST_F(SeatTest, ALaterLeaseWaitsBehindAnEarlierOne) {
  ASSERT_TRUE(seat::take(lease(1), 0));
  std::atomic<bool> third{false};
  std::jthread second([this] { EXPECT_TRUE(seat::take(lease(2), 0)); });
  while (seat::waiter(word()) != 2) std::this_thread::yield();
  std::jthread last([&] {
    EXPECT_TRUE(seat::take(lease(3), 0));
    third = true;
  });
  EXPECT_TRUE(seat::leave(lease(1), 0, false));
  second.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(third);
  EXPECT_TRUE(seat::leave(lease(2), 0, true));
  last.join();
  EXPECT_TRUE(third);
}

TEST_F(SeatTest, SeatIsExclusiveAcrossManyLeases) {
  constexpr u32 kLeases = 400;
  u64 inside = 0;  // not atomic: the seat orders it
  std::atomic<u32> served{0};
  std::vector<std::jthread> threads;
  for (u32 set = 0; set < 3; ++set) {
    threads.emplace_back([&, set] {
      for (u32 number = 1 + set; number <= kLeases; number += 3) {
        // A lease starts while the previous one works.
        while (number > 2 && load<Order::relaxed, Scope::device>(&bench_.control().crew.begun) + 1 < number) std::this_thread::yield();
        const Lease mine = lease(number);
        ASSERT_TRUE(seat::take(mine, 0));
        raise(&bench_.control().crew.begun, number);
        ++inside;
        ++served;
        EXPECT_TRUE(seat::leave(mine, 0, true));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(served, kLeases);
  EXPECT_EQ(inside, kLeases);
}

TEST_F(SeatTest, LastLeavingWorkerReportsToTheHost) {
  seat::count_out(lease(3));
  EXPECT_EQ(bench_.report.left[3], 0U);
  seat::count_out(lease(3));
  EXPECT_EQ(bench_.report.left[3], 3U);
  EXPECT_EQ(bench_.control().exits[3], 0U) << "ready for the next lease with this slot";
}

TEST_F(SeatTest, AWorkerStaysUntilItsSuccessorComesOrTheStretchIsOver) {
  const Lease mine = lease(1);
  bench_.lease.stretch_ticks = 1U << 20U;
  ASSERT_TRUE(seat::take(mine, 0));
  seat::WayOut way{};
  EXPECT_FALSE(seat::may_leave(mine, 0, &way));
  store<Order::relaxed, Scope::system>(&bench_.report.launched, 2U);
  EXPECT_TRUE(seat::may_leave(mine, 0, &way));
  EXPECT_EQ(way.may_free, 0U);
  store<Order::relaxed, Scope::system>(&bench_.report.launched, 1U);
  Lease brief = mine;
  brief.stretch_ticks = 0;
  way.since -= 5;
  EXPECT_TRUE(seat::may_leave(brief, 0, &way));
  EXPECT_EQ(way.may_free, 1U);
  bench_.lease.seats[1].running_since = now_ticks() - 100;
  EXPECT_FALSE(seat::may_leave(brief, 0, &way)) << "a long task keeps another worker";
  seat::call_over(mine, 1, true);
  EXPECT_TRUE(seat::may_leave(mine, 0, &way)) << "it ends at once";
}

TEST_F(SeatTest, OverdueCheckRecordsTheStartOfAPlainTask) {
  u32* const running = &bench_.lease.seats[1].running_since;
  *running = kRuns;
  const u32 now = now_ticks();
  EXPECT_FALSE(seat::is_overdue(bench_.lease, now)) << "nobody has seen it before";
  EXPECT_EQ(*running, now | 1U);
  EXPECT_FALSE(seat::is_overdue(bench_.lease, now & ~1U)) << "in the tick before that of the note";
  EXPECT_FALSE(seat::is_overdue(bench_.lease, now + seat::kLong));
  EXPECT_TRUE(seat::is_overdue(bench_.lease, now + seat::kLong + 2));
  *running = 0;
  EXPECT_FALSE(seat::is_overdue(bench_.lease, now + 100));
  EXPECT_EQ(*running, 0U);
}

TEST_F(SeatTest, NumbersGrowAcrossTheWrapAround) {
  u32 number = ~0U - 1;
  EXPECT_TRUE(raise(&number, 3));
  EXPECT_EQ(number, 3U);
  EXPECT_FALSE(raise(&number, ~0U));
  EXPECT_EQ(number, 3U);
}

}  // namespace
}  // namespace dwell::device::seat_test
