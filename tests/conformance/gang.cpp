// Gangs: concurrent groups, their barriers, and many gangs beside other tasks.
#include "tests/conformance/gang_suite.hpp"

namespace dwell::test {
namespace {

// Cells in a line: each group's cell becomes the sum of its own and its neighbours'.
constexpr const char* kNeighbours = R"(
DWELL_OPERATOR(neighbours)(dwell::Group g, dwell::Span<dwell::u32> even, dwell::Span<dwell::u32> odd, dwell::u32 steps) {
  const dwell::Gang gang = g.gang();
  const dwell::u32 me = gang.rank();
  const dwell::u32 n = gang.size();
  const dwell::u32 left = (me + n - 1) % n;
  const dwell::u32 right = (me + 1) % n;
  for (dwell::u32 step = 0; step < steps; ++step) {
    dwell::u32* const from = step % 2 == 0 ? even.data() : odd.data();
    dwell::u32* const to = step % 2 == 0 ? odd.data() : even.data();
    if (g.rank() == 0) to[me] = from[left] + from[me] * 3 + from[right];
    gang.sync_neighbours(left, right);
  }
})";
using Neighbours = void(Span<u32>, Span<u32>, u32);

// The halves of a gang step independently, and together at the end.
constexpr const char* kHalves = R"(
DWELL_OPERATOR(halves)(dwell::Group g, dwell::Span<dwell::u32> counts, dwell::Span<dwell::u32> wrong, dwell::u32 steps) {
  using namespace dwell::device;
  const dwell::Gang gang = g.gang();
  const dwell::u32 half = gang.rank() % 2;
  const dwell::u32 members = (gang.size() + 1 - half) / 2;
  for (dwell::u32 step = 0; step < steps * (half + 1); ++step) {
    if (g.rank() == 0) fetch_add<Order::relaxed>(&counts[half], 1u);
    gang.sync(half, members);
    if (g.rank() == 0 && load<Order::relaxed, Scope::device>(&counts[half]) < members * (step + 1)) fetch_add<Order::relaxed>(&wrong[0], 1u);
  }
  gang.sync();
  if (load<Order::relaxed, Scope::device>(&counts[0]) + load<Order::relaxed, Scope::device>(&counts[1]) !=
      steps * ((gang.size() + 1) / 2 + 2 * (gang.size() / 2)))
    g.fail(2);
})";
using Halves = void(Span<u32>, Span<u32>, u32);

class GangTest : public GangSuite {
 protected:
  void open(const Options& options) {
    runtime.emplace(options);
    steps = runtime->define<GangSteps>("gang_steps", kGangSteps);
    most = runtime->info().workers;
  }
  void open() { open(gang_options()); }

  std::optional<Runtime> runtime;
  Operator<GangSteps> steps;
  u32 most = 0;
};

TEST_P(GangTest, AllGroupsRunAtOnce) {
  open();
  ASSERT_GE(most, 2U);
  for (const u32 n : {1U, 2U, 3U, most - 1, most}) {
    if (n == 0) continue;
    const auto sums = filled<u32>(*runtime, 2, 0);
    const auto wrong = filled<u32>(*runtime, 1, 0);
    runtime->submit(steps, sums, wrong, kSanitized ? 20U : 200U, gang(n)).wait();
    EXPECT_EQ(read(wrong)[0], 0U) << n << " groups";
  }
}

TEST_P(GangTest, NeighboursProceedInStep) {
  open();
  const auto neighbours = runtime->define<Neighbours>("neighbours", kNeighbours);
  constexpr u32 kSteps = kSanitized ? 40 : 500;
  const u32 n = std::min(most, 100U);
  std::vector<u32> expected(n);
  for (u32 i = 0; i < n; ++i) expected[i] = i * 7 + 1;
  auto even = runtime->allocate<u32>(n);
  const auto odd = filled<u32>(*runtime, n, 0);
  even.write(expected);
  runtime->submit(neighbours, even, odd, kSteps, gang(n)).wait();
  for (u32 step = 0; step < kSteps; ++step) {
    const std::vector<u32> before = expected;
    for (u32 i = 0; i < n; ++i) expected[i] = before[(i + n - 1) % n] + before[i] * 3 + before[(i + 1) % n];
  }
  EXPECT_EQ(read(even), expected);
}

