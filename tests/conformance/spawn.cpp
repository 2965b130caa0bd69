// Tasks that operators make: children, continuations, and completion of their parents.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class SpawnTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(SpawnTest);

// Computes fib(n) into out[0] by fork and join. The cells of each call lie behind out[0]: those of the first child, at most cells(n - 1),
// at 1, those of the second behind them.
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

// A tree: each task of a level spawns `fan` tasks of the next, and each leaf counts.
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

// A task whose children all count and fail.
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

TEST_P(SpawnTest, FailedChildFailsItsParentButCancelsNothing) {
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

TEST_P(SpawnTest, WaitersOfATaskWaitForItsDescendants) {
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

TEST_P(SpawnTest, GraphNodesSpawnTasks) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 500us;
  Runtime runtime(brief);
  auto tree = runtime.define<Tree>("tree", kTree);
  auto move = runtime.define<void(Span<std::uint64_t>, std::uint64_t)>("move", R"(
    DWELL_OPERATOR(move)(dwell::Group g, dwell::Span<dwell::u64> out, dwell::u64 to) {
      if (g.rank() == 0) out[to] = out[0];
    })");
  // Stages of concurrent trees, of these widths; a node behind each stage sees all their counts.
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

TEST_P(SpawnTest, DescendantsHaveTheVersionOfTheTicket) {
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

TEST_P(SpawnTest, TaskWithoutRoomFailsAndItsChildrenRun) {
  Options few = options();
  few.workers = 2;
  few.spawned_tasks = 4300;
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
  auto then_twice = runtime.define<void(Span<u32>)>("then_twice", R"(
    DWELL_USES(last, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(then_twice)(dwell::Group g, dwell::Span<dwell::u32> count) {
      if (g.rank() == 0) count[0] = 7;
      g.then(uses::last, count);
      g.then(uses::last, count.subspan(1, 1));
    })");
  auto count = filled<u32>(runtime, 3, 0);
  Ticket ticket = runtime.submit(then_twice, count);
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("a second time"));
  EXPECT_THAT(read(count), testing::ElementsAre(7, 7, 0)) << "the first one runs";
}

TEST_P(SpawnTest, WideTasksCannotSpawn) {
  Runtime runtime(options());
  auto tree = runtime.define<Tree>("tree", kTree);
  auto count = filled<std::uint64_t>(runtime, 1, 0);
  Ticket ticket = runtime.submit(tree, 1U, 3U, count, groups(4));
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("several groups"));
  EXPECT_EQ(read(count)[0], 0U);
  runtime.submit(tree, 1U, 3U, count).wait();
  EXPECT_EQ(read(count)[0], 3U) << "tasks of one group do";
}

// ---- Children that follow others ---------------------------------------------------------------------------------------------------

// Child i follows i - 2, i - 3 and i - 5. It checks that their cells hold the round, and spawns a child that stores the round in its own
// cell. Cell 0 counts early starts.
constexpr const char* kDag = R"(
DWELL_USES(check, dwell::Span<dwell::u32>, dwell::u32, dwell::u32, dwell::u32, dwell::u32, dwell::u32)
DWELL_OPERATOR(dag)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 round) {
  dwell::Child made[60];
  for (dwell::u32 i = 0; i < 60; ++i) {
    if (i < 4)
      made[i] = g.spawn(uses::check, cells, i + 1, 0, 0, 0, round);
    else if (i == 4)
      made[i] = g.spawn_after(made[0], uses::check, cells, 5, 1, 0, 0, round);
    else
      made[i] = g.spawn_after({made[i - 2], made[i - 3], made[i - 5]}, uses::check, cells, i + 1, i - 1, i - 2, i - 4, round);
  }
})";
constexpr const char* kCheck = R"(
DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_OPERATOR(check)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 own, dwell::u32 a, dwell::u32 b, dwell::u32 c,
                      dwell::u32 round) {
  if (g.rank() == 0) {
    const bool done = (a == 0 || cells[a] == round) && (b == 0 || cells[b] == round) && (c == 0 || cells[c] == round);
    if (!done || cells[own] != round - 1) cells.atomic_add(0, 1U);
  }
  g.spawn(uses::mark, cells, own, round);
})";
constexpr const char* kMark = R"(
DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 own, dwell::u32 round) { if (g.rank() == 0) cells[own] = round; }
)";

