// A fence for both sides of a store-then-load handshake, paid by the side that comes rarely.
#pragma once

namespace dwell::runtime {

// After this returns, every other thread of the process has executed a full fence since it was called. The frequent side of a
// handshake then needs only a compiler fence between its store and its load: either its store is visible to the caller's next loads,
// or its load sees what the caller stored before. Source: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED.
void membarrier();

// Whether the kernel has it. Where not, the frequent side must use a full fence itself: frequent_fence does the right thing.
extern const bool kHaveMembarrier;

// The fence of both sides where the kernel has none: of two threads one comes second, and sees what the other stored before.
void full_fence();

// The frequent side's fence.
inline void frequent_fence() {
  if (kHaveMembarrier)
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  else
    full_fence();
}

}  // namespace dwell::runtime