TEST_P(GangTest, PartsOfAGangHaveBarriersOfTheirOwn) {
  open();
  const auto halves = runtime->define<Halves>("halves", kHalves);
  const auto counts = filled<u32>(*runtime, 2, 0);
  const auto wrong = filled<u32>(*runtime, 1, 0);
  runtime->submit(halves, counts, wrong, kSanitized ? 10U : 100U, gang(std::min(most, 64U))).wait();
  EXPECT_EQ(read(wrong)[0], 0U);
}

TEST_P(GangTest, ManyGangsRunBesideOtherTasks) {
  // More gangs in flight than fit, of all sizes: two that blocked each other would hang.
  Options small = gang_options();
  if (on_cpu()) small.workers = 24;
  small.ring_slots = 256;
  open(small);
  const auto add = runtime->define<Add>("add", kAdd);
  constexpr u32 kGangs = kSanitized ? 60 : 600;
  const auto wrong = filled<u32>(*runtime, 1, 0);
  const auto cells = filled<u32>(*runtime, 64, 0);
  std::vector<Buffer<u32>> sums;
  for (u32 i = 0; i < 24; ++i) sums.push_back(filled<u32>(*runtime, 2, 0));
  Random random(5);
  std::vector<Ticket> last(sums.size());
  for (u32 i = 0; i < kGangs; ++i) {
    const u32 which = i % static_cast<u32>(sums.size());
    const u32 n = 1 + random() % (random() % 3 == 0 ? most : std::min(most, 5U));
    last[which] = runtime->submit(steps, sums[which], wrong, 1 + random() % 8, gang(n), after(last[which]));
    for (u32 k = 0; k < 5; ++k) runtime->submit(add, cells, (i + k) % 64, 1U);
    if (random() % 8 == 0) runtime->submit(add, cells, 0U, 1U, groups(2));
  }
  runtime->wait_all();
  EXPECT_EQ(read(wrong)[0], 0U);
  for (const Ticket& ticket : last) EXPECT_EQ(ticket.status(), status::ok);
  u32 sum = 0;
  for (const u32 cell : read(cells)) sum += cell;
  EXPECT_GE(sum, kGangs * 5);
}

TEST_P(GangTest, GangsSurviveLeasesAndParks) {
  Options brief = gang_options();
  brief.lease = 1ms;
  open(brief);
  const auto wrong = filled<u32>(*runtime, 1, 0);
  std::atomic<bool> over{false};
  std::jthread parker([&] {
    while (!over) {
      runtime->park();
      runtime->resume();
      std::this_thread::sleep_for(1ms);
    }
  });
  constexpr u32 kRounds = kSanitized ? 20 : 200;
  const auto sums = filled<u32>(*runtime, 2, 0);
  for (u32 i = 0; i < kRounds; ++i) runtime->submit(steps, sums, wrong, 2U + i % 50, gang(i % 2 == 0 ? most : 2), link);
  runtime->wait_all();
  over = true;
  EXPECT_EQ(read(wrong)[0], 0U);
}

TEST_P(GangTest, GangsFollowTheOrderOfTasks) {
  open();
  const auto append = runtime->define<Append>("append", kAppend);
  const auto fail = runtime->define<Fail>("fail", kFail);
  const auto sums = filled<u32>(*runtime, 2, 0);
  const auto wrong = filled<u32>(*runtime, 1, 0);
  const Ticket first = runtime->submit(steps, sums, wrong, 5U, gang(2));
  const Ticket second = runtime->submit(steps, sums, wrong, 5U, gang(most), drain);
  EXPECT_EQ(runtime->submit(steps, sums, wrong, 5U, gang(2), after(first, second)).status(), status::ok);
  const Ticket bad = runtime->submit(fail, 5);
  const Ticket cancelled = runtime->submit(steps, sums, wrong, 5U, gang(2), link);
  EXPECT_EQ(bad.status(), 5);
  EXPECT_EQ(cancelled.status(), status::cancelled);
  EXPECT_EQ(runtime->submit(steps, sums, wrong, 5U, gang(2)).status(), status::ok);
  EXPECT_EQ(read(wrong)[0], 0U);
}

