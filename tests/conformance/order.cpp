// Order of tasks: link, drain, and none.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class OrderTest : public DeviceTest {
 protected:
  // Buffers for `count` stamps.
  struct Stamps {
    Buffer<u32> clock;
    Buffer<u32> began;
    Buffer<u32> ended;
  };
  static Stamps stamps(Runtime& runtime, std::size_t count) {
    return {filled<u32>(runtime, 1, 0), filled<u32>(runtime, count, ~0U), filled<u32>(runtime, count, ~0U)};
  }
};
DWELL_ON_EVERY_DEVICE(OrderTest);

TEST_P(OrderTest, AChainRunsInOrder) {
  Runtime runtime(options());
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  // The first task is linked to nothing.
  for (u32 i = 0; i < 1000; ++i) runtime.submit(append, number, i, link);
  EXPECT_EQ(read(number)[0], appended(1000));
}

TEST_P(OrderTest, LongChainWrapsAroundTheRing) {
  constexpr u32 kLength = kSanitized ? 5'000 : 50'000;
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  for (u32 i = 0; i < kLength; ++i) runtime.submit(append, number, i, link);
  EXPECT_EQ(read(number)[0], appended(kLength));
}

TEST_P(OrderTest, TheFirstLinkWaitsForAnUntrackedTask) {
  // The previous task is untracked, so a link cannot name it.
  for (int turn = 0; turn < 5; ++turn) {
    Runtime runtime(options());
    auto stamp = runtime.define<Stamp>("stamp", kStamp);
    const Stamps all = stamps(runtime, 3);
    runtime.submit(stamp, all.clock, all.began, all.ended, 0U, u64{3'000'000});
    runtime.submit(stamp, all.clock, all.began, all.ended, 1U, u64{0}, link);
    runtime.submit(stamp, all.clock, all.began, all.ended, 2U, u64{0}, link);
    const std::vector<u32> began = (runtime.wait_all(), read(all.began));
    const std::vector<u32> ended = read(all.ended);
    EXPECT_LT(ended[0], began[1]);
    EXPECT_LT(ended[1], began[2]);
  }
}

TEST_P(OrderTest, ALinkToACompleteTaskStartsAtOnce) {
  Runtime runtime(options());
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  for (u32 i = 0; i < 300; ++i) {
    const Ticket ticket = runtime.submit(append, number, i, link);
    if (i % 2 == 0) ticket.wait();
  }
  EXPECT_EQ(read(number)[0], appended(300));
}

TEST_P(OrderTest, ChainsMixOperatorsWideAndLongTasks) {
  struct Long {
    u32 word[60];
  };
  constexpr u32 kGroups = 5;
  constexpr u32 kRounds = kSanitized ? 60 : 400;
  Options small = options();
  small.ring_slots = 256;
  Runtime runtime(small);
  // Each operator adds to all cells; a cell is right only if every step saw all groups of the previous step.
  auto narrow = runtime.define<void(Span<u32>, u32)>("narrow", R"(
    DWELL_OPERATOR(narrow)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u32 digit) {
      dwell::u32 sum = 0;
      for (auto i : g.local_range(x.size())) sum += x[i];
      sum = g.sum(sum);
      for (auto i : g.local_range(x.size())) x[i] = sum * 31 + digit;
      g.sync();
    })");
  auto wide = runtime.define<void(Span<u32>, u32)>("wide", R"(
    DWELL_OPERATOR(wide)(dwell::Group g, dwell::Span<dwell::u32> x, dwell::u32 digit) {
      for (auto i : g.range(x.size())) x[i] = x[i] * 7 + digit;
    })");
  auto multi_slot = runtime.define<void(Span<u32>, Long)>("multi_slot", R"(
    struct Long { dwell::u32 word[60]; };
    DWELL_OPERATOR(multi_slot)(dwell::Group g, dwell::Span<dwell::u32> x, Long payload) {
      for (auto i : g.local_range(x.size())) x[i] += payload.word[i % 60];
      g.sync();
    })");
  auto x = filled<u32>(runtime, 500, 1);
  std::vector<u32> expected(500, 1);
  Long all{};
  for (u32 i = 0; i < 60; ++i) all.word[i] = i * i;
  for (u32 round = 0; round < kRounds; ++round) {
    runtime.submit(narrow, x, round, link);
    runtime.submit(wide, x, round, link, groups(kGroups));
    runtime.submit(wide, x, round + 1, link, groups(2));
    runtime.submit(multi_slot, x, all, link);
    u32 sum = 0;
    for (const u32 value : expected) sum += value;
    for (u32 i = 0; i < 500; ++i) expected[i] = ((sum * 31 + round) * 7 + round) * 7 + round + 1 + all.word[i % 60];
  }
  EXPECT_EQ(read(x), expected);
}

