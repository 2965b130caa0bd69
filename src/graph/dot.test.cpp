#include "graph/dot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_plan.hpp"

namespace dwell::graph {
namespace {

using test::GraphPlan;

TEST(DotTest, AnEmptyGraphIsOneToo) { EXPECT_EQ(dot_of({}), "digraph {\n}\n"); }

TEST(DotTest, NodesShowNameOperatorAndGroups) {
  GraphPlan plan;
  plan.add(0, {}, 1, "load");
  plan.add(1, {}, 7);
  plan.edge(0, 1);
  EXPECT_EQ(dot_of(plan.data),
            "digraph {\n"
            "  n0 [label=\"load\\nop0\"];\n"
            "  n1 [label=\"op1\\n7 groups\"];\n"
            "  n0 -> n1;\n"
            "}\n");
}

TEST(DotTest, ControlNodesArePoints) {
  GraphPlan plan;
  plan.control();
  EXPECT_EQ(dot_of(plan.data), "digraph {\n  n0 [shape=point, xlabel=\"\"];\n}\n");
}

TEST(DotTest, QuotesAndBackslashesInNamesAreEscaped) {
  GraphPlan plan;
  plan.add(0, {}, 1, R"(a "b" \c)");
  EXPECT_THAT(dot_of(plan.data), testing::HasSubstr(R"([label="a \"b\" \\c\nop0"])"));
}

}  // namespace
}  // namespace dwell::graph
