// NVTX ranges of the host's threads, in the domain "dwell", for Nsight Systems and similar tools.
#pragma once

#include <string_view>

#include <dwell/trace.hpp>

namespace dwell::runtime::nvtx {

// Whether a tool listens. The first call opens the library in NVTX_INJECTION64_PATH, if any, and fixes the answer. Always false when dwell
// was built without NVTX's headers. Members may be called from any thread.
bool attached() noexcept;

// Begin and end a range of the calling thread; `name` may be empty. Called only when attached, and in pairs.
void push(TraceEvent::Kind kind, std::string_view name) noexcept;
void pop() noexcept;

// Marks an instant. Called only when attached.
void mark(std::string_view text) noexcept;

}  // namespace dwell::runtime::nvtx
