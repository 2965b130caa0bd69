// Graphs inside of graphs: sub-graphs.
#include <memory>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class GraphControlTest : public GraphSuite {};

// ---- Sub-graphs ------------------------------------------------------------------------------------------------------------------

// A graph whose items are stamping tasks, or sub-graphs of these.
class Nest {
 public:
  Nest(Runtime& runtime, const Operator<Stamp>& stamp, u32 seed) : stamp_(stamp), random_(seed) {
    clock_ = filled<u32>(runtime, 1, 0);
    began_ = filled<u32>(runtime, kMost, ~0U);
    ended_ = filled<u32>(runtime, kMost, ~0U);
    graph = make(4);
  }

  void check(u32 launches) const {
    const auto began = read(began_);
    const auto ended = read(ended_);
    ASSERT_EQ(read(clock_)[0], 2 * tasks_ * launches) << "each task runs once a launch";
    for (const auto& [before, behind] : order_)
      for (u32 i = before.first; i < before.second; ++i)
        for (u32 j = behind.first; j < behind.second; ++j) ASSERT_LT(ended[i], began[j]) << i << " -> " << j;
  }

  Graph graph;

 private:
  static constexpr u32 kMost = 4096;
  using Range = std::pair<u32, u32>;  // of tasks

  Graph make(u32 depth) {
    Graph made;
    std::vector<Range> items;
    std::vector<Node> nodes;
    const u32 count = random_() % 8;
    for (u32 i = 0; i < count; ++i) {
      const u32 first = tasks_;
      if (depth != 0 && random_() % 2 == 0 && tasks_ < kMost / 2)
        nodes.push_back(made.add(make(depth - 1)));
      else
        nodes.push_back(made.add(stamp_, clock_, began_, ended_, tasks_++, u64{0}));
      items.emplace_back(first, tasks_);
      for (u32 j = 0; j < i; ++j) {
        if (random_() % 3 != 0) continue;
        nodes[i].after(nodes[j]);
        order_.emplace_back(items[j], items[i]);
      }
    }
    return made;
  }

  Operator<Stamp> stamp_;
  Random random_;
  Buffer<u32> clock_, began_, ended_;
  u32 tasks_ = 0;
  std::vector<std::pair<Range, Range>> order_;
};

TEST_P(GraphControlTest, RandomSubGraphsRunEachNodeOnceAndInOrder) {
  open();
  for (u32 seed = 0; seed < 30; ++seed) {
    const Nest nest(*runtime, stamp, seed);
    const GraphExec exec = runtime->instantiate(nest.graph);
    for (u32 i = 1; i <= 3; ++i) {
      runtime->launch(exec).wait();
      nest.check(i);
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
  }
}

TEST_P(GraphControlTest, SubGraphsAHundredDeep) {
  open();
  const auto number = filled<u32>(*runtime, 1, 0);
  const auto cells = filled<u32>(*runtime, 1, 0);
  constexpr u32 kDeep = 100;
  // Each level appends a digit, runs the inner graph and appends another digit; a task beside it only counts.
  Graph inner;
  for (u32 depth = 0; depth < kDeep; ++depth) {
    Graph outer;
    const Node before = outer.add(append, number, depth);
    const Node middle = outer.add(inner).after(before);
    outer.add(append, number, 1000 + depth).after(middle);
    outer.add(add, cells, 0U, 1U);
    inner = std::move(outer);
  }
  u32 expected = 0;
  for (u32 depth = kDeep; depth-- > 0;) expected = expected * 31 + depth;
  for (u32 depth = 0; depth < kDeep; ++depth) expected = expected * 31 + 1000 + depth;
  const GraphExec exec = runtime->instantiate(inner);
  runtime->launch(exec).wait();
  EXPECT_EQ(read(number)[0], expected);
  EXPECT_EQ(read(cells)[0], kDeep);
}

TEST_P(GraphControlTest, AChainGoesThroughSubGraphs) {
  open();
  const auto number = filled<u32>(*runtime, 1, 0);
  Graph part;
  Node last = part.add(append, number, 0U);
  for (u32 i = 1; i < 10; ++i) last = part.add(append, number, i).after(last);
  Graph graph;
  Node before = graph.add(part);
  for (u32 i = 1; i < 10; ++i) before = graph.add(part).after(before);
  EXPECT_EQ(graph.size(), 100U) << "no node but those of the parts";
  u32 expected = 0;
  for (u32 i = 0; i < 100; ++i) expected = expected * 31 + i % 10;
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphControlTest, SubGraphsOfManyTasks) {
  open();
  constexpr u32 kEach = 3000;
  const auto cells = filled<u32>(*runtime, 2, 0);
  const auto check = runtime->define<void(Span<u32>, u32)>("check", R"(
    DWELL_OPERATOR(check)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 expected) {
      if (g.rank() == 0 && cells[0] != expected) g.fail(77);
    })");
  Graph part;
  for (u32 i = 0; i < kEach; ++i) part.add(add, cells, 0U, 1U);
  Graph graph;
  const Node first = graph.add(part);
  const Node middle = graph.add(check, cells, kEach).after(first);
  const Node second = graph.add(part).after(middle);
  graph.add(check, cells, 2 * kEach).after(second);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(cells)[0], 2 * kEach);
}

