// Conditional nodes of task graphs: if, while, switch.
#include "tests/conformance/conditional_suite.hpp"

namespace dwell::test {
namespace {

class ConditionalTest : public ConditionalSuite {};

TEST_P(ConditionalTest, IfRunsOrSkipsItsBody) {
  open();
  Graph graph;
  const Node first = graph.add(assign, cells, 0U, 0U);
  const Node with = graph.add_if("with", cell(0), adding(1), adding(2)).after(first);
  const Node without = graph.add_if("without", cell(0), adding(3)).after(first);
  graph.add(add, cells, 4U, 1U).after(with, without);
  GraphExec exec = runtime->instantiate(graph);
  u32 then = 0, otherwise = 0;
  for (u32 round = 1; round <= 10; ++round) {
    const u32 given = round % 3 == 0 ? 0 : round % 3 == 1 ? 1 : ~0U;
    exec.set(first, 2, given);
    runtime->launch(exec).wait();
    ++(given != 0 ? then : otherwise);
    const auto values = read(cells);
    EXPECT_EQ(values[1], then);
    EXPECT_EQ(values[2], otherwise);
    EXPECT_EQ(values[3], then);
    EXPECT_EQ(values[4], round) << "what waits for the node runs in any case";
  }
}

TEST_P(ConditionalTest, WhileChecksBeforeEachRound) {
  open();
  Graph body;
  body.add(append, cell(1), 1U).after(count_down(body, 0));
  Graph graph;
  const Node first = graph.add(assign, cells, 0U, 0U);
  const Node loop = graph.add_while("loop", cell(0), body).after(first);
  graph.add(append, cell(1), 2U).after(loop);
  GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (const u32 rounds : {0U, 1U, 5U, 0U, 300U}) {
    exec.set(first, 2, rounds);
    runtime->launch(exec).wait();
    for (u32 i = 0; i < rounds; ++i) expected = expected * 31 + 1;
    expected = expected * 31 + 2;
    ASSERT_EQ(value(1), expected) << rounds;
  }
}

TEST_P(ConditionalTest, SwitchRunsTheBodyWithTheNumber) {
  open();
  std::vector<Graph> bodies;
  for (u32 i = 0; i < 40; ++i) bodies.push_back(adding(1 + i));
  std::vector<const Graph*> of;
  for (const Graph& body : bodies) of.push_back(&body);
  Graph graph;
  const Node first = graph.add(assign, cells, 0U, 0U);
  const Node choice = graph.add_switch("choice", cell(0), of).after(first);
  graph.add_switch("none", cell(0), {}).after(first);
  graph.add(add, cells, 50U, 1U).after(choice);
  GraphExec exec = runtime->instantiate(graph);
  std::vector<u32> expected(kCells, 0);
  for (const u32 given : {0U, 1U, 39U, 40U, 41U, ~0U, 7U, 7U}) {
    exec.set(first, 2, given);
    runtime->launch(exec).wait();
    expected[0] = given;
    if (given < 40) ++expected[1 + given];
    ++expected[50];
    ASSERT_EQ(read(cells), expected) << given;
  }
}

TEST_P(ConditionalTest, EmptyBodies) {
  open();
  for (const u32 given : {0U, 1U, 2U}) {
    clear();
    const Graph nothing;
    Graph body;
    const Node down = count_down(body, 1);
    body.add_if("nothing", cell(0), nothing).after(down);
    Graph graph;
    const Node first = graph.add(assign, cells, 0U, given), second = graph.add(assign, cells, 1U, 3U);
    const Node once = graph.add_if("if", cell(0), nothing, nothing).after(first);
    const Node choice = graph.add_switch("switch", cell(0), {&nothing, &nothing}).after(once);
    const Node loop = graph.add_while("while", cell(1), body).after(choice, second);
    graph.add(add, cells, 2U, 1U).after(loop);
    runtime->launch(runtime->instantiate(graph)).wait();
    EXPECT_EQ(value(1), 0U);
    EXPECT_EQ(value(2), 1U);
  }
}

TEST_P(ConditionalTest, AHundredDeep) {
  open();
  Graph inner;
  const Graph nothing;
  inner.add(append, cell(1), 7U);
  u32 expected = 0;
  for (u32 depth = 0; depth < 100; ++depth) {
    Graph outer;
    const Node before = outer.add(append, cell(1), depth);
    Node middle;
    switch (depth % 4) {
      case 0: middle = outer.add_if("if", cell(0), inner).after(before); break;
      case 1: {
        // Runs one round.
        const u32 counter = 2 + depth / 4;
        Graph body;
        const Node all = body.add(inner);
        count_down(body, counter).after(all);
        const Node set = outer.add(assign, cells, counter, 1U).after(before);
        middle = outer.add_while("while", cell(counter), body).after(set);
        break;
      }
      case 2: middle = outer.add_switch("switch", cell(0), {&nothing, &inner}).after(before); break;
      default: middle = outer.add("sub", inner).after(before); break;
    }
    outer.add(append, cell(1), 1000 + depth).after(middle);
    inner = std::move(outer);
  }
  clear();
  const std::vector<u32> one{1};
  cells.write(one);
  for (u32 depth = 100; depth-- > 0;) expected = expected * 31 + depth;
  expected = expected * 31 + 7;
  for (u32 depth = 0; depth < 100; ++depth) expected = expected * 31 + 1000 + depth;
  runtime->launch(runtime->instantiate(inner)).wait();
  EXPECT_EQ(value(1), expected);
}

// ---- Long loops ------------------------------------------------------------------------------------------------------------------

TEST_P(ConditionalTest, LongLoopsLetLeasesRoll) {
  open(rolling());
  constexpr u32 kRounds = 40'000;
  Graph body;
  const Node down = count_down(body, 0);
  for (u32 i = 0; i < 3; ++i) body.add(append, cell(1 + i), i).after(down);
  Graph graph;
  graph.add_while("loop", cell(0), body);
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected[3] = {};
  for (u32 launch = 0; launch < 2; ++launch) {
    cells.write(std::vector<u32>{kRounds});
    const auto before = runtime->metrics().leases;
    const Ticket ticket = runtime->launch(exec);
    if (launch == 1) {
      for (int park = 0; park < 3; ++park) {
        runtime->park();
        runtime->resume();
      }
    }
    ticket.wait();
    for (u32 i = 0; i < 3; ++i)
      for (u32 round = 0; round < kRounds; ++round) expected[i] = expected[i] * 31 + i;
    const auto values = read(cells);
    for (u32 i = 0; i < 3; ++i) EXPECT_EQ(values[1 + i], expected[i]) << i;
    EXPECT_GT(runtime->metrics().leases, before + 2);
  }
}

TEST_P(ConditionalTest, LoopsThatDoNothingLetLeasesRoll) {
  open(rolling());
  Latch latch(*runtime);
  Graph graph;
  const std::atomic_ref<u32> go_on(latch.words().host()[0]);
  go_on.store(1);
  const Node loop = graph.add_while("loop", latch.words(), Graph());
  graph.add(add, cells, 0U, 1U).after(loop);
  const GraphExec exec = runtime->instantiate(graph);
  const auto before = runtime->metrics().leases;
  const Ticket ticket = runtime->launch(exec);
  EXPECT_TRUE(eventually([&] { return runtime->metrics().leases > before + 3; }));
  runtime->submit(add, cells, 1U, 1U).wait();
  runtime->park();
  EXPECT_FALSE(ticket.done());
  runtime->resume();
  go_on.store(0);
  ticket.wait();
  EXPECT_EQ(value(0), 1U);
}

// ---- Bodies ----------------------------------------------------------------------------------------------------------------------

TEST_P(ConditionalTest, BodiesOfManyTasksAndWideOnes) {
  open();
  constexpr u32 kMany = 200, kRounds = 30;
  const auto mark_group = runtime->define<void(Span<u32>, u32)>("mark_group", R"(
    DWELL_OPERATOR(mark_group)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at) {
      if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
    })");
  Graph body;
  // Many nodes without predecessors, one behind all of them, and many behind that one.
  const Node middle = body.add(mark_group, cells, 1U, groups(50));
  const Node last = count_down(body, 0);
  for (u32 i = 0; i < kMany; ++i) {
    Node(middle).after(body.add(add, cells, 2U, 1U));
    Node(last).after(body.add(mark_group, cells, 3U, groups(1 + i % 3)).after(middle));
  }
  body.add_if("if", cell(0), adding(4)).after(last);
  Graph graph;
  Node before = graph.add(assign, cells, 0U, kRounds);
  graph.add_while("loop", cell(0), body).after(before);
  const GraphExec exec = runtime->instantiate(graph);
  for (u32 launch = 1; launch <= 3; ++launch) {
    runtime->launch(exec).wait();
    const auto values = read(cells);
    u32 wide = 0;
    for (u32 i = 0; i < kMany; ++i) wide += 1 + i % 3;
    EXPECT_EQ(values[1], 50 * kRounds * launch);
    EXPECT_EQ(values[2], kMany * kRounds * launch);
    EXPECT_EQ(values[3], wide * kRounds * launch);
    EXPECT_EQ(values[4], (kRounds - 1) * launch);
  }
}

TEST_P(ConditionalTest, ManyLoopsSideBySide) {
  open();
  constexpr u32 kLoops = 60;
  Graph graph;
  const Node first = graph.add(assign, cells, 61U, 0U);
  Node last = graph.add(append, cell(62), 1U);
  for (u32 i = 0; i < kLoops; ++i) {
    Graph body;
    count_down(body, i);
    const Node set = graph.add(assign, cells, i, 10 + i).after(first);
    const Node loop = graph.add_while("loop", cell(i), body).after(set);
    last.after(loop);
  }
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (u32 launch = 0; launch < 5; ++launch) {
    runtime->launch(exec).wait();
    expected = expected * 31 + 1;
    const auto values = read(cells);
    EXPECT_EQ(values[62], expected);
    for (u32 i = 0; i < kLoops; ++i) ASSERT_EQ(values[i], 0U) << i;
  }
}

// ---- Failures --------------------------------------------------------------------------------------------------------------------

TEST_P(ConditionalTest, FailureInABodyCancelsSuccessorsOfTheNode) {
  open();
  Graph bad;
  const Node culprit = bad.add("culprit", fail, 9);
  bad.add(add, cells, 1U, 1U).after(culprit);
  bad.add(add, cells, 2U, 1U);
  Graph loop;
  const Node down = count_down(loop, 5);
  const Graph nothing;
  loop.add_switch("third", cell(6), {&nothing, &nothing, &nothing, &bad}).after(loop.add(add, cells, 6U, 1U).after(down));
  for (u32 kind = 0; kind < 3; ++kind) {
    clear();
    const Graph good = adding(2);
    Graph graph;
    const Node set = graph.add(assign, cells, 5U, 10U), round = graph.add(assign, cells, 6U, 0U);
    Node node;
    if (kind == 0) node = graph.add_if("node", cell(5), bad);
    if (kind == 1) node = graph.add_switch("node", cell(7), {&bad, &good});
    if (kind == 2) node = graph.add_while("node", cell(5), loop);
    node.after(set, round);
    graph.add(add, cells, 3U, 1U).after(node);
    graph.add(add, cells, 4U, 1U);
    const GraphExec exec = runtime->instantiate(graph);
    for (u32 launch = 1; launch <= 3; ++launch) {
      const Ticket ticket = runtime->launch(exec);
      EXPECT_EQ(ticket.status(), 9) << kind;
      expect_error(errc::task_failed, HasSubstr("culprit' (operator fail)"), [&] { ticket.wait(); });
      const auto values = read(cells);
      EXPECT_EQ(values[1], 0U);
      EXPECT_EQ(values[2], launch) << "independent of it";
      EXPECT_EQ(values[3], 0U);
      EXPECT_EQ(values[4], launch);
      EXPECT_EQ(values[5], kind == 2 ? 7U : 10U) << "the third round is the last";
    }
  }
}

TEST_P(ConditionalTest, AFailureBeforeTheNodeCancelsAllInside) {
  open();
  Graph graph;
  const Node bad = graph.add("bad", fail, 8);
  const Node good = graph.add(assign, cells, 0U, 1U);
  const Graph body = adding(1), other = adding(2);
  const Node nodes[] = {graph.add_if("if", cell(0), body, other).after(bad, good), graph.add_while("while", cell(0), body).after(good, bad),
                        graph.add_switch("switch", cell(0), {&other, &body}).after(bad)};
  for (const Node& node : nodes) graph.add(add, cells, 3U, 1U).after(node);
  const GraphExec exec = runtime->instantiate(graph);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(runtime->launch(exec).status(), 8);
    EXPECT_EQ(value(1) + value(2) + value(3), 0U);
  }
}

