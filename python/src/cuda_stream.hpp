// Waiting for a CUDA stream of somebody else's, with libcuda opened at run time as the library does.
#pragma once

#include <cstdint>

namespace dwell::python {

// CUDA's own stream numbers: the legacy default stream, the per-thread one; any other is the address of a stream.
inline constexpr std::uintptr_t kLegacyStream = 1;

// Waits until the device `ordinal` has come past what the stream of its primary context holds now. The caller does not hold the GIL. Throws
// errc::device_unavailable without libcuda, errc::device_lost when the driver reports a failure.
void wait_for_stream(int ordinal, std::uintptr_t stream);

}  // namespace dwell::python
