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
  auto inverse_sum = runtime.define<void(dwell::Span<const float>, dwell::Span<double>)>("inverse_sum", R"(
    DWELL_OPERATOR(inverse_sum)(dwell::Group g, dwell::Span<const float> x, dwell::Span<double> sums) {
      double mine = 0;
      for (auto i : g.range(x.size())) mine += 1.0 / x[i];
      const double all = g.sum(mine);
      if (g.rank() == 0) sums[g.index()] = all;
    })");

  std::vector<float> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  auto x = runtime.allocate<float>(kCount);
  auto sums = runtime.allocate<double>(kGroups);
  x.write(numbers);
  runtime.submit(inverse_sum, x, sums, dwell::groups(kGroups)).wait();

  std::vector<double> parts(kGroups);
  sums.read(parts);
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::printf("wide: 1/1 + 1/2 + ... + 1/%u = %.6f, by %u groups\n", kCount, sum, kGroups);
  return std::abs(sum - 14.392726722865) < 1e-9 ? 0 : 1;
}
