#include "device/completion.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::completion_test {
namespace {

using test::Bench;

// The result of completing a task: whether another one follows, and which.
struct Completed {
  bool follows;
  u32 successor;  // for a single waiter
};
Completed complete_task(const Bench& bench, u32 position, u32 flags, i32 status = 0) {
  Completed result{};
  u32 waiter = 0;
  result.follows = complete(bench.lease, Bench::plain(0, flags), position, status, &waiter);
  EXPECT_TRUE(waiters::is_lone(waiter));
  result.successor = waiters::position(bench.lease, waiter, position);
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

TEST(Completion, DrainReleasesLaterTasks) {
  const Bench bench;
  u32 successor = 0;
  complete(bench.lease, Header{0, 1, 1, flag::drain, 7}, 0, 0, &successor);
  EXPECT_EQ(bench.control().crew.drains, 8U);
  complete(bench.lease, Header{0, 1, 1, flag::drain, Header::kDrainMask}, 1, 0, &successor);
  EXPECT_EQ(bench.control().crew.drains, 0U) << "drains are counted modulo 4096";
}

// ---- Links ----

// Links the task at `position` to the one at `before`.
Outcome wait_for(const Bench& bench, u32 before, u32 position) {
  return waiters::wait_for(bench.lease, before, index_of(position, bench.lease.ring_shift));
}

TEST(Link, ATaskThatWaitsRunsNext) {
  const Bench bench;
  EXPECT_EQ(wait_for(bench, 3, 4), Outcome::none);
  const Completed done = complete_task(bench, 3, flag::tracked);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 4U);
}

TEST(Link, LateWaiterDoesNotWait) {
  const Bench bench;
  EXPECT_FALSE(complete_task(bench, 3, flag::tracked).follows);
  EXPECT_EQ(wait_for(bench, 3, 4), Outcome::succeeded);
  EXPECT_FALSE(link::has_failed(bench.lease, 3));
}

TEST(Link, LateWaiterSeesTheFailure) {
  const Bench bench;
  complete_task(bench, 3, flag::tracked, 40);
  EXPECT_EQ(wait_for(bench, 3, 4), Outcome::failed);
  EXPECT_TRUE(link::has_failed(bench.lease, 3));
}

TEST(Link, WaiterFollowsAFailure) {
  const Bench bench;
  ASSERT_EQ(wait_for(bench, 3, 4), Outcome::none);
  const Completed done = complete_task(bench, 3, flag::tracked, -4);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 4U);
}

TEST(Link, UntrackedTaskRecordsOnlyFailure) {
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
  EXPECT_EQ(wait_for(bench, later, later + 1), Outcome::none);
  EXPECT_EQ(complete_task(bench, later, flag::tracked).successor, later + 1);
  EXPECT_EQ(wait_for(bench, 3, 4), Outcome::failed) << "a fetcher that is a lap behind";
}

TEST(Link, WordsOfEarlierLapsAreIgnored) {
  for (const i32 status : {0, 40}) {
    const Bench bench;
    const u32 later = 3 + 2 * bench.capacity();
    ASSERT_EQ(link::word(bench.lease, 3), link::word(bench.lease, later));
    ASSERT_EQ(wait_for(bench, 3, 4), Outcome::none);
    EXPECT_FALSE(complete_task(bench, later, flag::tracked).follows) << "the waiting task is not its own";
    const Bench other;
    complete_task(other, 3, flag::tracked, status);
    EXPECT_FALSE(link::has_failed(other.lease, later));
    EXPECT_EQ(wait_for(other, later, later + 1), Outcome::none) << "the task of this lap is not complete";
  }
}

