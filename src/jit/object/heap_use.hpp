// Whether a compiled operator uses the heap.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace dwell::jit {

// Returns whether the object of an operator names functions of the heap, or exports their mark (dwell/device/heap.hpp). Searches its
// bytes, so it may be true for one that does not. False for intermediate code, which shows nothing.
inline bool uses_heap(std::span<const std::byte> object) {
  const std::string_view text(reinterpret_cast<const char*>(object.data()), object.size());
  for (const std::string_view name : {"dwell_heap_", "uses_the_heap"})
    if (text.find(name) != std::string_view::npos) return true;
  return false;
}

}  // namespace dwell::jit
