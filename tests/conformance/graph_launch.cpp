// Graphs that operators launch (Group::launch): order, versions, arguments.
#include "tests/conformance/graph_launch_suite.hpp"

namespace dwell::test {
namespace {

// Launches two graphs alternately, `count` times each, in order.
constexpr const char* kAlternate = R"(
DWELL_OPERATOR(alternate)(dwell::Group g, dwell::Exec first, dwell::Exec second, dwell::u32 count) {
  dwell::Child last = g.launch(first);
  for (dwell::u32 i = 1; i < 2 * count; ++i) last = g.launch_after(last, i % 2 == 0 ? first : second);
})";
using Alternate = void(Exec, Exec, u32);

// Records its version: log[0] counts the entries behind it.
std::string note_with(u32 value) {
  return "DWELL_OPERATOR(note)(dwell::Group g, dwell::Span<dwell::u32> log) {\n"
         "  using namespace dwell::device;\n"
         "  if (g.rank() == 0) log[1 + fetch_add<Order::relaxed>(&log[0], 1u)] = " +
         std::to_string(value) + "u;\n}\n";
}

class GraphLaunchTest : public GraphLaunchSuite {};
DWELL_ON_EVERY_DEVICE(GraphLaunchTest);

TEST_P(GraphLaunchTest, ATaskLaunchesAGraph) {
  prepare();
  auto cells = filled<u32>(*runtime, 8, 0);
  const GraphExec exec = guarded(cells, 5);
  runtime->submit(repeat, exec, 1U).wait();
  expect_launches(cells, 1);
  runtime->submit(repeat, exec, 0U).wait();
  runtime->submit(repeat, exec, 2U).wait();
  expect_launches(cells, 3);
}

TEST_P(GraphLaunchTest, ALaunchIsAChild) {
  prepare();
  runtime->define<void(Span<u32>, u32, u32)>("copy_cell", R"(
DWELL_OPERATOR(copy_cell)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 from, dwell::u32 to) {
  if (g.rank() == 0) cells[to] = cells[from];
})");
  auto spawn_and_launch = runtime->define<void(Exec, Span<u32>)>("spawn_and_launch", R"(
DWELL_USES(copy_cell, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_OPERATOR(spawn_and_launch)(dwell::Group g, dwell::Exec exec, dwell::Span<dwell::u32> cells) {
  const dwell::Child before = g.spawn(uses::copy_cell, cells, 3, 4);
  const dwell::Child launched = g.launch_after(before, exec);
  g.spawn_after({before, launched}, uses::copy_cell, cells, 2, 5);
  g.then(uses::copy_cell, cells, 5, 6);
})");
  auto cells = filled<u32>(*runtime, 7, 0);
  cells.write(std::vector<u32>{0, 0, 0, 9, 0, 0, 0});
  const GraphExec exec = guarded(cells, 0);
  runtime->submit(spawn_and_launch, exec, cells).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{0, 0, 1, 9, 9, 1, 1}));
}

TEST_P(GraphLaunchTest, LaunchesBehindEachOther) {
  prepare();
  auto alternate = runtime->define<Alternate>("alternate", kAlternate);
  auto number = filled<u32>(*runtime, 1, 0);
  GraphExec execs[2];
  for (u32 i = 0; i < 2; ++i) {
    Graph chain;
    chain.add("second", append, number, 2 * i + 2).after(chain.add("first", append, number, 2 * i + 1));
    execs[i] = runtime->instantiate(chain);
  }
  constexpr u32 kCount = 100;
  runtime->submit(alternate, execs[0], execs[1], kCount).wait();
  u32 expected = 0;
  for (u32 i = 0; i < kCount; ++i)
    for (u32 digit = 1; digit <= 4; ++digit) expected = expected * 31 + digit;
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphLaunchTest, ManyLaunchesOfOneExecFollowEachOther) {
  prepare();
  auto tree = runtime->define<LaunchTree>("launch_tree", kLaunchTree);
  auto cells = filled<u32>(*runtime, 3 + 7, 0);
  const GraphExec exec = guarded(cells, 7);
  constexpr u32 kLevels = kSanitized ? 5 : 8;
  constexpr u32 kTasks = 10;
  for (u32 i = 0; i < kTasks; ++i) {
    runtime->submit(tree, kLevels, exec);
    runtime->submit(repeat, exec, 20U);
  }
  runtime->wait_all();
  expect_launches(cells, kTasks * ((1U << kLevels) + 20));
}

