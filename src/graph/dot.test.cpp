#include "graph/dot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_plan.hpp"

namespace dwell::graph {
namespace {

using test::GraphPlan;

TEST(DotTest, EmptyGraphIsValid) { EXPECT_EQ(dot_of({}), "digraph {\n}\n"); }

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

TEST(DotTest, BranchesAreDiamondsWithTheValuesAtTheirEdges) {
  using Kind = detail::BranchKind;
  const std::uint32_t value = 0;
  GraphPlan one;
  one.add(0);
  GraphPlan loop;
  loop.branch(Kind::repeat_while, value, {&one});
  EXPECT_EQ(dot_of(loop.data),
            "digraph {\n"
            "  n0 [shape=diamond, label=\"branch\\nwhile\"];\n"
            "  n1 [label=\"op0\"];\n"
            "  n2 [shape=point, xlabel=\"\"];\n"
            "  n0 -> n1 [label=\"not 0\"];\n"
            "  n0 -> n2 [label=\"0\"];\n"
            "  n1 -> n0 [style=dashed, constraint=false];\n"
            "}\n");
  GraphPlan two;
  two.branch(Kind::run_if, value, {&one, &one});
  EXPECT_THAT(dot_of(two.data), testing::HasSubstr("  n0 -> n1 [label=\"not 0\"];\n  n0 -> n2 [label=\"0\"];\n  n1 -> n3;\n  n2 -> n3;\n"));
  GraphPlan choice;
  choice.branch(Kind::choose, value, {&one, &one});
  EXPECT_THAT(dot_of(choice.data),
              testing::HasSubstr("  n0 -> n1 [label=\"0\"];\n  n0 -> n2 [label=\"1\"];\n  n0 -> n3 [label=\"else\"];\n"));
}

TEST(DotTest, QuotesAndBackslashesInNamesAreEscaped) {
  GraphPlan plan;
  plan.add(0, {}, 1, R"(a "b" \c)");
  EXPECT_THAT(dot_of(plan.data), testing::HasSubstr(R"([label="a \"b\" \\c\nop0"])"));
}

TEST(DotTest, TheNameOfAGraphIsItsLabel) {
  GraphPlan plan;
  plan.data.graph_name = "a \"step\"";
  EXPECT_EQ(dot_of(plan.data), "digraph \"a \\\"step\\\"\" {\n  label=\"a \\\"step\\\"\";\n}\n");
  const Times times;
  EXPECT_THAT(dot_of(plan.data, &times), testing::HasSubstr("  label=\"a \\\"step\\\"\\nmeasured "));
}

}  // namespace
}  // namespace dwell::graph
