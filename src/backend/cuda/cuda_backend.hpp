// CUDA devices as a backend: the driver's primary context, one stream for leases, one for copies, one for launches. Needs none of CUDA's
// headers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace dwell::backend {

// What the driver says of a device, without a context on it.
struct CudaDeviceSummary {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint32_t multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

struct CudaDevices {
  int driver_version = 0;  // of CUDA: 13020 is 13.2; 0 when there is no driver that will do
  std::vector<CudaDeviceSummary> devices;
  std::string problem;  // why there are no devices, or not all; empty when nothing is wrong
};

// The devices of this machine. Opens the driver; a failure is in `problem`. Throws nothing but std::bad_alloc.
CudaDevices cuda_devices();

// Opens the device, sharing its primary context with all who use CUDA's runtime. Throws dwell::Error: errc::device_unavailable with the
// reason (no driver, too old a driver, no such device, a device that cannot run dwell), errc::out_of_memory.
// Members may be called from any thread; none leaves the context current there. Memory is freed and images are unloaded by calls that
// wait for the running lease to end.
std::unique_ptr<Backend> open_cuda(int ordinal);

}  // namespace dwell::backend
