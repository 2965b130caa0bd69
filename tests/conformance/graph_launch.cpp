// Graphs that operators launch (Group::launch).
#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

// Launches a graph `count` times, all at once.
constexpr const char* kRepeat = R"(
DWELL_OPERATOR(repeat)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})";
using Repeat = void(Exec, u32);

// Launches two graphs by turns, `count` times each, every launch behind the one before.
constexpr const char* kTurns = R"(
DWELL_OPERATOR(turns)(dwell::Group g, dwell::Exec first, dwell::Exec second, dwell::u32 count) {
  dwell::Child last = g.launch(first);
  for (dwell::u32 i = 1; i < 2 * count; ++i) last = g.launch_after(last, i % 2 == 0 ? first : second);
})";
using Turns = void(Exec, Exec, u32);

// A tree of tasks, whose leaves launch the graph.
constexpr const char* kLaunchTree = R"(
DWELL_USES(launch_tree, dwell::u32, dwell::Exec)
DWELL_OPERATOR(launch_tree)(dwell::Group g, dwell::u32 levels, dwell::Exec exec) {
  if (levels == 0) { g.launch(exec); return; }
  g.spawn(uses::launch_tree, levels - 1, exec);
  g.spawn(uses::launch_tree, levels - 1, exec);
})";
using LaunchTree = void(u32, Exec);

// Cells of a graph that notes whether its launches overlap: those inside, overlaps seen, launches that have ended.
constexpr const char* kEnter = R"(
DWELL_OPERATOR(enter)(dwell::Group g, dwell::Span<dwell::u32> cells) {
  using namespace dwell::device;
  if (g.rank() == 0 && fetch_add<Order::acq_rel>(&cells[0], 1u) != 0) fetch_add<Order::relaxed>(&cells[1], 1u);
})";
constexpr const char* kExit = R"(
DWELL_OPERATOR(exit)(dwell::Group g, dwell::Span<dwell::u32> cells) {
  using namespace dwell::device;
  if (g.rank() != 0) return;
  fetch_add<Order::relaxed>(&cells[2], 1u);
  fetch_add<Order::acq_rel>(&cells[0], ~0u);
})";
using Cells = void(Span<u32>);

// Notes its version: log[0] counts the entries behind it.
std::string note_with(u32 value) {
  return "DWELL_OPERATOR(note)(dwell::Group g, dwell::Span<dwell::u32> log) {\n"
         "  using namespace dwell::device;\n"
         "  if (g.rank() == 0) log[1 + fetch_add<Order::relaxed>(&log[0], 1u)] = " +
         std::to_string(value) + "u;\n}\n";
}

// Says that it is there, and waits for the other.
constexpr const char* kMeet = R"(
DWELL_OPERATOR(meet)(dwell::Group g, dwell::Span<dwell::u32> flags, dwell::u32 mine) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    store<Order::release, Scope::device>(&flags[mine], 1u);
    const dwell::u64 start = now_ns();
    for (dwell::u32 round = 0; load<Order::acquire, Scope::device>(&flags[1 - mine]) == 0; ++round) {
      if (now_ns() - start > 20000000000ull) { g.fail(98); break; }
      relax(round);
    }
  }
  g.sync();
})";

class GraphLaunchTest : public GraphSuite {
 protected:
  void prepare(const Options& with) {
    open(with);
    repeat = runtime->define<Repeat>("repeat", kRepeat);
    enter = runtime->define<Cells>("enter", kEnter);
    exit = runtime->define<Cells>("exit", kExit);
  }
  void prepare() { prepare(options()); }

