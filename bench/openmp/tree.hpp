// Fork-join trees with OpenMP.
#pragma once

#include "bench/tree.hpp"

namespace dwell::bench {

extern const TreeModule kOpenMpTree;

}  // namespace dwell::bench
