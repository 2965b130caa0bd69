// Operators that are compiled in the background, while tasks go on.
#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

std::string power_of(unsigned exponent) {
  return "DWELL_OPERATOR(power" + std::to_string(exponent) +
         ")(dwell::Group g, dwell::Span<unsigned> x) {\n"
         "  for (auto i : g.range(x.size())) {\n"
         "    unsigned power = 1;\n"
         "    for (int n = 0; n < " +
         std::to_string(exponent) + "; ++n) power *= x[i];\n    x[i] = power;\n  }\n}\n";
}

}  // namespace

int main() {
  constexpr unsigned kPowers = 8;
  dwell::Runtime runtime;
  const auto tick = runtime.define("tick", R"(
    DWELL_OPERATOR(tick)(dwell::Group g, dwell::Span<unsigned> count) { if (g.rank() == 0) count[0] += 1; })");
  auto count = runtime.allocate<unsigned>(1);

  std::vector<std::shared_future<dwell::Operator<>>> powers;
  for (unsigned n = 1; n <= kPowers; ++n) powers.push_back(runtime.define_async("power" + std::to_string(n), power_of(n)));

  // The last one may be ready before the others: all that are ready together come with one image.
  unsigned ticks = 0;
  for (const auto& power : powers) {
    while (power.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      runtime.submit(tick, count).wait();
      ++ticks;
    }
  }

  unsigned wrong = 0;
  for (unsigned n = 1; n <= kPowers; ++n) {
    auto x = runtime.allocate<unsigned>(4);
    x.write(std::vector<unsigned>{0, 1, 2, 3});
    runtime.submit(powers[n - 1].get(), x);
    std::vector<unsigned> result(4);
    x.read(result);
    unsigned power = 1;
    for (unsigned i = 0; i < n; ++i) power *= 3;
    wrong += result[3] == power && result[2] == 1U << n ? 0 : 1;
  }
  std::vector<unsigned> counted(1);
  count.read(counted);
  wrong += counted[0] == ticks ? 0 : 1;
  std::printf("async: %u operators compiled while %u tasks ran, %llu images, %u wrong\n", kPowers, ticks,
              static_cast<unsigned long long>(runtime.metrics().images), wrong);
  return wrong == 0 ? 0 : 1;
}
