// Fork-join trees with oneTBB.
#pragma once

#include "bench/tree.hpp"

namespace dwell::bench {

// A task_group for each task that makes others.
extern const TreeModule kTbbTree;

}  // namespace dwell::bench
