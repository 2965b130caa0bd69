// Task graphs: order, replay, failures, versions, arguments, limits.
#include <set>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class GraphTest : public GraphSuite {
 protected:
  // A graph of `count` nodes with random edges from earlier to later ones, at most `most` into each; each node stamps its begin and end.
  struct Dag {
    Graph graph;
    std::vector<std::pair<u32, u32>> edges;
    Buffer<u32> clock, began, ended;
  };
  Dag random_dag(u32 count, u32 most, u32 seed, u32 reach = 64) {
    Dag dag;
    dag.clock = filled<u32>(*runtime, 1, 0);
    dag.began = filled<u32>(*runtime, count, ~0U);
    dag.ended = filled<u32>(*runtime, count, ~0U);
    Random random(seed);
    std::vector<Node> nodes;
    for (u32 i = 0; i < count; ++i) {
      nodes.push_back(dag.graph.add(stamp, dag.clock, dag.began, dag.ended, i, u64{0}));
      const u32 wanted = i == 0 ? 0 : random() % (most + 1);
      std::set<u32> before;
      for (u32 j = 0; j < wanted; ++j) before.insert(i - 1 - random() % std::min(i, reach));
      for (const u32 from : before) {
        nodes.back().after(nodes[from]);
        dag.edges.emplace_back(from, i);
      }
    }
    return dag;
  }
  static void check_order(const Dag& dag, u32 launches = 1) {
    const auto began = read(dag.began);
    const auto ended = read(dag.ended);
    ASSERT_EQ(read(dag.clock)[0], 2 * began.size() * launches) << "each node runs once a launch";
    for (const auto& [before, behind] : dag.edges) ASSERT_LT(ended[before], began[behind]) << before << " -> " << behind;
  }
};

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
  last = graph.add(large, b, to).after(last);
  last = graph.add(small, a, to).after(last);
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (int round = 0; round < 3; ++round) {
    for (u32 i = 0; i < 20; ++i) expected = expected * 31 + i;
    expected = expected * 31 + 7;
    for (u32 i = 0; i < 1000; ++i) expected = expected * 31 + i;
    for (u32 i = 0; i < 20; ++i) expected = expected * 31 + i;
    runtime->launch(exec).wait();
    ASSERT_EQ(read(to)[0], expected);
  }
}

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

TEST_P(GraphTest, LaunchesOfOneExecFollowEachOther) {
  open();
  constexpr u32 kCount = 20;
  Graph graph;
  auto number = filled<u32>(*runtime, 1, 0);
  Node last;
  for (u32 i = 0; i < kCount; ++i) {
    Node node = graph.add(append, number, i);
    if (i != 0) node.after(last);
    last = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (u32 round = 0; round < 200; ++round) {
    runtime->launch(exec);
    for (u32 i = 0; i < kCount; ++i) expected = expected * 31 + i;
  }
  runtime->wait_all();
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphTest, DifferentExecsOverlap) {
  open();
  Latch latch(*runtime);
  const auto hold = runtime->define<Hold>("hold", kHold);
  Graph holds;
  holds.add(hold, latch.words());
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph adds;
  adds.add(add, cells, 0U, 1U);
  const GraphExec first = runtime->instantiate(holds);
  const GraphExec second = runtime->instantiate(adds);
  const Ticket held = runtime->launch(first);
  latch.await();
  runtime->launch(second).wait();
  EXPECT_EQ(read(cells)[0], 1U);
  EXPECT_FALSE(held.done());
  latch.release();
  held.wait();
}

TEST_P(GraphTest, LaunchesTakePartInTheOrderOfTasks) {
  open();
  auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, number, 1U);
  graph.add(append, number, 2U).after(first);
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (int round = 0; round < 30; ++round) {
    runtime->submit(append, number, 0U, drain);
    runtime->launch(exec, link);
    runtime->submit(append, number, 3U, link);
    runtime->launch(exec, drain);
    for (const u32 digit : {0, 1, 2, 3, 1, 2}) expected = expected * 31 + digit;
  }
  runtime->wait_all();
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphTest, ArgumentsChangeBetweenLaunches) {
  open();
  const auto cells = filled<u32>(*runtime, 8, 0);
  const auto others = filled<u32>(*runtime, 8, 0);
  Graph graph;
  const Node node = graph.add(add, cells, 0U, 1U);
  GraphExec exec = runtime->instantiate(graph);
  for (u32 i = 0; i < 8; ++i) {
    exec.set(node, 1, i);
    exec.set(node, 2, 100U);
    exec.set(node, 2, 10U + i);
    runtime->launch(exec);
  }
  runtime->wait_all();
  EXPECT_THAT(read(cells), testing::ElementsAre(10U, 11U, 12U, 13U, 14U, 15U, 16U, 17U));
  exec.set(node, 0, others);
  runtime->launch(exec).wait();
  EXPECT_EQ(read(others)[7], 17U);
  expect_error(errc::signature_mismatch, HasSubstr("argument 2"), [&] { exec.set(node, 2, 1.0F); });
  expect_error(errc::invalid_argument, HasSubstr("does not exist"), [&] { exec.set(node, 3, 1U); });
}

