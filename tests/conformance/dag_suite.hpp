// Shared by the conformance tests of graphs: random graphs whose nodes record their order.
#pragma once

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {

class DagSuite : public GraphSuite {
 protected:
  // A graph of `count` nodes with random edges from earlier to later ones, at most `most` into each; each node stamps its begin and end.
  struct Dag {
    Graph graph;
    std::vector<std::pair<u32, u32>> edges;
    Buffer<u32> clock, began, ended;
  };
  Dag random_dag(u32 count, u32 most, u32 seed, u32 reach = 64) {
    Dag dag;
    dag.clock = filled<u32>(*runtime, 1, 0);
    dag.began = filled<u32>(*runtime, count, ~0U);
    dag.ended = filled<u32>(*runtime, count, ~0U);
    Random random(seed);
    std::vector<Node> nodes;
    for (u32 i = 0; i < count; ++i) {
      nodes.push_back(dag.graph.add(stamp, dag.clock, dag.began, dag.ended, i, u64{0}));
      const u32 wanted = i == 0 ? 0 : random() % (most + 1);
      std::set<u32> before;
      for (u32 j = 0; j < wanted; ++j) before.insert(i - 1 - random() % std::min(i, reach));
      for (const u32 from : before) {
        nodes.back().after(nodes[from]);
        dag.edges.emplace_back(from, i);
      }
    }
    return dag;
  }
  static void check_order(const Dag& dag, u32 launches = 1) {
    const auto began = read(dag.began);
    const auto ended = read(dag.ended);
    ASSERT_EQ(read(dag.clock)[0], 2 * began.size() * launches) << "each node runs once a launch";
    for (const auto& [before, behind] : dag.edges) ASSERT_LT(ended[before], began[behind]) << before << " -> " << behind;
  }
};

}  // namespace dwell::test