  // A graph of `width` nodes, each of which adds 1 to a cell of its own behind the first three, between two that see whether launches
  // overlap.
  GraphExec guarded(const Buffer<u32>& cells, u32 width) {
    Graph graph;
    const Node first = graph.add("enter", enter, cells);
    Node last = graph.add("exit", exit, cells);
    for (u32 i = 0; i < width; ++i) last.after(graph.add(add, cells, 3 + i, 1U).after(first));
    if (width == 0) last.after(first);
    return runtime->instantiate(graph);
  }
  // Each node has run once in each of `launches`, and no two of them overlapped.
  static void expect_launches(const Buffer<u32>& cells, u32 launches) {
    const std::vector<u32> found = read(cells);
    EXPECT_EQ(found[0], 0U);
    EXPECT_EQ(found[1], 0U) << "launches of one exec overlap";
    for (std::size_t i = 2; i < found.size(); ++i) EXPECT_EQ(found[i], launches) << "cell " << i;
  }

  Operator<Repeat> repeat;
  Operator<Cells> enter;
  Operator<Cells> exit;
};
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
  auto both = runtime->define<void(Exec, Span<u32>)>("both", R"(
DWELL_USES(copy_cell, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_OPERATOR(both)(dwell::Group g, dwell::Exec exec, dwell::Span<dwell::u32> cells) {
  const dwell::Child before = g.spawn(uses::copy_cell, cells, 3, 4);
  const dwell::Child launched = g.launch_after(before, exec);
  g.spawn_after({before, launched}, uses::copy_cell, cells, 2, 5);
  g.then(uses::copy_cell, cells, 5, 6);
})");
  auto cells = filled<u32>(*runtime, 7, 0);
  cells.write(std::vector<u32>{0, 0, 0, 9, 0, 0, 0});
  const GraphExec exec = guarded(cells, 0);
  runtime->submit(both, exec, cells).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{0, 0, 1, 9, 9, 1, 1}));
}

TEST_P(GraphLaunchTest, LaunchesBehindEachOther) {
  prepare();
  auto turns = runtime->define<Turns>("turns", kTurns);
  auto number = filled<u32>(*runtime, 1, 0);
  GraphExec execs[2];
  for (u32 i = 0; i < 2; ++i) {
    Graph chain;
    chain.add("second", append, number, 2 * i + 2).after(chain.add("first", append, number, 2 * i + 1));
    execs[i] = runtime->instantiate(chain);
  }
  constexpr u32 kCount = 100;
  runtime->submit(turns, execs[0], execs[1], kCount).wait();
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
  auto all = runtime->define<void(Exec, Exec, Exec, Exec)>("all", R"(
DWELL_OPERATOR(all)(dwell::Group g, dwell::Exec a, dwell::Exec b, dwell::Exec c, dwell::Exec d) {
  g.launch(a); g.launch(b); g.launch(c); g.launch(d);
})");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread)
    threads.emplace_back([&] {
      for (u32 i = 0; i < kRounds; ++i) {
        runtime->submit(all, execs[0], execs[1], execs[2], execs[3]);
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
  auto meet = runtime->define<void(Span<u32>, u32)>("meet", kMeet);
  auto both = runtime->define<void(Exec, Exec)>("both", R"(
DWELL_OPERATOR(both)(dwell::Group g, dwell::Exec a, dwell::Exec b) { g.launch(a); g.launch(b); })");
  auto flags = filled<u32>(*runtime, 2, 0);
  GraphExec execs[2];
  for (u32 i = 0; i < 2; ++i) {
    Graph graph;
    graph.add("meet", meet, flags, i);
    execs[i] = runtime->instantiate(graph);
  }
  runtime->submit(both, execs[0], execs[1]).wait();
  flags.write(std::vector<u32>{0, 0});
  runtime->submit(repeat, execs[0], 1U);
  runtime->submit(repeat, execs[1], 1U);
  EXPECT_NO_THROW(runtime->wait_all());
}

TEST_P(GraphLaunchTest, AFailedNodeFailsTheTaskAndTheNextLaunchStartsAfresh) {
  prepare();
  auto cells = filled<u32>(*runtime, 2, 0);
  Graph graph;
  const Node failing = graph.add("failing", fail, 7);
  graph.add("behind", add, cells, 0U, 1U).after(failing);
  graph.add("beside", add, cells, 1U, 1U);
  GraphExec exec = runtime->instantiate(graph);
  const Ticket ticket = runtime->submit(repeat, exec, 2U);
  EXPECT_EQ(ticket.status(), 7);
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed,
                     AllOf(HasSubstr("operator repeat"), HasSubstr("failed with code 7"),
                           HasSubstr("; the first node to fail in graphs that operators launched for it: 'failing' (operator fail) failed "
                                     "with code 7")));
  EXPECT_EQ(read(cells), (std::vector<u32>{0, 2}));
  exec.set(failing, 0, 0);
  runtime->submit(repeat, exec, 2U).wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{2, 4}));
  exec.set(failing, 0, 3);
  const Ticket linked = [&] {
    runtime->submit(repeat, exec, 1U);
    return runtime->submit(nothing, link);
  }();
  EXPECT_EQ(linked.status(), status::cancelled);
  // The host's launches beside them keep their errors apart.
  const Ticket launch = runtime->launch(exec);
  DWELL_EXPECT_ERROR(launch.wait(), errc::task_failed, AllOf(HasSubstr("'failing'"), Not(HasSubstr("operators launched"))));
}

