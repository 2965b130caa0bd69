// The module with OpenMP in it.
#pragma once

#include "bench/graph_module.hpp"

extern "C" const dwell::bench::GraphModule* dwell_bench_openmp();
