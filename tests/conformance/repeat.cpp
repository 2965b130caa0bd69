// Tasks that run several times in sequence.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Each run reads the results of the previous run: cell 0 counts runs, the cells behind it hold the number of the run that wrote them. Fails
// in run `bad`.
constexpr const char* kCount = R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 bad) {
  const dwell::u32 run = cells[0];
  g.sync();
  for (dwell::u32 i : g.range(cells.size())) cells[i] = i == 0 ? run + 1 : run;
  if (g.rank() == 0 && run + 1 == bad) g.fail(41);
})";
using Count = void(Span<u32>, u32);

// Runs for some microseconds.
constexpr const char* kSlow = R"(
DWELL_OPERATOR(slow)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 us) {
  if (g.rank() != 0) return;
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < us * 1000ull) {}
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[0], 1u);
})";

class RepeatTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(RepeatTest);

TEST_P(RepeatTest, EachRunSeesThePreviousOne) {
  Runtime runtime(options());
  const auto count = runtime.define<Count>("count", kCount);
  for (const u32 runs : {1U, 2U, 3U, 1000U, 65535U}) {
    const Buffer<u32> cells = filled<u32>(runtime, 200, 0);
    runtime.submit(count, cells, 0U, repeat(runs)).wait();
    std::vector<u32> expected(200, runs - 1);
    expected[0] = runs;
    EXPECT_EQ(read(cells), expected) << runs << " runs";
  }
}

TEST_P(RepeatTest, IsOrderedAsOneTask) {
  Runtime runtime(options());
  const auto count = runtime.define<Count>("count", kCount);
  const Buffer<u32> cells = filled<u32>(runtime, 8, 0);
  runtime.submit(count, cells, 0U);
  runtime.submit(count, cells, 0U, repeat(10), link);
  const Ticket third = runtime.submit(count, cells, 0U, link, repeat(100));
  runtime.submit(count, cells, 0U, after(third), repeat(5));
  runtime.submit(count, cells, 0U, drain, repeat(7));
  runtime.submit(count, cells, 0U, link).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{124, 123, 123, 123, 123, 123, 123, 123}));
}

TEST_P(RepeatTest, FailedRunIsTheLast) {
  Runtime runtime(options());
  const auto count = runtime.define<Count>("count", kCount);
  for (const u32 bad : {1U, 2U, 50U, 100U}) {
    const Buffer<u32> cells = filled<u32>(runtime, 8, 0);
    const Ticket failed = runtime.submit(count, cells, bad, repeat(100));
    const Ticket behind = runtime.submit(count, cells, 0U, repeat(3), link);
    DWELL_EXPECT_ERROR(failed.wait(), errc::task_failed, HasSubstr("41"));
    DWELL_EXPECT_ERROR(behind.wait(), errc::cancelled, HasSubstr("ticket " + std::to_string(failed.position())));
    EXPECT_EQ(read(cells)[0], bad);
    runtime.submit(count, cells, 0U, repeat(3)).wait();
    EXPECT_EQ(read(cells)[0], bad + 3) << "the runtime goes on";
  }
}

TEST_P(RepeatTest, ManyConcurrentRepeatsLoseNoRun) {
  Options given = options();
  given.lease = 1ms;
  Runtime runtime(given);
  const auto count = runtime.define<Count>("count", kCount);
  constexpr u32 kTasks = 3000;
  const Buffer<u32> cells = filled<u32>(runtime, kTasks * 2, 0);
  u32 expected = 0;
  for (u32 i = 0; i < kTasks; ++i) {
    const u32 runs = 1 + i * 7 % 23;
    runtime.submit(count, cells.slice(i * 2, 2), 0U, repeat(runs));
    expected += runs;
  }
  runtime.submit(count, cells.slice(0, 2), 0U, drain).wait();
  u32 all = 0;
  const std::vector<u32> after = read(cells);
  for (u32 i = 0; i < kTasks; ++i) all += after[i * 2];
  EXPECT_EQ(all, expected + 1);
}

TEST_P(RepeatTest, ATaskOfSeveralSlotsKeepsItsArguments) {
  struct Extra {
    u32 word[60];
  };
  Runtime runtime(options());
  const auto sum = runtime.define<void(Span<u32>, Extra)>("sum", R"(
    struct Extra { dwell::u32 word[60]; };
    DWELL_OPERATOR(sum)(dwell::Group g, dwell::Span<dwell::u32> cells, Extra extra) {
      for (dwell::u32 i : g.range(60)) cells[i] += extra.word[i];
    })");
  const Buffer<u32> cells = filled<u32>(runtime, 60, 0);
  Extra extra{};
  for (u32 i = 0; i < 60; ++i) extra.word[i] = i;
  runtime.submit(sum, cells, extra, repeat(300)).wait();
  const std::vector<u32> sums = read(cells);
  for (u32 i = 0; i < 60; ++i) EXPECT_EQ(sums[i], i * 300);
}

