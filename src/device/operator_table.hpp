// The operators of the image, by opcode.
#pragma once

#include <dwell/device/operator.hpp>

#include "device/arena.hpp"

// DWELL_INLINE_OPERATORS: the image's loop inlines its operators (src/jit defines it). Else they are called through a table.
#if defined(DWELL_INLINE_OPERATORS)
// Calls the operator behind an opcode. Generated and linked by src/jit.
extern "C" __device__ void dwell_dispatch(dwell::u32 context, dwell::u32 opcode, dwell::u32 arguments);
#elif DWELL_LINKED_OPERATORS
// Entry i is opcode i. Generated and linked by src/jit, because a function's address is valid only in its own image.
extern "C" __constant__ dwell::device::Entry dwell_operators[];
#endif
#if DWELL_LINKED_OPERATORS
// What each opcode uses, see Group::opcode. Generated and linked by src/jit.
extern "C" __device__ const dwell::u32 dwell_uses[];
#endif

namespace dwell::device {

// The target of an opcode, looked up before the call.
#if defined(DWELL_INLINE_OPERATORS)
using Callee = u32;
DWELL_DEVICE Callee callee_of(const Lease&, u32 opcode) { return opcode; }
#elif DWELL_LINKED_OPERATORS
// Two halves, which need no register pair. The compiler loads a whole address into one pair and moves it to another, and so waits for the
// load before the barrier that should hide it (9 ns a step of a chain on an H200).
struct Callee {
  u32 low, high;
};
DWELL_DEVICE Callee callee_of(const Lease&, u32 opcode) {
  Callee callee;
  asm volatile("{ .reg .u64 at; mad.wide.u32 at, %2, 8, %3; ld.const.u32 %0, [at]; ld.const.u32 %1, [at + 4]; }"
               : "=r"(callee.low), "=r"(callee.high)
               : "r"(opcode), "l"(__cvta_generic_to_constant(dwell_operators)));
  return callee;
}
#else
using Callee = Entry;
DWELL_DEVICE Callee callee_of(const Lease& lease, u32 opcode) {
  return reinterpret_cast<Entry>(const_cast<void*>(lease.operators[opcode]));
}
#endif

#if DWELL_LINKED_OPERATORS
// Calls an operator, as Entry. Called by all threads of the group.
DWELL_DEVICE void call_operator(Callee callee, u32 context, u32 opcode, u32 arguments) {
#if defined(DWELL_INLINE_OPERATORS)
  dwell_dispatch(context, callee, arguments);
#else
  reinterpret_cast<Entry>(static_cast<u64>(callee.high) << 32U | callee.low)(context, opcode, arguments);
#endif
}
#endif

// The image's table of what each opcode uses.
DWELL_DEVICE const u32* uses_of([[maybe_unused]] const Lease& lease) {
#if DWELL_LINKED_OPERATORS
  return dwell_uses;
#else
  return lease.uses;
#endif
}

}  // namespace dwell::device
