// Options of a runtime that are refused.
#pragma once

#include <cstdint>

#include <dwell/options.hpp>

#include "backend/backend.hpp"

namespace dwell::runtime {

// Throws errc::invalid_argument, naming the option. `first_position`: of the first ticket.
void check_options(const Options& options, std::uint64_t first_position);

// The same for options that this device cannot do: errc::invalid_argument, errc::unsupported. `workers`: that are wanted.
void check_options(const Options& options, const backend::DeviceInfo& device, std::uint32_t workers);

}  // namespace dwell::runtime
