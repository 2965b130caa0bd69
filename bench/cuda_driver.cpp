#ifdef DWELL_WITH_CUDA

#include "bench/cuda_driver.hpp"

#include <dlfcn.h>

#include <stdexcept>

#define DWELL_BENCH_STRINGIZE(name) #name

namespace dwell::bench {

const CudaDriver& CudaDriver::get() {
  static const CudaDriver driver;
  return driver;
}

CudaDriver::CudaDriver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
#define DWELL_BENCH_CUDA_LOOK_UP(name)                                                           \
  this->name = reinterpret_cast<decltype(::name)*>(dlsym(library, DWELL_BENCH_STRINGIZE(name))); \
  if (this->name == nullptr) throw std::runtime_error("libcuda.so.1 has no function " DWELL_BENCH_STRINGIZE(name));
  DWELL_BENCH_CUDA_FUNCTIONS(DWELL_BENCH_CUDA_LOOK_UP)
#undef DWELL_BENCH_CUDA_LOOK_UP
  check(cuInit(0), "cuInit");
}

void CudaDriver::fail(CUresult result, const char* what) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error";
  throw std::runtime_error(std::string(what) + " failed: " + name);
}

}  // namespace dwell::bench

#endif