TEST_P(GraphTest, ManyArgumentsChangeAtOnce) {
  open();
  // As many as travel with a launch, and more.
  for (const u32 count : {4000U, 20000U}) {
    const auto cells = filled<u32>(*runtime, count, 0);
    std::vector<Node> nodes;
    Graph graph;
    for (u32 i = 0; i < count; ++i) nodes.push_back(graph.add(add, cells, i, 1U));
    GraphExec exec = runtime->instantiate(graph);
    std::vector<u32> expected(count, 0);
    for (u32 round = 1; round <= 3; ++round) {
      for (u32 i = 0; i < count; ++i) {
        exec.set(nodes[i], 2, i * round);
        expected[i] += i * round;
      }
      runtime->launch(exec);
    }
    runtime->wait_all();
    ASSERT_EQ(read(cells), expected);
  }
}

TEST_P(GraphTest, ALaunchRunsTheVersionsOfItsOwnTime) {
  open();
  auto mark = runtime->define<Mark>("mark", mark_with(1));
  const auto cells = filled<u32>(*runtime, 1, 0);
  // The second has more nodes than changes travel with a launch.
  std::vector<GraphExec> execs;
  for (const u32 count : {50U, 9000U}) {
    Graph graph;
    for (u32 i = 0; i < count; ++i) graph.add(mark, cells, 0U);
    execs.push_back(runtime->instantiate(graph));
  }
  u32 expected = 0;
  for (u32 version = 1; version <= 6; ++version) {
    for (const GraphExec& exec : execs) {
      for (int i = 0; i < 5; ++i) runtime->launch(exec);
      expected += 5 * static_cast<u32>(exec.size()) * version;
    }
    mark.redefine(mark_with(version + 1));
  }
  runtime->wait_all();
  EXPECT_EQ(read(cells)[0], expected);
}

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