TEST_P(GraphLaunchTest, TheNodeThatFailedInADeepLaunchIsNamed) {
  prepare();
  auto tree = runtime->define<LaunchTree>("launch_tree", kLaunchTree);
  const auto inside = [](const std::string& text) {
    return HasSubstr("; the first node to fail in graphs that operators launched for it: " + text);
  };
  Ticket ticket;
  {
    Graph inner;
    inner.add("deep", fail, 5);
    Graph middle;
    middle.add("launches", tree, 1U, runtime->instantiate(inner));
    const GraphExec exec = runtime->instantiate(middle);
    ticket = runtime->submit(tree, 2U, exec);
    const Ticket launch = runtime->launch(exec);
    DWELL_EXPECT_ERROR(launch.wait(), errc::task_failed,
                       AllOf(HasSubstr("of a graph: node 'launches' (operator launch_tree) failed with code 5"),
                             inside("'deep' (operator fail) failed with code 5")));
  }
  runtime->wait_all();
  // The execs may have gone.
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed,
                     AllOf(HasSubstr("operator launch_tree"), inside("'deep' (operator fail) failed with code 5")));
}

TEST_P(GraphLaunchTest, ATaskThatFailsByItselfNamesNoNodeOfAnother) {
  Options few = options();
  few.ring_slots = 128;
  prepare(few);
  auto both = runtime->define<void(Exec, u32)>("both", R"(
DWELL_OPERATOR(both)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
  g.fail(3);
})");
  Graph graph;
  graph.add("failing", fail, 7);
  const GraphExec exec = runtime->instantiate(graph);
  // At each place of the ring, one behind the other.
  for (u32 i = 0; i < few.ring_slots; ++i) EXPECT_EQ(runtime->submit(repeat, exec, 1U).status(), 7);
  for (u32 i = 0; i < few.ring_slots; ++i)
    DWELL_EXPECT_ERROR(runtime->submit(both, exec, 0U).wait(), errc::task_failed,
                       AllOf(HasSubstr("failed with code 3"), Not(HasSubstr("operators launched"))));
  // Its own failure comes first; the node has failed all the same.
  DWELL_EXPECT_ERROR(runtime->submit(both, exec, 1U).wait(), errc::task_failed,
                     AllOf(HasSubstr("(version 1) failed with code 3; "), HasSubstr("'failing' (operator fail) failed with code 7")));
}

TEST_P(GraphLaunchTest, ATaskStandsBehindTheChangeOfItsExec) {
  prepare();
  runtime->define<Hold>("hold", kHold);
  auto late = runtime->define<void(Exec, Span<u32>)>("late", R"(
DWELL_USES(hold, dwell::Span<dwell::u32>)
DWELL_OPERATOR(late)(dwell::Group g, dwell::Exec exec, dwell::Span<dwell::u32> latch) {
  g.launch_after(g.spawn(uses::hold, latch), exec);
})");
  auto number = filled<u32>(*runtime, 1, 0);
  Latch latch(*runtime);
  runtime->submit(nothing);
  runtime->submit(nothing, link);  // tasks are waited for by word from here on, not by drains
  Graph graph;
  const Node node = graph.add(append, number, 1U);
  GraphExec exec = runtime->instantiate(graph);
  const Ticket holds = runtime->submit(late, exec, latch.words());
  latch.await();
  exec.set(node, 1, 2U);  // comes with a launch of no nodes, as other versions do
  const Ticket task = runtime->submit(repeat, exec, 1U);
  EXPECT_FALSE(task.wait_for(20ms)) << "the task before is to launch the graph as it was";
  latch.release();
  holds.wait();
  task.wait();
  EXPECT_EQ(read(number)[0], 1U * 31 + 2);
}

