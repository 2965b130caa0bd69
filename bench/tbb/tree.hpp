// Fork-join trees with oneTBB.
#pragma once

#include "bench/tree.hpp"

namespace dwell::bench {

// Uses a task_group for each task that makes others.
extern const TreeModule kTbbTree;

}  // namespace dwell::bench
