// How long CUDA itself takes to start. Needs none of CUDA's headers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "bench/timing.hpp"

namespace dwell::bench {

// CUDA's own start: the device's primary context, current in the calling thread while the handle lives. Nothing, and why, when CUDA cannot
// be used.
std::shared_ptr<void> open_cuda_context(int ordinal, std::string* why);

// When a process that does the least that CUDA allows has come how far.
struct CudaStart {
  Clock::time_point context;
  Clock::time_point loaded;
  Clock::time_point done;
};
// Opens the device, loads `cubin`, and launches a kernel that leaves a value. Throws std::runtime_error, also when the value is wrong.
CudaStart start_cuda(int ordinal, std::span<const std::byte> cubin);

}  // namespace dwell::bench