TEST_P(SpawnTest, ChildFollowsOthersAndTheirDescendants) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 300us;
  Runtime runtime(brief);
  runtime.define("mark", kMark);
  runtime.define("check", kCheck);
  auto dag = runtime.define<void(Span<u32>, u32)>("dag", kDag);
  auto cells = filled<u32>(runtime, 61, 0);
  constexpr u32 kRounds = kSanitized ? 30 : 300;
  for (u32 round = 1; round <= kRounds; ++round) runtime.submit(dag, cells, round, link);
  runtime.wait_all();
  const auto all = read(cells);
  EXPECT_EQ(all[0], 0U) << "came too early, or twice";
  for (u32 i = 1; i < all.size(); ++i) EXPECT_EQ(all[i], kRounds) << i;
}

TEST_P(SpawnTest, FailureDoesNotCancelFollowers) {
  Runtime runtime(options());
  runtime.define("last", kLast);
  runtime.define("failing", kFailing);
  auto op = runtime.define<void(Span<u32>)>("op", R"(
    DWELL_USES(failing, dwell::u32, dwell::Span<dwell::u32>)
    DWELL_USES(last, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<dwell::u32> count) {
      dwell::Child a = g.spawn(uses::failing, 3, count);
      g.spawn_after(a, uses::last, count);
    })");
  auto count = filled<u32>(runtime, 2, 0);
  DWELL_EXPECT_ERROR(runtime.submit(op, count).wait(), errc::task_failed, HasSubstr("code 42"));
  EXPECT_THAT(read(count), testing::ElementsAre(4, 4));
}

TEST_P(SpawnTest, OnlyOwnChildrenCanBeFollowed) {
  Runtime runtime(options());
  runtime.define("mark", kMark);
  auto fan_out = runtime.define<void(Span<u32>, u32)>("fan_out", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(fan_out)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 followers) {
      dwell::Child first = g.spawn(uses::mark, cells, 0, 1);
      for (dwell::u32 i = 1; i <= followers; ++i) g.spawn_after(first, uses::mark, cells, i, 1);
    })");
  auto cells = filled<u32>(runtime, 8, 0);
  runtime.submit(fan_out, cells, 6U).wait();
  EXPECT_THAT(read(cells), testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 0));
  cells.write(std::vector<u32>(8, 0));
  DWELL_EXPECT_ERROR(runtime.submit(fan_out, cells, 7U).wait(), errc::task_failed, HasSubstr("six that follow"));
  EXPECT_THAT(read(cells), testing::ElementsAre(1, 1, 1, 1, 1, 1, 1, 0)) << "all but the one that was refused";
  runtime.define("follow_ended", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(follow_ended)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::Child child) {
      g.spawn_after(child, uses::mark, cells, 7, 3);
    })");
  auto pass_child = runtime.define<void(Span<u32>)>("pass_child", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(follow_ended, dwell::Span<dwell::u32>, dwell::Child)
    DWELL_OPERATOR(pass_child)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      dwell::Child child = g.spawn(uses::mark, cells, 0, 3);
      g.then(uses::follow_ended, cells, child);
    })");
  auto repeat_child = runtime.define<void(Span<u32>)>("repeat_child", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(repeat_child)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      dwell::Child child = g.spawn(uses::mark, cells, 0, 2);
      g.spawn_after({child, child, child}, uses::mark, cells, 1, 2);
      g.spawn_after({child, child, child, child}, uses::mark, cells, 2, 2);
    })");
  DWELL_EXPECT_ERROR(runtime.submit(repeat_child, cells).wait(), errc::task_failed, HasSubstr("six that follow"));
  EXPECT_THAT(read(cells), testing::ElementsAre(2, 2, 1, 1, 1, 1, 1, 0)) << "one that is named several times counts as often";
  DWELL_EXPECT_ERROR(runtime.submit(pass_child, cells).wait(), errc::task_failed, HasSubstr("no child of the running operator"));
  EXPECT_THAT(read(cells), testing::ElementsAre(3, 2, 1, 1, 1, 1, 1, 0)) << "the child of an operator that has returned";
}

