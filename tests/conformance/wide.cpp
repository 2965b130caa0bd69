// Operators as one group and as one of many.
#include <cmath>
#include <numeric>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class WideTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(WideTest);

constexpr const char* kCount = R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::Span<dwell::u32> counts) {
  if (g.rank() != 0) return;
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[g.index()], 1u);
  dwell::device::store<dwell::device::Order::relaxed, dwell::device::Scope::device>(&counts[g.index()], g.count());
})";
using Count = void(Span<u32>, Span<u32>);

TEST_P(WideTest, EveryGroupRunsOnce) {
  Runtime runtime(options());
  auto count = runtime.define<Count>("count", kCount);
  for (const u32 n : {1U, 2U, 3U, 7U, 64U, 1000U, 65535U}) {
    auto cells = filled<u32>(runtime, n + 1, 0);
    auto counts = filled<u32>(runtime, n + 1, 0);
    runtime.submit(count, cells, counts, groups(n)).wait();
    std::vector<u32> expected(n + 1, 1);
    expected[n] = 0;
    ASSERT_EQ(read(cells), expected);
    std::fill(expected.begin(), expected.end() - 1, n);
    ASSERT_EQ(read(counts), expected);
  }
}

TEST_P(WideTest, ManyWideTasksAtOnce) {
  // Their shares pass through a queue no larger than the ring.
  constexpr u32 kTasks = kSanitized ? 600 : 3000;
  Options small = options();
  small.ring_slots = 128;
  if (on_cpu()) small.workers = 4;
  Runtime runtime(small);
  auto count = runtime.define<Count>("count", kCount);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 40, 0);
  auto counts = runtime.allocate<u32>(40);
  auto narrow = filled<u32>(runtime, kTasks, 0);
  std::vector<u32> expected(40);
  for (u32 task = 0; task < kTasks; ++task) {
    const u32 n = task % 40 + 1;
    runtime.submit(count, cells, counts, groups(n));
    for (u32 i = 0; i < n; ++i) ++expected[i];
    if (task % 3 == 0) runtime.submit(add, narrow, task, 1U);
  }
  EXPECT_EQ(read(cells), expected);
  const std::vector<u32> result = read(narrow);
  for (u32 task = 0; task < kTasks; ++task) ASSERT_EQ(result[task], task % 3 == 0 ? 1U : 0U);
}