TEST_P(GraphTest, ForeignThingsAreRefused) {
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

TEST_P(GraphTest, AnExecMayBeDroppedWhileItIsInFlight) {
  open();
  const auto cells = filled<u32>(*runtime, 1, 0);
  for (int round = 0; round < 50; ++round) {
    Graph graph;
    Node last = graph.add(add, cells, 0U, 1U);
    for (int i = 1; i < 20; ++i) last = graph.add(add, cells, 0U, 1U).after(last);
    runtime->launch(runtime->instantiate(graph));
  }
  runtime->wait_all();
  EXPECT_EQ(read(cells)[0], 50U * 20U);
}

TEST_P(GraphTest, LongChainsLetLeasesRoll) {
  Options rolling = options();
  rolling.lease = on_cpu() ? 2ms : 500us;
  open(rolling);
  constexpr u32 kCount = 400'000;
  Graph graph;
  auto number = filled<u32>(*runtime, 1, 0);
  Node last;
  for (u32 i = 0; i < kCount; ++i) {
    Node node = graph.add(append, number, i);
    if (i != 0) node.after(last);
    last = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  const auto before = runtime->info().leases;
  runtime->launch(exec).wait();
  EXPECT_EQ(read(number)[0], appended(kCount));
  EXPECT_GT(runtime->info().leases, before);
}

TEST_P(GraphTest, GraphsWithoutChainsLetLeasesRoll) {
  Options rolling = options();
  rolling.lease = on_cpu() ? 2ms : 500us;
  open(rolling);
  constexpr u32 kCount = 6000;
  Graph graph;
  const auto clock = filled<u32>(*runtime, 1, 0);
  const auto began = filled<u32>(*runtime, kCount, 0);
  const auto ended = filled<u32>(*runtime, kCount, 0);
  Node last[2];
  for (u32 i = 0; i < kCount; ++i) {
    // Each waits for the two before it.
    Node node = graph.add(stamp, clock, began, ended, i, u64{10'000});
    if (i >= 2) node.after(last[0], last[1]);
    last[i % 2] = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  const auto before = runtime->info().leases;
  runtime->launch(exec).wait();
  EXPECT_EQ(read(clock)[0], 2 * kCount);
  EXPECT_GT(runtime->info().leases, before + 1);
}

TEST_P(GraphTest, GraphsSurviveParks) {
  open();
  const Dag dag = random_dag(20000, 3, 7);
  const GraphExec exec = runtime->instantiate(dag.graph);
  for (u32 i = 1; i <= 5; ++i) {
    const Ticket ticket = runtime->launch(exec);
    for (int park = 0; park < 3; ++park) {
      runtime->park();
      runtime->resume();
    }
    ticket.wait();
    check_order(dag, i);
  }
}

// ---- Sizes -----------------------------------------------------------------------------------------------------------------------

inline constexpr u32 kMillion = kSanitized ? 100'000 : 1'000'000;
inline constexpr u32 kMany = kSanitized ? 10'000 : 100'000;

TEST_P(GraphTest, AChainOfAMillion) {
  open();
  Graph graph;
  const auto number = filled<u32>(*runtime, 1, 0);
  Node last = graph.add(append, number, 0U);
  for (u32 i = 1; i < kMillion; ++i) last = graph.add(append, number, i).after(last);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(number)[0], appended(kMillion));
}

TEST_P(GraphTest, AMillionNodes) {
  open();
  const Dag dag = random_dag(kMillion, 4, 11, 5000);
  const GraphExec exec = runtime->instantiate(dag.graph);
  EXPECT_EQ(exec.size(), kMillion);
  runtime->launch(exec).wait();
  check_order(dag);
}

TEST_P(GraphTest, OneNodeBehindVeryManyBehindOne) {
  open();
  auto cells = filled<u32>(*runtime, 3, 0);
  // Notes whether all before have run.
  const auto check = runtime->define<void(Span<u32>, u32)>("check", R"(
    DWELL_OPERATOR(check)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 expected) {
      if (g.rank() == 0 && cells[0] != expected) g.fail(77);
    })");
  Graph graph;
  const Node first = graph.add("first", check, cells, 0U);
  Node last = graph.add("last", check, cells, kMany);
  for (u32 i = 0; i < kMany; ++i) last.after(graph.add(add, cells, 0U, 1U).after(first));
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 round = 0; round < 3; ++round) {
    cells.write(std::vector<u32>{0, 0, 0});
    runtime->launch(exec).wait();
  }
}

TEST_P(GraphTest, AThousandExecsInFlight) {
  Options wide = options();
  wide.ring_slots = 8192;
  open(wide);
  constexpr u32 kExecs = 1000;
  constexpr u32 kRounds = 3;
  Latch latch(*runtime);
  const auto hold = runtime->define<Hold>("hold", kHold);
  const auto cells = filled<u32>(*runtime, kExecs, 0);
  std::vector<GraphExec> execs;
  for (u32 i = 0; i < kExecs; ++i) {
    Graph graph;
    const Node first = graph.add(add, cells, i, 1U);
    Node last = graph.add(add, cells, i, 1U);
    for (u32 j = 0; j < 40; ++j) last.after(graph.add(add, cells, i, 1U).after(first));
    execs.push_back(runtime->instantiate(graph));
  }
  const Ticket held = runtime->submit(hold, latch.words());
  std::vector<Ticket> tickets;
  for (u32 round = 0; round < kRounds; ++round)
    for (const GraphExec& exec : execs) tickets.push_back(runtime->launch(exec, after(held)));
  execs.clear();
  for (const Ticket& ticket : tickets) ASSERT_FALSE(ticket.done());
  latch.release();
  for (const Ticket& ticket : tickets) ticket.wait();
  EXPECT_THAT(read(cells), testing::Each(42U * kRounds));
}

// ---- Order among launches --------------------------------------------------------------------------------------------------------

TEST_P(GraphTest, LaunchesWaitForTicketsAndAreWaitedFor) {
  open();
  const auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, number, 1U);
  graph.add(append, number, 2U).after(first);
  const GraphExec exec = runtime->instantiate(graph), other = runtime->instantiate(graph);
  u32 expected = 0;
  Ticket last;
  for (int round = 0; round < 200; ++round) {
    last = runtime->launch(exec, after(last));
    last = runtime->submit(append, number, 3U, after(last));
    last = runtime->launch(other, after(last));
    for (const u32 digit : {1, 2, 3, 1, 2}) expected = expected * 31 + digit;
  }
  last.wait();
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphTest, ALaunchBehindAFailureIsCancelled) {
  open();
  const auto cells = filled<u32>(*runtime, 2, 0);
  Graph graph;
  graph.add(add, cells, 0U, 1U);
  graph.add(add, cells, 1U, 1U, groups(3));
  const GraphExec exec = runtime->instantiate(graph);
  for (int round = 0; round < 20; ++round) {
    const Ticket failed = runtime->submit(fail, 7);
    const Ticket linked = runtime->launch(exec, link);
    const Ticket behind = runtime->launch(exec, after(failed));
    const Ticket twice = runtime->launch(exec, after(behind, linked));
    EXPECT_EQ(linked.status(), status::cancelled);
    EXPECT_EQ(behind.status(), status::cancelled);
    EXPECT_EQ(twice.status(), status::cancelled);
    DWELL_EXPECT_ERROR(twice.wait(), errc::cancelled, HasSubstr("fail"));
  }
  EXPECT_THAT(read(cells), testing::Each(0U));
  const Ticket failed = runtime->submit(fail, 7);
  runtime->launch(exec, after_any_result(failed)).wait();
  EXPECT_THAT(read(cells), testing::ElementsAre(1U, 3U));
  EXPECT_EQ(runtime->submit(add, cells, 0U, 1U, after(runtime->launch(exec))).status(), 0);
}

TEST_P(GraphTest, ALaunchThatFailedCancelsWhatIsLinked) {
  open();
  const auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  graph.add("culprit", fail, 7);
  const GraphExec exec = runtime->instantiate(graph);
  const Ticket launch = runtime->launch(exec);
  const Ticket linked = runtime->submit(add, cells, 0U, 1U, link);
  EXPECT_EQ(launch.status(), 7);
  EXPECT_EQ(linked.status(), status::cancelled);
  EXPECT_EQ(runtime->launch(exec).status(), 7) << "launches of one exec follow each other, whatever becomes of them";
  EXPECT_EQ(read(cells)[0], 0U);
}

TEST_P(GraphTest, ACancelledLaunchTakesOverWhatHasChanged) {
  open();
  auto mark = runtime->define<Mark>("mark", mark_with(1));
  constexpr u32 kNodes = 300;
  auto cells = filled<u32>(*runtime, kNodes, 0);
  Graph graph;
  std::vector<Node> nodes;
  for (u32 i = 0; i < kNodes; ++i) nodes.push_back(graph.add(add, cells, i, 1U));
  graph.add(mark, cells, 0U);
  GraphExec exec = runtime->instantiate(graph);
  for (const u32 count : {1U, 10U, kNodes}) {  // in one slot, in several, in a block
    for (u32 i = 0; i < count; ++i) exec.set(nodes[i], 2, 100U + count);
    mark.redefine(mark_with(count));
    runtime->submit(fail, 7);
    EXPECT_EQ(runtime->launch(exec, link).status(), status::cancelled);
    cells.write(std::vector<u32>(kNodes, 0));
    runtime->launch(exec).wait();
    const auto values = read(cells);
    EXPECT_EQ(values[0], 100U + count + count) << "the argument, and the version";
    EXPECT_EQ(values[count - 1], count == 1 ? 102U : 100U + count);
  }
}

TEST_P(GraphTest, SeveralThreadsLaunch) {
  open();
  constexpr u32 kThreads = 4;
  const u32 rounds = kSanitized ? 100 : 1000;
  const auto shared_cell = filled<u32>(*runtime, 1, 0);
  const auto cells = filled<u32>(*runtime, kThreads, 0);
  Graph common;  // its two nodes would lose counts beside another launch of it
  const auto increment = runtime->define<void(Span<u32>)>("increment", R"(
    DWELL_OPERATOR(increment)(dwell::Group g, dwell::Span<dwell::u32> cell) {
      if (g.rank() == 0) cell[0] = cell[0] + 1;
      g.sync();
    })");
  const Node first = common.add(increment, shared_cell);
  common.add(increment, shared_cell).after(first);
  const GraphExec exec = runtime->instantiate(common);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] {
      Graph mine;
      const Node node = mine.add(add, cells, me, 0U);
      GraphExec own = runtime->instantiate(mine);
      for (u32 i = 0; i < rounds; ++i) {
        runtime->launch(exec);
        own.set(node, 2, i);
        runtime->launch(own);
      }
    });
  threads.clear();
  runtime->wait_all();
  EXPECT_EQ(read(shared_cell)[0], kThreads * rounds * 2);
  EXPECT_THAT(read(cells), testing::Each(rounds * (rounds - 1) / 2));
}

