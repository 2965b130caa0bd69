// One of the driver's devices, without a context on it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cuda/driver.hpp"

namespace dwell::backend {

// Returns the device of an ordinal. Does not check its memory and compute mode. Throws errc::device_unavailable with the reason when it
// does not exist, or cannot run dwell.
CUdevice usable_device(const Driver& driver, int ordinal);

int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute);
std::string name_of(const Driver& driver, CUdevice device);
std::uint64_t memory_of(const Driver& driver, CUdevice device);

// The default for Options::workers 0, if they fit.
inline constexpr std::uint32_t kWorkersPerMultiprocessor = 4;

}  // namespace dwell::backend
