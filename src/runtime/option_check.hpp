// Validates options of a runtime.
#pragma once

#include <cstdint>

#include <dwell/options.hpp>

#include "backend/backend.hpp"

namespace dwell::runtime {

// Throws errc::invalid_argument, naming the option. `first_position`: of the first ticket.
void check_options(const Options& options, std::uint64_t first_position);

// Throws errc::invalid_argument or errc::unsupported for options that this device does not support. `workers`: the requested number.
void check_options(const Options& options, const backend::DeviceInfo& device, std::uint32_t workers);

}  // namespace dwell::runtime
