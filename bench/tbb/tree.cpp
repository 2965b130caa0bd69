#include "bench/tbb/tree.hpp"

#include <oneapi/tbb/task_group.h>

#include "bench/tbb/arena.hpp"

namespace dwell::bench {

namespace {

void grow(unsigned char* cells, std::uint32_t first, std::uint32_t count, unsigned char mark) {
  cells[first] = mark;
  if (count == 1) return;
  const std::uint32_t left = (count - 1) / 2;
  tbb::task_group group;
  if (left != 0) group.run([=] { grow(cells, first + 1, left, mark); });
  group.run_and_wait([=] { grow(cells, first + 1 + left, count - 1 - left, mark); });
}

void run(void* arena, unsigned char* cells, std::uint32_t count, unsigned char mark) {
  static_cast<tbb::task_arena*>(arena)->execute([=] { grow(cells, 0, count, mark); });
}

}  // namespace

const TreeModule kTbbTree{"oneTBB task_group", open_arena, close_arena, run};

}  // namespace dwell::bench
