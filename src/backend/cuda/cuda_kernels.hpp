// Ordinary kernels on a CUDA device: a loaded module, a launch, and the event behind it.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/driver.hpp"

namespace dwell::backend {

// What they share with the backend that they belong to, which outlives them.
struct CudaPlace {
  const Driver& driver;
  CUcontext context;
  CUdevice device;
  CUstream stream;                     // of launches that name no other
  const std::atomic<bool>& abandoned;  // nothing may wait for the device any more
};

// Loads a cubin with all of the kernels named. Throws errc::link_failed, errc::out_of_memory, errc::device_lost.
std::unique_ptr<LoadedKernels> load_cuda_kernels(const CudaPlace& place, std::span<const std::byte> cubin,
                                                 std::span<const std::string> symbols);

// Throws errc::invalid_argument with the limit that the launch exceeds, errc::device_lost.
std::unique_ptr<Completion> launch_cuda_kernel(const CudaPlace& place, LoadedKernels& kernels, const KernelLaunch& launch);

}  // namespace dwell::backend
