// Opens runtimes for tests of wrap-around. Internal: may change at any time.
#pragma once

#include <cstdint>

#include <dwell/runtime.hpp>

namespace dwell::detail {

// As Runtime(options), whose first ticket has this position: a multiple of 64 below 2^56. Throws errc::invalid_argument too.
Runtime open_at(std::uint64_t first_position, Options options);

}  // namespace dwell::detail
