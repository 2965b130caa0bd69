// Opens runtimes, and the next generations of those whose device is lost.
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

// Opens the device again that `lost`, the newest generation of a runtime, has lost: the next generation. Throws as Runtime::rebuild.
Shell* open_next(Shell& lost);

// A runtime on a device of the caller's, for tests.
Runtime runtime_on(Options options, Lineage::Open open, std::uint64_t first_position = 0);

}  // namespace dwell::detail