TEST_P(GraphControlTest, EmptySubGraphsHoldTheOrder) {
  open();
  const auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, number, 1U);
  Node middle = graph.add("nothing", Graph());
  middle.after(first);
  graph.add(append, number, 2U).after(middle);
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 3; ++i) runtime->launch(exec).wait();
  u32 expected = 0;
  for (int i = 0; i < 3; ++i) expected = (expected * 31 + 1) * 31 + 2;
  EXPECT_EQ(read(number)[0], expected);
  Graph nothing_at_all;
  nothing_at_all.add(Graph());
  runtime->launch(runtime->instantiate(nothing_at_all)).wait();
}

TEST_P(GraphControlTest, AGraphMayBeAddedToItself) {
  open();
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  graph.add(add, cells, 0U, 1U);
  for (int i = 0; i < 5; ++i) graph.add(graph);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(cells)[0], 32U);
}

TEST_P(GraphControlTest, AFailureInsideCancelsWhatWaitsForTheSubGraph) {
  open();
  const auto cells = filled<u32>(*runtime, 4, 0);
  Graph part;
  const Node bad = part.add("bad", fail, 42);
  part.add(add, cells, 0U, 1U).after(bad);
  part.add(add, cells, 1U, 1U);
  Graph graph;
  const Node sub = graph.add("sub", part);
  graph.add(add, cells, 2U, 1U).after(sub);
  graph.add(add, cells, 3U, 1U);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 1; round <= 3; ++round) {
    const Ticket ticket = runtime->launch(exec);
    EXPECT_EQ(ticket.status(), 42);
    expect_error(errc::task_failed, HasSubstr("'sub/bad' (operator fail)"), [&] { ticket.wait(); });
    EXPECT_THAT(read(cells), testing::ElementsAre(0U, round, 0U, round));
  }
}

TEST_P(GraphControlTest, NodesInsideTakeOtherArguments) {
  open();
  const auto cells = filled<u32>(*runtime, 4, 0);
  Graph inner;
  inner.add(nothing);
  const Node node = inner.add(add, cells, 0U, 1U);
  Graph outer;
  outer.add(nothing);
  const SubGraph middle = outer.add(inner);
  Graph graph;
  const Node alone = graph.add(add, cells, 1U, 1U);
  const SubGraph first = graph.add("first", outer), second = graph.add("second", outer);
  GraphExec exec = runtime->instantiate(graph);
  exec.set(first.inside(middle.inside(node)), 2, 10U);
  exec.set(second.inside(middle).inside(node), 2, 100U);
  runtime->launch(exec).wait();
  EXPECT_EQ(read(cells)[0], 110U);
  expect_error(errc::invalid_argument, HasSubstr("'first' (no operator) has no arguments"), [&] { exec.set(first, 0, 1U); });
  expect_error(errc::invalid_argument, HasSubstr("no such node"), [&] { first.inside(second.inside(node)); });
  expect_error(errc::invalid_argument, HasSubstr("no such node"), [&] { SubGraph().inside(alone); });
}

