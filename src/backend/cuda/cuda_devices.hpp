// The CUDA devices of this machine. Needs none of CUDA's headers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dwell::backend {

// A device as described by the driver, without a context.
struct CudaDeviceSummary {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t default_workers = 0;
  std::uint64_t memory_bytes = 0;
  std::string problem;  // why it cannot run dwell; empty when it can
};

struct CudaDevices {
  int driver_version = 0;  // of CUDA: 13020 is 13.2; 0 without a suitable driver
  std::vector<CudaDeviceSummary> devices;
  std::string problem;  // why there are no devices, or not all; empty when nothing is wrong
};

// Opens the driver; stores a failure in `problem`. Throws only std::bad_alloc.
CudaDevices cuda_devices();

}  // namespace dwell::backend
