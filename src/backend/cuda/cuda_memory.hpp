// Memory for a CUDA device: on it or pinned on the host, dwell's own or foreign.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_place.hpp"

namespace dwell::backend {

// Allocates cleared memory. The context is current. Throws errc::out_of_memory, errc::device_lost. Device memory comes from the place's
// pool, and is freed without waiting for leases; freeing host memory waits.
std::unique_ptr<Allocation> allocate_cuda(const CudaPlace& place, std::size_t bytes);
std::unique_ptr<Allocation> allocate_cuda_host(const CudaPlace& place, std::size_t bytes);

// Cleared memory on the device that can grow up to `limit` bytes. The context is current, but need not be for grow. Throws as above. Freed
// while no lease is on the device.
std::unique_ptr<Region> reserve_cuda(const CudaPlace& place, std::size_t bytes, std::size_t limit);

// Wraps foreign memory: of the device, managed, or pinned on the host. The context is current. Throws errc::invalid_argument with the
// reason when the device `ordinal`, the place's, cannot access it.
std::unique_ptr<Allocation> wrap_cuda(const CudaPlace& place, int ordinal, void* pointer, std::size_t bytes,
                                      std::shared_ptr<void> keep_alive);

// Pins memory of this process that is not pinned yet. The context is current. Throws errc::out_of_memory, and errc::invalid_argument where
// the system does not allow it. Unpinning waits for leases, as freeing pinned memory does.
std::unique_ptr<Allocation> pin_cuda(const CudaPlace& place, void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive);

}  // namespace dwell::backend