// ---- Changes ---------------------------------------------------------------------------------------------------------------------

TEST_P(ConditionalTest, ALoopRunsTheVersionsOfItsLaunch) {
  open();
  auto mark = runtime->define<Mark>("mark", mark_with(1));
  Graph body;
  count_down(body, 0);
  body.add(mark, cells, 1U);
  Graph graph;
  const Node set = graph.add(assign, cells, 0U, 200U);
  graph.add_while("loop", cell(0), body).after(set);
  const GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  for (u32 version = 1; version <= 5; ++version) {
    for (int i = 0; i < 3; ++i) runtime->launch(exec);
    expected += 3 * 200 * version;
    mark.redefine(mark_with(version + 1));
  }
  runtime->wait_all();
  EXPECT_EQ(value(1), expected);
}

TEST_P(ConditionalTest, ValuesAndArgumentsInsideChange) {
  open();
  Graph body;
  const Node inner = body.add(add, cells, 1U, 1U);
  Graph outer;
  const SubGraph nested = outer.add_if("nested", cell(10), body, body);
  Graph graph;
  const SubGraph choice = graph.add_switch("choice", cell(11), {&body, &outer});
  GraphExec exec = runtime->instantiate(graph);
  exec.set(choice.inside(inner), 2, 10U);
  exec.set(choice.inside(nested, 1).inside(inner), 2, 100U);
  exec.set(choice.inside(nested, 1).inside(inner, 1), 2, 1000U);
  const std::vector<u32> one{1};
  u32 expected = 0;
  const auto run = [&](u32 more) {
    runtime->launch(exec).wait();
    expected += more;
    EXPECT_EQ(value(1), expected);
  };
  run(10);
  cells.write(one, 11);
  run(1000);
  cells.write(one, 10);
  run(100);
  exec.set(choice, 0, cells.slice(12, 1));
  run(10);
  expect_error(errc::signature_mismatch, HasSubstr("argument at index 0 of node 'choice' (switch)"), [&] { exec.set(choice, 0, 1U); });
  expect_error(errc::invalid_argument, HasSubstr("has no element"), [&] { exec.set(choice, 0, cells.slice(0, 0)); });
  expect_error(errc::invalid_argument, HasSubstr("no such node"), [&] { choice.inside(nested, 2); });
  expect_error(errc::invalid_argument, HasSubstr("no such node"), [&] { choice.inside(choice); });

  Graph same;
  same.add_switch("choice", cell(11), {&body, &outer});
  exec.update(same);
  cells.write(std::vector<u32>{0}, 11);
  run(1);
  Graph once;
  once.add_switch("once", cell(11), {&body});
  GraphExec exec_of_once = runtime->instantiate(once);
  Graph as_if;
  as_if.add_if("once", cell(11), body);
  expect_error(errc::invalid_argument, HasSubstr("conditional nodes differ"), [&] { exec_of_once.update(as_if); });
  Graph differs;
  differs.add_if("choice", cell(11), outer, body);
  expect_error(errc::invalid_argument, HasSubstr("differ"), [&] { exec.update(differs); });
}