TEST_P(GraphLaunchTest, ATaskLaunchesTheVersionsOfItsTime) {
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
  // Each launch is of one version, and versions only grow, since tasks are ordered by them.
  for (u32 i = 1; i <= found[0]; i += 2) ASSERT_EQ(found[i], found[i + 1]) << i;
  EXPECT_TRUE(std::is_sorted(found.begin() + 1, found.begin() + 1 + found[0]));
  EXPECT_EQ(found[found[0]], kVersions);
}

TEST_P(GraphLaunchTest, ArgumentsAreThoseOfTheTasksTime) {
  prepare();
  auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node first = graph.add(append, number, 1U);
  const Node second = graph.add(append, number, 1U).after(first);
  GraphExec exec = runtime->instantiate(graph);
  u32 expected = 0;
  // More tasks than one can wait for; every second time the change comes with a launch of the host.
  for (u32 i = 1; i <= 12; ++i) {
    exec.set(first, 1, i);
    exec.set(second, 1, i);
    if (i % 2 == 0) runtime->launch(exec);
    for (u32 task = 0; task < 40; ++task) runtime->submit(repeat, exec, 2U);
    for (u32 launch = 0; launch < 80 + (i % 2 == 0 ? 1 : 0); ++launch) expected = (expected * 31 + i) * 31 + i;
  }
  EXPECT_EQ(read(number)[0], expected);
}

