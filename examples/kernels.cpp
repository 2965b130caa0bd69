// Ordinary CUDA kernels beside the resident loop: a template by its C++ spelling, launched with grid and block.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr int kCount = 1000;
  dwell::Runtime runtime;

  dwell::Module module;
  try {
    module = runtime.compile(R"(
      template <class T>
      __global__ void axpy(T a, const T* x, T* y, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] += a * x[i];
      })",
                             {}, {"axpy<float>"});
  } catch (const dwell::Error& error) {
    if (error.kind() != dwell::errc::unsupported) throw;
    std::printf("kernels: %s\n", error.message().c_str());  // the CPU runs operators alone
    return 0;
  }

  auto x = runtime.allocate<float>(kCount);
  auto y = runtime.allocate<float>(kCount);
  x.write(std::vector<float>(kCount, 3.0F));
  y.write(std::vector<float>(kCount, 1.0F));

  // Wrong arguments to a handle with a type do not compile.
  const auto axpy = module.kernel<void(float, const float*, float*, int)>("axpy<float>");
  const dwell::Ticket ticket = axpy.launch({.grid = {(kCount + 127) / 128}, .block = {128}}, 2.0F, x, y, kCount);
  ticket.wait();

  std::vector<float> result(kCount);
  y.read(result);
  int wrong = 0;
  for (const float value : result) wrong += value == 7.0F ? 0 : 1;
  std::printf("kernels: %s is %s, %d of %d values are wrong\n", axpy.name().c_str(), axpy.symbol().c_str(), wrong, kCount);
  return wrong == 0 ? 0 : 1;
}