// ---- Nodes -----------------------------------------------------------------------------------------------------------------------

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

TEST_P(GraphTest, ABufferThatWasReplacedIsWaitedForWhileALaunchNamesIt) {
  open();
  const auto hold = runtime->define<Hold>("hold", kHold);
  const auto first = filled<u32>(*runtime, 1, 0);
  const auto second = filled<u32>(*runtime, 1, 0);
  for (const bool whole : {false, true}) {
    const auto graph_of = [&](const Buffer<u32>& cells, Node* node) {
      Graph graph;
      *node = graph.add(add, cells, 0U, 1U);
      return graph;
    };
    Node node;
    Node other;
    const Graph graph = graph_of(first, &node);
    GraphExec exec = runtime->instantiate(graph);
    exec.set(node, 0, first);
    Latch latch(*runtime);
    const Ticket held = runtime->submit(hold, latch.words());
    latch.await();
    const Ticket launch = runtime->launch(exec, after(held));
    if (whole)
      exec.update(graph_of(second, &other));
    else
      exec.set(node, 0, second);
    std::thread releases([&] {
      std::this_thread::sleep_for(20ms);
      latch.release();
    });
    EXPECT_EQ(read(first)[0], whole ? 2U : 1U) << "it reads behind the launch";
    releases.join();
    EXPECT_EQ(launch.status(), status::ok);
    EXPECT_EQ(read(second)[0], 0U);
  }
}