TEST(Link, PositionsWrapAround) {
  const Bench bench;
  EXPECT_EQ(wait_for(bench, 0xFFFFFFFFU, 0), Outcome::none);
  const Completed done = complete_task(bench, 0xFFFFFFFFU, flag::tracked, 40);
  EXPECT_TRUE(done.follows);
  EXPECT_EQ(done.successor, 0U);
  EXPECT_EQ(wait_for(bench, 0xFFFFFFFFU, 0), Outcome::failed);
  EXPECT_EQ(wait_for(bench, 127, 128), Outcome::none) << "127 has the slot of 0xFFFFFFFF, a lap later";
}

TEST(Link, ExactlyOneSideRunsTheLinkedTask) {
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
        const Outcome outcome = wait_for(bench, i, i + 1);
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

// ---- Lists ----

class WaitersTest : public testing::Test {
 protected:
  // Holds a task that waits for `before`, without the fetcher's check. Returns the list.
  WaitList hold_after(u32 position, const std::vector<u32>& before, u32 hard = 0, u32 flags = 0) {
    const WaitList list{3, static_cast<u32>(before.size())};
    const Header header{9, 1, (list.first + list.count + 3) / 4, flag::after | flag::tracked | flags, 0};
    task_ = Bench::quads(header, position);
    for (u32 i = 0; i < list.count; ++i) task_.quad[list.first + i] = Quad{0, {before[i], 0, hard >> i & 1U}};
    hold(bench_.lease, task_, position, header.slots);
    return list;
  }
  // As hold_after, with the fetcher's check.
  Outcome wait_after(u32 position, const std::vector<u32>& before, u32 hard = 0, u32 flags = 0) {
    const WaitList list = hold_after(position, before, hard, flags);
    return waiters::wait_for_all(bench_.lease, task_, list, position, false);
  }
  Outcome link(u32 position, u32 before, u32 flags = 0) {
    hold(bench_.lease, Bench::quads(Bench::plain(7, flag::link | flag::tracked | flags), position), position, 1);
    return waiters::wait_for(bench_.lease, before, index_of(position, 7));
  }
  // Completes a task and releases its waiters. Returns the task that its worker runs next.
  Ready complete_task(u32 position, i32 status = 0) {
    u32 waiter = 0;
    if (!complete(bench_.lease, Bench::plain(0, flag::tracked), position, status, &waiter)) return Ready{Outcome::none, 0};
    return let_go_on(bench_.lease, position, waiter, status != 0);
  }
  // The position and groups of the next task in the ready queue, or -1.
  std::pair<i64, u32> pop() {
    TaskQuads task;
    if (!ready_queue::try_take(bench_.lease, &task)) return {-1, 0};
    return {task.quad[0].word[2], Header::from(task.quad[0].word[0], task.quad[0].word[1]).groups};
  }

  Bench bench_{7, 3};
  TaskQuads task_{};
};

TEST_F(WaitersTest, FirstWaiterRunsInlineOthersAreQueued) {
  for (u32 i = 4; i < 8; ++i) ASSERT_EQ(link(i, 3), Outcome::none);
  const Ready next = complete_task(3);
  EXPECT_EQ(next.outcome, Outcome::succeeded);
  std::vector<i64> all = {next.position};
  for (int i = 0; i < 3; ++i) all.push_back(pop().first);
  EXPECT_EQ(pop().first, -1);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<i64>{4, 5, 6, 7}));
}

TEST_F(WaitersTest, AllWaitersButOneAreQueued) {
  for (u32 i = 4; i < 7; ++i) ASSERT_EQ(link(i, 3), Outcome::none);
  ASSERT_EQ(wait_after(8, {3, 2}), Outcome::none);
  ASSERT_EQ(wait_after(16, {3}), Outcome::none);
  u32 waiter = 0;
  ASSERT_TRUE(complete(bench_.lease, Bench::plain(0, flag::tracked), 3, status::ok, &waiter));
  let_others_go_on(bench_.lease, 3, waiter, 4);
  std::vector<i64> all;
  for (int i = 0; i < 3; ++i) all.push_back(pop().first);
  EXPECT_EQ(pop().first, -1) << "4 is its worker's, and 8 waits for another";
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<i64>{5, 6, 16}));
  EXPECT_EQ(complete_task(2).position, 8U);
}

