#include "device/completion.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "tests/unit/bench.hpp"

namespace dwell::device {
namespace {

using test::Bench;

// Completes the task at `position`; whether another follows, and which.
struct Completed {
  bool follows;
  u32 successor;
};
Completed complete_task(const Bench& bench, u32 position, u32 flags, i32 status = 0) {
  Completed result{};
  result.follows = complete(bench.lease, Bench::plain(0, flags), position, status, &result.successor);
  return result;
}

TEST(Completion, TheEntryCarriesLapAndStatus) {
  const Bench bench;
  complete_task(bench, 5, 0, -4);
  EXPECT_EQ(bench.completions[5].lap, 1U);
  EXPECT_EQ(bench.completions[5].status, -4);
  complete_task(bench, 5 + 128, 0, 77);
  EXPECT_EQ(bench.completions[5].lap, 2U);
  EXPECT_EQ(bench.completions[5].status, 77);
}

TEST(Completion, AllSlotsOfATaskCount) {
  const Bench bench;
  u32 successor = 0;
  complete(bench.lease, Header{0, 1, 3, 0, 0}, 0, 0, &successor);
  EXPECT_EQ(bench.control().completed.value, 3U);
  complete_task(bench, 3, 0);
  EXPECT_EQ(bench.control().completed.value, 4U);
}

TEST(Completion, ADrainOpensTheWayForTasksBehindIt) {
  const Bench bench;
  u32 successor = 0;
  complete(bench.lease, Header{0, 1, 1, flag::drain, 7}, 0, 0, &successor);
  EXPECT_EQ(bench.control().crew.drains, 8U);
  complete(bench.lease, Header{0, 1, 1, flag::drain, Header::kDrainMask}, 1, 0, &successor);
  EXPECT_EQ(bench.control().crew.drains, 0U) << "drains are counted modulo 4096";
}

// ---- Links ----

using link::Outcome;

TEST(Link, ATaskThatWaitsRunsNext) {
  const Bench bench;
  EXPECT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::none);
  const Completed done = complete_task(bench, 3, flag::tracked);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 4U);
}

TEST(Link, ATaskThatComesLateNeedNotWait) {
  const Bench bench;
  EXPECT_FALSE(complete_task(bench, 3, flag::tracked).follows);
  EXPECT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::succeeded);
  EXPECT_FALSE(link::has_failed(bench.lease, 3));
}

TEST(Link, ATaskThatComesLateSeesAFailure) {
  const Bench bench;
  complete_task(bench, 3, flag::tracked, 40);
  EXPECT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::failed);
  EXPECT_TRUE(link::has_failed(bench.lease, 3));
}

TEST(Link, ATaskThatWaitsFollowsAFailureToo) {
  const Bench bench;
  ASSERT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::none);
  const Completed done = complete_task(bench, 3, flag::tracked, -4);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 4U);
}

TEST(Link, AnUntrackedTaskLeavesWordOfItsFailureOnly) {
  const Bench bench;
  complete_task(bench, 3, 0);
  EXPECT_EQ(*link::word(bench.lease, 3), 0U);
  EXPECT_FALSE(complete_task(bench, 4, 0, 40).follows);
  EXPECT_TRUE(link::has_failed(bench.lease, 4));
}

TEST(Link, LapsUseTwoWordsInTurn) {
  const Bench bench;
  const u32 later = 3 + bench.capacity();
  complete_task(bench, 3, flag::tracked, 40);
  EXPECT_EQ(link::wait_for(bench.lease, later, later + 1), Outcome::none);
  EXPECT_EQ(complete_task(bench, later, flag::tracked).successor, later + 1);
  EXPECT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::failed) << "a fetcher that is a lap behind";
}

TEST(Link, AWordOfAnEarlierLapSaysNothing) {
  for (const i32 status : {0, 40}) {
    const Bench bench;
    const u32 later = 3 + 2 * bench.capacity();
    ASSERT_EQ(link::word(bench.lease, 3), link::word(bench.lease, later));
    ASSERT_EQ(link::wait_for(bench.lease, 3, 4), Outcome::none);
    EXPECT_FALSE(complete_task(bench, later, flag::tracked).follows) << "the waiting task is not its own";
    const Bench other;
    complete_task(other, 3, flag::tracked, status);
    EXPECT_FALSE(link::has_failed(other.lease, later));
    EXPECT_EQ(link::wait_for(other.lease, later, later + 1), Outcome::none) << "the task of this lap is not complete";
  }
}

TEST(Link, PositionsWrapAround) {
  const Bench bench;
  EXPECT_EQ(link::wait_for(bench.lease, 0xFFFFFFFFU, 0), Outcome::none);
  const Completed done = complete_task(bench, 0xFFFFFFFFU, flag::tracked, 40);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 0U);
  EXPECT_EQ(link::wait_for(bench.lease, 0xFFFFFFFFU, 0), Outcome::failed);
  EXPECT_EQ(link::wait_for(bench.lease, 127, 128), Outcome::none) << "127 has the slot of 0xFFFFFFFF, a lap later";
}

