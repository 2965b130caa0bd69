// Computes tiles of a product (product.hpp) with a group of 128 threads, from first to last along k. Threads is Group. Compiles for a CPU
// too, so tests can play all its threads.
#pragma once

#include <dwell/device/span.hpp>

#include "tensor/device/matrix.hpp"
#include "tensor/device/mma.hpp"
#include "tensor/device/operand.hpp"

namespace dwell {
namespace device {

// ---- Tiles of any numbers ----------------------------------------------------------------------------------------------------------

// Of 32 x 32 results each thread has 2 x 4.
template <class C, class Elements, class Threads>
DWELL_DEVICE_COLD void multiply_plain_tiles(const Threads& g, const u32* words) {
  using Side = Operand<C, Elements>;
  constexpr u32 kPitch = kTile + Side::kPack;  // keeps packs aligned
  constexpr u32 kDepth = Side::kDepth;
  const ProductWords all(words);
  const Span<C> memory = g.template shared<C>(2 * kDepth * kPitch);
  if (memory.empty()) return;
  C* const a_lines = memory.data();
  C* const b_lines = a_lines + kDepth * kPitch;
  const u32 my_row = g.rank() / 8 * 2;
  const u32 my_column = g.rank() % 8 * 4;
  each_tile(g, all, kTile, kTile, [&](u32 matrix, u32 row, u32 column) {
    const Matrix<Elements> a(all, ProductWords::a, matrix);
    const Matrix<Elements> b(all, ProductWords::b, matrix);
    Side a_side(a.elements, a.row_stride, a.column_stride, all.m(), all.k(), row, g.rank());
    Side b_side(b.elements, b.column_stride, b.row_stride, all.n(), all.k(), column, g.rank());
    C sums[2][4] = {};
    // The next step loads during the computation of this one.
    DWELL_UNROLL_NOT
    for (u32 first = 0;; first += kDepth) {
      if (first < all.k()) {
        a_side.fetch(first);
        b_side.fetch(first);
      }
      if (first != 0) {
        DWELL_UNROLL_BY_4
        for (u32 k = 0; k < kDepth; ++k) {
          const auto of_a = *reinterpret_cast<const Pack<C, 2>*>(a_lines + k * kPitch + my_row);
          const auto of_b = *reinterpret_cast<const Pack<C, 4>*>(b_lines + k * kPitch + my_column);
          DWELL_UNROLL
          for (u32 i = 0; i < 2; ++i) {
            DWELL_UNROLL
            for (u32 j = 0; j < 4; ++j) sums[i][j] += of_a.at[i] * of_b.at[j];
          }
        }
      }
      if (first >= all.k()) break;
      g.sync();  // all have read the step before
      a_side.template put<false>(a_lines, kPitch);
      b_side.template put<false>(b_lines, kPitch);
      g.sync();
    }
    const Result<C, Elements> result(all, matrix);
    DWELL_UNROLL
    for (u32 i = 0; i < 2; ++i) {
      DWELL_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const u32 r = row + my_row + i;
        const u32 c = column + my_column + j;
        if (r < all.m() && c < all.n()) result.store(r, c, sums[i][j]);
      }
    }
  });
}

// ---- Tiles of 16-bit numbers -------------------------------------------------------------------------------------------------------

// Of 32 x 32 results each warp has 16 x 16, by two instructions for 16 steps along k:
// `multiply_add(sums, a, b)`, which all lanes of a warp call together (mma.hpp).
template <class T, class Threads, class MultiplyAdd>
DWELL_DEVICE_COLD void multiply_short_tiles(const Threads& g, const u32* words, const MultiplyAdd& multiply_add) {
  using Bits = TypedElements<u16, u16>;
  using Side = Operand<u16, Bits>;
  constexpr u32 kDepth = Side::kDepth;
  constexpr u32 kPitch = kDepth + Side::kPack;  // the lanes of a warp then read from all banks
  const ProductWords all(words);
  const Span<u16> memory = g.template shared<u16>(2 * kTile * kPitch);
  if (memory.empty()) return;
  u16* const a_lines = memory.data();
  u16* const b_lines = a_lines + kTile * kPitch;
  const u32 lane = g.rank() % 32;
  const u32 my_row = g.rank() / 64 * 16;
  const u32 my_column = g.rank() / 32 % 2 * 16;
  each_tile(g, all, kTile, kTile, [&](u32 matrix, u32 row, u32 column) {
    const Matrix<Bits> a(all, ProductWords::a, matrix);
    const Matrix<Bits> b(all, ProductWords::b, matrix);
    Side a_side(a.elements, a.row_stride, a.column_stride, all.m(), all.k(), row, g.rank());
    Side b_side(b.elements, b.column_stride, b.row_stride, all.n(), all.k(), column, g.rank());
    float sums[2][4] = {};
    DWELL_UNROLL_NOT
    for (u32 first = 0;; first += kDepth) {
      if (first < all.k()) {
        a_side.fetch(first);
        b_side.fetch(first);
      }
      sync_lanes();
      if (first != 0) {
        DWELL_UNROLL
        for (u32 k = 0; k < kDepth; k += 16) {
          u32 of_a[4];
          DWELL_UNROLL
          for (u32 i = 0; i < 4; ++i)
            of_a[i] =
                *reinterpret_cast<const u32*>(a_lines + (my_row + MmaLayout::a_row(lane, i)) * kPitch + k + MmaLayout::a_depth(lane, i));
          DWELL_UNROLL
          for (u32 j = 0; j < 2; ++j) {
            const u16* const from = b_lines + (my_column + 8 * j + MmaLayout::b_column(lane)) * kPitch + k;
            const u32 of_b[2] = {*reinterpret_cast<const u32*>(from + MmaLayout::b_depth(lane, 0)),
                                 *reinterpret_cast<const u32*>(from + MmaLayout::b_depth(lane, 1))};
            multiply_add(sums[j], of_a, of_b);
          }
        }
      }
      if (first >= all.k()) break;
      g.sync();  // all have read the step before
      a_side.template put<true>(a_lines, kPitch);
      b_side.template put<true>(b_lines, kPitch);
      g.sync();
    }
    const Result<float, TypedElements<float, T>> result(all, matrix);
    DWELL_UNROLL
    for (u32 j = 0; j < 2; ++j) {
      DWELL_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const u32 r = row + my_row + MmaLayout::sum_row(lane, i);
        const u32 c = column + my_column + 8 * j + MmaLayout::sum_column(lane, i);
        if (r < all.m() && c < all.n()) result.store(r, c, sums[j][i]);
      }
    }
  });
}

}  // namespace device
}  // namespace dwell
