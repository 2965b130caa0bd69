// Loads images with the loop onto a CUDA device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_place.hpp"

namespace dwell::backend {

// Returns whether these bytes are a complete cubin. The driver takes no size and trusts the headers.
bool is_cubin(std::span<const std::byte> cubin);

// The context is current. Throws errc::link_failed, errc::out_of_memory, errc::device_lost.
std::unique_ptr<LoadedImage> load_cuda_image(const CudaPlace& place, std::span<const std::byte> image);

// Starts a lease of an image that load_cuda_image has loaded, in the stream of its slot. The context is current. Throws
// errc::device_lost.
void start_cuda_lease(const CudaPlace& place, const LoadedImage& program, const device::Lease& lease, CUstream stream);

}  // namespace dwell::backend
