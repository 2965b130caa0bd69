// Uses the installed library. Exits with 0 if the operator computes the right result.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr std::size_t n = 1000;
  dwell::Runtime runtime({.device = "cpu"});
  auto axpy = runtime.define("axpy", R"(
    #include <dwell/device.hpp>
    DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
      for (auto i : g.range(y.size())) y[i] += a * x[i];
    })");

  auto x = runtime.allocate<float>(n);
  auto y = runtime.allocate<float>(n);
  x.write(std::vector<float>(n, 3.0F));
  y.write(std::vector<float>(n, 1.0F));
  runtime.submit(axpy, 2.0F, x, y).wait();

  std::vector<float> result(n);
  y.read(result);
  for (const float value : result) {
    if (value != 7.0F) {
      std::fprintf(stderr, "expected 7, got %g\n", static_cast<double>(value));
      return 1;
    }
  }
  return 0;
}