TEST_P(GangTest, GangsThatCannotRunAreRefused) {
  open();
  const auto sums = filled<u32>(*runtime, 2, 0);
  const auto wrong = filled<u32>(*runtime, 1, 0);
  DWELL_EXPECT_ERROR(runtime->submit(steps, sums, wrong, 1U, gang(most + 1)), errc::invalid_argument,
                     HasSubstr("there are " + std::to_string(most) + " workers"));
  DWELL_EXPECT_ERROR(runtime->submit(steps, sums, wrong, 1U, gang(0)), errc::invalid_argument, HasSubstr("0"));
  DWELL_EXPECT_ERROR(runtime->submit(steps, sums, wrong, 1U, groups(3)).wait(), errc::task_failed, HasSubstr("with gang instead"));
  runtime->submit(steps, filled<u32>(*runtime, 2, 0), wrong, 3U, gang(2)).wait();
}

// Each group's element becomes the sum of its own and its neighbours'.
constexpr const char* kStepNumbered = R"(
DWELL_OPERATOR(step_numbered)(dwell::Group g, dwell::Span<dwell::u64> words, dwell::Span<dwell::u32> cells, dwell::u32 first,
                              dwell::u32 steps) {
  const dwell::Gang gang = g.gang();
  const dwell::Numbered<dwell::u32> vector(words);
  if (vector.size() != gang.size()) g.fail(1);
  const dwell::u32 me = gang.rank(), n = gang.size();
  if (g.rank() != 0) return;
  dwell::u32 mine = cells[me];
  for (dwell::u32 step = first; step != first + steps; ++step) {
    vector.put(me, step, mine);
    mine = vector.get((me + n - 1) % n, step) + 3 * mine + vector.get((me + 1) % n, step);
  }
  cells[me] = mine;
})";

TEST_P(GangTest, NumberedWordsExchangeVectorsWithoutBarriers) {
  open();
  const auto step_numbered = runtime->define<void(Span<std::uint64_t>, Span<u32>, u32, u32)>("step_numbered", kStepNumbered);
  const u32 many = kSanitized ? 50 : 1000;
  for (const u32 n : {1U, 2U, 3U, most}) {
    const auto words = runtime->allocate<std::uint64_t>(2 * n);
    Buffer<u32> cells = runtime->allocate<u32>(n);
    std::vector<u32> expected(n);
    for (u32 i = 0; i < n; ++i) expected[i] = i * i + 1;
    cells.write(expected);
    // Numbers continue from task to task, and wrap around.
    for (const u32 first : {1U, 1U + many, 0U - many / 2}) {
      runtime->submit(step_numbered, words, cells, first, many, gang(n)).wait();
      for (u32 step = 0; step < many; ++step) {
        const std::vector<u32> before = expected;
        for (u32 i = 0; i < n; ++i) expected[i] = before[(i + n - 1) % n] + 3 * before[i] + before[(i + 1) % n];
      }
      ASSERT_EQ(read(cells), expected) << n << " groups, from step " << first;
    }
  }
}

TEST_P(GangTest, FailureOfAMemberFailsTheGang) {
  open();
  const auto fail_last = runtime->define<void()>("fail_last", R"(
    DWELL_OPERATOR(fail_last)(dwell::Group g) {
      const dwell::Gang gang = g.gang();
      gang.sync();
      if (gang.rank() == gang.size() - 1) g.fail(42);
      gang.sync();
    })");
  EXPECT_EQ(runtime->submit(fail_last, gang(most)).status(), 42);
  EXPECT_EQ(runtime->submit(fail_last, gang(1)).status(), 42);
}