// The next run starts, with the task's arguments, when all tasks that the previous one made are complete.
TEST_P(RepeatTest, RunsThatMakeTasksFollowTheirEnd) {
  Runtime runtime(options());
  const auto add = runtime.define<void(Span<u32>, u32)>("add_one", R"(
    DWELL_OPERATOR(add_one)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {
      if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
    })");
  const auto spawn_five = runtime.define<void(Span<u32>, u32, u32, u32, u32, u32, u32, u32, u32)>("spawn_five", R"(
    DWELL_USES(add_one, dwell::Span<dwell::u32>, dwell::u32)
    DWELL_OPERATOR(spawn_five)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 a, dwell::u32 b, dwell::u32 c, dwell::u32 d,
                         dwell::u32 e, dwell::u32 f, dwell::u32 h, dwell::u32 last) {
      // The tasks that the previous run spawned have ended.
      if (g.rank() == 0 && (cells[1] != cells[0] * 5 || a + b + c + d + e + f + h != 28 || last != 99)) g.fail(7);
      g.sync();
      if (g.rank() == 0) ++cells[0];
      for (dwell::u32 i = 0; i < 5; ++i) g.spawn(uses::add_one, cells, 1u);
    })");
  const Buffer<u32> cells = filled<u32>(runtime, 2, 0);
  runtime.submit(spawn_five, cells, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 99U, repeat(200)).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{200, 1000}));
}

TEST_P(RepeatTest, YieldsItsWorkerToTheNextLease) {
  Options given = options();
  given.workers = 1;
  given.lease = 2ms;
  Runtime runtime(given);
  const auto slow = runtime.define<Count>("slow", kSlow);
  const Buffer<u32> cells = filled<u32>(runtime, 1, 0);
  const Ticket all = runtime.submit(slow, cells, 200U, repeat(500));  // 100 ms
  const Clock::time_point start = Clock::now();
  all.wait();
  EXPECT_GE(Clock::now() - start, 90ms);
  EXPECT_EQ(read(cells)[0], 500U);
  EXPECT_GE(runtime.metrics().leases, 5U) << "one lease has had it all";
}

TEST_P(RepeatTest, TimeoutAppliesToARun) {
  Options given = options();
  given.task_timeout = kSanitized ? 2s : 500ms;
  given.lease = 10 * given.task_timeout;  // in another lease, the record would change anyway
  Runtime runtime(given);
  const auto slow = runtime.define<Count>("slow", kSlow);
  const Buffer<u32> cells = filled<u32>(runtime, 1, 0);
  const auto runs = static_cast<u32>(3 * given.task_timeout / 1ms);
  runtime.submit(slow, cells, 1000U, repeat(runs)).wait();
  EXPECT_EQ(read(cells)[0], runs);
}

TEST_P(RepeatTest, AllRunsHaveTheVersionOfTheTicket) {
  Options given = options();
  given.lease = 1ms;
  Runtime runtime(given);
  const auto source = [](u32 version) {
    return R"(DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      if (g.rank() != 0) return;
      const dwell::u64 start = dwell::device::now_ns();
      while (dwell::device::now_ns() - start < 20000ull) {}
      ++cells[)" +
           std::to_string(version) + "];\n}";
  };
  auto mark = runtime.define<void(Span<u32>)>("mark", source(0));
  constexpr u32 kVersions = 6;
  std::vector<Buffer<u32>> cells;
  std::vector<Ticket> tickets;
  for (u32 version = 0; version < kVersions; ++version) {
    if (version != 0) mark.redefine(source(version));
    cells.push_back(filled<u32>(runtime, kVersions, 0));
    tickets.push_back(runtime.submit(mark, cells.back(), repeat(3000)));  // 60 ms: later versions are defined meanwhile
  }
  for (u32 version = 0; version < kVersions; ++version) {
    tickets[version].wait();
    std::vector<u32> expected(kVersions, 0);
    expected[version] = 3000;
    EXPECT_EQ(read(cells[version]), expected);
  }
}

TEST_P(RepeatTest, CancelEndsItBetweenTwoRuns) {
  Runtime runtime(options());
  const auto slow = runtime.define<Count>("slow", kSlow);
  const Buffer<u32> cells = filled<u32>(runtime, 1, 0);
  const Ticket all = runtime.submit(slow, cells, 100U, repeat(65535));  // 6.5 s
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(runtime.cancel(all));
  DWELL_EXPECT_ERROR(all.wait(), errc::cancelled, HasSubstr("was cancelled"));
  EXPECT_LT(read(cells)[0], 40000U);
}

TEST_P(RepeatTest, BadCountsAndShapesAreRefused) {
  Runtime runtime(options());
  const auto count = runtime.define<Count>("count", kCount);
  const Buffer<u32> cells = filled<u32>(runtime, 2, 0);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(count, cells, 0U, repeat(0)), errc::invalid_argument, "argument", "repeat", 0, 65535);
  DWELL_EXPECT_ERROR_FIELDS(runtime.submit(count, cells, 0U, repeat(65536)), errc::invalid_argument, "argument", "repeat", 65536, 65535);
  DWELL_EXPECT_ERROR(Arguments().add(groups(2)).add(repeat(2)), errc::invalid_argument, HasSubstr("one group"));
  DWELL_EXPECT_ERROR(Arguments().add(repeat(2)).add(gang(1)), errc::invalid_argument, HasSubstr("one group"));
  DWELL_EXPECT_ERROR(runtime.capture([&] { runtime.submit(count, cells, 0U, repeat(2)); }), errc::unsupported,
                     HasSubstr("a repeated task"));
}

}  // namespace
}  // namespace dwell::test
