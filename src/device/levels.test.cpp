#include "device/levels.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/spawn.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::device::levels_test {
namespace {

using test::Bench;

class LevelsTest : public testing::Test {
 protected:
  // A lease with levels of kShift slots; bit i of `lifo` makes priority i a stack.
  explicit LevelsTest(u32 lifo = 0) {
    bench_.lease.levels = kLevels | lifo;
    bench_.lease.level_shift = kShift;
    slots_.resize(level_slots_of(kShift));
    states_.resize(level_slots_of(kShift));
    bench_.lease.level_slots = slots_.data();
    bench_.lease.level_states = states_.data();
  }

  void push(u32 priority, u32 position) {
    const Header header{1, 1, 1, 0, 0, levels::priority_of(priority)};
    levels::push(bench_.lease, Bench::quads(header, position));
  }
  // Takes a task from the ready queue, or a token's task from its level. Returns its position, or -1.
  i64 take() {
    TaskQuads task;
    if (!ready_queue::try_take(bench_.lease, &task)) return -1;
    if (levels::is_token(Header::from(task.quad[0].word[0], task.quad[0].word[1]))) levels::take(bench_.lease, &task);
    return task.quad[0].word[2];
  }

  u32 waiting() const {
    const Control& control = bench_.control();
    return load<Order::relaxed, Scope::device>(&control.tail.value) - load<Order::relaxed, Scope::device>(&control.head.value);
  }

  static constexpr u32 kShift = 7;
  Bench bench_{7, 4};
  std::vector<Slot> slots_;
  std::vector<u32> states_;
};

TEST_F(LevelsTest, TheHighestPriorityComesFirst) {
  for (const u32 priority : {3U, 0U, 7U, 5U, 3U}) push(priority, 10 * priority + bench_.control().tail.value);
  EXPECT_EQ(take(), 72);
  EXPECT_EQ(take(), 53);
  EXPECT_EQ(take(), 30);
  EXPECT_EQ(take(), 34);
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), -1);
}

TEST_F(LevelsTest, AllWordsOfASlotArrive) {
  const TaskQuads in = Bench::quads(Header{9, 1, 1, flag::memory, 0, 5}, 100);
  levels::push(bench_.lease, in);
  TaskQuads out;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &out));
  ASSERT_TRUE(levels::is_token(Header::from(out.quad[0].word[0], out.quad[0].word[1])));
  levels::take(bench_.lease, &out);
  for (u32 i = 0; i < 4; ++i)
    for (u32 j = 0; j < 3; ++j) EXPECT_EQ(out.quad[i].word[j], in.quad[i].word[j]);
}

TEST_F(LevelsTest, AnIdleWorkerGetsTheTaskItself) {
  ready_queue::claim_first(bench_.lease, 0);
  push(5, 42);
  TaskQuads task;
  ASSERT_TRUE(ready_queue::poll(bench_.lease, 0, &task));
  EXPECT_EQ(task.quad[0].word[2], 42U);
  EXPECT_EQ(bench_.control().levels.waiting[5], 0U);
}

TEST_F(LevelsTest, ForwardedTaskWaitsOnItsLevel) {
  ready_queue::claim_first(bench_.lease, 0);
  ready_queue::claim_first(bench_.lease, 1);
  levels::pass_on(bench_.lease, Bench::quads(Header{1, 1, 1, 0, 0, levels::priority_of(6)}, 42));
  EXPECT_EQ(bench_.control().levels.waiting[6], 1U);
  TaskQuads token;
  ASSERT_TRUE(ready_queue::poll(bench_.lease, 0, &token));
  levels::pass_on(bench_.lease, token);
  EXPECT_EQ(bench_.control().levels.waiting[6], 1U) << "a token is passed on as it is";
  ASSERT_TRUE(ready_queue::poll(bench_.lease, 1, &token));
}

TEST_F(LevelsTest, TokensAreNoSpawnedTasks) {
  Worker worker;
  spawn::begin(bench_.lease, &worker);
  push(5, 50);
  TaskQuads task;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &task));
  const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
  ASSERT_EQ(header.source, source::token);
  const u32 idle = bench_.control().idle.value;
  sources::take_up(bench_.lease, &worker, header, task.quad[0].word[2]);
  EXPECT_EQ(bench_.control().idle.value, idle);
  EXPECT_EQ(worker.spawn.count, 0);
}

TEST_F(LevelsTest, FullLevelSpillsToTheReadyQueue) {
  constexpr u32 kAll = (1U << kShift) + 3;
  for (u32 i = 0; i < kAll; ++i) push(7, i);
  EXPECT_EQ(bench_.control().level[7].used, 1U << kShift);
  std::vector<bool> seen(kAll);
  for (u32 i = 0; i < kAll; ++i) {
    const i64 position = take();
    ASSERT_GE(position, 0);
    EXPECT_FALSE(seen[static_cast<std::size_t>(position)]);
    seen[static_cast<std::size_t>(position)] = true;
  }
  EXPECT_EQ(take(), -1);
  EXPECT_EQ(bench_.control().level[7].used, 0U);
  // Again, around the whole ring.
  for (u32 i = 0; i < 1000; ++i) {
    push(7, i);
    EXPECT_EQ(take(), i);
  }
}

TEST_F(LevelsTest, StarvedLevelGoesFirstOnce) {
  push(0, 1000);
  push(0, 1001);
  u32 before = 0;
  for (u32 i = 0; i < 3 * levels::kAge; ++i) {
    push(6, i);
    push(6, i);
    const i64 position = take();
    if (position == 1000) before = i;
    if (position == 1001) {
      EXPECT_EQ(before, levels::kAge);
      EXPECT_EQ(i, 2 * levels::kAge + 1);
      return;
    }
  }
  ADD_FAILURE() << "starved";
}

class StackTest : public LevelsTest {
 protected:
  StackTest() : LevelsTest(1U << 4U) {}
};

TEST_F(StackTest, TheLastTaskOfAStackComesFirst) {
  for (u32 i = 0; i < 3; ++i) push(4, i);
  EXPECT_EQ(take(), 2);
  push(4, 3);
  EXPECT_EQ(take(), 3);
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), 0);
  for (u32 i = 0; i < 3; ++i) push(5, i);
  EXPECT_EQ(take(), 0) << "the others are queues";
}

// Two producers and two consumers on queues and stacks: no task is lost or taken twice.
TEST_F(StackTest, ManyThreadsLoseNothing) {
  constexpr u32 kEach = 50'000;
  constexpr u32 kThreads = 2;
  std::vector<std::atomic<u32>> seen(kEach * kThreads);
  std::atomic<u32> taken{0};
  std::vector<std::thread> threads;
  for (u32 me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (u32 i = 0; i < kEach; ++i) {
        while (waiting() > 200) std::this_thread::yield();
        push(i % 2 == 0 ? 4 : i % 8, me * kEach + i);
      }
    });
    threads.emplace_back([&] {
      while (taken.load() < kEach * kThreads) {
        const i64 position = take();
        if (position < 0) {
          std::this_thread::yield();
          continue;
        }
        seen[static_cast<std::size_t>(position)].fetch_add(1);
        taken.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<u32>& count : seen) ASSERT_EQ(count.load(), 1U);
  for (u32 i = 0; i < kPriorities; ++i) {
    EXPECT_EQ(bench_.control().levels.waiting[i], 0U);
    EXPECT_EQ(bench_.control().level[i].used, 0U);
  }
}

}  // namespace
}  // namespace dwell::device::levels_test
