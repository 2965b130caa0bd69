// The peer of a chain of linked tasks. Needs CUDA's headers.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/cuda_parts.hpp"
#include "bench/cuda_peer.hpp"

namespace dwell::bench {

// Driver and kernels outlive the chain. Throws std::runtime_error.
std::unique_ptr<CudaChain> make_cuda_chain(const CudaDriver& driver, const Kernels& kernels, std::size_t nodes, bool adds);

}  // namespace dwell::bench