// ---- Joins -------------------------------------------------------------------------------------------------------------------------

// Each of n parts, made by a tree, writes its cell and arrives; the join adds them up.
constexpr const char* kParts = R"(
DWELL_USES(parts, dwell::Join, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_OPERATOR(parts)(dwell::Group g, dwell::Join join, dwell::Span<dwell::u32> cells, dwell::u32 first, dwell::u32 count) {
  if (count == 1) {
    if (g.rank() == g.size() - 1) cells[first + 1] = first;
    g.arrive(join);
    return;
  }
  g.spawn(uses::parts, join, cells, first, count / 2);
  g.spawn(uses::parts, join, cells, first + count / 2, count - count / 2);
})";
constexpr const char* kTotal = R"(
DWELL_OPERATOR(total)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 count) {
  if (g.rank() != 0) return;
  dwell::u32 sum = 0;
  for (dwell::u32 i = 0; i < count; ++i) { sum += cells[i + 1]; cells[i + 1] = 0; }
  cells[0] += sum;
})";
// `own`: arrivals made by the operator itself. `missing`: arrivals that are not made.
constexpr const char* kJoined = R"(
DWELL_USES(parts, dwell::Join, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_USES(total, dwell::Span<dwell::u32>, dwell::u32)
DWELL_OPERATOR(joined)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 count, dwell::u32 own, dwell::u32 missing) {
  dwell::Join join = g.join(count + own + missing, uses::total, cells, count);
  for (dwell::u32 i = 1; i < own; ++i) g.arrive(join);
  if (count != 0) g.spawn(uses::parts, join, cells, 0, count);
  if (own != 0) g.arrive(join);
})";
using Joined = void(Span<u32>, u32, u32, u32);
Operator<Joined> define_joined(Runtime& runtime) {
  runtime.define("parts", kParts);
  runtime.define("total", kTotal);
  return runtime.define<Joined>("joined", kJoined);
}

TEST_P(SpawnTest, AJoinStartsBehindItsLastArrival) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 300us;
  Runtime runtime(brief);
  auto joined = define_joined(runtime);
  auto cells = filled<u32>(runtime, 1001, 0);
  u32 expected = 0;
  for (const u32 own : {0U, 1U, 3U}) {
    for (const u32 count : {0U, 1U, 2U, 100U, kSanitized ? 200U : 1000U}) {
      for (int round = 0; round < (kSanitized ? 3 : 30); ++round) {
        runtime.submit(joined, cells, count, own, 0U, link);
        expected += count == 0 ? 0 : count * (count - 1) / 2;
      }
    }
  }
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], expected);
}

TEST_P(SpawnTest, UnreachableJoinFailsItsMaker) {
  Runtime runtime(options());
  auto joined = define_joined(runtime);
  auto cells = filled<u32>(runtime, 101, 0);
  for (int round = 0; round < 3; ++round) {
    for (const u32 own : {0U, 1U}) {
      for (const u32 count : {0U, 100U}) {
        DWELL_EXPECT_ERROR(runtime.submit(joined, cells, count, own, 2U).wait(), errc::task_failed, HasSubstr("fewer arrivals"));
        EXPECT_EQ(read(cells)[0], 0U) << "it has not run";
      }
    }
  }
  runtime.submit(joined, cells, 100U, 0U, 0U).wait();
  EXPECT_EQ(read(cells)[0], 4950U);
}