// ---- Building --------------------------------------------------------------------------------------------------------------------

TEST_P(ConditionalTest, InvalidNodesAreRefused) {
  open();
  const Graph body = adding(1);
  Graph two;
  const Node a = two.add("a", add, cells, 1U, 1U), b = two.add("b", add, cells, 1U, 1U);
  Graph graph;
  expect_error(errc::invalid_argument, HasSubstr("'empty': the value has no element"),
               [&] { graph.add_if("empty", cells.slice(0, 0), body); });
  Runtime other(options());
  const auto theirs = filled<u32>(other, 1, 0);
  EXPECT_THROW(graph.add_while("theirs", Buffer<u32>(), body), Error);
  Graph mine;
  mine.add(add, cells, 0U, 1U);
  EXPECT_THROW(mine.add_while("theirs", theirs, body), Error);
  Graph foreign;
  foreign.add_while("foreign", theirs, Graph());
  EXPECT_THROW(mine.add("sub", foreign), Error);
  EXPECT_THROW(graph.add_while("theirs", theirs, body), Error);
  EXPECT_EQ(graph.size(), 0U);
  EXPECT_EQ(mine.size(), 1U);

  const auto refused = [&](const auto& say) {
    Graph made;
    const Node first = made.add("first", add, cells, 0U, 1U);
    const SubGraph loop = made.add_while("loop", cell(0), two);
    say(made, first, loop);
    expect_error(errc::invalid_argument, HasSubstr("name the conditional node"), [&] { runtime->instantiate(made); });
    expect_error(errc::invalid_argument, HasSubstr("name the conditional node"), [&] { Graph().add(made); });
  };
  refused([&](Graph&, const Node& first, const SubGraph& loop) { loop.inside(a).after(first); });
  refused([&](Graph&, Node first, const SubGraph& loop) { first.after(loop.inside(b)); });
  refused([&](Graph&, const Node&, const SubGraph& loop) { loop.inside(b).after(loop.inside(a)); });
  Graph cyclic;
  SubGraph loop = cyclic.add_while("loop", cell(0), body);
  Node behind = cyclic.add("behind", add, cells, 0U, 1U).after(loop);
  loop.after(behind);
  expect_error(errc::invalid_argument, HasSubstr("cycle: 'loop' (while) ->"), [&] { runtime->instantiate(cyclic); });
  {
    const auto gone = filled<u32>(*runtime, 1, 0);
    graph.add_if("orphan", gone, body);
  }
  expect_error(errc::stale_handle, HasSubstr("'orphan' (if)"), [&] { runtime->instantiate(graph); });
}

TEST_P(ConditionalTest, GraphsWithoutOperators) {
  Runtime bare(options());
  expect_error(errc::invalid_argument, HasSubstr("define one first"), [&] { bare.instantiate(Graph()); });
  const auto nothing = bare.define<void()>("nothing", kNothing);
  auto flag = filled<u32>(bare, 1, 0);
  Graph graph;
  for (int i = 0; i < 40; ++i) graph.add_while("loop", flag, Graph());
  bare.launch(bare.instantiate(graph)).wait();
}

DWELL_ON_EVERY_DEVICE(ConditionalTest);

}  // namespace
}  // namespace dwell::test
