// The threads of the module: an arena of oneTBB, as the plain C of its interface passes it on.
#pragma once

#include <oneapi/tbb/task_arena.h>

namespace dwell::bench {

inline void* open_arena(int threads) {
  auto* const arena = new tbb::task_arena(threads);
  arena->initialize();
  return arena;
}

inline void close_arena(void* arena) { delete static_cast<tbb::task_arena*>(arena); }

}  // namespace dwell::bench