TEST_F(WaitersTest, FailureCancelsWaitersThatAreNotHard) {
  ASSERT_EQ(link(6, 3, flag::hard), Outcome::none);
  ASSERT_EQ(wait_after(8, {3, 2}, 1), Outcome::none);
  ASSERT_EQ(link(5, 3), Outcome::none);
  ASSERT_EQ(link(4, 3), Outcome::none);
  const Ready next = complete_task(3, 40);
  EXPECT_EQ(next.position, 4U);
  EXPECT_EQ(next.outcome, Outcome::failed);
  EXPECT_EQ(pop(), (std::pair<i64, u32>{5, 0})) << "a share without a group";
  EXPECT_EQ(pop(), (std::pair<i64, u32>{6, 1}));
  EXPECT_EQ(pop().first, -1);
  EXPECT_EQ(complete_task(2).outcome, Outcome::succeeded) << "8 runs, whatever has become of 3";
}

TEST_F(WaitersTest, ATaskRunsWhenTheLastOfItsListIsComplete) {
  std::vector<u32> before(16);
  for (u32 i = 0; i < 16; ++i) before[i] = 20 + i;
  ASSERT_EQ(wait_after(60, before), Outcome::none);
  for (u32 i = 15; i > 0; --i) ASSERT_EQ(complete_task(20 + i).outcome, Outcome::none);
  const Ready next = complete_task(20);
  EXPECT_EQ(next.outcome, Outcome::succeeded);
  EXPECT_EQ(next.position, 60U);
}

TEST_F(WaitersTest, FailureInAListCancelsAfterAllAreComplete) {
  ASSERT_EQ(wait_after(9, {3, 4, 5}), Outcome::none);
  EXPECT_EQ(complete_task(4, 40).outcome, Outcome::none);
  EXPECT_EQ(complete_task(3).outcome, Outcome::none);
  EXPECT_EQ(complete_task(5).outcome, Outcome::failed);
}

TEST_F(WaitersTest, FailureKnownToTheHostCancelsAfterAllAreComplete) {
  WaitList list = hold_after(9, {3, 4});
  task_.quad[list.first].word[2] = WaitList::failed;
  EXPECT_EQ(waiters::wait_for_all(bench_.lease, task_, list, 9, false), Outcome::none);
  EXPECT_FALSE(link::has_waiter(*link::word(bench_.lease, 3), 1)) << "its word may be another task's";
  EXPECT_EQ(complete_task(4).outcome, Outcome::failed);
  EXPECT_EQ(waiters::wait_for_all(bench_.lease, task_, list, 9, true), Outcome::failed);
}

TEST_F(WaitersTest, LastArrivingFetcherRunsTheTask) {
  complete_task(3);
  complete_task(4, 40);
  EXPECT_EQ(wait_after(9, {3, 4}), Outcome::failed);
  EXPECT_EQ(wait_after(10, {3, 4}, 2), Outcome::succeeded);
  EXPECT_EQ(wait_after(11, {3, 5}), Outcome::none);
  EXPECT_EQ(complete_task(5).position, 11U);
}

TEST_F(WaitersTest, ATaskMayNameAnotherTwice) {
  ASSERT_EQ(wait_after(9, {3, 3, 4}), Outcome::none);
  EXPECT_EQ(complete_task(4).outcome, Outcome::none);
  EXPECT_EQ(complete_task(3).position, 9U);
}

TEST_F(WaitersTest, DrainChecksOnlyFailures) {
  complete_task(3);
  complete_task(4, 40);
  WaitList list = hold_after(9, {3, 4});
  EXPECT_EQ(waiters::wait_for_all(bench_.lease, task_, list, 9, true), Outcome::failed);
  list = hold_after(9, {3, 3});
  EXPECT_EQ(waiters::wait_for_all(bench_.lease, task_, list, 9, true), Outcome::succeeded);
}

