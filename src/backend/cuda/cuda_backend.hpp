// CUDA devices as a backend: the driver's primary context, one stream for leases, one for copies, one for launches. Needs none of CUDA's
// headers.
#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace dwell::backend {

struct Driver;

// Opens the device with its primary context, which it shares with all users of CUDA's runtime. Throws dwell::Error:
// errc::device_unavailable with the reason (no driver, too old a driver, no such device, a device that cannot run dwell),
// errc::out_of_memory.
// Members may be called from any thread; none leaves the context current there. Memory is freed and images are unloaded by calls that
// wait for the running lease to end.
std::unique_ptr<Backend> open_cuda(int ordinal);
// As above, with the caller's driver, for tests. The driver outlives the backend.
std::unique_ptr<Backend> open_cuda(const Driver& driver, int ordinal);

}  // namespace dwell::backend
