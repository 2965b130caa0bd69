// Nodes of graphs that gangs run.
#include <deque>

#include "tests/conformance/gang_suite.hpp"

namespace dwell::test {
namespace {

constexpr const char* kLaunch = R"(
DWELL_OPERATOR(launch_often)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})";
// 1 while fewer than `most` rounds have run.
constexpr const char* kCount = R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<dwell::u32> rounds, dwell::Span<dwell::u32> goes, dwell::u32 most) {
  if (g.rank() == 0) goes[0] = ++rounds[0] < most ? 1u : 0u;
})";

class GangNodesTest : public GangSuite {
 protected:
  void open(const Options& options) {
    runtime.emplace(options);
    steps = runtime->define<GangSteps>("gang_steps", kGangSteps);
    add = runtime->define<Add>("add", kAdd);
    fail = runtime->define<Fail>("fail", kFail);
    most = runtime->info().workers;
    wrong = filled<u32>(*runtime, 1, 0);
  }
  void open() { open(gang_options()); }
  const Buffer<u32>& sums() {
    kept.push_back(filled<u32>(*runtime, 2, 0));
    return kept.back();
  }

  std::optional<Runtime> runtime;
  Operator<GangSteps> steps;
  Operator<Add> add;
  Operator<Fail> fail;
  Buffer<u32> wrong;
  std::deque<Buffer<u32>> kept;
  u32 most = 0;
};

TEST_P(GangNodesTest, RunBetweenOtherNodes) {
  open();
  ASSERT_GE(most, 2U);
  const auto cells = filled<u32>(*runtime, 2, 0);
  Graph graph;
  const Node before = graph.add("before", add, cells, 0U, 1U);
  Node last = before;
  for (const u32 n : {1U, 2U, 3U, most - 1, most})
    if (n != 0) last = graph.add("gang", steps, sums(), wrong, 5U, gang(n)).after(last);
  graph.add("behind", add, cells, 1U, 1U).after(last);
  const GraphExec exec = runtime->instantiate(graph);
  constexpr u32 kLaunches = 20;
  for (u32 i = 0; i < kLaunches; ++i) runtime->launch(exec);
  runtime->wait_all();
  EXPECT_EQ(read(wrong)[0], 0U);
  EXPECT_EQ(read(cells), (std::vector<u32>{kLaunches, kLaunches}));
  EXPECT_THAT(graph.dot(), HasSubstr("gang of " + std::to_string(most)));
}

TEST_P(GangNodesTest, ManyRunBesideOthersAndGangsOfTheRing) {
  // More gangs than have memory, of all sizes, in a line: two that blocked each other would hang.
  Options small = short_leases();
  if (on_cpu()) small.workers = 12;
  open(small);
  constexpr u32 kGangs = kSanitized ? 12 : 40;
  constexpr u32 kLaunches = kSanitized ? 3 : 25;
  const auto cells = filled<u32>(*runtime, 1, 0);
  Random random(11);
  Graph graph;
  const Node first = graph.add(add, cells, 0U, 1U);
  Node last = graph.add("last", add, cells, 0U, 1U);
  for (u32 i = 0; i < kGangs; ++i) {
    const u32 n = 1 + random() % (i % 3 == 0 ? most : std::min(most, 4U));
    Node node = graph.add(steps, sums(), wrong, 1 + random() % 6, gang(n)).after(first);
    if (i % 4 == 0) node = graph.add(add, cells, 0U, 1U, groups(2)).after(node);
    last.after(node);
  }
  const GraphExec one = runtime->instantiate(graph);
  const Buffer<u32>& others = sums();
  for (u32 i = 0; i < kLaunches; ++i) {
    runtime->launch(one);
    runtime->submit(steps, others, wrong, 3U, gang(1 + i % most), drain);
    runtime->launch(one);
  }
  runtime->wait_all();
  EXPECT_EQ(read(wrong)[0], 0U);
  EXPECT_GT(read(cells)[0], 4 * kLaunches);
}

TEST_P(GangNodesTest, HaveManySuccessors) {
  open();
  const auto cells = filled<u32>(*runtime, 100, 0);
  Graph graph;
  const Node node = graph.add(steps, sums(), wrong, 3U, gang(2));
  for (u32 i = 0; i < 100; ++i) graph.add(add, cells, i, 1U).after(node);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 0; i < 5; ++i) runtime->launch(exec);
  runtime->wait_all();
  EXPECT_EQ(read(cells), std::vector<u32>(100, 5));
}

