// Task graphs: order, groups, arguments, failures.
#include "tests/conformance/dag_suite.hpp"

namespace dwell::test {
namespace {

class GraphTest : public DagSuite {};

TEST_P(GraphTest, AChainRunsInItsOrderEachTimeItIsLaunched) {
  open();
  constexpr u32 kCount = 300;
  Graph graph;
  auto number = filled<u32>(*runtime, 1, 0);
  Node last;
  for (u32 i = 0; i < kCount; ++i) {
    const Node node = graph.add(append, number, i);
    if (i != 0) Node(node).after(last);
    last = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 0; round < 20; ++round) {
    number.write(std::vector<u32>{0});
    runtime->launch(exec).wait();
    ASSERT_EQ(read(number)[0], appended(kCount)) << round;
  }
}

TEST_P(GraphTest, AnEmptyGraphCompletes) {
  open();
  const GraphExec exec = runtime->instantiate(Graph());
  for (int i = 0; i < 3; ++i) runtime->launch(exec).wait();
}

TEST_P(GraphTest, ADiamondWaitsForBothSides) {
  open();
  Dag dag;
  dag.clock = filled<u32>(*runtime, 1, 0);
  dag.began = filled<u32>(*runtime, 4, ~0U);
  dag.ended = filled<u32>(*runtime, 4, ~0U);
  std::vector<Node> nodes;
  for (u32 i = 0; i < 4; ++i) nodes.push_back(dag.graph.add(stamp, dag.clock, dag.began, dag.ended, i, u64{1000}));
  nodes[1].after(nodes[0]);
  nodes[2].after(nodes[0]);
  nodes[3].after(nodes[1], nodes[2]);
  dag.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const GraphExec exec = runtime->instantiate(dag.graph);
  for (u32 i = 1; i <= 50; ++i) {
    runtime->launch(exec).wait();
    check_order(dag, i);
  }
}

TEST_P(GraphTest, RandomGraphsRunEachNodeOnceAndInOrder) {
  open();
  for (u32 seed = 0; seed < 8; ++seed) {
    const Dag dag = random_dag(2000, 1 + seed % 6, seed, seed % 2 == 0 ? 16 : 2000);
    const GraphExec exec = runtime->instantiate(dag.graph);
    for (u32 i = 1; i <= 3; ++i) {
      runtime->launch(exec).wait();
      check_order(dag, i);
    }
  }
}

TEST_P(GraphTest, ManySuccessorsAndPredecessors) {
  open();
  constexpr u32 kCount = 20000;
  Dag dag;
  dag.clock = filled<u32>(*runtime, 1, 0);
  dag.began = filled<u32>(*runtime, kCount + 2, ~0U);
  dag.ended = filled<u32>(*runtime, kCount + 2, ~0U);
  const auto stamped = [&](u32 i) { return dag.graph.add(stamp, dag.clock, dag.began, dag.ended, i, u64{0}); };
  const Node first = stamped(0);
  Node last = stamped(1);
  for (u32 i = 0; i < kCount; ++i) {
    last.after(stamped(i + 2).after(first));
    dag.edges.emplace_back(0, i + 2);
    dag.edges.emplace_back(i + 2, 1);
  }
  const GraphExec exec = runtime->instantiate(dag.graph);
  for (u32 i = 1; i <= 3; ++i) {
    runtime->launch(exec).wait();
    check_order(dag, i);
  }
}

TEST_P(GraphTest, ManySuccessorsOfManySuccessors) {
  open();
  constexpr u32 kEach = 100;
  Graph graph;
  const auto cells = filled<u32>(*runtime, kEach, 0);
  Node join = graph.add(nothing);
  const Node root = graph.add(nothing);
  for (u32 i = 0; i < kEach; ++i) {
    const Node middle = graph.add(nothing).after(root);
    for (u32 j = 0; j < kEach; ++j) join.after(graph.add(add, cells, i, 1U).after(middle));
  }
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 1; i <= 5; ++i) {
    runtime->launch(exec).wait();
    ASSERT_THAT(read(cells), testing::Each(i * kEach));
  }
}

TEST_P(GraphTest, ManyStarts) {
  open();
  constexpr u32 kCount = 50000;
  Graph graph;
  const auto cells = filled<u32>(*runtime, kCount, 0);
  for (u32 i = 0; i < kCount; ++i) graph.add(add, cells, i, 1U);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 0; i < 4; ++i) runtime->launch(exec).wait();
  EXPECT_THAT(read(cells), testing::Each(4U));
}

