// One of the driver's devices, without a context on it.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cuda/driver.hpp"

namespace dwell::backend {

// The device behind an ordinal. Its memory and compute mode are not looked at. Throws errc::device_unavailable when there is none, or when
// it cannot run dwell: with the reason.
CUdevice usable_device(const Driver& driver, int ordinal);

int attribute_of(const Driver& driver, CUdevice device, CUdevice_attribute attribute);
std::string name_of(const Driver& driver, CUdevice device);
std::uint64_t memory_of(const Driver& driver, CUdevice device);

// When Options::workers is 0, as far as they fit.
inline constexpr std::uint32_t kWorkersPerMultiprocessor = 4;

}  // namespace dwell::backend