TEST_F(WaitersTest, RingPositionsAreReused) {
  for (u32 lap = 0; lap < 5; ++lap) {
    const u32 base = lap * 128;
    ASSERT_EQ(wait_after(base + 125 - 16, {base + 3, base + 4}), Outcome::none);
    ASSERT_EQ(wait_after(base + 125, {base + 3, base + 4}), Outcome::none);
    ASSERT_EQ(complete_task(base + 4, lap % 2 == 0 ? 0 : 7).outcome, Outcome::none);
    const Ready next = complete_task(base + 3);
    EXPECT_EQ(next.outcome, lap % 2 == 0 ? Outcome::succeeded : Outcome::failed);
    EXPECT_EQ(next.position, base + 125);
    EXPECT_EQ(pop().first, base + 125 - 16);
  }
}

TEST_F(WaitersTest, ExactlyOneMakesATaskRun) {
  constexpr u32 kTurns = 10'000;
  constexpr u32 kWaitFor = 3;
  std::barrier turn(kWaitFor + 1);
  std::atomic<u32> starts{0};
  u32 fetched = 0;
  // Turn `i` uses four positions: three tasks, and the one that waits for them.
  {
    std::vector<std::jthread> completers;
    for (u32 me = 0; me < kWaitFor; ++me)
      completers.emplace_back([&, me] {
        for (u32 i = 0; i < kTurns; ++i) {
          turn.arrive_and_wait();
          const Ready next = complete_task(i * 4 + me, i % 3 == me ? 40 : 0);
          if (next.outcome != Outcome::none) {
            ++starts;
            EXPECT_EQ(next.position, i * 4 + 3);
            EXPECT_EQ(next.outcome, Outcome::failed);
          }
          turn.arrive_and_wait();
        }
      });
    for (u32 i = 0; i < kTurns; ++i) {
      const WaitList list = hold_after(i * 4 + 3, {i * 4, i * 4 + 1, i * 4 + 2});
      turn.arrive_and_wait();
      const Outcome outcome = waiters::wait_for_all(bench_.lease, task_, list, i * 4 + 3, false);
      if (outcome != Outcome::none) {
        ++fetched;
        EXPECT_EQ(outcome, Outcome::failed);
      }
      turn.arrive_and_wait();
      ASSERT_EQ(starts + fetched, i + 1);
    }
  }
}

// ---- Held tasks ----

TEST(Held, AllSlotsAreRestored) {
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

TEST(Held, SlotsBeforeTheFirstRequestedOneAreUntouched) {
  const Bench bench;
  hold(bench.lease, Bench::quads(Header{1, 1, 2, 0, 0}, 8), 8, 2);
  TaskQuads out{};
  load_held(bench.lease, &out, 8, 1, 2);
  EXPECT_EQ(out.quad[3].word[2], 0U);
  EXPECT_EQ(out.quad[4].word[0], 8U + 12);
}

TEST(Held, ReaderWaitsForPendingStores) {
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

TEST(WideTask, UsesOnlySparePlaces) {
  const Bench bench(7, 8);
  bench.control().spare_shares.value = 3;
  EXPECT_EQ(shared_among(bench, 8), 4U);
  EXPECT_EQ(shared_among(bench, 8), 1U) << "one share is always possible";
  EXPECT_EQ(bench.control().spare_shares.value, 0U);
}

TEST(WideTask, StartsWithoutAnOlderFailure) {
  const Bench bench;
  bench.lease.wide[6].status = 5;
  shared_among(bench, 2);
  EXPECT_EQ(bench.lease.wide[6].status, 0);
}

TEST(WideTask, CancelledHasOneShareAndNoGroups) {
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
}  // namespace dwell::device::completion_test
