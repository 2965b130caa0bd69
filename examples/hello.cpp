// The shortest whole program: one operator, two buffers, one task.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  dwell::Runtime runtime;  // a GPU where there is one, else the CPU

  auto axpy = runtime.define("axpy", R"(
    DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
      for (auto i : g.range(y.size())) y[i] += a * x[i];
    })");

  std::vector<float> ones(1000, 1.0F), result(1000);
  auto x = runtime.allocate<float>(1000), y = runtime.allocate<float>(1000);
  x.write(ones);
  y.write(ones);
  runtime.submit(axpy, 2.0F, x, y).wait();
  y.read(result);

  std::printf("hello: 1 + 2 * 1 = %g on %s\n", result[999], runtime.info().device.c_str());
  return result == std::vector<float>(1000, 3.0F) ? 0 : 1;
}