TEST_P(GraphLaunchTest, HostAndDeviceLaunchOneExec) {
  prepare();
  auto cells = filled<u32>(*runtime, 3 + 5, 0);
  const GraphExec exec = guarded(cells, 5);
  constexpr u32 kRounds = kSanitized ? 50 : 300;
  for (u32 i = 0; i < kRounds; ++i) {
    runtime->submit(repeat, exec, 3U);
    runtime->launch(exec);
    if (i % 4 == 0) runtime->launch(exec, hard_link);
  }
  runtime->wait_all();
  expect_launches(cells, kRounds * 4 + (kRounds + 3) / 4);
}

TEST_P(GraphLaunchTest, ManyThreadsLaunchManyExecs) {
  Options brief = options();
  brief.lease = 300us;
  prepare(brief);
  constexpr u32 kExecs = 4;
  constexpr u32 kRounds = kSanitized ? 20 : 100;
  std::vector<Buffer<u32>> cells;
  std::vector<GraphExec> execs;
  for (u32 i = 0; i < kExecs; ++i) {
    cells.push_back(filled<u32>(*runtime, 3 + 40, 0));
    execs.push_back(guarded(cells.back(), 40));
  }
  auto launch_four = runtime->define<void(Exec, Exec, Exec, Exec)>("launch_four", R"(
DWELL_OPERATOR(launch_four)(dwell::Group g, dwell::Exec a, dwell::Exec b, dwell::Exec c, dwell::Exec d) {
  g.launch(a); g.launch(b); g.launch(c); g.launch(d);
})");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&] {
      for (u32 i = 0; i < kRounds; ++i) {
        runtime->submit(launch_four, execs[0], execs[1], execs[2], execs[3]);
        runtime->launch(execs[i % kExecs]);
      }
    });
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(500us);
    runtime->park();
    runtime->resume();
  }
  for (std::thread& thread : threads) thread.join();
  runtime->wait_all();
  for (const Buffer<u32>& one : cells) expect_launches(one, 3 * kRounds + 3 * kRounds / kExecs);
}

TEST_P(GraphLaunchTest, DifferentExecsOverlap) {
  prepare();
  auto meet = runtime->define<Meet>("meet", kMeet);
  auto launch_two = runtime->define<void(Exec, Exec)>("launch_two", R"(
DWELL_OPERATOR(launch_two)(dwell::Group g, dwell::Exec a, dwell::Exec b) { g.launch(a); g.launch(b); })");
  auto there = filled<u32>(*runtime, 1, 0);
  GraphExec execs[2];
  for (u32 i = 0; i < 2; ++i) {
    Graph graph;
    graph.add("meet", meet, there, 0U);
    execs[i] = runtime->instantiate(graph);
  }
  runtime->submit(launch_two, execs[0], execs[1]).wait();
  there.write(std::vector<u32>{0});
  runtime->submit(repeat, execs[0], 1U);
  runtime->submit(repeat, execs[1], 1U);
  EXPECT_NO_THROW(runtime->wait_all());
}

