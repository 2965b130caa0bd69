// The operators of the image, by opcode.
#pragma once

#include <dwell/device/operator.hpp>

#include "device/arena.hpp"

#if DWELL_ON_CUDA
// Entry i is opcode i. Generated and linked by src/jit, because a function's address means something only in the image that holds it.
extern "C" __constant__ dwell::device::Entry dwell_entries[];
#endif

namespace dwell::device {

// The operator behind an opcode.
DWELL_DEVICE Entry entry_of([[maybe_unused]] const Lease& lease, u32 opcode) {
#if DWELL_ON_CUDA
  return dwell_entries[opcode];
#else
  return reinterpret_cast<Entry>(const_cast<void*>(lease.entries[opcode]));
#endif
}

}  // namespace dwell::device
