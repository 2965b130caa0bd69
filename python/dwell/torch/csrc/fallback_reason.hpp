// Why PyTorch runs an operation.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace dwell::pytorch {

enum class FallbackReason : std::uint8_t {
  operation,  // dwell does not have the operation
  arguments,  // dwell does not support these arguments, or PyTorch refuses them
  elements,   // PyTorch checks values of elements, and may raise an error
  size,       // too many elements or dimensions, or no element
  type,       // element types
  layout,     // not strided, strides, or shared memory
  device,     // not a device of dwell's, or several devices
  mode,       // a mode or a tensor subclass handles the operation
  thread,     // the thread takes no operations, it only flushes for others
  kReasons,
};
const char* name_of(FallbackReason why);

// Why a rule last declined a call. Not written for calls that are taken.
inline thread_local constinit FallbackReason noted = FallbackReason::arguments;

// Returns the condition; records `why` if it is false.
inline bool holds(bool condition, FallbackReason why) {
  if (!condition) noted = why;
  return condition;
}
// Declines a call, which PyTorch runs then.
inline std::nullopt_t decline(FallbackReason why) {
  noted = why;
  return std::nullopt;
}
// Returns the reason that was noted, else `arguments`, and resets it.
inline FallbackReason take_reason() { return std::exchange(noted, FallbackReason::arguments); }

}  // namespace dwell::pytorch
