// Why PyTorch runs an operation.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace dwell::pytorch {

enum class Why : std::uint8_t {
  operation,  // dwell has none such
  arguments,  // it has, for other values of arguments; or PyTorch refuses these
  elements,   // an error that depends on elements, which only PyTorch looks at
  size,       // more elements or dimensions than are taken, or no element
  type,       // element types
  layout,     // not strided, memory that is shared in another way, or strides
  device,     // none of dwell's, or several
  mode,       // a mode or a class of tensors around it is to see the operation
  thread,     // this thread takes none: it watches for results of others
  kWhys,
};
const char* name_of(Why why);

// What rules note when they leave a call to PyTorch. Nothing is written for calls that are taken.
inline thread_local constinit Why noted = Why::arguments;

// Returns the condition; records `why` if it is false.
inline bool holds(bool condition, Why why) {
  if (!condition) noted = why;
  return condition;
}
// Nothing, and why.
inline std::nullopt_t left(Why why) {
  noted = why;
  return std::nullopt;
}
// What was noted, `arguments` where nothing was.
inline Why noted_why() { return std::exchange(noted, Why::arguments); }

}  // namespace dwell::pytorch
