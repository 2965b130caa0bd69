// The parts of a CudaPeer. Needs CUDA's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/cuda_parts.hpp"
#include "bench/cuda_peer.hpp"

namespace dwell::bench {

// Requires a current context; driver, kernels and cubin outlive the results. All throw std::runtime_error.
std::unique_ptr<CudaAdds> make_cuda_adds(const CudaDriver& driver, const Kernels& kernels, std::size_t floats);
std::unique_ptr<GraphSide> make_cuda_graphs(const CudaDriver& driver, const Kernels& kernels, CudaGraphs way, const GraphMemory& memory);
std::unique_ptr<CudaSweep> make_cuda_sweep(const CudaDriver& driver, const Kernels& kernels, CudaSweeps way, std::size_t cells,
                                           unsigned steps);
std::unique_ptr<CudaTree> make_cuda_tree(const CudaDriver& driver, std::span<const std::byte> cubin, std::uint32_t count);
std::unique_ptr<CudaPingPong> make_cuda_ping_pong(const CudaDriver& driver, const Kernels& kernels);
std::vector<CudaCall> make_cuda_calls(const CudaDriver& driver, const Kernels& kernels, std::span<const std::byte> cubin);

}  // namespace dwell::bench
