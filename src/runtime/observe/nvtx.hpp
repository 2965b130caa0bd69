// Ranges of NVTX: what threads of the host do, for Nsight Systems and its like, in the domain "dwell".
#pragma once

#include <string_view>

#include <dwell/trace.hpp>

namespace dwell::runtime::nvtx {

// Whether a tool listens. The first call opens the library that NVTX_INJECTION64_PATH names, if any, and its answer stays. Always false
// when dwell was built without NVTX's headers. Members may be called from any thread.
bool attached() noexcept;

// Begin and end a range of the calling thread; `name` may be empty. To be called only when attached, and in pairs.
void push(TraceEvent::Kind kind, std::string_view name) noexcept;
void pop() noexcept;

// An instant. To be called only when attached.
void mark(std::string_view text) noexcept;

}  // namespace dwell::runtime::nvtx
