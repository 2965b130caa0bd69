// An asymmetric fence for a store-then-load handshake: the rare side pays for both.
#pragma once

namespace dwell::runtime {

// After this returns, every other thread of the process has executed a full fence since it was called. The frequent side of a
// handshake then needs only a compiler fence between its store and its load: either its store is visible to the caller's next loads,
// or its load sees what the caller stored before. Source: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED.
void membarrier();

// Whether the kernel has it. If not, the frequent side needs a full fence itself: frequent_fence handles both cases.
extern const bool kHaveMembarrier;

// The fence of both sides without membarrier: the second of two threads sees the earlier stores of the first.
void full_fence();

// The frequent side's fence.
inline void frequent_fence() {
  if (kHaveMembarrier)
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  else
    full_fence();
}

}  // namespace dwell::runtime
