// Large and long task graphs, across leases and parks.
#include "tests/conformance/dag_suite.hpp"

namespace dwell::test {
namespace {

class GraphSizeTest : public DagSuite {};

inline constexpr u32 kMillion = kSanitized ? 100'000 : 1'000'000;
inline constexpr u32 kMany = kSanitized ? 10'000 : 100'000;

TEST_P(GraphSizeTest, AChainOfAMillion) {
  open();
  Graph graph;
  const auto number = filled<u32>(*runtime, 1, 0);
  Node last = graph.add(append, number, 0U);
  for (u32 i = 1; i < kMillion; ++i) last = graph.add(append, number, i).after(last);
  runtime->launch(runtime->instantiate(graph)).wait();
  EXPECT_EQ(read(number)[0], appended(kMillion));
}

TEST_P(GraphSizeTest, AMillionNodes) {
  open();
  const Dag dag = random_dag(kMillion, 4, 11, 5000);
  const GraphExec exec = runtime->instantiate(dag.graph);
  EXPECT_EQ(exec.size(), kMillion);
  runtime->launch(exec).wait();
  check_order(dag);
}

TEST_P(GraphSizeTest, FanOutAndFanInOfVeryMany) {
  open();
  auto cells = filled<u32>(*runtime, 3, 0);
  // Checks that all earlier nodes have run.
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

TEST_P(GraphSizeTest, AThousandExecsInFlight) {
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

// ---- Across leases ---------------------------------------------------------------------------------------------------------------

TEST_P(GraphSizeTest, LongChainsLetLeasesRoll) {
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
  const auto before = runtime->metrics().leases;
  runtime->launch(exec).wait();
  EXPECT_EQ(read(number)[0], appended(kCount));
  EXPECT_GT(runtime->metrics().leases, before);
}

TEST_P(GraphSizeTest, GraphsWithoutChainsLetLeasesRoll) {
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
    // Each node waits for the two before it.
    Node node = graph.add(stamp, clock, began, ended, i, u64{10'000});
    if (i >= 2) node.after(last[0], last[1]);
    last[i % 2] = node;
  }
  const GraphExec exec = runtime->instantiate(graph);
  const auto before = runtime->metrics().leases;
  runtime->launch(exec).wait();
  EXPECT_EQ(read(clock)[0], 2 * kCount);
  EXPECT_GT(runtime->metrics().leases, before + 1);
}

TEST_P(GraphSizeTest, GraphsSurviveParks) {
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

DWELL_ON_EVERY_DEVICE(GraphSizeTest);

}  // namespace
}  // namespace dwell::test