TEST_P(GraphControlTest, UpdateTakesOverArgumentsInside) {
  open();
  const auto cells = filled<u32>(*runtime, 1, 0);
  const auto plan = [&](u32 value, bool with_control) {
    Graph part;
    part.add(add, cells, 0U, value);
    if (with_control)
      part.add(Graph());
    else
      part.add(nothing);
    Graph graph;
    graph.add("part", part);
    return graph;
  };
  GraphExec exec = runtime->instantiate(plan(1, true));
  exec.update(plan(50, true));
  runtime->launch(exec).wait();
  EXPECT_EQ(read(cells)[0], 50U);
  expect_error(errc::invalid_argument, HasSubstr("#1 (no operator) has another operator"), [&] { exec.update(plan(1, false)); });
}

TEST_P(GraphControlTest, SubGraphsOfOtherRuntimesAreRefused) {
  open();
  Runtime other(options());
  const auto theirs = other.define<void()>("nothing", kNothing);
  Graph part;
  part.add(theirs);
  Graph graph;
  graph.add(nothing);
  expect_error(errc::invalid_argument, HasSubstr("operator 'nothing' belongs to another runtime"), [&] { graph.add("part", part); });
  EXPECT_EQ(graph.size(), 1U);
  Graph cyclic;
  Node a = cyclic.add("a", nothing), b = cyclic.add("b", nothing);
  a.after(b);
  b.after(a);
  graph.add("sub", cyclic);
  expect_error(errc::invalid_argument, HasSubstr("cycle: 'sub/a' (operator nothing) -> 'sub/b' (operator nothing) -> 'sub/a'"),
               [&] { runtime->instantiate(graph); });
}

TEST_P(GraphControlTest, MeasureTimesEachNode) {
  open();
  const auto spin = runtime->define<void(u64)>("spin", kSpin);
  auto cells = filled<u32>(*runtime, 2, 0);
  Graph body;
  const Node round = body.add("round", spin, u64{20'000});
  body.add("down", add, cells, 0U, ~0U).after(round);
  Graph graph;
  const Node first = graph.add("first", spin, u64{200'000});
  const Node apart = graph.add("apart", add, cells, 1U, 1U);
  SubGraph loop = graph.add_while("loop", cells.slice(0, 1), body);
  loop.after(first);
  const Node wide = graph.add("wide", spin, u64{50'000}, groups(4)).after(loop);
  const Node host = graph.add_host("host", [] { std::this_thread::sleep_for(1ms); }).after(wide);
  GraphExec exec = runtime->instantiate(graph);
  EXPECT_EQ(exec.time(first).runs, 0U);
  EXPECT_EQ(exec.dot(), graph.dot());
  for (u32 i = 1; i <= 2; ++i) {
    cells.write(std::vector<u32>{5});
    exec.measure();
    EXPECT_EQ(read(cells)[1], i) << "the graph runs once";
    EXPECT_EQ(exec.time(first).runs, 1U);
    EXPECT_GE(exec.time(first).total, 200us);
    EXPECT_EQ(exec.time(loop.inside(round)).runs, 5U);
    EXPECT_GE(exec.time(loop.inside(round)).total, 100us);
    EXPECT_GE(exec.time(wide).total, 50us);
    EXPECT_GE(exec.time(host).total, 1ms);
    EXPECT_EQ(exec.time(apart).runs, 1U);
  }
  const std::string dot = exec.dot();
  EXPECT_THAT(dot, AllOf(HasSubstr("label=\"measured 20"), HasSubstr("first\\nspin\\n"), HasSubstr("\\n5 x ")));
  EXPECT_THAT(dot, HasSubstr("style=bold"));
  exec.set(first, 0, u64{100});
  runtime->launch(exec);
  cells.write(std::vector<u32>{0});
  exec.measure();
  EXPECT_LT(exec.time(first).total, 200us) << "with the arguments of the next launch";
  EXPECT_EQ(exec.time(loop.inside(round)).runs, 0U);

  Graph fails;
  const Node bad = fails.add("bad", fail, 3);
  GraphExec failing = runtime->instantiate(fails);
  expect_error(errc::task_failed, HasSubstr("node 'bad'"), [&] { failing.measure(); });
  EXPECT_EQ(failing.time(bad).runs, 0U);
}

DWELL_ON_EVERY_DEVICE(GraphControlTest);

}  // namespace
}  // namespace dwell::test
