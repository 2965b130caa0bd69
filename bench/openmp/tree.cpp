#include "bench/openmp/tree.hpp"

namespace dwell::bench {

namespace {

void* open(int threads) { return new int(threads); }
void close(void* threads) { delete static_cast<int*>(threads); }

void grow(unsigned char* cells, std::uint32_t first, std::uint32_t count, unsigned char mark) {
  cells[first] = mark;
  if (count == 1) return;
  const std::uint32_t left = (count - 1) / 2;
  if (left != 0) {
#pragma omp task firstprivate(cells, first, left, mark)
    grow(cells, first + 1, left, mark);
  }
#pragma omp task firstprivate(cells, first, left, count, mark)
  grow(cells, first + 1 + left, count - 1 - left, mark);
#pragma omp taskwait
}

void run(void* threads, unsigned char* cells, std::uint32_t count, unsigned char mark) {
#pragma omp parallel num_threads(*static_cast <int*>(threads))
#pragma omp single
  grow(cells, 0, count, mark);
}

}  // namespace

const TreeModule kOpenMpTree{"OpenMP tasks", open, close, run};

}  // namespace dwell::bench