TEST_P(GangNodesTest, RunInLoopsAndForOperators) {
  open();
  const auto count = runtime->define<void(Span<u32>, Span<u32>, u32)>("count", kCount);
  const auto launch_often = runtime->define<void(Exec, u32)>("launch_often", kLaunch);
  const auto rounds = filled<u32>(*runtime, 1, 0);
  const auto goes = filled<u32>(*runtime, 1, 1);
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph body;
  const Node member = body.add("gang", steps, sums(), wrong, 2U, gang(std::min(most, 3U)));
  body.add("count", count, rounds, goes, 30U).after(member);
  Graph graph;
  const Node loop = graph.add_while("loop", goes, body);
  graph.add("end", add, cells, 0U, 1U).after(loop);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(rounds)[0], 30U);
  EXPECT_EQ(read(cells)[0], 1U);

  Graph inner;
  inner.add("add", add, cells, 0U, 1U).after(inner.add("gang", steps, sums(), wrong, 2U, gang(2)));
  const GraphExec exec = runtime->instantiate(inner);
  constexpr u32 kLaunches = kSanitized ? 10 : 60;
  runtime->submit(launch_often, exec, kLaunches);
  runtime->launch(exec);
  Graph outer;
  outer.add("launches", launch_often, exec, kLaunches);
  runtime->launch(runtime->instantiate(outer));
  runtime->wait_all();
  EXPECT_EQ(read(cells)[0], 2 + 2 * kLaunches);
  EXPECT_EQ(read(wrong)[0], 0U);
}

TEST_P(GangNodesTest, YieldAndResume) {
  constexpr u32 kSteps = 150;
  open(short_leases());
  const auto gang_of = runtime->define<LongGang>("long_gang", kLongGang);
  const auto calls = filled<u32>(*runtime, 1, 0);
  std::vector<Buffer<u32>> cells;
  Graph graph;
  for (const u32 size : {1U, 2U, most}) {
    cells.push_back(filled<u32>(*runtime, size, 0));
    graph.add(gang_of, cells.back(), calls, kSteps, 20'000U, gang(size));
  }
  const GraphExec exec = runtime->instantiate(graph);
  runtime->launch(exec).wait();
  for (const Buffer<u32>& of : cells) EXPECT_EQ(read(of), std::vector<u32>(of.size(), kSteps));
  EXPECT_GT(read(calls)[0], 3U);
  // The next run begins anew: cells go on from what the first has left.
  runtime->launch(exec).wait();
  for (const Buffer<u32>& of : cells) EXPECT_EQ(read(of), std::vector<u32>(of.size(), 2 * kSteps));
}

TEST_P(GangNodesTest, FailAndAreCancelledAsOtherNodes) {
  open();
  const auto fail_last = runtime->define<void(u32)>("fail_last", R"(
    DWELL_OPERATOR(fail_last)(dwell::Group g, dwell::u32 code) {
      const dwell::Gang gang = g.gang();
      gang.sync();
      if (gang.rank() == gang.size() - 1 && code != 0) g.fail(static_cast<int>(code));
    })");
  const auto cells = filled<u32>(*runtime, 2, 0);
  Graph graph;
  const Node bad = graph.add("bad", fail_last, 42U, gang(most));
  const Node between = graph.add("between", steps, sums(), wrong, 2U, gang(2)).after(bad);
  graph.add("cancelled", add, cells, 0U, 1U).after(between);
  graph.add("apart", add, cells, 1U, 1U).after(graph.add(steps, sums(), wrong, 2U, gang(2)));
  GraphExec exec = runtime->instantiate(graph);
  DWELL_EXPECT_ERROR(runtime->launch(exec).wait(), errc::task_failed, HasSubstr("'bad'"));
  EXPECT_EQ(runtime->launch(exec).status(), 42);
  EXPECT_EQ(read(cells), (std::vector<u32>{0, 2}));
  exec.set(bad, 0, 0U);
  runtime->launch(exec).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{1, 3}));
}

TEST_P(GangNodesTest, AreCapturedAndRefused) {
  open();
  const Buffer<u32>& given = sums();
  const Graph captured = runtime->capture([&] {
    runtime->submit(steps, given, wrong, 3U, gang(2));
    runtime->submit(steps, given, wrong, 3U, gang(most));
  });
  runtime->launch(runtime->instantiate(captured)).wait();
  EXPECT_EQ(read(wrong)[0], 0U);

  Graph large;
  large.add(steps, given, wrong, 1U, gang(most + 1));
  DWELL_EXPECT_ERROR(runtime->instantiate(large), errc::invalid_argument, HasSubstr("there are " + std::to_string(most) + " workers"));
  Graph wide;
  wide.add(steps, given, wrong, 1U, groups(2));
  Graph of_gang;
  of_gang.add(steps, given, wrong, 1U, gang(2));
  GraphExec exec = runtime->instantiate(of_gang);
  DWELL_EXPECT_ERROR(exec.update(wide), errc::invalid_argument, HasSubstr("a gang runs node"));
}

TEST_P(GangNodesTest, RunWithPrioritiesAndAreMeasured) {
  Options with = gang_options();
  with.priorities = Priorities{};
  open(with);
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node node = graph.add("gang", steps, sums(), wrong, 5U, gang(std::min(most, 3U)));
  graph.add("behind", add, cells, 0U, 1U).after(node);
  GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 0; i < 8; ++i) runtime->launch(exec, priority(i));
  runtime->wait_all();
  exec.measure();
  EXPECT_EQ(exec.time(node).runs, 1U);
  EXPECT_GT(exec.time(node).total.count(), 0);
  EXPECT_EQ(read(cells)[0], 9U);
  EXPECT_EQ(read(wrong)[0], 0U);
}

DWELL_ON_EVERY_DEVICE(GangNodesTest);

}  // namespace
}  // namespace dwell::test
