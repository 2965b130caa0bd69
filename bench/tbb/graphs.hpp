// Task graphs with oneTBB.
#pragma once

#include "bench/graph_module.hpp"

namespace dwell::bench {

extern const GraphModule kTbbFlowGraph;
// A task_group, and a count of predecessors per node: the last to finish runs the node.
extern const GraphModule kTbbTaskGroup;

}  // namespace dwell::bench
