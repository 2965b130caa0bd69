// Gangs: all groups at once, their barriers, and many gangs beside other tasks.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Each group adds its rank to a sum, and sees the sums of all in each step.
constexpr const char* kGangSteps = R"(
DWELL_OPERATOR(gang_steps)(dwell::Group g, dwell::Span<dwell::u32> sums, dwell::Span<dwell::u32> wrong, dwell::u32 steps) {
  using namespace dwell::device;
  const dwell::Gang gang = g.gang();
  const dwell::u32 n = gang.size();
  if (n != g.count() || gang.rank() != g.index()) g.fail(1);
  for (dwell::u32 step = 0; step < steps; ++step) {
    if (g.rank() == 0) fetch_add<Order::relaxed>(&sums[step % 2], gang.rank() + 1);
    gang.sync();
    if (load<Order::relaxed, Scope::device>(&sums[step % 2]) != n * (n + 1) / 2 && g.rank() == g.size() - 1)
      fetch_add<Order::relaxed>(&wrong[0], 1u);
    gang.sync();
    if (gang.rank() == n - 1 && g.rank() == 0) store<Order::relaxed, Scope::device>(&sums[step % 2], 0u);
  }
})";
using GangSteps = void(Span<u32>, Span<u32>, u32);

// Cells of a line; each group has one, which becomes the sum of its own and its neighbours'.
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

// Halves of a gang step for themselves, and all together at the end.
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

class GangTest : public DeviceTest {
 protected:
  // With workers for gangs also where there are few cores.
  Options gang_options() {
    Options given = options();
    if (on_cpu()) given.workers = 4;
    return given;
  }
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
  // More in flight than have a memory, of all sizes: two that held each other up would hang.
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

TEST_P(GangTest, GangsTakePartInTheOrderOfTasks) {
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
  DWELL_EXPECT_ERROR(runtime->submit(steps, sums, wrong, 1U, groups(3)).wait(), errc::task_failed, HasSubstr("dwell::gang(n)"));
  DWELL_EXPECT_ERROR(runtime->capture([&] { runtime->submit(steps, sums, wrong, 1U, gang(2)); }), errc::unsupported, HasSubstr("gang"));
  runtime->submit(steps, filled<u32>(*runtime, 2, 0), wrong, 3U, gang(2)).wait();
}

TEST_P(GangTest, FailuresOfMembersAreTheGangs) {
  open();
  const auto one_fails = runtime->define<void()>("one_fails", R"(
    DWELL_OPERATOR(one_fails)(dwell::Group g) {
      const dwell::Gang gang = g.gang();
      gang.sync();
      if (gang.rank() == gang.size() - 1) g.fail(42);
      gang.sync();
    })");
  EXPECT_EQ(runtime->submit(one_fails, gang(most)).status(), 42);
  EXPECT_EQ(runtime->submit(one_fails, gang(1)).status(), 42);
}

DWELL_ON_EVERY_DEVICE(GangTest);

}  // namespace
}  // namespace dwell::test
