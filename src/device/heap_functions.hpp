// The heap's functions as operators find them (dwell/device/heap.hpp): where they are linked, by their names, in a program of its own;
// else by a table.
#pragma once

#include "device/heap_collect.hpp"

#if DWELL_LINKED_OPERATORS

#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) \
  extern "C" __device__ __noinline__ result dwell_heap_##name parameters { return dwell::device::heap::name arguments; }
DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION

#else

namespace dwell::device::heap {

#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) \
  inline result name##_by_table parameters { return name arguments; }
DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION

inline constexpr HeapFunctions kFunctions = {
#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) &name##_by_table,
    DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION
};

}  // namespace dwell::device::heap

#endif
