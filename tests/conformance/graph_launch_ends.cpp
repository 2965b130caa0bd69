// Failures, refusals, cancellation and shutdown of launches by operators.
#include "tests/conformance/graph_launch_suite.hpp"

namespace dwell::test {
namespace {

class GraphLaunchEndsTest : public GraphLaunchSuite {};
DWELL_ON_EVERY_DEVICE(GraphLaunchEndsTest);

TEST_P(GraphLaunchEndsTest, AFailedNodeFailsTheTaskAndTheNextLaunchStartsAfresh) {
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
  // Launches from the host keep their errors separate.
  const Ticket launch = runtime->launch(exec);
  DWELL_EXPECT_ERROR(launch.wait(), errc::task_failed, AllOf(HasSubstr("'failing'"), Not(HasSubstr("operators launched"))));
}

TEST_P(GraphLaunchEndsTest, FailedNodeOfADeepLaunchIsNamed) {
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
  // The execs may be destroyed.
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed,
                     AllOf(HasSubstr("operator launch_tree"), inside("'deep' (operator fail) failed with code 5")));
}

TEST_P(GraphLaunchEndsTest, OwnFailureNamesNoNode) {
  Options few = options();
  few.ring_slots = 128;
  prepare(few);
  auto launch_and_fail = runtime->define<void(Exec, u32)>("launch_and_fail", R"(
DWELL_OPERATOR(launch_and_fail)(dwell::Group g, dwell::Exec exec, dwell::u32 count) {
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
  g.fail(3);
})");
  Graph graph;
  graph.add("failing", fail, 7);
  const GraphExec exec = runtime->instantiate(graph);
  // Once for each position of the ring.
  for (u32 i = 0; i < few.ring_slots; ++i) EXPECT_EQ(runtime->submit(repeat, exec, 1U).status(), 7);
  for (u32 i = 0; i < few.ring_slots; ++i)
    DWELL_EXPECT_ERROR(runtime->submit(launch_and_fail, exec, 0U).wait(), errc::task_failed,
                       AllOf(HasSubstr("failed with code 3"), Not(HasSubstr("operators launched"))));
  // The task's own failure comes first, though the node failed too.
  DWELL_EXPECT_ERROR(runtime->submit(launch_and_fail, exec, 1U).wait(), errc::task_failed,
                     AllOf(HasSubstr("(version 1) failed with code 3; "), HasSubstr("'failing' (operator fail) failed with code 7")));
}

TEST_P(GraphLaunchEndsTest, AnExecLivesAsLongAsItsTask) {
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

TEST_P(GraphLaunchEndsTest, ALaunchThatWouldWaitForItselfIsRefused) {
  prepare();
  auto store = runtime->define<void(Span<Exec>, Exec, u32)>("store", R"(
DWELL_OPERATOR(store)(dwell::Group g, dwell::Span<dwell::Exec> to, dwell::Exec exec, dwell::u32 count) {
  if (g.rank() == 0) to[0] = exec;
  for (dwell::u32 i = 0; i < count; ++i) g.launch(exec);
})");
  auto launch_stored = runtime->define<void(Span<Exec>, u32)>("launch_stored", R"(
DWELL_USES(launch_stored, dwell::Span<dwell::Exec>, dwell::u32)
DWELL_OPERATOR(launch_stored)(dwell::Group g, dwell::Span<dwell::Exec> from, dwell::u32 depth) {
  if (depth != 0) g.spawn(uses::launch_stored, from, depth - 1);
  else g.launch(from[0]);
})");
  auto memory = runtime->allocate<Exec>(1);
  auto cells = filled<u32>(*runtime, 1, 0);
  GraphExec execs[2];
  {
    Graph graph;
    graph.add(add, cells, 0U, 1U).after(graph.add(launch_stored, memory, 2U));
    execs[0] = runtime->instantiate(graph);
    Graph around;
    around.add(repeat, execs[0], 1U);
    execs[1] = runtime->instantiate(around);
  }
  EXPECT_EQ(runtime->submit(store, memory, execs[0], 1U).status(), status::launch_refused);
  DWELL_EXPECT_ERROR(runtime->submit(store, memory, execs[0], 2U).wait(), errc::task_failed, HasSubstr("descends from a launch"));
  runtime->submit(store, memory, execs[1], 0U).wait();  // execs[0] now launches the exec that launches it
  EXPECT_EQ(runtime->launch(execs[1]).status(), status::launch_refused);
  EXPECT_EQ(runtime->submit(repeat, execs[1], 1U).status(), status::launch_refused);
  EXPECT_EQ(runtime->submit(repeat, execs[0], 1U).status(), status::launch_refused) << "through the other one";
  EXPECT_EQ(read(cells)[0], 0U);
}

TEST_P(GraphLaunchEndsTest, WideTasksLaunchNothing) {
  prepare();
  auto cells = filled<u32>(*runtime, 3, 0);
  const GraphExec exec = guarded(cells, 0);
  EXPECT_EQ(runtime->submit(repeat, exec, 1U, groups(3)).status(), status::spawn_refused);
  EXPECT_EQ(read(cells)[2], 0U);
}

TEST_P(GraphLaunchEndsTest, QueuedLaunchCanBeCancelled) {
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
  // Its turn may have come before the device saw the cancel.
  const int status = first.status();
  EXPECT_TRUE(status == status::cancelled || status == status::ok) << status;
  second.wait();
  later.wait();
  EXPECT_EQ(read(cells)[0], status == status::ok ? 5U : 4U);
}

TEST_P(GraphLaunchEndsTest, DiagnosisAttributesNodesToTheirOnlyLauncher) {
  prepare();
  auto hold = runtime->define<Hold>("hold", kHold);
  Latch latches[2] = {Latch(*runtime), Latch(*runtime)};
  Graph graph;
  const Node first = graph.add(nothing);
  for (const Latch& latch : latches) graph.add("held", hold, latch.words()).after(first);
  const GraphExec exec = runtime->instantiate(graph);
  const Ticket task = runtime->submit(repeat, exec, 1U);
  for (const Latch& latch : latches) latch.await();
  // One of the two nodes came to its worker through the ready queue.
  Diagnosis found = runtime->diagnose();
  ASSERT_EQ(found.tasks.size(), 1U);
  EXPECT_EQ(found.tasks[0].doing, Doing::runs);
  EXPECT_THAT(to_string(found), HasSubstr("(at or behind node 'held' (operator hold))"));
  const Ticket launch = runtime->launch(exec);
  // Until a worker has queued it, that worker runs it.
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

TEST_P(GraphLaunchEndsTest, BuffersOfALaunchedGraphAreWaitedFor) {
  prepare();
  auto spin = runtime->define<Spin>("spin", kSpin);
  auto cells = filled<u32>(*runtime, 1, 0);
  Graph graph;
  graph.add(add, cells, 0U, 1U).after(graph.add(spin, std::uint64_t{2000000}));
  const GraphExec exec = runtime->instantiate(graph);
  runtime->submit(repeat, exec, 3U);
  EXPECT_EQ(read(cells)[0], 3U);
}

TEST_P(GraphLaunchEndsTest, InvalidLaunchesAreRefused) {
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
  // Graphs of two runtimes, or of nodes that launch other graphs, differ.
  Graph launching;
  launching.add(repeat, exec, 1U);
  GraphExec one = runtime->instantiate(launching);
  Graph similar;
  similar.add(repeat, guarded(cells, 0), 1U);
  DWELL_EXPECT_ERROR(one.update(similar), errc::invalid_argument, HasSubstr("its nodes launch other graphs"));
  runtime->close();
  DWELL_EXPECT_ERROR(other.submit(theirs, exec, 1U), errc::stale_handle, HasSubstr("graph"));
}

TEST_P(GraphLaunchEndsTest, CloseEndsQueuedLaunches) {
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
  // Its operator may have run; its launch is then queued.
  EXPECT_THAT(task.status(), testing::AnyOf(status::cancelled, status::interrupted));
}

}  // namespace
}  // namespace dwell::test
