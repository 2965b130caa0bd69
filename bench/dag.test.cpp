#include "bench/dag.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace dwell::bench {
namespace {

using Nodes = std::vector<std::uint32_t>;

Nodes before(const Dag& dag, std::size_t node) { return {dag.before(node).begin(), dag.before(node).end()}; }

void expect_valid(const Dag& dag) {
  for (std::size_t node = 0; node < dag.size(); ++node) {
    Nodes nodes = before(dag, node);
    EXPECT_LE(nodes.size(), Dag::kMostBefore);
    std::sort(nodes.begin(), nodes.end());
    EXPECT_TRUE(std::adjacent_find(nodes.begin(), nodes.end()) == nodes.end()) << "node " << node << " waits twice for one";
    EXPECT_TRUE(nodes.empty() || nodes.back() < node);
  }
}

TEST(Dag, ChainAndIndependentNodes) {
  const Dag chain = chain_of(3);
  EXPECT_EQ(before(chain, 0), Nodes{});
  EXPECT_EQ(before(chain, 2), Nodes{1});
  const Dag free = independent(3);
  EXPECT_EQ(free.size(), 3U);
  EXPECT_EQ(before(free, 2), Nodes{});
  EXPECT_EQ(free.view().first[free.view().nodes], 0U);
}

TEST(Dag, RandomGraphIsTheSameEveryTime) {
  const Dag dag = random_dag(1000);
  expect_valid(dag);
  const Dag again = random_dag(1000);
  std::size_t edges = 0;
  for (std::size_t node = 0; node < dag.size(); ++node) {
    EXPECT_EQ(before(dag, node), before(again, node));
    edges += dag.before(node).size();
  }
  EXPECT_GT(edges, 1500U);
}

TEST(Dag, PatternsOfTaskBench) {
  for (const Pattern pattern : kPatterns) {
    SCOPED_TRACE(name_of(pattern));
    expect_valid(dag_of(pattern, 8, 10));
  }
  EXPECT_EQ(before(dag_of(Pattern::trivial, 4, 2), 5), Nodes{});
  const Dag stencil = dag_of(Pattern::stencil_1d, 4, 2);
  EXPECT_EQ(before(stencil, 4), (Nodes{0, 1}));
  EXPECT_EQ(before(stencil, 5), (Nodes{0, 1, 2}));
  EXPECT_EQ(before(stencil, 7), (Nodes{2, 3}));
  const Dag fft = dag_of(Pattern::fft, 8, 5);
  EXPECT_EQ(before(fft, 8 + 3), (Nodes{2, 3, 4}));
  EXPECT_EQ(before(fft, 16 + 3), (Nodes{8 + 1, 8 + 3, 8 + 5}));
  EXPECT_EQ(before(fft, 24 + 3), (Nodes{16 + 3, 16 + 7}));
  EXPECT_EQ(before(fft, 32 + 3), (Nodes{24 + 2, 24 + 3, 24 + 4}));
  const Dag tree = dag_of(Pattern::tree, 4, 4);
  EXPECT_EQ(tree.size(), 1U + 2U + 4U + 4U);
  EXPECT_EQ(before(tree, 2), Nodes{0});
  EXPECT_EQ(before(tree, 6), Nodes{2});
  EXPECT_EQ(before(tree, 7), Nodes{3});
}

}  // namespace
}  // namespace dwell::bench