TEST_P(SpawnTest, ContinuationRunsAfterStarvedJoins) {
  Runtime runtime(options());
  runtime.define("last", kLast);
  runtime.define("mark", kMark);
  auto op = runtime.define<void(Span<u32>)>("op", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(last, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      g.join(1, uses::mark, cells, 0, 9);
      dwell::Join other = g.join(1, uses::mark, cells, 0, 5);
      g.join(2, uses::mark, cells, 0, 7);
      g.arrive(other);
      g.then(uses::last, cells);
    })");
  auto cells = filled<u32>(runtime, 2, 0);
  DWELL_EXPECT_ERROR(runtime.submit(op, cells).wait(), errc::task_failed, HasSubstr("fewer arrivals"));
  EXPECT_THAT(read(cells), testing::ElementsAre(5, 5));
}

TEST_P(SpawnTest, InvalidArrivalsAreRefused) {
  Options two = options();
  two.workers = 2;
  Runtime runtime(two);
  runtime.define("mark", kMark);
  runtime.define("arrive_once", R"(
    DWELL_OPERATOR(arrive_once)(dwell::Group g, dwell::Join join) { g.arrive(join); })");
  auto arrive_twice = runtime.define<void(Span<u32>)>("arrive_twice", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(arrive_once, dwell::Join)
    DWELL_OPERATOR(arrive_twice)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      dwell::Join join = g.join(1, uses::mark, cells, 0, 3);
      dwell::Child first = g.spawn(uses::arrive_once, join);
      g.spawn_after(first, uses::arrive_once, join);
    })");
  auto cells = filled<u32>(runtime, 5, 0);
  DWELL_EXPECT_ERROR(runtime.submit(arrive_twice, cells).wait(), errc::task_failed, HasSubstr("all its arrivals"));
  EXPECT_EQ(read(cells)[0], 3U) << "one too many";
  // An unrelated task arrives at a join while the owner of the join runs, and again when the owner has ended.
  auto join_owner = runtime.define<void(Span<u32>)>("join_owner", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(join_owner)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      dwell::Join join = g.join(1, uses::mark, cells, 0, 4);
      if (g.rank() == g.size() - 1) *reinterpret_cast<dwell::Join*>(cells.data() + 2) = join;
      g.sync();
      if (g.rank() == 0) {
        dwell::device::fetch_add<dwell::device::Order::release>(&cells[1], 1U);
        while (cells.atomic_add(1, 0U) == 1) {}
      }
      g.sync();
      g.arrive(join);
    })");
  auto unrelated = runtime.define<void(Span<u32>)>("unrelated", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(unrelated)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      using namespace dwell::device;
      if (g.rank() == 0) while (load<Order::acquire, Scope::device>(&cells[1]) == 0) {}
      g.sync();
      g.spawn(uses::mark, cells.subspan(4, 1), 0, 2);  // gives this task a record, as a task that spawns has one
      g.arrive(*reinterpret_cast<dwell::Join*>(cells.data() + 2));
      if (g.rank() == 0) cells.atomic_add(1, 1U);
    })");
  for (int round = 0; round < 3; ++round) {
    cells.write(std::vector<u32>(5, 0));
    const Ticket made = runtime.submit(join_owner, cells);
    DWELL_EXPECT_ERROR(runtime.submit(unrelated, cells).wait(), errc::task_failed, HasSubstr("does not descend"));
    made.wait();
    EXPECT_EQ(read(cells)[0], 4U);
    DWELL_EXPECT_ERROR(runtime.submit(unrelated, cells).wait(), errc::task_failed, HasSubstr("does not descend"));
  }
}

