// Task graphs with other libraries on the CPU: peers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/graph_side.hpp"

namespace dwell::bench {

// Returns oneTBB's flow graph and task_group, and OpenMP's tasks, each on `threads` threads including the caller's. Leaves out missing
// libraries; `missing` gets the reasons.
std::vector<std::unique_ptr<GraphSide>> open_cpu_graphs(int threads, const GraphMemory& memory, std::vector<std::string>& missing);

}  // namespace dwell::bench
