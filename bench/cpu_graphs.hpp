// Task graphs with libraries of today on the CPU: peers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/graph_side.hpp"

namespace dwell::bench {

// oneTBB's flow graph and task_group, and OpenMP's tasks, each on `threads` threads, the caller's among them. Those that are not there are
// left out, and `missing` says why.
std::vector<std::unique_ptr<GraphSide>> open_cpu_graphs(int threads, const GraphMemory& memory, std::vector<std::string>& missing);

}  // namespace dwell::bench
