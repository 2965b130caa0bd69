// Ordinary kernels on a CUDA device: a loaded module, a launch, and the event behind it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_place.hpp"

namespace dwell::backend {

// Loads a cubin with all of the kernels named. The context is current. Throws errc::link_failed, errc::out_of_memory, errc::device_lost.
std::unique_ptr<LoadedModule> load_cuda_kernels(const CudaPlace& place, std::span<const std::byte> cubin,
                                                std::span<const std::string> symbols);

// The context is current. Throws errc::invalid_argument with the limit that the launch exceeds, errc::device_lost.
std::unique_ptr<Completion> launch_cuda_kernel(const CudaPlace& place, LoadedModule& kernels, const KernelLaunch& launch);
// The same without the launch.
std::unique_ptr<PreparedLaunch> prepare_cuda_kernel(const CudaPlace& place, LoadedModule& kernels, const KernelLaunch& launch);

}  // namespace dwell::backend
