#include "bench/cuda_start.hpp"

#include <stdexcept>

#ifdef DWELL_WITH_CUDA

#include "bench/cuda_parts.hpp"

namespace dwell::bench {

std::shared_ptr<void> open_cuda_context(int ordinal, std::string* why) {
  try {
    const CudaDriver& driver_ = CudaDriver::get();
    const CUdevice device = device_of(driver_, ordinal);
    CUcontext context = nullptr;
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    return {context, [&driver_, device](void*) {
              driver_.cuCtxSetCurrent(nullptr);
              driver_.cuDevicePrimaryCtxRelease(device);
            }};
  } catch (const std::runtime_error& problem) {
    *why = problem.what();
    return nullptr;
  }
}

CudaStart start_cuda(int ordinal, std::span<const std::byte> cubin) {
  const CudaDriver& driver_ = CudaDriver::get();
  const CUdevice device = device_of(driver_, ordinal);
  CudaStart start;
  CUcontext context = nullptr;
  CU(cuDevicePrimaryCtxRetain, &context, device);
  CU(cuCtxSetCurrent, context);
  start.context = Clock::now();
  const Kernels kernels(driver_, cubin);
  start.loaded = Clock::now();
  constexpr unsigned kValue = 4711;
  const DeviceMemory memory(driver_, sizeof(unsigned));
  CUdeviceptr to = memory.address();
  unsigned value = kValue;
  void* parameters[] = {&to, &value};
  kernels.launch(kernels.set, 1, nullptr, parameters);
  unsigned seen = 0;
  CU(cuMemcpyDtoH, &seen, to, sizeof(seen));
  start.done = Clock::now();
  if (seen != kValue) throw std::runtime_error("the kernel left a wrong value");
  return start;
}

}  // namespace dwell::bench

#else

namespace dwell::bench {

std::shared_ptr<void> open_cuda_context(int, std::string* why) {
  *why = "built without CUDA's headers";
  return nullptr;
}

CudaStart start_cuda(int, std::span<const std::byte>) { throw std::runtime_error("built without CUDA's headers"); }

}  // namespace dwell::bench

#endif
