// Products of tiles of 16-bit numbers by the matrix instructions of a warp: mma.m16n8k16.
#pragma once

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>

namespace dwell {
namespace device {

// The elements that each lane of a warp holds, by the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type"). A lane has
// four words of a, two of b, and four sums. A word holds two numbers adjacent along k, the first in its lower half.
struct MmaLayout {
  // Of the first number of word `word` of a (16 rows, 16 along k).
  static DWELL_HOST_DEVICE u32 a_row(u32 lane, u32 word) { return lane / 4 + word % 2 * 8; }
  static DWELL_HOST_DEVICE u32 a_depth(u32 lane, u32 word) { return lane % 4 * 2 + word / 2 * 8; }
  // Of the first number of word `word` of b (16 along k, 8 columns).
  static DWELL_HOST_DEVICE u32 b_depth(u32 lane, u32 word) { return lane % 4 * 2 + word * 8; }
  static DWELL_HOST_DEVICE u32 b_column(u32 lane) { return lane / 4; }
  // Of sum `i` (16 rows, 8 columns).
  static DWELL_HOST_DEVICE u32 sum_row(u32 lane, u32 i) { return lane / 4 + i / 2 * 8; }
  static DWELL_HOST_DEVICE u32 sum_column(u32 lane, u32 i) { return lane % 4 * 2 + i % 2; }
};

#if DWELL_HAS_MMA

// sums += a * b. All lanes of a warp together.
template <class T>
struct WarpMma;
template <>
struct WarpMma<half> {
  DWELL_DEVICE void operator()(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) const {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <>
struct WarpMma<bfloat16> {
  DWELL_DEVICE void operator()(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) const {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

#endif

}  // namespace device
}  // namespace dwell
