// Where a thread polls.
#pragma once

namespace dwell {

// Lets the other thread of the processor's core go first for some 40 cycles.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace dwell
