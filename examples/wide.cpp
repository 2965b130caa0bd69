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

  // g.range shares the elements out over all threads of all groups; each group adds its own sum to what all have.
  auto inverse_sum = runtime.define<void(dwell::Span<const float>, dwell::Span<double>)>("inverse_sum", R"(
    DWELL_OPERATOR(inverse_sum)(dwell::Group g, dwell::Span<const float> x, dwell::Span<double> sum) {
      double mine = 0;
      for (auto i : g.range(x.size())) mine += 1.0 / x[i];
      mine = g.sum(mine);
      if (g.rank() == 0) sum.atomic_add(0, mine);
    })");

  std::vector<float> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  auto x = runtime.allocate<float>(kCount);
  auto all = runtime.allocate<double>(1);
  double sum = 0;
  x.write(numbers);
  all.write({&sum, 1});
  runtime.submit(inverse_sum, x, all, dwell::groups(kGroups)).wait();

  all.read({&sum, 1});
  std::printf("wide: 1/1 + 1/2 + ... + 1/%u = %.6f, by %u groups\n", kCount, sum, kGroups);
  return std::abs(sum - 14.392726722865) < 1e-9 ? 0 : 1;
}