TEST_P(OrderTest, ChainsRunBesideEachOther) {
  // The head of the second chain does not wait for the first chain.
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 2, 0);
  // The first link of a runtime is a drain.
  runtime.submit(append, number, 0U);
  runtime.submit(append, number, 0U, link).wait();
  Latch latch(runtime);
  const Ticket first = runtime.submit(hold, latch.words());
  const Ticket second = runtime.submit(append, number.slice(0, 1), 1U, link);
  Ticket last = runtime.submit(append, number.slice(1, 1), 1U);
  for (u32 i = 2; i < 50; ++i) last = runtime.submit(append, number.slice(1, 1), i, link);
  EXPECT_TRUE(last.wait_for(20s));
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(second.done());
  latch.release();
  second.wait();
}

TEST_P(OrderTest, AHardLinkedTaskRunsAfterOneThatFailed) {
  Runtime runtime(options());
  auto fail = runtime.define<Fail>("fail", kFail);
  auto add = runtime.define<Add>("add", kAdd);
  auto cell = filled<u32>(runtime, 1, 0);
  for (int i = 0; i < 20; ++i) {
    const Ticket bad = runtime.submit(fail, 3, link);
    const Ticket good = runtime.submit(add, cell, 0U, 1U, hard_link);
    EXPECT_EQ(good.status(), status::ok);
    EXPECT_EQ(bad.status(), 3);
  }
  EXPECT_EQ(read(cell)[0], 20U);
}

TEST_P(OrderTest, DrainIsABarrier) {
  constexpr u32 kTasks = 1200;
  Options small = options();
  small.ring_slots = 256;
  Runtime runtime(small);
  auto stamp = runtime.define<Stamp>("stamp", kStamp);
  const Stamps all = stamps(runtime, kTasks + 16);
  const auto drains = [](u32 i) { return i == 0 || i % 37 == 5 || i % 200 == 150 || i % 200 == 151; };
  const auto width = [](u32 i) { return i % 37 == 5 ? 3U : 1U; };
  std::vector<u32> at(kTasks);
  u32 used = 0;
  for (u32 i = 0; i < kTasks && used + 3 <= kTasks; ++i) {
    const u64 ns = i % 11 == 0 ? 50'000 : 0;
    at[i] = used;
    if (drains(i))
      runtime.submit(stamp, all.clock, all.began, all.ended, used, ns, drain, groups(width(i)));
    else
      runtime.submit(stamp, all.clock, all.began, all.ended, used, ns);
    used += drains(i) ? width(i) : 1;
  }
  runtime.wait_all();
  const std::vector<u32> began = read(all.began);
  const std::vector<u32> ended = read(all.ended);
  u32 last_end = 0;   // of all tasks so far
  u32 drain_end = 0;  // of the last drain
  u32 count = 0;
  for (u32 i = 0; i < kTasks && (i == 0 || at[i] != 0); ++i, ++count) {
    const u32 n = drains(i) ? width(i) : 1;
    u32 end = 0;
    for (u32 k = 0; k < n; ++k) {
      ASSERT_NE(began[at[i] + k], ~0U);
      if (drains(i) && i != 0) {
        ASSERT_GT(began[at[i] + k], last_end) << "drain " << i << " began before a task before it had ended";
      }
      if (drain_end != 0) {
        ASSERT_GT(began[at[i] + k], drain_end) << "task " << i << " began before the drain before it had ended";
      }
      end = std::max(end, ended[at[i] + k]);
    }
    last_end = std::max(last_end, end);
    if (drains(i)) drain_end = end;
  }
  EXPECT_GT(count, 1000U);
}