TEST_P(GraphLaunchTest, TaskFollowsChangesOfItsExec) {
  prepare();
  runtime->define<Hold>("hold", kHold);
  auto launch_after_hold = runtime->define<void(Exec, Span<u32>)>("launch_after_hold", R"(
DWELL_USES(hold, dwell::Span<dwell::u32>)
DWELL_OPERATOR(launch_after_hold)(dwell::Group g, dwell::Exec exec, dwell::Span<dwell::u32> latch) {
  g.launch_after(g.spawn(uses::hold, latch), exec);
})");
  auto number = filled<u32>(*runtime, 1, 0);
  Latch latch(*runtime);
  runtime->submit(nothing);
  runtime->submit(nothing, link);  // tasks are tracked from here on, so that waiting needs no drains
  Graph graph;
  const Node node = graph.add(append, number, 1U);
  GraphExec exec = runtime->instantiate(graph);
  const Ticket holds = runtime->submit(launch_after_hold, exec, latch.words());
  latch.await();
  exec.set(node, 1, 2U);  // sent with a launch without nodes, like new versions
  const Ticket task = runtime->submit(repeat, exec, 1U);
  EXPECT_FALSE(task.wait_for(20ms)) << "the task before is to launch the graph as it was";
  latch.release();
  holds.wait();
  task.wait();
  EXPECT_EQ(read(number)[0], 1U * 31 + 2);
}

TEST_P(GraphLaunchTest, TaskLaunchesCurrentVersions) {
  prepare();
  auto note = runtime->define<Cells>("note", note_with(1));
  constexpr u32 kVersions = 5;
  constexpr u32 kTasks = 4;
  constexpr u32 kEach = 10;
  auto log = filled<u32>(*runtime, 1 + kVersions * (kTasks * kEach + 1) * 3, 0);
  Graph graph;
  Node node = graph.add(note, log);
  node = graph.add(note, log).after(node);
  graph.add(note, log).after(node);
  const GraphExec exec = runtime->instantiate(graph);
  std::vector<u32> expected{kVersions * (kTasks * kEach + 1) * 3};
  for (u32 version = 1; version <= kVersions; ++version) {
    if (version != 1) note.redefine(note_with(version));
    for (u32 task = 0; task < kTasks; ++task) runtime->submit(repeat, exec, kEach);
    runtime->launch(exec);
    expected.insert(expected.end(), (kTasks * kEach + 1) * 3, version);
  }
  EXPECT_EQ(read(log), expected);
}

TEST_P(GraphLaunchTest, VersionsAreExactWhileTasksFlow) {
  prepare();
  auto note = runtime->define<Cells>("note", note_with(0));
  constexpr u32 kVersions = kSanitized ? 4 : 8;
  auto log = filled<u32>(*runtime, 100000, 0);
  Graph graph;
  graph.add(note, log).after(graph.add(note, log));
  const GraphExec exec = runtime->instantiate(graph);
  std::atomic<bool> over{false};
  std::atomic<u32> tasks{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!over && tasks < 8000) {
        runtime->submit(repeat, exec, 3U);
        ++tasks;
      }
    });
  for (u32 version = 1; version <= kVersions; ++version) note.redefine(note_with(version));
  over = true;
  for (std::thread& thread : threads) thread.join();
  runtime->submit(repeat, exec, 1U);
  const std::vector<u32> found = read(log);
  ASSERT_EQ(found[0], tasks * 6 + 2);
  // Each launch runs one version, and versions only grow: they order tasks.
  for (u32 i = 1; i <= found[0]; i += 2) ASSERT_EQ(found[i], found[i + 1]) << i;
  EXPECT_TRUE(std::is_sorted(found.begin() + 1, found.begin() + 1 + found[0]));
  EXPECT_EQ(found[found[0]], kVersions);
}

