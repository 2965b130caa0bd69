// Heat in a rod: a gang keeps all of it on the device, each group has a part, and waits for its two neighbours alone after every step.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kCells = 1U << 14U;
  constexpr unsigned kSteps = 1000;
  dwell::Runtime runtime;
  auto diffuse = runtime.define<void(dwell::Span<float>, dwell::Span<float>, dwell::u32)>("diffuse", R"(
    DWELL_OPERATOR(diffuse)(dwell::Group g, dwell::Span<float> even, dwell::Span<float> odd, dwell::u32 steps) {
      const dwell::Gang gang = g.gang();
      const dwell::u64 n = even.size();
      const dwell::u64 first = n * gang.rank() / gang.size();
      const dwell::u64 count = n * (gang.rank() + 1) / gang.size() - first;
      const dwell::u32 left = gang.rank() == 0 ? 0 : gang.rank() - 1;
      const dwell::u32 right = gang.rank() + 1 == gang.size() ? gang.rank() : gang.rank() + 1;
      for (dwell::u32 step = 0; step < steps; ++step) {
        const float* const from = step % 2 == 0 ? even.data() : odd.data();
        float* const to = step % 2 == 0 ? odd.data() : even.data();
        for (auto i : g.local_range(count)) {
          const dwell::u64 at = first + i;
          const float before = from[at == 0 ? 0 : at - 1];
          const float behind = from[at + 1 == n ? at : at + 1];
          to[at] = from[at] + 0.25f * (before - 2 * from[at] + behind);
        }
        // The cells at the edges of this part are there, and those of the neighbours; groups further away may be steps ahead.
        gang.sync_neighbours(left, right);
      }
    })");

  std::vector<float> rod(kCells, 0.0F);
  std::fill_n(rod.begin() + kCells / 2, 64, 100.0F);
  auto even = runtime.allocate<float>(kCells);
  auto odd = runtime.allocate<float>(kCells);
  even.write(rod);
  const unsigned groups = std::min(runtime.info().workers, 64U);
  runtime.submit(diffuse, even, odd, kSteps, dwell::gang(groups)).wait();

  std::vector<float> result(kCells);
  even.read(result);
  std::vector<float> next(kCells);
  for (unsigned step = 0; step < kSteps; ++step) {
    for (unsigned i = 0; i < kCells; ++i)
      next[i] = rod[i] + 0.25F * (rod[i == 0 ? 0 : i - 1] - 2 * rod[i] + rod[i + 1 == kCells ? i : i + 1]);
    std::swap(rod, next);
  }
  for (unsigned i = 0; i < kCells; ++i) {
    if (std::fabs(result[i] - rod[i]) > 1e-3F) {
      std::printf("stencil: cell %u is %g, not %g\n", i, static_cast<double>(result[i]), static_cast<double>(rod[i]));
      return 1;
    }
  }
  std::printf("stencil: %u cells through %u steps, by a gang of %u\n", kCells, kSteps, groups);
  return 0;
}