TEST_P(GraphTest, UpdateTakesOverArguments) {
  open();
  const auto cells = filled<u32>(*runtime, 4, 0), others = filled<u32>(*runtime, 4, 0);
  const auto make = [&](const Buffer<u32>& to, u32 value) {
    Graph graph;
    const Node first = graph.add("first", add, to, 0U, value);
    graph.add("second", add, to, 1U, value + 1, groups(2)).after(first);
    return graph;
  };
  GraphExec exec = runtime->instantiate(make(cells, 10));
  runtime->launch(exec);
  exec.update(make(others, 20));
  runtime->launch(exec);
  exec.update(make(cells, 30));
  runtime->wait_all();
  EXPECT_THAT(read(cells), testing::ElementsAre(10U, 22U, 0U, 0U));
  EXPECT_THAT(read(others), testing::ElementsAre(20U, 42U, 0U, 0U));

  const auto refused = [&](const std::string& why, const std::function<void(Graph&)>& change) {
    Graph graph = make(cells, 1);
    change(graph);
    DWELL_EXPECT_ERROR(exec.update(graph), errc::invalid_argument, AllOf(HasSubstr(why), HasSubstr("instantiate")));
  };
  refused("has 3 nodes, the exec 2", [&](Graph& graph) { graph.add(nothing); });
  const auto rebuilt = [&](const std::string& why, const std::function<void(Graph&)>& build) {
    Graph graph;
    build(graph);
    DWELL_EXPECT_ERROR(exec.update(graph), errc::invalid_argument, HasSubstr(why));
  };
  rebuilt("the edges differ", [&](Graph& graph) {
    graph.add(add, cells, 0U, 1U);
    graph.add(add, cells, 1U, 1U, groups(2));
  });
  rebuilt("node 'second' (operator add) has another number of groups", [&](Graph& graph) {
    const Node first = graph.add(add, cells, 0U, 1U);
    graph.add(add, cells, 1U, 1U).after(first);
  });
  rebuilt("node 'first' (operator add) has another operator", [&](Graph& graph) {
    const Node first = graph.add(nothing);
    graph.add(add, cells, 1U, 1U, groups(2)).after(first);
  });
  runtime->launch(exec).wait();
  EXPECT_THAT(read(cells), testing::ElementsAre(40U, 84U, 0U, 0U)) << "what was refused has changed nothing";
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
