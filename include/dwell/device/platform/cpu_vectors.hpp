// Vectors of numbers on a CPU: what its compiler and the flags of the translation unit have.
//
//   kVectorLanes             floats of the widest vector that a register holds
//   DWELL_SHUFFLES_VECTORS   the compiler has __builtin_shufflevector
#pragma once

#include <dwell/device/platform/types.hpp>

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DWELL_SHUFFLES_VECTORS 1
#endif
#endif
#if !defined(DWELL_SHUFFLES_VECTORS)
#define DWELL_SHUFFLES_VECTORS 0
#endif

namespace dwell {

#if defined(__AVX512F__)
DWELL_CONSTANT u32 kVectorLanes = 16;
#elif defined(__AVX__)
DWELL_CONSTANT u32 kVectorLanes = 8;
#else
DWELL_CONSTANT u32 kVectorLanes = 4;
#endif

}  // namespace dwell