TEST_P(GraphLaunchTest, TaskLaunchesCurrentArguments) {
  prepare();
  auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, number, 1U);
  const Node second = graph.add(append, number, 1U).after(first);
  GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  // More tasks than one can wait for; every second change comes with a launch from the host.
  for (u32 i = 1; i <= 12; ++i) {
    exec.set(first, 1, i);
    exec.set(second, 1, i);
    if (i % 2 == 0) runtime->launch(exec);
    for (u32 task = 0; task < 40; ++task) runtime->submit(repeat, exec, 2U);
    for (u32 launch = 0; launch < 80 + (i % 2 == 0 ? 1 : 0); ++launch) expected = (expected * 31 + i) * 31 + i;
  }
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphLaunchTest, ManyChangesArrive) {
  prepare();
  for (const u32 nodes : {40U, 200U, 12000U}) {
    auto cells = filled<u32>(*runtime, nodes, 0);
    Graph graph;
    std::vector<Node> all;
    for (u32 i = 0; i < nodes; ++i) all.push_back(graph.add(add, cells, i, 1U));
    GraphExec exec = runtime->instantiate(graph);
    runtime->submit(repeat, exec, 2U);
    for (u32 i = 0; i < nodes; ++i) exec.set(all[i], 2, i);
    runtime->submit(repeat, exec, 3U);
    std::vector<u32> expected;
    for (u32 i = 0; i < nodes; ++i) expected.push_back(2 + 3 * i);
    EXPECT_EQ(read(cells), expected);
  }
}

TEST_P(GraphLaunchTest, NodesLaunchGraphs) {
  prepare();
  auto tree = runtime->define<LaunchTree>("launch_tree", kLaunchTree);
  auto note = runtime->define<Cells>("note", note_with(1));
  auto inner_cells = filled<u32>(*runtime, 3 + 4, 0);
  auto outer_cells = filled<u32>(*runtime, 3, 0);
  auto log = filled<u32>(*runtime, 1 + 4 * 1000, 0);
  GraphExec outer;
  {
    Graph leaf;
    leaf.add(note, log);
    const GraphExec noting = runtime->instantiate(leaf);
    const GraphExec inner = guarded(inner_cells, 4);
    Graph graph;
    const Node first = graph.add("enter", enter, outer_cells);
    const Node launches = graph.add("launches", tree, 3U, inner).after(first);
    const Node notes = graph.add("notes", repeat, noting, 2U).after(first);
    graph.add("exit", exit, outer_cells).after(launches, notes);
    Graph whole;  // a sub-graph passes on the graphs that it launches
    whole.add("sub", graph);
    outer = runtime->instantiate(whole);
  }
  runtime->launch(outer).wait();
  expect_launches(outer_cells, 1);
  expect_launches(inner_cells, 8);
  for (int i = 0; i < 10; ++i) {
    runtime->submit(repeat, outer, 3U);
    runtime->launch(outer);
  }
  note.redefine(note_with(2));
  runtime->launch(outer);
  runtime->submit(repeat, outer, 4U);
  runtime->wait_all();
  expect_launches(outer_cells, 46);
  expect_launches(inner_cells, 46 * 8);
  std::vector<u32> expected(41 * 2, 1);
  expected.insert(expected.end(), 5 * 2, 2);
  std::vector<u32> found = read(log);
  EXPECT_EQ(found[0], 92U);
  found.resize(93);
  EXPECT_EQ(std::vector<u32>(found.begin() + 1, found.end()), expected);
  outer.measure();
  expect_launches(outer_cells, 47);
}

TEST_P(GraphLaunchTest, HostNodesOfALaunchedGraph) {
  prepare();
  std::atomic<u32> calls{0};
  auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node called = graph.add_host("call", [&] { ++calls; }).after(graph.add(nothing));
  graph.add(add, cells, 0U, 1U).after(called);
  const GraphExec exec = runtime->instantiate(graph);
  Graph around;
  around.add(repeat, exec, 2U);
  const GraphExec outer = runtime->instantiate(around);
  for (int i = 0; i < 10; ++i) {
    runtime->submit(repeat, exec, 3U);
    runtime->launch(exec);
    runtime->launch(outer);
  }
  runtime->submit(repeat, exec, 4U).wait();
  runtime->wait_all();
  EXPECT_EQ(calls.load(), 64U);
  EXPECT_EQ(read(cells)[0], 64U);

  // A callback that would wait for its own task gets an error; one that throws fails the task.
  Ticket task;
  std::atomic<bool> submitted{false};
  std::atomic<bool> refused{false};
  Graph waiting;
  waiting.add_host("wait", [&] {
    while (!submitted) std::this_thread::sleep_for(50us);
    try {
      task.wait();
    } catch (const Error& error) {
      refused = error.kind() == errc::invalid_argument;
      throw;
    }
  });
  const GraphExec waits = runtime->instantiate(waiting);
  task = runtime->submit(repeat, waits, 1U);
  submitted = true;
  EXPECT_EQ(task.status(), status::threw);
  EXPECT_TRUE(refused);
  DWELL_EXPECT_ERROR(task.wait(), errc::task_failed,
                     HasSubstr("'wait' (callback) failed: its callback threw the callback of a host node waits for its own launch"));
}

