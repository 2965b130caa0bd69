// The module that uses OpenMP.
#pragma once

#include "bench/graph_module.hpp"
#include "bench/tree.hpp"

namespace dwell::bench {

struct OpenMpModule {
  const GraphModule* graph;
  const TreeModule* tree;
};

}  // namespace dwell::bench

extern "C" const dwell::bench::OpenMpModule* dwell_bench_openmp();