TEST(Link, ExactlyOneOfTheTwoRunsTheLinkedTask) {
  constexpr u32 kTurns = 20'000;
  const Bench bench;
  const auto status_of = [](u32 turn) { return turn % 3 == 0 ? 40 : 0; };
  std::barrier turn(2);
  u32 waited = 0;
  u32 followed = 0;
  {
    const std::jthread fetcher([&] {
      for (u32 i = 0; i < kTurns; ++i) {
        turn.arrive_and_wait();
        const Outcome outcome = link::wait_for(bench.lease, i, i + 1);
        waited += outcome == Outcome::none ? 1 : 0;
        EXPECT_TRUE(outcome == Outcome::none || (outcome == Outcome::failed) == (status_of(i) != 0));
        turn.arrive_and_wait();
      }
    });
    for (u32 i = 0; i < kTurns; ++i) {
      turn.arrive_and_wait();
      followed += complete_task(bench, i, flag::tracked, status_of(i)).follows ? 1 : 0;
      turn.arrive_and_wait();
    }
  }
  EXPECT_EQ(waited, followed);
}

// ---- Held tasks ----

TEST(Held, AllSlotsComeBack) {
  const Bench bench;
  const Header header{1, 1, kMaxSlots, 0, 0};
  const u32 position = 5 * bench.capacity() + 64 - kMaxSlots;
  const TaskQuads in = Bench::quads(header, position);
  hold(bench.lease, in, position, kMaxSlots);
  TaskQuads out{};
  load_held(bench.lease, &out, position, 0, kMaxSlots);
  for (u32 i = 0; i < kMaxSlots * 4; ++i)
    for (u32 j = 0; j < 3; ++j) EXPECT_EQ(out.quad[i].word[j], in.quad[i].word[j]);
}

TEST(Held, SlotsBeforeTheFirstAskedForStayAsTheyAre) {
  const Bench bench;
  hold(bench.lease, Bench::quads(Header{1, 1, 2, 0, 0}, 8), 8, 2);
  TaskQuads out{};
  load_held(bench.lease, &out, 8, 1, 2);
  EXPECT_EQ(out.quad[3].word[2], 0U);
  EXPECT_EQ(out.quad[4].word[0], 8U + 12);
}

TEST(Held, AReaderWaitsForStoresOnTheirWay) {
  const Bench bench;
  const TaskQuads in = Bench::quads(Bench::plain(1), 8);
  std::atomic<bool> read{false};
  std::jthread reader([&] {
    TaskQuads out{};
    load_held(bench.lease, &out, 8, 0, 1);
    read = true;
    EXPECT_EQ(out.quad[3].word[2], in.quad[3].word[2]);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(read);
  hold(bench.lease, in, 8, 1);
}

// ---- Wide tasks ----

u32 shared_among(const Bench& bench, u32 groups) {
  const Header header{0, groups, 1, flag::wide, 0};
  const u32 before = bench.control().tail.value;
  share_out(bench.lease, Bench::quads(header, 6), header, 6, false);
  return bench.control().tail.value - before;
}

TEST(WideTask, IsSharedAmongAllWorkers) {
  const Bench bench(7, 3);
  EXPECT_EQ(shared_among(bench, 100), 3U);
  EXPECT_EQ(bench.lease.wide[6].shares, 3U);
  EXPECT_EQ(bench.lease.wide[6].next, 0U);
  EXPECT_EQ(bench.control().spare_shares.value, bench.capacity() - 2) << "the task's own place is no spare one";
  TaskQuads share;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ready_queue::try_take(bench.lease, &share));
    EXPECT_EQ(share.quad[0].word[2], 6U);
    EXPECT_NE(Header::from(share.quad[0].word[0], share.quad[0].word[1]).flags & flag::share, 0U);
  }
}

TEST(WideTask, HasNoMoreSharesThanGroups) {
  const Bench bench(7, 4);
  EXPECT_EQ(shared_among(bench, 2), 2U);
}

TEST(WideTask, TakesNoMorePlacesThanAreSpare) {
  const Bench bench(7, 8);
  bench.control().spare_shares.value = 3;
  EXPECT_EQ(shared_among(bench, 8), 4U);
  EXPECT_EQ(shared_among(bench, 8), 1U) << "one share is always possible";
  EXPECT_EQ(bench.control().spare_shares.value, 0U);
}

TEST(WideTask, StartsWithoutTheFailureOfTheLastOneThere) {
  const Bench bench;
  bench.lease.wide[6].status = 5;
  shared_among(bench, 2);
  EXPECT_EQ(bench.lease.wide[6].status, 0);
}

TEST(WideTask, HasOneShareAndNoGroupWhenItIsCancelled) {
  const Bench bench(7, 4);
  const Header header{3, 8, 1, flag::wide, 0};
  share_out(bench.lease, Bench::quads(header, 6), header, 6, true);
  EXPECT_EQ(bench.control().tail.value, 1U);
  EXPECT_EQ(bench.lease.wide[6].shares, 1U);
  EXPECT_EQ(bench.lease.wide[6].status, status::cancelled);
  TaskQuads share;
  ASSERT_TRUE(ready_queue::try_take(bench.lease, &share));
  EXPECT_EQ(Header::from(share.quad[0].word[0], share.quad[0].word[1]).groups, 0U);
}

}  // namespace
}  // namespace dwell::device
