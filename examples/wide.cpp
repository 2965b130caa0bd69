// A task that is too much for one group is shared by several: the operator stays the same.
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kGroups = 16;
  constexpr unsigned kCount = 1'000'000;
  dwell::Runtime runtime;

  // g.range shares the elements out over all threads of all groups; each group leaves its own sum, and says where by g.index().
  auto sum_of_roots = runtime.define<void(dwell::Span<const float>, dwell::Span<double>)>("sum_of_roots", R"(
    #if defined(__CUDACC__)
    double root(float x) { return __dsqrt_rn(x); }
    #else
    double root(float x) { return __builtin_sqrt(x); }
    #endif

    DWELL_OPERATOR(sum_of_roots)(dwell::Group g, dwell::Span<const float> x, dwell::Span<double> sums) {
      double mine = 0;
      for (auto i : g.range(x.size())) mine += root(x[i]);
      const double all = g.sum(mine);
      if (g.rank() == 0) sums[g.index()] = all;
    })");

  std::vector<float> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  auto x = runtime.allocate<float>(kCount);
  auto sums = runtime.allocate<double>(kGroups);
  x.write(numbers);
  runtime.submit(sum_of_roots, x, sums, dwell::groups(kGroups)).wait();

  std::vector<double> parts(kGroups);
  sums.read(parts);
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  const double expected = std::accumulate(numbers.begin(), numbers.end(), 0.0, [](double so_far, float number) { return so_far + std::sqrt(number); });
  std::printf("wide: the roots of 0 to %u sum up to %.3f, by %u groups\n", kCount - 1, sum, kGroups);
  return std::abs(sum - expected) < 1e-9 * expected ? 0 : 1;
}