TEST_P(WideTest, RangeCoversEachElementOnce) {
  Runtime runtime(options());
  auto touch = runtime.define<void(Span<u32>)>("touch", R"(
    DWELL_OPERATOR(touch)(dwell::Group g, dwell::Span<dwell::u32> x) { for (auto i : g.range(x.size())) x[i] += 1; })");
  for (const std::size_t size : {0U, 1U, 127U, 128U, 129U, 100'003U})
    for (const u32 n : {1U, 2U, 9U, 300U}) {
      auto x = filled<u32>(runtime, size, 0);
      runtime.submit(touch, x, groups(n)).wait();
      ASSERT_THAT(read(x), testing::Each(1U)) << size << " by " << n;
    }
}

TEST_P(WideTest, LocalRangeCoversEachElementOncePerGroup) {
  Runtime runtime(options());
  auto touch = runtime.define<void(Span<u32>)>("touch", R"(
    DWELL_OPERATOR(touch)(dwell::Group g, dwell::Span<dwell::u32> x) {
      for (auto i : g.local_range(x.size())) dwell::device::fetch_add<dwell::device::Order::relaxed>(&x[i], 1u);
    })");
  for (const std::size_t size : {1U, 128U, 1001U})
    for (const u32 n : {1U, 5U, 70U}) {
      auto x = filled<u32>(runtime, size, 0);
      runtime.submit(touch, x, groups(n)).wait();
      ASSERT_THAT(read(x), testing::Each(n)) << size << " by " << n;
    }
}

TEST_P(WideTest, RanksAreThoseOfTheGroup) {
  Runtime runtime(options());
  auto ranks = runtime.define<void(Span<u32>)>("ranks", R"(
    DWELL_OPERATOR(ranks)(dwell::Group g, dwell::Span<dwell::u32> x) {
      dwell::device::fetch_add<dwell::device::Order::relaxed>(&x[g.rank()], 1u);
      if (g.index() == 0 && g.rank() == 0) x[200] = g.size();
    })");
  auto x = filled<u32>(runtime, 201, 0);
  runtime.submit(ranks, x, groups(3)).wait();
  const std::vector<u32> result = read(x);
  const u32 size = result[200];
  EXPECT_EQ(size, on_cpu() ? 1U : 128U);
  for (u32 i = 0; i < 200; ++i) EXPECT_EQ(result[i], i < size ? 3U : 0U);
}

TEST_P(WideTest, ReduceAndSumGiveAllThreadsTheSame) {
  Runtime runtime(options());
  auto reduce = runtime.define<void(Span<const i32>, Span<i64>, Span<double>)>("reduce", R"(
    struct Both { dwell::i64 low; dwell::i64 high; };
    DWELL_OPERATOR(reduce)(dwell::Group g, dwell::Span<const dwell::i32> x, dwell::Span<dwell::i64> out, dwell::Span<double> sums) {
      dwell::i64 sum = 0;
      dwell::i32 least = 2147483647;
      Both both{2147483647, -2147483648ll};
      for (auto i : g.local_range(x.size())) {
        sum += x[i];
        if (x[i] < least) least = x[i];
        if (x[i] < both.low) both.low = x[i];
        if (x[i] > both.high) both.high = x[i];
      }
      sum = g.sum(sum);
      least = g.reduce(least, [](dwell::i32 a, dwell::i32 b) { return a < b ? a : b; });
      both = g.reduce(both, [](Both a, Both b) { return Both{a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high}; });
      const dwell::u8 one = g.reduce(static_cast<dwell::u8>(1), [](dwell::u8 a, dwell::u8 b) { return static_cast<dwell::u8>(a & b); });
      const double threads = g.sum(1.0);
      // All threads must get the same results.
      const bool same = threads == g.size() && one == 1 && both.low == least;
      const dwell::u32 agree = g.sum(same ? 1u : 0u);
      if (g.rank() == g.size() - 1) {
        out[4 * g.index()] = sum;
        out[4 * g.index() + 1] = least;
        out[4 * g.index() + 2] = both.high;
        out[4 * g.index() + 3] = agree == g.size() ? 1 : 0;
        sums[g.index()] = g.size();
      }
    })");
  std::vector<i32> numbers(10'000);
  for (i32 i = 0; i < 10'000; ++i) numbers[static_cast<std::size_t>(i)] = (i * 7919) % 10'007 - 5000;
  auto x = runtime.allocate<i32>(numbers.size());
  x.write(numbers);
  auto out = filled<i64>(runtime, 4 * 50, 0);
  auto sums = runtime.allocate<double>(50);
  runtime.submit(reduce, x, out, sums, groups(50)).wait();
  const std::vector<i64> result = read(out);
  for (std::size_t group = 0; group < 50; ++group) {
    ASSERT_EQ(result[4 * group], std::accumulate(numbers.begin(), numbers.end(), 0LL));
    ASSERT_EQ(result[4 * group + 1], *std::min_element(numbers.begin(), numbers.end()));
    ASSERT_EQ(result[4 * group + 2], *std::max_element(numbers.begin(), numbers.end()));
    ASSERT_EQ(result[4 * group + 3], 1);
  }
}

TEST_P(WideTest, ReduceCombinesInTheSameOrderInEveryRun) {
  Runtime runtime(options());
  auto rounding = runtime.define<void(Span<const float>, Span<float>)>("rounding", R"(
    DWELL_OPERATOR(rounding)(dwell::Group g, dwell::Span<const float> x, dwell::Span<float> out) {
      float sum = 0;
      for (auto i : g.local_range(x.size())) sum += x[i];
      sum = g.sum(sum);
      if (g.rank() == 0) out[g.index()] = sum;
    })");
  // Magnitudes so different that another order gives another sum.
  std::vector<float> numbers(1000);
  Random random(1);
  for (float& number : numbers) number = static_cast<float>(random() % 1000 + 1) * (random() % 2 == 0 ? 1.0e-3F : 1.0e6F);
  auto x = runtime.allocate<float>(numbers.size());
  x.write(numbers);
  auto out = filled<float>(runtime, 200, 0);
  for (int turn = 0; turn < 5; ++turn) {
    runtime.submit(rounding, x, out, groups(200));
    const std::vector<float> sums = read(out);
    ASSERT_THAT(sums, testing::Each(sums[0]));
    ASSERT_GT(sums[0], 0.0F);
  }
}

constexpr const char* kShare = R"(
DWELL_OPERATOR(share)(dwell::Group g, dwell::u32 n, dwell::Span<dwell::u32> out) {
  // Two blocks whose sizes are no multiple of the alignment; they must not overlap.
  dwell::Span<dwell::u8> odd = g.shared<dwell::u8>(n + 3);
  dwell::Span<double> tile = g.shared<double>(n);
  if (tile.empty()) return;
  for (auto i : g.local_range(odd.size())) odd[i] = static_cast<dwell::u8>(i + g.index());
  for (auto i : g.local_range(n)) tile[i] = static_cast<double>(i * (g.index() + 1));
  g.sync();
  dwell::u32 wrong = reinterpret_cast<dwell::u64>(odd.data()) % 16 + reinterpret_cast<dwell::u64>(tile.data()) % 16;
  // Each thread checks elements that another one wrote.
  for (auto i : g.local_range(n)) {
    const dwell::u64 other = (i + g.size() / 2 + 1) % n;
    if (tile[other] != static_cast<double>(other * (g.index() + 1))) ++wrong;
    if (odd[other] != static_cast<dwell::u8>(other + g.index())) ++wrong;
  }
  wrong = g.sum(wrong);
  if (g.rank() == 0) out[g.index()] = wrong;
})";
using Share = void(u32, Span<u32>);

TEST_P(WideTest, SharedMemoryIsTheGroupsOwn) {
  Runtime runtime(options());
  auto share = runtime.define<Share>("share", kShare);
  for (const u32 n : {1U, 100U, 800U}) {
    auto out = filled<u32>(runtime, 300, 77);
    runtime.submit(share, n, out, groups(300)).wait();
    ASSERT_THAT(read(out), testing::Each(0U)) << n;
  }
}

TEST_P(WideTest, TooMuchSharedMemoryFailsTheTask) {
  Options small = options();
  small.scratch_bytes = 1024;
  Runtime runtime(small);
  auto share = runtime.define<Share>("share", kShare);
  auto out = filled<u32>(runtime, 20, 77);
  for (const u32 n : {1U, 20U}) {
    const Ticket ticket = runtime.submit(share, 1000U, out, groups(n));
    DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed,
                       AllOf(HasSubstr("share (version 1)"), HasSubstr("scratch_bytes"), HasSubstr("1024")));
    EXPECT_EQ(ticket.status(), status::out_of_scratch);
  }
  EXPECT_THAT(read(out), testing::Each(77U));
  // The next task gets all of it again.
  for (int i = 0; i < 10; ++i) runtime.submit(share, 100U, out.slice(0, 1)).wait();
  EXPECT_EQ(read(out)[0], 0U);
}

TEST_P(WideTest, EveryByteOfScratchIsAvailable) {
  Options odd = options();
  odd.scratch_bytes = 4096;
  Runtime runtime(odd);
  auto use_scratch = runtime.define<void(u64, Span<u32>)>("use_scratch", R"(
    DWELL_OPERATOR(use_scratch)(dwell::Group g, dwell::u64 n, dwell::Span<dwell::u32> out) {
      dwell::Span<dwell::u32> all = g.shared<dwell::u32>(n);
      for (auto i : g.local_range(all.size())) all[i] = static_cast<dwell::u32>(i);
      g.sync();
      dwell::u32 sum = 0;
      for (auto i : g.local_range(all.size())) sum += all[i];
      sum = g.sum(sum);
      if (g.rank() == 0) out[0] = sum;
    })");
  auto out = runtime.allocate<u32>(1);
  runtime.submit(use_scratch, u64{1024}, out).wait();
  EXPECT_EQ(read(out)[0], 1023U * 512U);
  EXPECT_EQ(runtime.submit(use_scratch, u64{1025}, out).status(), status::out_of_scratch);
  // Counts whose size in bytes wraps around.
  EXPECT_EQ(runtime.submit(use_scratch, u64{1} << 62U, out).status(), status::out_of_scratch);
  EXPECT_EQ(runtime.submit(use_scratch, (u64{1} << 62U) + 1, out).status(), status::out_of_scratch);
  EXPECT_EQ(runtime.submit(use_scratch, ~u64{0}, out).status(), status::out_of_scratch);
}

TEST_P(WideTest, NoScratchAtAllIsPossible) {
  Options none = options();
  none.scratch_bytes = 0;
  Runtime runtime(none);
  auto share = runtime.define<Share>("share", kShare);
  auto add = runtime.define<Add>("add", kAdd);
  auto out = filled<u32>(runtime, 1, 0);
  EXPECT_EQ(runtime.submit(share, 1U, out).status(), status::out_of_scratch);
  runtime.submit(add, out, 0U, 4U).wait();
  EXPECT_EQ(read(out)[0], 4U);
}

TEST_P(WideTest, OneFailingGroupFailsTheTaskWithItsCode) {
  Runtime runtime(options());
  auto fail_at = runtime.define<void(u32, i32, Span<u32>)>("fail_at", R"(
    DWELL_OPERATOR(fail_at)(dwell::Group g, dwell::u32 at, dwell::i32 code, dwell::Span<dwell::u32> ran) {
      if (g.index() == at) g.fail(code);
      if (g.rank() == 0) ran[g.index()] = 1;
    })");
  for (const u32 n : {1U, 2U, 50U})
    for (const u32 at : {0U, n - 1}) {
      auto ran = filled<u32>(runtime, n, 0);
      const Ticket ticket = runtime.submit(fail_at, at, 42, ran, groups(n));
      DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, AllOf(HasSubstr("fail_at (version 1)"), HasSubstr("code 42")));
      EXPECT_EQ(ticket.status(), 42);
      // The other groups run.
      EXPECT_THAT(read(ran), testing::Each(1U));
      EXPECT_EQ(runtime.submit(fail_at, n, 42, ran, groups(n)).status(), status::ok);
    }
}

TEST_P(WideTest, FirstFailureIsKept) {
  Runtime runtime(options());
  auto fail_twice = runtime.define<void(i32, i32)>("fail_twice", R"(
    DWELL_OPERATOR(fail_twice)(dwell::Group g, dwell::i32 first, dwell::i32 second) {
      if (g.rank() == 0) g.fail(first);
      g.sync();
      g.fail(second);
    })");
  EXPECT_EQ(runtime.submit(fail_twice, 5, 6).status(), 5);
  EXPECT_EQ(runtime.submit(fail_twice, 0, 6).status(), 6);
  EXPECT_EQ(runtime.submit(fail_twice, 2'000'000'000, 1).status(), 2'000'000'000);
}

TEST_P(WideTest, AWideTaskRunsOnOneWorker) {
  Options one = options();
  one.workers = 1;
  Runtime runtime(one);
  auto count = runtime.define<Count>("count", kCount);
  auto cells = filled<u32>(runtime, 500, 0);
  auto counts = runtime.allocate<u32>(500);
  for (int i = 0; i < 20; ++i) runtime.submit(count, cells, counts, groups(500));
  EXPECT_THAT(read(cells), testing::Each(20U));
}

TEST_P(WideTest, AWideTaskIsSharedByWorkers) {
  // Groups that wait for each other end only if two workers run them concurrently.
  Runtime runtime(options());
  auto meet = runtime.define<void(Span<u32>)>("meet", R"(
    DWELL_OPERATOR(meet)(dwell::Group g, dwell::Span<dwell::u32> arrived) {
      using namespace dwell::device;
      if (g.rank() == 0) {
        const dwell::u64 start = now_ns();
        fetch_add<Order::acq_rel>(&arrived[0], 1u);
        for (dwell::u32 round = 0; load<Order::acquire, Scope::device>(&arrived[0]) < 2; ++round) {
          if (now_ns() - start > 5000000000ull) { g.fail(1); break; }
          relax(round);
        }
      }
      g.sync();
    })");
  auto arrived = filled<u32>(runtime, 1, 0);
  runtime.submit(meet, arrived, groups(2)).wait();
}

}  // namespace
}  // namespace dwell::test