TEST_P(GraphLaunchTest, LaunchesBesideManyNodes) {
  prepare();
  constexpr u32 kNodes = kSanitized ? 2000 : 20000;
  auto many = filled<u32>(*runtime, 1, 0);
  Graph graph;
  for (u32 i = 0; i < kNodes; ++i) graph.add(add, many, 0U, 1U);
  const GraphExec wide = runtime->instantiate(graph);
  auto cells = filled<u32>(*runtime, 3 + 50, 0);
  const GraphExec exec = guarded(cells, 50);
  auto tree = runtime->define<LaunchTree>("launch_tree", kLaunchTree);
  for (int i = 0; i < 3; ++i) {
    runtime->launch(wide);
    runtime->submit(tree, 5U, exec);
    runtime->submit(repeat, wide, 2U);
    runtime->submit(repeat, exec, 40U);
  }
  runtime->wait_all();
  EXPECT_EQ(read(many)[0], 9 * kNodes);
  expect_launches(cells, 3 * (32 + 40));
}

TEST_P(GraphLaunchTest, LaunchesHaveThePriorityOfTheirTask) {
  Options with = options();
  with.priorities = Priorities{};
  prepare(with);
  auto cells = filled<u32>(*runtime, 3 + 6, 0);
  const GraphExec exec = guarded(cells, 6);
  for (u32 i = 0; i < 200; ++i) {
    runtime->submit(repeat, exec, 3U, priority(i % 8));
    runtime->launch(exec, priority(7 - i % 8));
  }
  runtime->wait_all();
  expect_launches(cells, 800);
}

TEST_P(GraphLaunchTest, EverySubmitFunctionTakesAnExec) {
  prepare();
  auto cells = filled<u32>(*runtime, 3, 0);
  const GraphExec exec = guarded(cells, 0);
  const Operator<> untyped = runtime->define("untyped", std::string(kRepeat).replace(std::string(kRepeat).find("repeat"), 6, "untyped"));
  runtime->submit(untyped, exec, 1U);
  EXPECT_TRUE(runtime->try_submit(repeat, exec, 1U).has_value());
  Arguments arguments;
  arguments.add(exec).add(2U);
  runtime->submit(untyped, arguments);
  runtime->submit_many(repeat, 10, [&](std::size_t, const auto& put) { put(exec, 1U); });
  const Graph captured = runtime->capture([&] { runtime->submit(repeat, exec, 3U); });
  runtime->launch(runtime->instantiate(captured));
  const Ticket last = runtime->submit(repeat, exec, 1U, after(runtime->submit(nothing)));
  runtime->submit(repeat, exec, 1U, link).wait();
  last.wait();
  runtime->wait_all();
  expect_launches(cells, 1 + 1 + 2 + 10 + 3 + 1 + 1);
  // Larger than the ring holds.
  struct Large {
    u32 word[100];
  };
  auto large = runtime->define<void(Exec, Large)>("large", R"(
struct Large { dwell::u32 word[100]; };
DWELL_OPERATOR(large)(dwell::Group g, dwell::Exec exec, Large large) { for (dwell::u32 i = 0; i < large.word[99]; ++i) g.launch(exec); })");
  Large value{};
  value.word[99] = 2;
  runtime->submit(large, exec, value).wait();
  expect_launches(cells, 21);
}

}  // namespace
}  // namespace dwell::test