TEST_P(OrderTest, LinksAndDrainsMix) {
  constexpr u32 kTasks = kSanitized ? 1000 : 5000;
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  for (u32 i = 0; i < kTasks; ++i) {
    if (i % 7 == 3)
      runtime.submit(append, number, i, drain);
    else if (i % 7 == 4)
      runtime.submit(append, number, i, link, drain);
    else
      runtime.submit(append, number, i, link);
  }
  EXPECT_EQ(read(number)[0], appended(kTasks));
}

TEST_P(OrderTest, DrainsAloneAreAChain) {
  constexpr u32 kTasks = kSanitized ? 500 : 3000;
  Runtime runtime(options());
  auto append = runtime.define<Append>("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  for (u32 i = 0; i < kTasks; ++i) runtime.submit(append, number, i, drain);
  EXPECT_EQ(read(number)[0], appended(kTasks));
}

TEST_P(OrderTest, ADrainHoldsAfterMoreDrainsThanAnEntryCanCount) {
  // An entry carries the number of drains before it modulo 4096: a worker of a new lease must not mistake an old count for the current one.
  Runtime runtime(options());
  auto stamp = runtime.define<Stamp>("stamp", kStamp);
  auto nothing = runtime.define("nothing", kNothing);
  for (u32 turn = 0; turn < 2; ++turn) {
    const Stamps all = stamps(runtime, 2);
    for (u32 i = 0; i < 4095; ++i) runtime.submit(nothing, drain);
    runtime.wait_all();
    runtime.park();
    runtime.submit(stamp, all.clock, all.began, all.ended, 0U, u64{30'000'000}, drain);
    runtime.submit(stamp, all.clock, all.began, all.ended, 1U, u64{0});
    runtime.resume();
    runtime.wait_all();
    EXPECT_LT(read(all.ended)[0], read(all.began)[1]);
  }
}

TEST_P(OrderTest, UnorderedTasksOvertakeALongOne) {
  // Also one held in front of them in the ring.
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto nothing = runtime.define("nothing", kNothing);
  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  Ticket last;
  for (int i = 0; i < 500; ++i) last = runtime.submit(nothing);
  EXPECT_TRUE(last.wait_for(20s));
  EXPECT_FALSE(held.done());
  latch.release();
  held.wait();
}

TEST_P(OrderTest, SeveralThreadsLinkAndDrain) {
  constexpr u32 kEach = kSanitized ? 400 : 2500;
  Options small = options();
  small.ring_slots = 128;
  if (on_cpu()) small.workers = 4;
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto append = runtime.define<Append>("append", kAppend);
  auto cells = filled<u32>(runtime, std::size_t{4} * kEach, 0);
  auto numbers = filled<u32>(runtime, 4, 0);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 4; ++me)
    threads.emplace_back([&, me] {
      for (u32 i = 0; i < kEach; ++i) {
        const u32 at = me * kEach + i;
        if (i % 50 == 49)
          runtime.submit(append, numbers.slice(me, 1), i / 50, drain);  // drains are ordered, also between tasks of other threads
        else if (i % 3 == 0)
          runtime.submit(add, cells, at, 1U);
        else
          runtime.submit(add, cells, at, 1U, link, groups(i % 5 + 1));
      }
    });
  threads.clear();
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < result.size(); ++i) {
    const u32 k = i % kEach;
    ASSERT_EQ(result[i], k % 50 == 49 ? 0U : k % 3 == 0 ? 1U : k % 5 + 1) << i;
  }
  EXPECT_THAT(read(numbers), testing::Each(appended(kEach / 50)));
}

}  // namespace
}  // namespace dwell::test
