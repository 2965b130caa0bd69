// Tasks that operators make: children, continuations, and when their parents are complete.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class SpawnTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(SpawnTest);

// fib(n) into out[0], by fork and join. Cells of each call lie behind it: children at 1 and at 1 + the cells of the first, which is at most
// cells(n - 1) long.
constexpr const char* kFib = R"(
DWELL_USES(fib, dwell::u32, dwell::Span<dwell::u64>)
DWELL_USES(add, dwell::Span<dwell::u64>, dwell::u64, dwell::u64)
__attribute__((unused)) static DWELL_HOST_DEVICE dwell::u64 cells(dwell::u32 n) { dwell::u64 a = 1, b = 1; while (n-- > 1) { dwell::u64 c = a + b + 1; a = b; b = c; } return b; }
DWELL_OPERATOR(fib)(dwell::Group g, dwell::u32 n, dwell::Span<dwell::u64> out) {
  if (n < 2) { if (g.rank() == 0) out[0] = n; return; }
  const dwell::u64 first = cells(n - 1);
  g.spawn(uses::fib, n - 1, out.subspan(1, first));
  g.spawn(uses::fib, n - 2, out.subspan(1 + first, cells(n - 2)));
  g.then(uses::add, out, 1, 1 + first);
}
)";
constexpr const char* kAddTo64 = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<dwell::u64> out, dwell::u64 a, dwell::u64 b) {
  if (g.rank() == 0) out[0] = out[a] + out[b];
}
)";
std::uint64_t cells(std::uint32_t n) {
  std::uint64_t a = 1;
  std::uint64_t b = 1;
  while (n-- > 1) {
    const std::uint64_t c = a + b + 1;
    a = b;
    b = c;
  }
  return b;
}
std::uint64_t fib(std::uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

TEST_P(SpawnTest, ForkAndJoin) {
  Runtime runtime(options());
  runtime.define("add", kAddTo64);
  auto op = runtime.define<void(u32, Span<std::uint64_t>)>("fib", kFib);
  for (const u32 n : {0U, 1U, 2U, 3U, 10U, kSanitized ? 12U : 22U}) {
    auto out = filled<std::uint64_t>(runtime, cells(n), 0);
    runtime.submit(op, n, out).wait();
    EXPECT_EQ(read(out)[0], fib(n)) << n;
  }
}

// A tree: each task of a level makes `fan` of the next, and each leaf counts.
constexpr const char* kTree = R"(
DWELL_USES(tree, dwell::u32, dwell::u32, dwell::Span<dwell::u64>)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::u32 levels, dwell::u32 fan, dwell::Span<dwell::u64> count) {
  if (levels == 0) { if (g.rank() == 0) count.atomic_add(0, dwell::u64{1}); return; }
  for (dwell::u32 i = 0; i < fan; ++i) g.spawn(uses::tree, levels - 1, fan, count);
}
)";

TEST_P(SpawnTest, EveryTaskOfATreeRunsOnce) {
  Runtime runtime(options());
  auto tree = runtime.define<void(u32, u32, Span<std::uint64_t>)>("tree", kTree);
  struct Shape {
    u32 levels;
    u32 fan;
    std::uint64_t leaves;
  };
  for (const Shape shape :
       {Shape{0, 5, 1}, Shape{1, 100, 100}, Shape{3, 20, 8000}, Shape{kSanitized ? 10U : 17U, 2, kSanitized ? 1024U : 131072U}}) {
    auto count = filled<std::uint64_t>(runtime, 1, 0);
    runtime.submit(tree, shape.levels, shape.fan, count).wait();
    EXPECT_EQ(read(count)[0], shape.leaves) << shape.levels << " levels of " << shape.fan;
  }
}

using Tree = void(u32, u32, Span<std::uint64_t>);

TEST_P(SpawnTest, TasksOutlastLeasesAndParks) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 200us;
  Runtime runtime(brief);
  auto tree = runtime.define<Tree>("tree", kTree);
  auto count = filled<std::uint64_t>(runtime, 1, 0);
  constexpr u32 kTrees = 20;
  constexpr u32 kLevels = kSanitized ? 8 : 12;
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < kTrees; ++i) {
    tickets.push_back(runtime.submit(tree, kLevels, 2U, count));
    if (i % 4 == 3) {
      std::this_thread::sleep_for(300us);
      runtime.park();
      runtime.resume();
    }
  }
  for (Ticket& ticket : tickets) ticket.wait();
  EXPECT_EQ(read(count)[0], std::uint64_t{kTrees} << kLevels);
}