// The second join reuses the record of the first, which has completed or starved.
TEST_P(SpawnTest, ArrivalCountsForItsJoinOnly) {
  Runtime runtime(options());
  runtime.define("mark", kMark);
  runtime.define("second", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_OPERATOR(second)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::Join old) {
      g.join(1, uses::mark, cells, 1, 6);
      g.arrive(old);
    })");
  auto first = runtime.define<void(Span<u32>, u32)>("first", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(second, dwell::Span<dwell::u32>, dwell::Join)
    DWELL_OPERATOR(first)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 arrives) {
      const dwell::Join join = g.join(1, uses::mark, cells, 0, 6);
      if (arrives != 0) g.arrive(join);
      g.then(uses::second, cells, join);
    })");
  for (const u32 arrives : {0U, 1U}) {
    auto cells = filled<u32>(runtime, 2, 0);
    DWELL_EXPECT_ERROR(runtime.submit(first, cells, arrives).wait(), errc::task_failed,
                       HasSubstr(arrives != 0 ? "all its arrivals" : "fewer arrivals"));
    EXPECT_THAT(read(cells), testing::ElementsAre(arrives * 6, 0));
  }
}

TEST_P(SpawnTest, AFailedArrivalCancelsNothing) {
  Runtime runtime(options());
  runtime.define("mark", kMark);
  runtime.define("fails", R"(
    DWELL_OPERATOR(fails)(dwell::Group g, dwell::Join join) { g.fail(6); g.arrive(join); })");
  auto op = runtime.define<void(Span<u32>)>("op", R"(
    DWELL_USES(mark, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
    DWELL_USES(fails, dwell::Join)
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      dwell::Join join = g.join(2, uses::mark, cells, 0, 8);
      g.spawn(uses::fails, join);
      g.spawn(uses::fails, join);
    })");
  auto cells = filled<u32>(runtime, 1, 0);
  DWELL_EXPECT_ERROR(runtime.submit(op, cells).wait(), errc::task_failed, HasSubstr("code 6"));
  EXPECT_EQ(read(cells)[0], 8U);
}

// ---- Trees of all shapes -----------------------------------------------------------------------------------------------------------

// Each task counts, and spawns others in a way chosen by its seed.
constexpr const char* kMixed = R"(
DWELL_USES(mixed, dwell::u32, dwell::u32, dwell::u32, dwell::Join, dwell::Span<dwell::u32>)
static DWELL_DEVICE dwell::u32 hash_of(dwell::u32 seed, dwell::u32 n) {
  dwell::u32 x = seed * 2654435761U + n * 40503U + 1U;
  x ^= x >> 15; x *= 2246822519U; x ^= x >> 13; x *= 3266489917U; return x ^ x >> 16;
}
DWELL_OPERATOR(mixed)(dwell::Group g, dwell::u32 seed, dwell::u32 levels, dwell::u32 arrives, dwell::Join join, dwell::Span<dwell::u32> count) {
  if (g.rank() == 0) count.atomic_add(0, 1U);
  if (arrives == 1) g.arrive(join);
  if (levels == 0) return;
  const dwell::u32 n = 1 + hash_of(seed, 0) % 4, way = hash_of(seed, 1) % 6;
  if (hash_of(seed, 2) % 3 == 0) g.then(uses::mixed, hash_of(seed, 100), levels - 1, 0, join, count);
  dwell::Child last = g.spawn(uses::mixed, hash_of(seed, 10), levels - 1, arrives == 2 ? 1 : 0, join, count);
  dwell::Join own = join;
  if (way >= 3) own = g.join(n + (way == 5 ? 1 : 0), uses::mixed, hash_of(seed, 11), levels - 1, 0, join, count);
  for (dwell::u32 i = 0; i < n; ++i) {
    const dwell::u32 child = hash_of(seed, 12 + i);
    switch (way) {
      case 0: g.spawn(uses::mixed, child, levels - 1, 0, join, count); break;
      case 1: last = g.spawn_after(last, uses::mixed, child, levels - 1, 0, join, count); break;
      case 2: g.spawn_after(last, uses::mixed, child, levels - 1, 0, join, count); break;
      case 3: g.spawn(uses::mixed, child, levels - 1, 1, own, count); break;
      case 4: g.spawn(uses::mixed, child, levels - 1, levels == 1 ? 1 : 2, own, count); break;
      case 5: last = g.spawn_after({last}, uses::mixed, child, levels - 1, 1, own, count); break;
    }
  }
  if (way == 5) g.arrive(own);
})";
std::uint32_t hash_of(std::uint32_t seed, std::uint32_t n) {
  std::uint32_t x = seed * 2654435761U + n * 40503U + 1U;
  x ^= x >> 15U;
  x *= 2246822519U;
  x ^= x >> 13U;
  x *= 3266489917U;
  return x ^ x >> 16U;
}
// The number of tasks of such a tree.
std::uint32_t mixed(std::uint32_t seed, std::uint32_t levels) {
  if (levels == 0) return 1;
  const std::uint32_t n = 1 + hash_of(seed, 0) % 4;
  std::uint32_t tasks = 1 + mixed(hash_of(seed, 10), levels - 1);
  if (hash_of(seed, 2) % 3 == 0) tasks += mixed(hash_of(seed, 100), levels - 1);
  if (hash_of(seed, 1) % 6 >= 3) tasks += mixed(hash_of(seed, 11), levels - 1);
  for (std::uint32_t i = 0; i < n; ++i) tasks += mixed(hash_of(seed, 12 + i), levels - 1);
  return tasks;
}

