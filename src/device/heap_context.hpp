// What a worker knows of the heap before its first call.
#pragma once

#include <dwell/device/group.hpp>

#if !DWELL_LINKED_OPERATORS
#include "device/heap_functions.hpp"
#endif

namespace dwell::device::heap {

// Prepares a context for the heap at this address; 0: there is none. Called by one thread, before the worker's first task.
DWELL_DEVICE void begin(Context* context, u64 at, u32 worker) {
  context->heap = at;
  context->heap_worker = worker;
  context->heap_state = 0;
  DWELL_UNROLL
  for (u32 i = 0; i < kGroupThreads / kLanes; ++i) context->heap_locks[i] = 0;
#if !DWELL_LINKED_OPERATORS
  context->heap_functions = &kFunctions;
#endif
}

}  // namespace dwell::device::heap
