// Parts of the CUDA peers. Needs CUDA's headers.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "bench/cuda_driver.hpp"
#include "bench/cuda_kernels.hpp"
#include "bench/operators.hpp"

// For use where `driver_` is a member or a local variable.
#define CU(function, ...) DWELL_BENCH_CUDA(driver_, function, __VA_ARGS__)

namespace dwell::bench {

inline constexpr unsigned kThreads = 128;

inline CUdevice device_of(const CudaDriver& driver, int ordinal) {
  CUdevice device = 0;
  DWELL_BENCH_CUDA(driver, cuDeviceGet, &device, ordinal);
  return device;
}

// Device memory, freed by its owner.
class DeviceMemory {
 public:
  DeviceMemory(const CudaDriver& driver, std::size_t bytes) : driver_(driver), bytes_(bytes) { CU(cuMemAlloc, &address_, bytes); }
  ~DeviceMemory() { driver_.cuMemFree(address_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  CUdeviceptr address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const CudaDriver& driver_;
  CUdeviceptr address_ = 0;
  std::size_t bytes_;
};

class Stream {
 public:
  explicit Stream(const CudaDriver& driver) : driver_(driver) { CU(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING); }
  ~Stream() { driver_.cuStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }
  void synchronise() const { CU(cuStreamSynchronize, stream_); }

 private:
  const CudaDriver& driver_;
  CUstream stream_ = nullptr;
};

// The loaded kernels.
class Kernels {
 public:
  Kernels(const CudaDriver& driver, std::span<const std::byte> cubin) : driver_(driver) {
    CU(cuModuleLoadData, &module_, cubin.data());
    for (const auto& [function, name] : {std::pair{&empty, kKernelEmpty},
                                         {&add, kKernelAdd},
                                         {&set, kKernelSet},
                                         {&ping_pong, kKernelPingPong},
                                         {&empty_overlapped, kKernelEmptyOverlapped},
                                         {&add_overlapped, kKernelAddOverlapped},
                                         {&visit, kKernelVisit},
                                         {&sweep, kKernelSweep},
                                         {&sweep_step_overlapped, kKernelSweepStepOverlapped}}) {
      CU(cuModuleGetFunction, function, module_, name);
      CU(cuFuncLoad, *function);
    }
  }
  ~Kernels() { driver_.cuModuleUnload(module_); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  void launch(CUfunction function, unsigned threads, CUstream stream, void** parameters) const {
    CU(cuLaunchKernel, function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }

  CUfunction empty = nullptr;
  CUfunction add = nullptr;
  CUfunction set = nullptr;
  CUfunction ping_pong = nullptr;
  CUfunction empty_overlapped = nullptr;
  CUfunction add_overlapped = nullptr;
  CUfunction visit = nullptr;
  CUfunction sweep = nullptr;
  CUfunction sweep_step_overlapped = nullptr;

 private:
  const CudaDriver& driver_;
  CUmodule module_ = nullptr;
};

// The kernel parameters of one add, for launches and nodes.
struct AddParameters {
  CUdeviceptr first;
  CUdeviceptr second;
  CUdeviceptr sum;
  unsigned count = static_cast<unsigned>(Adds::kFloats);
  void* list[4] = {&first, &second, &sum, &count};

  AddParameters(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) : first(a), second(b), sum(c) {}
  AddParameters(const AddParameters&) = delete;
  AddParameters& operator=(const AddParameters&) = delete;
};

// A graph's node: one block of kThreads threads.
inline CUDA_KERNEL_NODE_PARAMS node_of(CUfunction function, void** parameters) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function;
  node.gridDimX = node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = kThreads;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  return node;
}

}  // namespace dwell::bench
