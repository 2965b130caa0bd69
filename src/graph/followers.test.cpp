#include "graph/followers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_plan.hpp"

namespace dwell::graph {
namespace {

using test::GraphPlan;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::uint32_t> behind(const GraphPlan& plan, std::uint32_t node, std::size_t most = 64) {
  return followers(plan.data, Layout(plan.data), node, most);
}

TEST(FollowersTest, AreSuccessorsWithOperators) {
  GraphPlan plan;
  for (std::uint32_t i = 0; i < 4; ++i) plan.add(0);
  for (const std::uint32_t i : {1, 2, 3}) plan.edge(0, i);
  plan.edge(1, 3);
  EXPECT_THAT(behind(plan, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(behind(plan, 1), ElementsAre(3));
  EXPECT_THAT(behind(plan, 3), IsEmpty());
  EXPECT_THAT(behind(plan, 0, 2), ElementsAre(1, 2));
}

TEST(FollowersTest, ControlNodesAndHostNodesAreSkipped) {
  GraphPlan plan;
  const std::uint32_t first = plan.add(0);
  const std::uint32_t control = plan.control();
  const std::uint32_t host = plan.control(detail::kHostNode);
  const std::uint32_t left = plan.add(0);
  const std::uint32_t right = plan.add(0);
  plan.edge(first, control);
  plan.edge(first, left);
  plan.edge(control, left);
  plan.edge(control, host);
  plan.edge(host, right);
  EXPECT_THAT(behind(plan, first), UnorderedElementsAre(left, right)) << "each once";
}

TEST(FollowersTest, ConditionalNodesAreNotSkipped) {
  const std::uint32_t value = 0;
  GraphPlan body;
  body.add(0);
  body.edge(0, body.add(0));
  GraphPlan plan;
  const std::uint32_t before = plan.add(0);
  const auto loop = plan.branch(detail::BranchKind::repeat_while, value, {&body});
  const std::uint32_t after = plan.add(0);
  plan.edge(before, loop.node);
  plan.edge(loop.end, after);
  const std::uint32_t inner = loop.bodies.front().first;
  EXPECT_THAT(behind(plan, before), IsEmpty());
  EXPECT_THAT(behind(plan, inner), ElementsAre(inner + 1));
  EXPECT_THAT(behind(plan, inner + 1), IsEmpty()) << "it leads back, or out";
}

TEST(FollowersTest, FirstNodesWaitForNoOperator) {
  const std::uint32_t value = 0;
  GraphPlan body;
  body.add(0);
  GraphPlan plan;
  EXPECT_THAT(first_nodes(plan.data, Layout(plan.data), 64), IsEmpty());
  const std::uint32_t control = plan.control();
  const std::uint32_t first = plan.add(0);
  const std::uint32_t behind = plan.add(0);
  const std::uint32_t last = plan.add(0);
  plan.edge(control, behind);
  plan.edge(first, last);
  plan.branch(detail::BranchKind::run_if, value, {&body});
  EXPECT_THAT(first_nodes(plan.data, Layout(plan.data), 64), UnorderedElementsAre(first, behind));
  EXPECT_THAT(first_nodes(plan.data, Layout(plan.data), 1), testing::SizeIs(1));
}

TEST(FollowersTest, ASearchAmongManyControlNodesEnds) {
  GraphPlan plan;
  const std::uint32_t first = plan.add(0);
  std::uint32_t before = first;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t control = plan.control();
    plan.edge(before, control);
    before = control;
  }
  plan.edge(before, plan.add(0));
  EXPECT_THAT(behind(plan, first), IsEmpty());
}

}  // namespace
}  // namespace dwell::graph
