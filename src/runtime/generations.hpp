// Opens runtimes, and their next generations after the loss of a device.
#pragma once

#include <cstdint>
#include <memory>

#include <dwell/options.hpp>
#include <dwell/runtime.hpp>

#include "runtime/devices.hpp"
#include "runtime/generation/shell.hpp"

namespace dwell::detail {

// Opens the device of a new runtime: its first generation. Throws as Runtime::Runtime.
Shell* open_first(Options options, std::uint64_t first_position = 0, Lineage::Open open = runtime::open_device);

// Reopens the device of `lost`, the newest generation of a runtime: the next generation. Throws as Runtime::rebuild.
Shell* open_next(Shell& lost);

// Returns a runtime on the caller's own device, for tests.
Runtime runtime_on(Options options, Lineage::Open open, std::uint64_t first_position = 0);

}  // namespace dwell::detail