TEST_P(GraphLaunchTest, ManyChangesTravel) {
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

TEST_P(GraphLaunchTest, AnExecLivesAsLongAsItsTask) {
  prepare();
  for (int i = 0; i < 20; ++i) {
    auto cells = filled<u32>(*runtime, 3 + 9, 0);
    Ticket ticket;
    {
      const GraphExec exec = guarded(cells, 9);
      ticket = runtime->submit(repeat, exec, 5U);
    }
    ticket.wait();
    expect_launches(cells, 5);
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
    Graph whole;  // a sub-graph hands its graphs on
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

TEST_P(GraphLaunchTest, ALaunchThatWouldWaitForItselfIsRefused) {
  prepare();
  auto store = runtime->define<void(Span<Exec>, Exec, u32)>("store", R"(
DWELL_OPERATOR(store)(dwell::Group g, dwell::Span<dwell::Exec> to, dwell::Exec exec, dwell::u32 count) {
  if (g.rank() == 0) to[0] = exec;
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})");
  auto again = runtime->define<void(Span<Exec>, u32)>("again", R"(
DWELL_USES(again, dwell::Span<dwell::Exec>, dwell::u32)
DWELL_OPERATOR(again)(dwell::Group g, dwell::Span<dwell::Exec> from, dwell::u32 depth) {
  if (depth != 0) g.spawn(uses::again, from, depth - 1);
  else g.launch(from[0]);
})");
  auto memory = runtime->allocate<Exec>(1);
  auto cells = filled<u32>(*runtime, 1, 0);
  GraphExec execs[2];
  {
    Graph graph;
    graph.add(add, cells, 0U, 1U).after(graph.add(again, memory, 2U));
    execs[0] = runtime->instantiate(graph);
    Graph around;
    around.add(repeat, execs[0], 1U);
    execs[1] = runtime->instantiate(around);
  }
  EXPECT_EQ(runtime->submit(store, memory, execs[0], 1U).status(), status::launch_refused);
  DWELL_EXPECT_ERROR(runtime->submit(store, memory, execs[0], 2U).wait(), errc::task_failed, HasSubstr("descends from a launch"));
  runtime->submit(store, memory, execs[1], 0U).wait();  // what execs[0] launches now is the one that launches it
  EXPECT_EQ(runtime->launch(execs[1]).status(), status::launch_refused);
  EXPECT_EQ(runtime->submit(repeat, execs[1], 1U).status(), status::launch_refused);
  EXPECT_EQ(runtime->submit(repeat, execs[0], 1U).status(), status::launch_refused) << "through the other one";
  EXPECT_EQ(read(cells)[0], 0U);
}

TEST_P(GraphLaunchTest, WideTasksLaunchNothing) {
  prepare();
  auto cells = filled<u32>(*runtime, 3, 0);
  const GraphExec exec = guarded(cells, 0);
  EXPECT_EQ(runtime->submit(repeat, exec, 1U, groups(3)).status(), status::spawn_refused);
  EXPECT_EQ(read(cells)[2], 0U);
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

  // A callback that would wait for its own task is told so, and one that throws fails the task.
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

TEST_P(GraphLaunchTest, ALaunchInLineCanBeCancelled) {
  prepare();
  auto hold = runtime->define<Hold>("hold", kHold);
  auto cells = filled<u32>(*runtime, 1, 0);
  Latch latch(*runtime);
  Graph graph;
  graph.add(add, cells, 0U, 1U).after(graph.add(hold, latch.words()));
  const GraphExec exec = runtime->instantiate(graph);
  const Ticket task = runtime->submit(repeat, exec, 1U);
  latch.await();
  const Ticket first = runtime->launch(exec);
  const Ticket second = runtime->launch(exec, after_any_result(first));
  const Ticket later = runtime->submit(repeat, exec, 2U);
  EXPECT_FALSE(first.done());
  EXPECT_NE(to_string(runtime->diagnose()).find("ticket"), std::string::npos);
  EXPECT_TRUE(runtime->cancel(first));
  latch.release();
  task.wait();
  // It may have had its turn before the device saw the cancel.
  const int status = first.status();
  EXPECT_TRUE(status == status::cancelled || status == status::ok) << status;
  second.wait();
  later.wait();
  EXPECT_EQ(read(cells)[0], status == status::ok ? 5U : 4U);
}

TEST_P(GraphLaunchTest, ADiagnosisSaysWhoseNodesRunWhereOneAloneMayLaunchThem) {
  prepare();
  auto hold = runtime->define<Hold>("hold", kHold);
  Latch latches[2] = {Latch(*runtime), Latch(*runtime)};
  Graph graph;
  const Node first = graph.add(nothing);
  for (const Latch& latch : latches) graph.add("held", hold, latch.words()).after(first);
  const GraphExec exec = runtime->instantiate(graph);
  const Ticket task = runtime->submit(repeat, exec, 1U);
  for (const Latch& latch : latches) latch.await();
  // One of the two has come to its worker through the ready queue.
  Diagnosis found = runtime->diagnose();
  ASSERT_EQ(found.tasks.size(), 1U);
  EXPECT_EQ(found.tasks[0].doing, Doing::runs);
  EXPECT_THAT(to_string(found), HasSubstr("(at or behind node 'held' (operator hold))"));
  const Ticket launch = runtime->launch(exec);
  // Until a worker has put it in line, that one runs it.
  EXPECT_TRUE(eventually([&] {
    found = runtime->diagnose();
    return found.tasks.size() == 2 && found.tasks[1].doing == Doing::waits_to_run;
  }));
  ASSERT_EQ(found.tasks.size(), 2U);
  EXPECT_TRUE(found.tasks[1].workers.empty());
  EXPECT_THAT(found.tasks[1].named,
              testing::ElementsAre(HasSubstr("node 'held' (operator hold), for one of tickets " + std::to_string(task.position()) + ", " +
                                             std::to_string(launch.position()))));
  for (Latch& latch : latches) latch.release();
  launch.wait();
}

TEST_P(GraphLaunchTest, BuffersOfALaunchedGraphAreWaitedFor) {
  prepare();
  auto spin = runtime->define<Spin>("spin", kSpin);
  auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  graph.add(add, cells, 0U, 1U).after(graph.add(spin, std::uint64_t{2000000}));
  const GraphExec exec = runtime->instantiate(graph);
  runtime->submit(repeat, exec, 3U);
  EXPECT_EQ(read(cells)[0], 3U);
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

TEST_P(GraphLaunchTest, AllWaysToSubmitTakeAnExec) {
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
  // Beyond what the ring holds.
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

TEST_P(GraphLaunchTest, WhatCannotBeLaunched) {
  prepare();
  auto cells = filled<u32>(*runtime, 3, 0);
  const GraphExec exec = guarded(cells, 0);
  DWELL_EXPECT_ERROR(runtime->submit(repeat, GraphExec(), 1U), errc::invalid_argument, HasSubstr("the GraphExec is empty"));
  Runtime other(options());
  auto theirs = other.define<Repeat>("repeat", kRepeat);
  DWELL_EXPECT_ERROR(other.submit(theirs, exec, 1U), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  Arguments arguments;
  arguments.add(exec).add(1U);
  const Operator<> untyped = other.define("untyped", std::string(kRepeat).replace(std::string(kRepeat).find("repeat"), 6, "untyped"));
  DWELL_EXPECT_ERROR(other.submit(untyped, arguments), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  Graph graph;
  DWELL_EXPECT_ERROR(graph.add(theirs, exec, 1U), errc::invalid_argument, HasSubstr("belongs to another runtime"));
  const Operator<> mine = runtime->define("untyped", std::string(kRepeat).replace(std::string(kRepeat).find("repeat"), 6, "untyped"));
  DWELL_EXPECT_ERROR(runtime->submit(mine, 1U, 1U), errc::signature_mismatch, HasSubstr("argument 1 is u32 where Exec is needed"));
  DWELL_EXPECT_ERROR(runtime->submit(mine, std::uint64_t{1}, 1U), errc::signature_mismatch, HasSubstr("(Exec, u32)"));
  const std::byte bytes[8] = {};
  DWELL_EXPECT_ERROR(Arguments().add(Parameter{Kind::exec, Kind::structure, 8}, bytes), errc::invalid_argument, HasSubstr("a GraphExec"));
  const Operator<> plain = runtime->define("plain", "DWELL_OPERATOR(plain)(dwell::Group, dwell::u64) {}");
  DWELL_EXPECT_ERROR(runtime->submit(plain, exec), errc::signature_mismatch, HasSubstr("argument 1 is Exec where u64 is needed"));
  // Graphs of two runtimes, or of nodes that launch others, are told apart.
  Graph launching;
  launching.add(repeat, exec, 1U);
  GraphExec one = runtime->instantiate(launching);
  Graph similar;
  similar.add(repeat, guarded(cells, 0), 1U);
  DWELL_EXPECT_ERROR(one.update(similar), errc::invalid_argument, HasSubstr("its nodes launch other graphs"));
  runtime->close();
  DWELL_EXPECT_ERROR(other.submit(theirs, exec, 1U), errc::stale_handle, HasSubstr("graph"));
}

TEST_P(GraphLaunchTest, ClosingEndsLaunchesInLine) {
  prepare();
  auto hold = runtime->define<Hold>("hold", kHold);
  Latch latch(*runtime);
  Graph graph;
  graph.add(hold, latch.words());
  const GraphExec exec = runtime->instantiate(graph);
  runtime->submit(repeat, exec, 3U);
  latch.await();
  const Ticket launch = runtime->launch(exec);
  const Ticket task = runtime->submit(repeat, exec, 1U);
  std::thread releases([&] {
    std::this_thread::sleep_for(5ms);
    latch.release();
  });
  runtime->close(Close::now);
  releases.join();
  EXPECT_EQ(launch.status(), status::cancelled);
  EXPECT_EQ(task.status(), status::cancelled);
}

}  // namespace
}  // namespace dwell::test
