// Computes how many workers of a CUDA image fit a multiprocessor. Needs no GPU and no CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "jit/compiler.hpp"

namespace dwell::jit {

// The limiting resource; of several, the first of these.
enum class Bottleneck : std::uint8_t { threads, blocks, registers, shared_memory, barriers };

// "registers", "shared memory", ...
std::string_view name_of(Bottleneck bottleneck);

struct Occupancy {
  std::uint32_t workers = 0;  // a multiprocessor
  Bottleneck bottleneck = Bottleneck::threads;
};

// Blocks that take `resources`, and `scratch_bytes` of dynamic shared memory each, on one multiprocessor of compute capability
// `architecture` (90 for 9.0). Agrees with cuOccupancyMaxActiveBlocksPerMultiprocessor for a kernel that may use all the
// shared memory a block can have. Empty when the capability or the number of threads is not known.
//
// The limits are those of the CUDA C++ Programming Guide (Compute Capabilities, Technical Specifications, 13.0); how they are shared out
// follows cuda_occupancy.h of CUDA 13.0: registers go to warps, 256 at a time, from four equal parts; shared memory goes to blocks, 128
// bytes at a time (256 below 8.0), and CUDA keeps 1 KB of every block's from 8.0 on; named barriers count from 9.0 on.
std::optional<Occupancy> occupancy(std::uint32_t architecture, const Resources& resources, std::uint32_t scratch_bytes);

// The number in "sm_90" or "sm_90a"; 0 when `target` is of another form ("host").
std::uint32_t architecture_of(std::string_view target);

}  // namespace dwell::jit
