// The heap's functions as a program of their own, which is linked with images whose operators call them.
#pragma once

#include "device/heap.hpp"

extern "C" __device__ __noinline__ dwell::u32 dwell_allocate(dwell::device::Context* context, dwell::u64 bytes) {
  return dwell::device::heap::allocate(context, bytes);
}
extern "C" __device__ __noinline__ dwell::i32 dwell_free(dwell::device::Context* context, dwell::u32 unit) {
  return dwell::device::heap::free(context, unit);
}