TEST_P(GangTest, LongGangYieldsAtTheEndOfItsLeaseAndResumes) {
  constexpr u32 kSteps = 300;
  Runtime rolling(short_leases());
  const auto gang_of = rolling.define<LongGang>("long_gang", kLongGang);
  for (const u32 size : {1U, 2U, rolling.info().workers}) {
    const auto cells = filled<u32>(rolling, size, 0);
    const auto calls = filled<u32>(rolling, 1, 0);
    const std::uint64_t leases = rolling.metrics().leases;
    rolling.submit(gang_of, cells, calls, kSteps, 30'000U, gang(size)).wait();
    EXPECT_EQ(read(cells), std::vector<u32>(size, kSteps)) << size;
    EXPECT_GT(read(calls)[0], 1U) << size;
    EXPECT_GT(rolling.metrics().leases, leases) << size;
  }
}

TEST_P(GangTest, GangsThatYieldTakeTurns) {
  constexpr u32 kSteps = 100;
  Runtime rolling(short_leases());
  const auto gang_of = rolling.define<LongGang>("long_gang", kLongGang);
  const u32 workers = rolling.info().workers;
  std::vector<Buffer<u32>> cells;
  std::vector<Ticket> tickets;
  const auto calls = filled<u32>(rolling, 1, 0);
  for (u32 i = 0; i < 12; ++i) {
    const u32 size = i % 3 == 0 ? workers : 1 + i % 2;
    cells.push_back(filled<u32>(rolling, size, 0));
    tickets.push_back(rolling.submit(gang_of, cells.back(), calls, kSteps, 20'000U, gang(size)));
  }
  for (const Ticket& ticket : tickets) EXPECT_EQ(ticket.status(), status::ok);
  for (const Buffer<u32>& of : cells) EXPECT_EQ(read(of), std::vector<u32>(of.size(), kSteps));
}

TEST_P(GangTest, AnUrgentTaskGetsAWorkerOfAGangThatYields) {
  Options with = options();
  with.lease = 10s;  // no lease ends, so none makes it yield
  with.priorities = Priorities{};
  Runtime urgent(with);
  const auto gang_of = urgent.define<LongGang>("long_gang", kLongGang);
  const auto nothing = urgent.define<void()>("nothing", kNothing);
  const u32 workers = urgent.info().workers;
  const auto cells = filled<u32>(urgent, workers, 0);
  const auto calls = filled<u32>(urgent, 1, 0);
  if (on_cpu()) GTEST_SKIP() << "on the CPU nobody looks for urgent tasks while all workers are inside operators";
  const Ticket simulation = urgent.submit(gang_of, cells, calls, 20'000U, 50'000U, gang(workers), priority(1));
  std::this_thread::sleep_for(20ms);
  urgent.submit(nothing, priority(5)).wait();
  EXPECT_FALSE(simulation.done());
  simulation.wait();
  EXPECT_EQ(read(cells), std::vector<u32>(workers, 20'000U));
  EXPECT_GT(read(calls)[0], 1U);
}

TEST_P(GangTest, InvalidBarrierIsRefused) {
  open();
  const auto sync_named = runtime->define<void(u32, u32)>("sync_named", R"(
    DWELL_OPERATOR(sync_named)(dwell::Group g, dwell::u32 name, dwell::u32 count) { g.gang().sync(name, count); })");
  EXPECT_EQ(runtime->submit(sync_named, 7U, 2U, gang(2)).status(), status::ok);
  DWELL_EXPECT_ERROR(runtime->submit(sync_named, 8U, 2U, gang(2)).wait(), errc::task_failed, HasSubstr("name beyond 7"));
  EXPECT_EQ(runtime->submit(sync_named, ~0U, 2U, gang(2)).status(), status::no_barrier);
  EXPECT_EQ(runtime->submit(sync_named, 0U, 3U, gang(2)).status(), status::no_barrier);
}

TEST_P(GangTest, OnlyGangsMayYield) {
  open();
  const auto yields = runtime->define<void()>("yields", R"(
    DWELL_OPERATOR(yields)(dwell::Group g) {
      const dwell::Gang gang = g.gang();
      if (gang.resume(0u) == 0) return gang.yield(1u);
    })");
  EXPECT_EQ(runtime->submit(yields, gang(1)).status(), status::ok);
  EXPECT_EQ(runtime->submit(yields, gang(2)).status(), status::ok);
  EXPECT_EQ(runtime->submit(yields).status(), status::no_gang);
  const auto fails = runtime->define<void()>("fails", R"(
    DWELL_OPERATOR(fails)(dwell::Group g) {
      if (g.gang().rank() == 0) g.fail(5);
      g.gang().yield(1u);
    })");
  EXPECT_EQ(runtime->submit(fails, gang(2)).status(), 5) << "a gang that has failed is complete";
}

DWELL_ON_EVERY_DEVICE(GangTest);

}  // namespace
}  // namespace dwell::test