// A task whose children all fail; all count.
constexpr const char* kFailing = R"(
DWELL_USES(failing, dwell::u32, dwell::Span<dwell::u32>)
DWELL_USES(last, dwell::Span<dwell::u32>)
DWELL_OPERATOR(failing)(dwell::Group g, dwell::u32 children, dwell::Span<dwell::u32> count) {
  if (g.rank() == 0) count.atomic_add(0, 1U);
  for (dwell::u32 i = 0; i < children; ++i) g.spawn(uses::failing, 0U, count);
  if (children == 0) g.fail(42);
  if (children != 0) g.then(uses::last, count);
}
)";
constexpr const char* kLast = R"(
DWELL_OPERATOR(last)(dwell::Group g, dwell::Span<dwell::u32> count) {
  if (g.rank() == 0) count[1] = count[0];
}
)";

TEST_P(SpawnTest, AFailedChildFailsItsParentAndStopsNothing) {
  Runtime runtime(options());
  runtime.define("last", kLast);
  auto failing = runtime.define<void(u32, Span<u32>)>("failing", kFailing);
  for (const u32 children : {1U, 7U, 30U}) {
    auto count = filled<u32>(runtime, 2, 0);
    Ticket ticket = runtime.submit(failing, children, count);
    DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("code 42"));
    EXPECT_THAT(read(count), testing::ElementsAre(1 + children, 1 + children)) << "the continuation runs, behind all children";
  }
}

TEST_P(SpawnTest, WhatWaitsForATaskWaitsForItsDescendants) {
  Runtime runtime(options());
  runtime.define("add", kAddTo64);
  auto op = runtime.define<void(u32, Span<std::uint64_t>)>("fib", kFib);
  auto move = runtime.define<void(Span<std::uint64_t>, std::uint64_t, std::uint64_t)>("move", R"(
    DWELL_OPERATOR(move)(dwell::Group g, dwell::Span<dwell::u64> out, dwell::u64 from, dwell::u64 to) {
      if (g.rank() == 0) out[to] = out[from] + 1;
    })");
  constexpr u32 kN = kSanitized ? 6 : 12;
  for (int round = 0; round < 20; ++round) {
    auto out = filled<std::uint64_t>(runtime, cells(kN) + 2, 0);
    const Ticket first = runtime.submit(op, kN, out);
    runtime.submit(move, out, std::uint64_t{0}, cells(kN), dwell::link);
    runtime.submit(move, out, std::uint64_t{0}, cells(kN) + 1, dwell::after(first));
    runtime.wait_all();
    const auto all = read(out);
    EXPECT_EQ(all[cells(kN)], fib(kN) + 1);
    EXPECT_EQ(all[cells(kN) + 1], fib(kN) + 1);
  }
}

TEST_P(SpawnTest, NodesOfGraphsMakeTasks) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 500us;
  Runtime runtime(brief);
  auto tree = runtime.define<Tree>("tree", kTree);
  auto move = runtime.define<void(Span<std::uint64_t>, std::uint64_t)>("move", R"(
    DWELL_OPERATOR(move)(dwell::Group g, dwell::Span<dwell::u64> out, dwell::u64 to) {
      if (g.rank() == 0) out[to] = out[0];
    })");
  // Stages of trees beside each other, of one width after the other; behind each, a node sees all that they have counted.
  constexpr u32 kLevels = 4;
  const std::vector<u32> widths = {1, 1, 3, 20, 1, 100, 1, 1};
  auto out = filled<std::uint64_t>(runtime, 1 + widths.size(), 0);
  Graph graph;
  Node before;
  std::uint64_t expected = 0;
  std::vector<std::uint64_t> all;
  for (u32 stage = 0; stage < widths.size(); ++stage) {
    const Node behind = graph.add(move, out, std::uint64_t{stage + 1});
    for (u32 i = 0; i < widths[stage]; ++i) {
      const Node node = graph.add(tree, kLevels, 2U, out);
      if (stage != 0) Node(node).after(before);
      Node(behind).after(node);
    }
    before = behind;
    expected += widths[stage] << kLevels;
    all.push_back(expected);
  }
  const GraphExec exec = runtime.instantiate(graph);
  for (int round = 0; round < 20; ++round) {
    out.write(std::vector<std::uint64_t>(1 + widths.size(), 0));
    runtime.launch(exec).wait();
    const auto seen = read(out);
    for (u32 stage = 0; stage < widths.size(); ++stage) ASSERT_EQ(seen[stage + 1], all[stage]) << stage;
  }
}