// ---- Nodes -----------------------------------------------------------------------------------------------------------------------

TEST_P(GraphTest, WideNodesRunEachGroupOnce) {
  open();
  constexpr u32 kGroups = 500;
  const auto mark_group = runtime->define<void(Span<u32>)>("mark_group", R"(
    DWELL_OPERATOR(mark_group)(dwell::Group g, dwell::Span<dwell::u32> cells) {
      if (g.rank() == 0) cells[g.index()] = cells[g.index()] + 1;
    })");
  const auto cells = filled<u32>(*runtime, kGroups, 0);
  Graph graph;
  Node last;
  for (u32 i = 0; i < 6; ++i) {
    Node node = graph.add(mark_group, cells, groups(kGroups));
    if (i != 0) node.after(last);
    last = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 1; i <= 5; ++i) {
    runtime->launch(exec).wait();
    ASSERT_THAT(read(cells), testing::Each(6 * i));
  }
}

TEST_P(GraphTest, AWideNodeWithManySuccessors) {
  open();
  constexpr u32 kGroups = 64;
  constexpr u32 kSuccessors = 500;
  const auto cells = filled<u32>(*runtime, 2, 0);
  const auto check = runtime->define<void(Span<u32>, u32)>("check", R"(
    DWELL_OPERATOR(check)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 groups) {
      if (g.rank() == 0 && cells[0] % groups != 0) g.fail(77);
      if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[1], 1u);
    })");
  Graph graph;
  const Node wide = graph.add(add, cells, 0U, 1U, groups(kGroups));
  Node join = graph.add(add, cells, 0U, 1U, groups(kGroups));
  for (u32 i = 0; i < kSuccessors; ++i) join.after(graph.add(check, cells, kGroups).after(wide));
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 1; i <= 10; ++i) {
    runtime->launch(exec).wait();
    ASSERT_THAT(read(cells), testing::ElementsAre(2 * kGroups * i, kSuccessors * i));
  }
}

TEST_P(GraphTest, ArgumentsOfAnySize) {
  open();
  struct Small {
    u32 word[20];
  };
  struct Large {
    u32 word[1000];
  };
  const auto sum_of = [&]<class T>(const char* name) {
    const std::string source =
        std::string("struct Block { dwell::u32 word[") + std::to_string(sizeof(T) / 4) + "]; };\nDWELL_OPERATOR(" + name +
        ")(dwell::Group g, Block block, dwell::Span<dwell::u32> to) {\n"
        "  if (g.rank() == 0) for (dwell::u32 i = 0; i < sizeof(Block) / 4; ++i) to[0] = to[0] * 31 + block.word[i];\n}\n";
    return runtime->define<void(T, Span<u32>)>(name, source);
  };
  const auto small = sum_of.operator()<Small>("small");
  const auto large = sum_of.operator()<Large>("large");
  Small a{};
  Large b{};
  for (u32 i = 0; i < 20; ++i) a.word[i] = i;
  for (u32 i = 0; i < 1000; ++i) b.word[i] = i;
  auto to = filled<u32>(*runtime, 1, 0);
  Graph graph;
  Node last = graph.add(small, a, to);
  last = graph.add(append, to, 7U).after(last);
  const Node changed = last = graph.add(large, b, to).after(last);
  last = graph.add(small, a, to).after(last);
  GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (u32 round = 0; round < 4; ++round) {
    // New values from the third round on.
    for (u32 i = 0; i < 1000; ++i) b.word[i] = i + (round > 1 ? round : 0);
    if (round > 1) exec.set(changed, 0, b);
    for (u32 i = 0; i < 20; ++i) expected = expected * 31 + i;
    expected = expected * 31 + 7;
    for (u32 i = 0; i < 1000; ++i) expected = expected * 31 + b.word[i];
    for (u32 i = 0; i < 20; ++i) expected = expected * 31 + i;
    runtime->launch(exec).wait();
    ASSERT_EQ(read(to)[0], expected);
  }
}

