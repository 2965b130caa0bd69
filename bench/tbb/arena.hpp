// The module's threads: an arena of oneTBB, passed as a plain C pointer.
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
