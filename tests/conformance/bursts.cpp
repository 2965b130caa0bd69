// Bursts: leases that run only what was submitted before them.
#include <atomic>
#include <thread>
#include <vector>

#include "base/relax.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class BurstTest : public DeviceTest {
 protected:
  void open(unsigned ring_slots = 1024) {
    Options with = options();
    with.bursts = true;
    with.ring_slots = ring_slots;
    if (on_cpu()) with.workers = 3;
    runtime.emplace(with);
    add = runtime->define<Add>("add", kAdd);
    cells = filled<u32>(*runtime, 64, 0);
  }

  std::optional<Runtime> runtime;
  Operator<Add> add;
  Buffer<u32> cells;
};
DWELL_ON_EVERY_DEVICE(BurstTest);

TEST_P(BurstTest, TasksWaitForTheirBurst) {
  open();
  const Ticket task = runtime->submit(add, cells, 0U, 1U);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(task.done());
  runtime->burst();
  while (!task.done()) std::this_thread::yield();
  EXPECT_EQ(read(cells)[0], 1U);
}

TEST_P(BurstTest, ABurstRunsNothingBehindIt) {
  open();
  for (u32 round = 0; round < 50; ++round) {
    const Ticket before = runtime->submit(add, cells, 0U, 1U);
    runtime->burst();
    const Ticket behind = runtime->submit(add, cells, 0U, 1U);
    before.wait();
    if (round % 10 == 0) std::this_thread::sleep_for(2ms);
    EXPECT_FALSE(behind.done());
    runtime->burst();
    behind.wait();
  }
  EXPECT_EQ(read(cells)[0], 100U);
}

TEST_P(BurstTest, AWaitRunsWhatItWaitsFor) {
  open();
  runtime->submit(add, cells, 0U, 1U).wait();
  runtime->submit(add, cells, 0U, 1U);
  runtime->wait_all();
  runtime->submit(add, cells, 0U, 1U);
  EXPECT_EQ(read(cells)[0], 3U);
}

TEST_P(BurstTest, FullRingRuns) {
  open(128);
  for (u32 i = 0; i < 2000; ++i) runtime->submit(add, cells, i % 64, 1U);
  runtime->wait_all();
  for (const u32 cell : read(cells)) EXPECT_GE(cell, 31U);
}

TEST_P(BurstTest, BurstsFollowEachOther) {
  open();
  // Each burst reads the results of the previous one.
  const auto twice = runtime->define<void(Span<u32>)>("twice", R"(
    DWELL_OPERATOR(twice)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      for (auto i : g.range(cells.size())) cells[i] = cells[i] * 2 + 1;
    })");
  for (u32 i = 0; i < 20; ++i) {
    runtime->submit(twice, cells);
    runtime->burst();
  }
  runtime->wait_all();
  for (const u32 cell : read(cells)) EXPECT_EQ(cell, (1U << 20U) - 1);
}

TEST_P(BurstTest, ConcurrentSubmitsAndBurstsLoseNothing) {
  open(256);
  constexpr u32 kEach = kSanitized ? 500 : 5000;
  {
    std::vector<std::jthread> threads;
    for (u32 me = 0; me < 4; ++me)
      threads.emplace_back([&, me] {
        Random random(me);
        Ticket last;
        for (u32 i = 0; i < kEach; ++i) {
          last = runtime->submit(add, cells, me * 16 + i % 16, 1U, link);
          if (random() % 50 == 0) runtime->burst();
          if (random() % 200 == 0) last.wait();
        }
      });
  }
  runtime->wait_all();
  u32 sum = 0;
  for (const u32 cell : read(cells)) sum += cell;
  EXPECT_EQ(sum, 4 * kEach);
}

TEST_P(BurstTest, AWaitBesideBurstsOfOthersReturns) {
  open();
  constexpr u32 kTasks = kSanitized ? 1000 : 6000;
  std::atomic<bool> over{false};
  std::jthread bursts([&] {
    while (!over) runtime->burst();
  });
  // The last task may be submitted just after the end of the burst that runs the first: no other burst would run it.
  Random random(1);
  for (u32 i = 0; i < kTasks; ++i) {
    runtime->submit(add, cells, 0U, 1U);
    for (u32 pause = random() % 256; pause != 0; --pause) relax();
    runtime->submit(add, cells, 0U, 1U).wait();
  }
  over = true;
  bursts.join();
  EXPECT_EQ(read(cells)[0], 2 * kTasks);
}

TEST_P(BurstTest, ParksAndNewVersionsRunBetweenBursts) {
  open();
  auto mark = runtime->define<Mark>("mark", mark_with(1));
  u32 sum = 0;
  for (u32 version = 2; version < 6; ++version) {
    const Ticket old = runtime->submit(mark, cells, 0U);
    runtime->burst();
    mark.redefine(mark_with(version));
    runtime->park();
    const Ticket next = runtime->submit(mark, cells, 1U);
    std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(next.done());
    runtime->resume();
    next.wait();
    EXPECT_EQ(read(cells)[1], sum += version);
    EXPECT_TRUE(old.done());
  }
}

TEST_P(BurstTest, CloseRunsOrCancelsWaitingTasks) {
  open();
  const Ticket task = runtime->submit(add, cells, 0U, 1U);
  runtime->close();
  EXPECT_EQ(task.status(), status::ok);
  open();
  const Ticket other = runtime->submit(add, cells, 0U, 1U);
  runtime->close(Close::now);
  EXPECT_EQ(other.status(), status::cancelled);
}

TEST_P(BurstTest, OtherRuntimesRefuseBursts) {
  Runtime resident(options());
  DWELL_EXPECT_ERROR(resident.burst(), errc::unsupported, HasSubstr("the option bursts"));
}

}  // namespace
}  // namespace dwell::test
