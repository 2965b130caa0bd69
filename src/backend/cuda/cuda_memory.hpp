// Memory for a CUDA device, on it or pinned on the host, of dwell's own or of others.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_place.hpp"

namespace dwell::backend {

// Cleared memory. The context is current. Throws errc::out_of_memory, errc::device_lost. Memory on the device comes from the place's pool,
// and waits for no lease to be freed; that on the host does wait.
std::unique_ptr<Allocation> allocate_cuda(const CudaPlace& place, std::size_t bytes);
std::unique_ptr<Allocation> allocate_cuda_host(const CudaPlace& place, std::size_t bytes);

// Cleared memory on the device that can grow up to `limit` bytes. The context is current, but need not be for grow. Throws as above. Freed
// while no lease is on the device.
std::unique_ptr<Region> reserve_cuda(const CudaPlace& place, std::size_t bytes, std::size_t limit);

// Memory of others: of the device, managed, or pinned on the host. The context is current. Throws errc::invalid_argument with the reason
// when the device `ordinal`, which is the place's, does not reach it.
std::unique_ptr<Allocation> wrap_cuda(const CudaPlace& place, int ordinal, void* pointer, std::size_t bytes,
                                      std::shared_ptr<void> keep_alive);

// Memory of this process that nobody has pinned, for both sides to reach. The context is current. Throws errc::out_of_memory, and
// errc::invalid_argument where the system does not let CUDA pin it. Unpinning waits for leases, as freeing pinned memory does.
std::unique_ptr<Allocation> pin_cuda(const CudaPlace& place, void* pointer, std::size_t bytes, std::shared_ptr<void> keep_alive);

}  // namespace dwell::backend