TEST_P(SpawnTest, TreesOfChildrenFollowersJoinsAndContinuations) {
  Options brief = options();
  brief.workers = 4;
  brief.lease = 200us;
  Runtime runtime(brief);
  const auto op = runtime.define("mixed", kMixed);
  const auto root = runtime.define<void(u32, u32, Span<u32>)>("root", R"(
    DWELL_USES(mixed, dwell::u32, dwell::u32, dwell::u32, dwell::Join, dwell::Span<dwell::u32>)
    DWELL_OPERATOR(root)(dwell::Group g, dwell::u32 seed, dwell::u32 levels, dwell::Span<dwell::u32> count) {
      g.spawn(uses::mixed, seed, levels, 0, dwell::Join(), count);
    })");
  auto counts = filled<u32>(runtime, 200, 0);
  std::vector<u32> expected;
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < 200; ++i) {
    const u32 levels = i % (kSanitized ? 4 : 7);
    tickets.push_back(runtime.submit(root, i, levels, counts.slice(i, 1)));
    expected.push_back(mixed(i, levels));
    if (i % 50 == 49) {
      std::this_thread::sleep_for(200us);
      runtime.park();
      runtime.resume();
    }
  }
  for (Ticket& ticket : tickets) ticket.wait();
  EXPECT_EQ(read(counts), expected);
}

// ---- Memory ------------------------------------------------------------------------------------------------------------------------

TEST_P(SpawnTest, ChainOfAnyLengthNeedsFewRecords) {
  Options few = options();
  few.workers = 2;
  // The minimum; on CUDA, workers of several leases cache some records.
  few.spawned_tasks = on_cpu() ? 1 : 1024;
  Runtime runtime(few);
  auto tree = runtime.define<Tree>("tree", kTree);
  auto count = filled<std::uint64_t>(runtime, 1, 0);
  runtime.submit(tree, kSanitized ? 10'000U : 1'000'000U, 1U, count).wait();
  EXPECT_EQ(read(count)[0], 1U);
  runtime.submit(tree, kSanitized ? 9U : 17U, 2U, count).wait();
  EXPECT_EQ(read(count)[0], 1U + (kSanitized ? 512U : 131072U)) << "nor does a tree, but for a place a level and worker";
}

TEST_P(SpawnTest, RoomHasTheRequestedSize) {
  Options few = options();
  few.workers = 2;
  few.spawned_tasks = 30'000;
  Runtime runtime(few);
  auto tree = runtime.define<Tree>("tree", kTree);
  auto count = filled<std::uint64_t>(runtime, 1, 0);
  runtime.submit(tree, 1U, 29'000U, count).wait();
  EXPECT_EQ(read(count)[0], 29'000U);
  DWELL_EXPECT_ERROR(runtime.submit(tree, 1U, 31'000U, count).wait(), errc::task_failed, HasSubstr("the option spawned_tasks (30000)"));
}

}  // namespace
}  // namespace dwell::test
