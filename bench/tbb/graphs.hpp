// Task graphs with oneTBB.
#pragma once

#include "bench/graph_module.hpp"

namespace dwell::bench {

extern const GraphModule kTbbFlowGraph;
// A task_group, and a count of predecessors for each node: the last one to be done runs the node.
extern const GraphModule kTbbTaskGroup;

}  // namespace dwell::bench