TEST_P(GraphTest, NodesOfAChainHaveScratchMemory) {
  open();
  const auto step = runtime->define<Append>("step", R"(
    DWELL_OPERATOR(step)(dwell::Group g, dwell::Span<dwell::u32> number, dwell::u32 digit) {
      auto all = g.shared<dwell::u32>(g.size());
      if (g.rank() == 0) number[0] = number[0] * 31 + digit;
      all[g.rank()] = 1;
      g.sync();
      dwell::u32 sum = 0;
      for (dwell::u32 i = 0; i < g.size(); ++i) sum += all[i];
      if (sum != g.size()) g.fail(9);
      g.sync();
    })");
  constexpr u32 kCount = 500;
  auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  Node last = graph.add(step, number, 0U);
  for (u32 i = 1; i < kCount; ++i) last = (i % 3 == 0 ? graph.add(append, number, i) : graph.add(step, number, i)).after(last);
  const GraphExec exec = runtime->instantiate(graph);
  for (int round = 0; round < 3; ++round) {
    number.write(std::vector<u32>{0});
    runtime->launch(exec).wait();
    ASSERT_EQ(read(number)[0], appended(kCount));
  }
}

// ---- Failures --------------------------------------------------------------------------------------------------------------------

TEST_P(GraphTest, AFailedNodeCancelsWhatDependsOnIt) {
  open();
  const auto cells = filled<u32>(*runtime, 4, 0);
  Graph graph;
  const Node bad = graph.add("bad", fail, 42);
  const Node behind = graph.add(add, cells, 0U, 1U).after(bad);
  graph.add(add, cells, 1U, 1U).after(behind);
  const Node apart = graph.add(add, cells, 2U, 1U);
  graph.add(add, cells, 3U, 1U).after(apart, bad);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 1; round <= 5; ++round) {
    const Ticket ticket = runtime->launch(exec);
    EXPECT_EQ(ticket.status(), 42);
    expect_error(errc::task_failed, HasSubstr("'bad' (operator fail)"), [&] { ticket.wait(); });
    EXPECT_THAT(read(cells), testing::ElementsAre(0U, 0U, round, 0U)) << "independent nodes still run";
  }
}

TEST_P(GraphTest, ErrorsNameTheGraph) {
  open();
  Graph graph("step");
  graph.add("bad", fail, 42);
  const GraphExec exec = runtime->instantiate(graph);
  graph.name("another");
  EXPECT_EQ(exec.name(), "step");
  const auto now = filled<u32>(*runtime, 1, 0);
  Latch latch(*runtime);
  const Ticket before = runtime->submit(runtime->define<Hold>("hold", kHold), latch.words());
  const Ticket launch = runtime->launch(exec, after(before));
  const Ticket behind = runtime->submit(add, now, 0U, 1U, after(launch));
  latch.release();
  const std::string of = "ticket " + std::to_string(launch.position()) + " of graph 'step'";
  expect_error(errc::task_failed, HasSubstr(of + ": node 'bad' (operator fail) failed with code 42"), [&] { launch.wait(); });
  expect_error(errc::cancelled, HasSubstr("it was to start after " + of + ", whose node 'bad' (operator fail) failed with code 42"),
               [&] { behind.wait(); });
}

