#include "graph/times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/graph_layout.hpp"
#include "graph/dot.hpp"
#include "tests/unit/graph_plan.hpp"

namespace dwell::graph {
namespace {

using test::GraphPlan;
using testing::ElementsAre;
using testing::Pair;
using namespace std::chrono_literals;

Times times_of(const std::vector<std::pair<std::uint64_t, std::chrono::nanoseconds>>& nodes) {
  Times times;
  for (const auto& [runs, total] : nodes) times.nodes.push_back({runs, total});
  return times;
}

TEST(TimesTest, ClocksEncloseOperatorNodes) {
  GraphPlan plan;
  plan.add(0, {7}, 1, "a");
  plan.control();
  plan.add(1, {8, 9});
  plan.edge(0, 1);
  plan.edge(1, 2);
  const auto clocked = with_clocks(plan.data, 0x500000000);
  ASSERT_EQ(clocked.nodes.size(), 7U);
  EXPECT_THAT(clocked.edges, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(4, 5), Pair(5, 6), Pair(2, 3), Pair(3, 4)));
  for (const std::uint32_t clock : {0U, 2U, 4U, 6U}) {
    const auto& node = clocked.nodes[clock];
    ASSERT_EQ(node.op, detail::kClock);
    EXPECT_EQ(clocked.words[node.first_word], clock < 4 ? 0U : 2 * sizeof(device::NodeTime));
    EXPECT_EQ(clocked.words[node.first_word + 1], 5U);
    EXPECT_EQ(clocked.words[node.first_word + 2], clock % 4 == 0 ? 0U : 1U);
  }
  EXPECT_EQ(clocked.words[clocked.nodes[5].first_word + 1], 9U);
  EXPECT_EQ(clocked.text_of(1), "'a' (operator op0)");
}

TEST(TimesTest, BodiesKeepTheirShape) {
  const std::uint32_t value = 0;
  GraphPlan inner;
  inner.add(0);
  GraphPlan body;
  body.add(0);
  body.branch(detail::BranchKind::run_if, value, {&inner});
  GraphPlan plan;
  const auto loop = plan.branch(detail::BranchKind::repeat_while, value, {&body});
  const std::uint32_t behind = plan.add(1);
  plan.edge(loop.end, behind);
  const auto clocked = with_clocks(plan.data, 64);
  EXPECT_NO_THROW(clocked.check_bodies());
  EXPECT_NO_THROW(Layout{clocked});
  EXPECT_EQ(clocked.nodes.size(), plan.data.nodes.size() + 2 * 3);
  ASSERT_EQ(clocked.branches.size(), 2U);
  EXPECT_EQ(clocked.nodes[clocked.branches[1].node].op, detail::kBranch);
  EXPECT_EQ(clocked.nodes[clocked.branches[1].end].op, detail::kBranchEnd);
  EXPECT_EQ(clocked.nodes[clocked.branches[1].bodies[0].exit].op, detail::kClock);
}

TEST(TimesTest, CriticalPathIsTheLongestPath) {
  GraphPlan plan;
  for (int i = 0; i < 5; ++i) plan.add(0);
  plan.edge(0, 1);
  plan.edge(0, 2);
  plan.edge(1, 3);
  plan.edge(2, 3);
  EXPECT_THAT(critical_path(plan.data, times_of({{1, 10ns}, {1, 20ns}, {1, 30ns}, {1, 5ns}, {1, 40ns}})), ElementsAre(0U, 2U, 3U));
  EXPECT_THAT(critical_path(plan.data, times_of({{1, 10ns}, {1, 20ns}, {1, 30ns}, {1, 5ns}, {1, 46ns}})), ElementsAre(4U));
  EXPECT_THAT(critical_path(GraphPlan{}.data, times_of({})), ElementsAre());
}

TEST(TimesTest, CriticalPathLeadsThroughALoop) {
  const std::uint32_t value = 0;
  GraphPlan body;
  body.add(0);
  GraphPlan plan;
  const auto loop = plan.branch(detail::BranchKind::repeat_while, value, {&body});  // nodes 0 to 2
  const std::uint32_t behind = plan.add(0);
  plan.edge(loop.end, behind);
  EXPECT_THAT(critical_path(plan.data, times_of({{0, 0ns}, {9, 90ns}, {0, 0ns}, {1, 1ns}})), ElementsAre(0U, 1U, 2U, 3U));
}

TEST(TimesTest, DotShowsTimesAndThePathInBold) {
  GraphPlan plan;
  plan.add(0, {}, 1, "a");
  plan.add(0, {}, 7);
  plan.add(1);
  plan.edge(0, 1);
  plan.edge(0, 2);
  const Times times = times_of({{1, 320ns}, {200, 200 * 12'340ns}, {0, 0ns}});
  EXPECT_EQ(dot_of(plan.data, &times),
            "digraph {\n"
            "  label=\"measured 1970-01-01 00:00:00 UTC: 2.47 ms on the critical path\";\n"
            "  n0 [label=\"a\\nop0\\n320 ns\", style=bold];\n"
            "  n1 [label=\"op0\\n7 groups\\n200 x 12.3 us\", style=bold];\n"
            "  n2 [label=\"op1\"];\n"
            "  n0 -> n1 [style=bold];\n"
            "  n0 -> n2;\n"
            "}\n");
}

}  // namespace
}  // namespace dwell::graph
