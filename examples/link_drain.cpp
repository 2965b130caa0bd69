// Order between tasks: link waits for the task before, drain for all before.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kChains = 64;
  constexpr unsigned kSteps = 5;
  dwell::Runtime runtime;
  auto step = runtime.define<void(dwell::Span<unsigned>, dwell::u32)>("step", R"(
    DWELL_OPERATOR(step)(dwell::Group g, dwell::Span<dwell::u32> value, dwell::u32 digit) {
      if (g.rank() == 0) value[0] = value[0] * 10 + digit;
    })");
  auto total = runtime.define<void(dwell::Span<const unsigned>, dwell::Span<unsigned>)>("total", R"(
    DWELL_OPERATOR(total)(dwell::Group g, dwell::Span<const dwell::u32> values, dwell::Span<dwell::u32> to) {
      dwell::u32 mine = 0;
      for (auto i : g.range(values.size())) mine += values[i];
      const dwell::u32 all = g.sum(mine);
      if (g.rank() == 0) to[0] = all;
    })");

  auto values = runtime.allocate<unsigned>(kChains);
  auto result = runtime.allocate<unsigned>(1);
  values.write(std::vector<unsigned>(kChains, 0));
  for (unsigned chain = 0; chain < kChains; ++chain) {
    // Chains run beside each other; within one, each step starts when the one before is complete.
    const auto value = values.slice(chain, 1);
    runtime.submit(step, value, 1U);
    for (unsigned digit = 2; digit <= kSteps; ++digit) runtime.submit(step, value, digit, dwell::link);
  }
  // Sees what all chains have written.
  runtime.submit(total, values, result, dwell::drain).wait();

  std::vector<unsigned> sum(1);
  result.read(sum);
  std::printf("link_drain: %u chains of %u linked steps, drained: %u\n", kChains, kSteps, sum[0]);
  return sum[0] == kChains * 12345U ? 0 : 1;
}