TEST_P(SpawnTest, ADescendantIsOfTheVersionThatWasCurrentAtTheTicket) {
  Runtime runtime(options());
  const auto leaf = [](int version) {
    return "DWELL_OPERATOR(leaf)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) { if (g.rank() == 0) cells[at] = " +
           std::to_string(version) + "; }";
  };
  auto op = runtime.define("leaf", leaf(0));
  auto spread = runtime.define<void(Span<u32>, u32, u32)>("spread", R"(
    DWELL_USES(spread, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(leaf, dwell::Span<dwell::u32>, dwell::u32)
    DWELL_OPERATOR(spread)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 first, dwell::u32 count) {
      if (count == 1) { g.then(uses::leaf, cells, first); return; }
      g.spawn(uses::spread, cells, first, count / 2);
      g.spawn(uses::spread, cells, first + count / 2, count - count / 2);
    })");
  constexpr u32 kEach = 100;
  constexpr u32 kVersions = 5;
  auto cells = filled<u32>(runtime, kEach * kVersions, ~0U);
  runtime.park();
  for (u32 version = 0; version < kVersions; ++version) {
    if (version != 0) op.redefine(leaf(static_cast<int>(version)));
    runtime.submit(spread, cells, version * kEach, kEach);
    if (version == 2) runtime.resume();
  }
  runtime.wait_all();
  const auto all = read(cells);
  for (u32 i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i / kEach) << i;
}

TEST_P(SpawnTest, WithoutRoomATaskFailsAndWhatItHasMadeRuns) {
  Options few = options();
  few.workers = 2;
  Runtime runtime(few);
  auto tree = runtime.define<Tree>("tree", kTree);
  for (int round = 0; round < 3; ++round) {
    auto count = filled<std::uint64_t>(runtime, 1, 0);
    Ticket ticket = runtime.submit(tree, 1U, 20'000U, count);
    DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("no room for a task"));
    EXPECT_GT(read(count)[0], 4000U) << "places are free again each time";
    EXPECT_LT(read(count)[0], 20'000U);
    count.write(std::vector<std::uint64_t>{0});
    runtime.submit(tree, 2U, 60U, count).wait();
    EXPECT_EQ(read(count)[0], 3600U);
  }
}

TEST_P(SpawnTest, ATaskHasOneContinuation) {
  Runtime runtime(options());
  runtime.define("last", kLast);
  auto twice = runtime.define<void(Span<u32>)>("twice", R"(
    DWELL_USES(last, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(twice)(dwell::Group g, dwell::Span<dwell::u32> count) {
      if (g.rank() == 0) count[0] = 7;
      g.then(uses::last, count);
      g.then(uses::last, count.subspan(1, 1));
    })");
  auto count = filled<u32>(runtime, 3, 0);
  Ticket ticket = runtime.submit(twice, count);
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("a second time"));
  EXPECT_THAT(read(count), testing::ElementsAre(7, 7, 0)) << "the first one runs";
}

TEST_P(SpawnTest, WideTasksMakeNone) {
  Runtime runtime(options());
  auto tree = runtime.define<Tree>("tree", kTree);
  auto count = filled<std::uint64_t>(runtime, 1, 0);
  Ticket ticket = runtime.submit(tree, 1U, 3U, count, groups(4));
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("several groups"));
  EXPECT_EQ(read(count)[0], 0U);
  runtime.submit(tree, 1U, 3U, count).wait();
  EXPECT_EQ(read(count)[0], 3U) << "tasks of one group do";
}

}  // namespace
}  // namespace dwell::test