TEST_P(GraphTest, ManyCancelledNodes) {
  open();
  constexpr u32 kCount = 3000;
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node bad = graph.add(fail, 3);
  for (u32 i = 0; i < kCount; ++i) {
    const Node first = graph.add(add, cells, 0U, 1U).after(bad);
    graph.add(add, cells, 0U, 1U).after(first);
    graph.add(add, cells, 0U, 1U, groups(3)).after(first);
  }
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(runtime->launch(exec).status(), 3);
  EXPECT_EQ(read(cells)[0], 0U);
}

TEST_P(GraphTest, AFailureInAChainEndsIt) {
  open();
  constexpr u32 kCount = 100;
  auto number = filled<u32>(*runtime, 1, 0);
  for (const u32 bad : {0U, 1U, 3U, 4U, 50U, 98U, 99U}) {
    Graph graph;
    Node last;
    for (u32 i = 0; i < kCount; ++i) {
      const Node before = last;
      last = i == bad ? graph.add("bad", fail, 40) : graph.add(append, number, i);
      if (i != 0) last.after(before);
    }
    const GraphExec exec = runtime->instantiate(graph);
    for (int round = 0; round < 3; ++round) {
      number.write(std::vector<u32>{0});
      DWELL_EXPECT_ERROR(runtime->launch(exec).wait(), errc::task_failed, HasSubstr("'bad' (operator fail)"));
      ASSERT_EQ(read(number)[0], appended(bad));
    }
  }
}

// ---- Building --------------------------------------------------------------------------------------------------------------------

TEST_P(GraphTest, ACycleIsListed) {
  open();
  Graph graph;
  Node a = graph.add("a", nothing), b = graph.add("b", nothing), c = graph.add("c", nothing);
  b.after(a);
  c.after(b);
  a.after(c);
  expect_error(errc::invalid_argument,
               HasSubstr("cycle: 'a' (operator nothing) -> 'b' (operator nothing) -> 'c' (operator nothing) -> 'a'"),
               [&] { runtime->instantiate(graph); });
}

TEST_P(GraphTest, ForeignObjectsAreRefused) {
  open();
  Runtime other(options());
  const auto theirs = other.define<Add>("add", kAdd);
  const auto their_cells = filled<u32>(other, 1, 0);
  Graph graph;
  graph.add(nothing);
  expect_error(errc::invalid_argument, HasSubstr("belongs to another runtime"), [&] { graph.add(theirs, their_cells, 0U, 1U); });
  expect_error(errc::invalid_argument, HasSubstr("belongs to another runtime"), [&] { graph.add(add, their_cells, 0U, 1U); });
  EXPECT_EQ(graph.size(), 1U);
  Graph another;
  expect_error(errc::invalid_argument, HasSubstr("different graphs"), [&] { Node(graph.add(nothing)).after(another.add(nothing)); });
  expect_error(errc::invalid_argument, HasSubstr("another runtime"), [&] { other.instantiate(graph); });
  {
    const auto gone = filled<u32>(*runtime, 4, 0);
    graph.add("orphan", add, gone, 0U, 1U);
  }
  expect_error(errc::stale_handle, HasSubstr("'orphan'"), [&] { runtime->instantiate(graph); });
  expect_error(errc::invalid_argument, HasSubstr("empty"), [&] { runtime->launch(GraphExec()); });
}

TEST_P(GraphTest, DotShowsNodesAndEdges) {
  open();
  Graph graph;
  const Node a = graph.add("load \"x\"", nothing);
  graph.add(nothing, groups(4)).after(a);
  const std::string dot = graph.dot();
  EXPECT_THAT(dot, HasSubstr(R"(n0 [label="load \"x\"\nnothing"];)"));
  EXPECT_THAT(dot, HasSubstr(R"(n1 [label="nothing\n4 groups"];)"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n1;"));
  EXPECT_EQ(runtime->instantiate(graph).dot(), dot);
}

DWELL_ON_EVERY_DEVICE(GraphTest);

}  // namespace
}  // namespace dwell::test
