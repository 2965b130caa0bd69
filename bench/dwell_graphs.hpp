// Task graphs on dwell.
#pragma once

#include <memory>

#include "bench/benchmarks.hpp"
#include "bench/graph_side.hpp"

namespace dwell::bench {

// Opens its own runtime with `workers` workers; 0: the backend's default.
std::unique_ptr<GraphSide> open_dwell_graphs(const Context& context, std::size_t workers, const GraphMemory& memory);

}  // namespace dwell::bench
