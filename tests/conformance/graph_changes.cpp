// Execs of task graphs that change between launches: arguments, versions.
#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

class GraphChangesTest : public GraphSuite {};

TEST_P(GraphChangesTest, ArgumentsChangeBetweenLaunches) {
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
  expect_error(errc::signature_mismatch, HasSubstr("argument at index 2"), [&] { exec.set(node, 2, 1.0F); });
  expect_error(errc::invalid_argument, HasSubstr("does not exist"), [&] { exec.set(node, 3, 1U); });
}

TEST_P(GraphChangesTest, ManyArgumentsChangeAtOnce) {
  open();
  // As many changes as fit into a launch, and more.
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

TEST_P(GraphChangesTest, UpdateTakesOverArguments) {
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

TEST_P(GraphChangesTest, LaunchRunsCurrentVersions) {
  open();
  auto mark = runtime->define<Mark>("mark", mark_with(1));
  const auto cells = filled<u32>(*runtime, 1, 0);
  // The second exec has more nodes than changes fit into a launch.
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

TEST_P(GraphChangesTest, CancelledLaunchAppliesChanges) {
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

TEST_P(GraphChangesTest, ABufferThatWasReplacedIsWaitedForWhileALaunchNamesIt) {
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

DWELL_ON_EVERY_DEVICE(GraphChangesTest);

}  // namespace
}  // namespace dwell::test
