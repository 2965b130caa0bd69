// Launches of task graphs among tasks and other launches.
#include <thread>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class GraphOrderTest : public GraphSuite {};

TEST_P(GraphOrderTest, LaunchesOfOneExecFollowEachOther) {
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

TEST_P(GraphOrderTest, DifferentExecsOverlap) {
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

TEST_P(GraphOrderTest, LaunchesFollowTheOrderOfTasks) {
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

TEST_P(GraphOrderTest, LaunchesWaitForTicketsAndAreWaitedFor) {
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

TEST_P(GraphOrderTest, ALaunchBehindAFailureIsCancelled) {
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

TEST_P(GraphOrderTest, FailedLaunchCancelsLinkedTasks) {
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

TEST_P(GraphOrderTest, SeveralThreadsLaunch) {
  open();
  constexpr u32 kThreads = 4;
  const u32 rounds = kSanitized ? 100 : 1000;
  const auto shared_cell = filled<u32>(*runtime, 1, 0);
  const auto cells = filled<u32>(*runtime, kThreads, 0);
  Graph common;  // concurrent launches of its two nodes would lose counts
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

// A CPU worker inside a graph polls for other tasks; on CUDA other workers do. Otherwise the last node would wait for ever.
TEST_P(GraphOrderTest, ATaskDoesNotWaitForTheEndOfALongLaunch) {
  Options few = options();
  if (on_cpu()) few.workers = 1;
  open(few);
  const auto hold = runtime->define<Hold>("hold", kHold);
  const auto spin = runtime->define<Spin>("spin", kSpin);
  for (const bool is_chain : {true, false}) {
    Latch first(*runtime);
    Latch last(*runtime);
    Graph graph;
    const Node begin = graph.add(hold, first.words());
    Node end = graph.add(hold, last.words());
    Node before = begin;
    for (int i = 0; i < 2000; ++i) {
      Node node = graph.add(spin, u64{50'000});
      node.after(is_chain ? before : begin);
      if (!is_chain) end.after(node);
      before = node;
    }
    end.after(before);
    const Ticket launch = runtime->launch(runtime->instantiate(graph));
    first.await();
    const Ticket task = runtime->submit(nothing);
    first.release();
    task.wait();
    last.release();
    launch.wait();
  }
}

TEST_P(GraphOrderTest, NodesRunBesideALongOneWhileTheRingIsBlocked) {
  open();
  const auto hold = runtime->define<Hold>("hold", kHold);
  Latch latch(*runtime);
  const auto cells = runtime->allocate<u32>(1, Memory::host);
  cells.host()[0] = 0;
  Graph graph;
  const Node root = graph.add(nothing);
  graph.add(hold, latch.words()).after(root);  // the root's worker continues with this one
  for (int i = 0; i < 3; ++i) graph.add(add, cells, 0U, 1U).after(root);
  const Ticket launch = runtime->launch(runtime->instantiate(graph));
  const Ticket behind = runtime->submit(nothing, drain);
  latch.await();
  while (std::atomic_ref(cells.host()[0]).load() != 3) std::this_thread::yield();
  EXPECT_FALSE(launch.done());
  EXPECT_FALSE(behind.done());
  latch.release();
  behind.wait();
  EXPECT_TRUE(launch.done());
}

TEST_P(GraphOrderTest, AnExecMayBeDroppedWhileItIsInFlight) {
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

DWELL_ON_EVERY_DEVICE(GraphOrderTest);

}  // namespace
}  // namespace dwell::test
