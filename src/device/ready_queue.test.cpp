#include "device/ready_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::ready_queue_test {
namespace {

using test::Bench;

void push(const Bench& bench, u32 position) { ready_queue::push(bench.lease, Bench::quads(Bench::plain(0), position)); }

// The position of the next task, or -1.
i64 take(const Bench& bench) {
  TaskQuads task;
  return ready_queue::try_take(bench.lease, &task) ? static_cast<i64>(task.quad[0].word[2]) : -1;
}

TEST(ReadyQueue, TasksAreTakenInOrder) {
  const Bench bench;
  for (const u32 position : {7U, 3U, 5U}) push(bench, position);
  EXPECT_EQ(take(bench), 7);
  EXPECT_EQ(take(bench), 3);
  EXPECT_EQ(take(bench), 5);
  EXPECT_EQ(take(bench), -1);
}

TEST(ReadyQueue, AllWordsOfASlotArrive) {
  const Bench bench;
  const TaskQuads in = Bench::quads(Bench::plain(9), 100);
  ready_queue::push(bench.lease, in);
  TaskQuads out;
  ASSERT_TRUE(ready_queue::try_take(bench.lease, &out));
  for (u32 i = 0; i < 4; ++i)
    for (u32 j = 0; j < 3; ++j) EXPECT_EQ(out.quad[i].word[j], in.quad[i].word[j]);
}

TEST(ReadyQueue, AClaimMayRunAheadOfTheProducer) {
  const Bench bench;
  const u32 first = ready_queue::claim_first(bench.lease, 0);
  const u32 second = ready_queue::claim_first(bench.lease, 1);
  TaskQuads task;
  EXPECT_FALSE(ready_queue::poll(bench.lease, first, &task));
  push(bench, 11);
  EXPECT_TRUE(ready_queue::poll(bench.lease, first, &task));
  EXPECT_EQ(task.quad[0].word[2], 11U);
  EXPECT_FALSE(ready_queue::poll(bench.lease, second, &task));
}

TEST(ReadyQueue, AnUnfilledPlaceIsNotTaken) {
  const Bench bench;
  bench.control().tail.value += 1;  // reserved by a producer
  EXPECT_EQ(take(bench), -1);
  EXPECT_EQ(bench.control().head.value, 0U) << "a sleeping producer must not take the place away with it";
  u32 place = 99;
  EXPECT_TRUE(ready_queue::try_claim(bench.lease, 0, &place));
  EXPECT_EQ(place, 0U);
}

TEST(ReadyQueue, TaskIsVisibleOnceAllItsQuadsAre) {
  const Bench bench;
  bench.control().tail.value += 1;
  const TaskQuads task = Bench::quads(Bench::plain(0), 4);
  for (const u32 i : {2U, 0U, 3U}) {
    ready_queue::put_quad(bench.lease, 0, i, task.quad[i]);
    EXPECT_EQ(take(bench), -1);
  }
  ready_queue::put_quad(bench.lease, 0, 1, task.quad[1]);
  EXPECT_EQ(take(bench), 4);
}

TEST(ReadyQueue, NothingIsClaimedFromAnEmptyQueue) {
  const Bench bench;
  u32 place = 0;
  EXPECT_FALSE(ready_queue::try_claim(bench.lease, 0, &place));
  ready_queue::claim_first(bench.lease, 1);  // one claim ahead
  EXPECT_FALSE(ready_queue::try_claim(bench.lease, 0, &place));
  push(bench, 1);
  EXPECT_FALSE(ready_queue::try_claim(bench.lease, 0, &place)) << "the task belongs to the claim";
  push(bench, 2);
  EXPECT_TRUE(ready_queue::try_claim(bench.lease, 0, &place));
  EXPECT_EQ(place, 1U);
}

TEST(ReadyQueue, TasksOfTheLastLapAreIgnored) {
  const Bench bench;
  const u32 places = 1U << bench.lease.queue_shift;
  for (u32 i = 0; i < places; ++i) {
    push(bench, i);
    ASSERT_EQ(take(bench), i);
  }
  TaskQuads task;
  EXPECT_FALSE(ready_queue::poll(bench.lease, places, &task));
}

TEST(ReadyQueue, PlacesWrapAround) {
  const Bench bench(7, 2, (1ULL << 32U) - 64);
  for (u32 i = 0; i < 1000; ++i) {
    push(bench, i);
    push(bench, i + 5000);
    ASSERT_EQ(take(bench), i);
    ASSERT_EQ(take(bench), i + 5000);
  }
  EXPECT_EQ(bench.control().head.value, 2000U - 64);
  bench.control().head.value = bench.control().tail.value = bench.control().crew.low_water = 0U - 1;
  u32 place = 0;
  push(bench, 0);
  EXPECT_TRUE(ready_queue::try_claim(bench.lease, 0, &place)) << "the tail is behind the edge, the head before it";
  EXPECT_EQ(take(bench), -1);
}

TEST(ReadyQueue, ProducerWaitsForAClaimedUnreadPlace) {
  const Bench bench;
  const u32 places = 1U << bench.lease.queue_shift;
  const u32 slow = ready_queue::claim_first(bench.lease, 1);
  push(bench, 7);
  for (u32 i = 1; i < places; ++i) {
    push(bench, i);
    ASSERT_EQ(take(bench), i);
  }
  std::atomic<bool> pushed{false};
  {
    const std::jthread producer([&] {
      push(bench, 8);  // one lap later, at the place of 7
      pushed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(pushed);
    TaskQuads task;
    ASSERT_TRUE(ready_queue::poll(bench.lease, slow, &task));
    EXPECT_EQ(task.quad[0].word[2], 7U);
    ready_queue::clear_claim(bench.lease, 1);
  }
  EXPECT_TRUE(pushed);
  EXPECT_EQ(take(bench), 8);
}

TEST(ReadyQueue, LowWaterMarkIsTheLowestUnreadPlace) {
  const Bench bench;
  EXPECT_EQ(ready_queue::find_low_water(bench.lease), 0U);
  for (u32 i = 0; i < 3; ++i) push(bench, i);
  EXPECT_EQ(ready_queue::find_low_water(bench.lease), 0U) << "nobody has claimed a place";
  for (u32 i = 0; i < 2; ++i) ASSERT_EQ(take(bench), i);
  EXPECT_EQ(ready_queue::find_low_water(bench.lease), 2U);
  const u32 place = ready_queue::claim_first(bench.lease, 0);
  ready_queue::claim_first(bench.lease, 1);
  EXPECT_EQ(ready_queue::find_low_water(bench.lease), place);
  ready_queue::set_claim(bench.lease, 0, ready_queue::claim_next(bench.lease));
  EXPECT_EQ(ready_queue::find_low_water(bench.lease), place + 1) << "the claim of the other";
  EXPECT_EQ(bench.control().crew.low_water, place + 1);
}

TEST(ReadyQueue, EachTaskIsTakenOnce) {
  constexpr u32 kTasks = 40'000;
  const Bench bench;
  std::vector<std::atomic<u32>> taken(kTasks);
  std::atomic<u32> next{0};
  std::atomic<u32> done{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (u32 task = next++; task < kTasks; task = next++) {
        // As many tasks in flight as the ring allows.
        while (task >= done + bench.capacity() - 2) std::this_thread::yield();
        push(bench, task);
      }
    });
    threads.emplace_back([&] {
      for (u32 round = 0; done < kTasks; ++round) {
        const i64 task = take(bench);
        if (task >= 0) {
          ++taken[static_cast<std::size_t>(task)];
          ++done;
        } else {
          relax(round);
        }
      }
    });
  }
  threads.clear();
  for (u32 task = 0; task < kTasks; ++task) ASSERT_EQ(taken[task], 1U) << "task " << task;
}

TEST(ReadyQueue, TwoTakersNeverGetTheSameTask) {
  // Both threads only take, so that they contend for the same place.
  constexpr u32 kTasks = 200;
  const Bench bench;
  std::barrier turn(2);
  std::vector<u32> taken[2];
  for (u32 round = 0; round < 200; ++round) {
    for (u32 task = 0; task < kTasks; ++task) push(bench, task);
    const auto take_all = [&](u32 me) {
      taken[me].clear();
      turn.arrive_and_wait();
      const auto waiting = [&] {
        return static_cast<i32>(load<Order::relaxed, Scope::device>(&bench.control().tail.value) -
                                load<Order::relaxed, Scope::device>(&bench.control().head.value));
      };
      while (waiting() > 0 && taken[me].size() <= kTasks) {
        if (const i64 task = take(bench); task >= 0) taken[me].push_back(static_cast<u32>(task));
      }
    };
    {
      const std::jthread other([&] { take_all(1); });
      take_all(0);
    }
    ASSERT_EQ(taken[0].size() + taken[1].size(), kTasks);
    std::vector<u32> all = taken[0];
    all.insert(all.end(), taken[1].begin(), taken[1].end());
    std::sort(all.begin(), all.end());
    for (u32 task = 0; task < kTasks; ++task) ASSERT_EQ(all[task], task);
  }
}

}  // namespace
}  // namespace dwell::device::ready_queue_test
