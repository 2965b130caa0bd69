// Products of matrices of floats, as members of a gang compute them (member.hpp).
#pragma once

#include <dwell/device/pack.hpp>

#include "tensor/device/member.hpp"

namespace dwell {
namespace device {

// to = alpha * a * b + beta * bias for each matrix of a batch. P has the shape as constants:
//   batch, m, n, k; alpha(), beta(), has_bias; lanes: threads that share an element of the result, a power of two up to 32;
//   turns: each column's sum begins at another place, where columns lie so far apart that all of a warp would read the same bank
// and the offsets of elements: a(matrix, row, d), b(matrix, d, column), to(matrix, row, column), bias(matrix, row, column).

// Computes elements [first, end) of the result; element(i, value) gets each, by one thread.
template <class P, u32 threads, class Element, class B>
DWELL_DEVICE void multiply_elements(const Member& m, const float* a, const B& b, const float* bias, u32 first, u32 end,
                                    const Element& element) {
  constexpr u32 kAtOnce = threads / P::lanes;
  const u32 lane = m.thread() % P::lanes;
  // All threads of a warp take as many turns: they combine their sums.
  DWELL_UNROLL_NOT
  for (u32 turn = first; turn < end; turn += kAtOnce) {
    const u32 mine = turn + m.thread() / P::lanes;
    const u32 i = mine < end ? mine : first;
    const u32 matrix = i / (P::m * P::n);
    const u32 row = i / P::n % P::m;
    const u32 column = i % P::n;
    float sum = 0;
    if (P::turns) {
      constexpr u32 kTerms = P::k / P::lanes;
      const u32 begin = column % kTerms;
      DWELL_UNROLL_AT_MOST(kTerms, 16)
      for (u32 j = 0; j < kTerms; ++j) {
        const u32 term = begin + j < kTerms ? begin + j : begin + j - kTerms;
        const u32 d = lane + term * P::lanes;
        sum += a[P::a(matrix, row, d)] * b(matrix, d, column);
      }
    } else {
      DWELL_UNROLL_AT_MOST(P::k / P::lanes, 16)
      for (u32 d = lane; d < P::k; d += P::lanes) sum += a[P::a(matrix, row, d)] * b(matrix, d, column);
    }
    sum = over_lanes<P::lanes>(sum, [](float x, float y) { return x + y; });
    float value = P::alpha() * sum;
    if (P::has_bias) value += P::beta() * bias[P::bias(matrix, row, column)];
    if (lane == 0 && mine < end) element(i, value);
  }
}

// The whole product, by each member.
template <class P, u32 threads>
DWELL_DEVICE void multiply(const Member& m, float* to, const float* a, const float* b, const float* bias) {
  multiply_elements<P, threads>(
      m, a, [b](u32 matrix, u32 d, u32 column) { return b[P::b(matrix, d, column)]; }, bias, 0, P::batch * P::m * P::n,
      [to](u32 i, float value) { to[P::to(i / (P::m * P::n), i / P::n % P::m, i % P::n)] = value; });
}

// The member's part of a product, of elements that follow each other, as words from `word` on.
template <class P, u32 members, u32 threads>
DWELL_DEVICE void multiply_part(const Member& m, u32 word, const float* a, const float* b, const float* bias) {
  constexpr u32 kAll = P::batch * P::m * P::n;
  multiply_elements<P, threads>(
      m, a, [b](u32 matrix, u32 d, u32 column) { return b[P::b(matrix, d, column)]; }, bias, kAll * m.rank() / members,
      kAll * (m.rank() + 1) / members, [&m, word](u32 i, float value) { m.put(word + i, value); });
}

// The member's part of a product whose result lies in global memory.
template <class P, u32 members, u32 threads>
DWELL_DEVICE void multiply_shared(const Member& m, float* to, const float* a, const float* b, const float* bias) {
  constexpr u32 kAll = P::batch * P::m * P::n;
  multiply_elements<P, threads>(
      m, a, [b](u32 matrix, u32 d, u32 column) { return b[P::b(matrix, d, column)]; }, bias,
      static_cast<u32>(static_cast<u64>(kAll) * m.rank() / members), static_cast<u32>(static_cast<u64>(kAll) * (m.rank() + 1) / members),
      [to](u32 i, float value) { to[P::to(i / (P::m * P::n), i / P::n % P::m, i % P::n)] = value; });
}

// ---- Tiles -------------------------------------------------------------------------------------------------------------------------
// A member copies the rows of a and the columns of b of a tile of the result to its own memory. P has also
//   tile_rows, tile_columns, which divide m and n; tile_pitch: from a row or column in that memory to the next, in floats; and
//   global_a, global_b: whether the operands lie in global memory, not in the member's; and packs_a, packs_b: whether four elements along k
//   lie in an aligned pack there.

// `global`: where the operand lies; a copy within the member's memory is an ordinary one.
template <class P, u32 threads, u32 lines, bool packs, bool global, class Address>
DWELL_DEVICE void begin_tile(const Member& m, float* to, bool along_k, const Address& address) {
  constexpr u32 kAtOnce = packs ? 4 : 1;
  constexpr u32 kPerLine = P::k / kAtOnce;
  for (u32 i = m.thread(); i < lines * kPerLine; i += threads) {
    // Neighbouring threads load neighbours.
    const u32 line = packs || along_k ? i / kPerLine : i % lines;
    const u32 d = (packs || along_k ? i % kPerLine : i / lines) * kAtOnce;
    float* const at = to + line * P::tile_pitch + d;
    if (!global)
      *at = *address(line, d);
    else if (packs)
      begin_copy_of_four(at, address(line, d));
    else
      begin_copy_of(at, address(line, d));
  }
}

// A product whose result lies in global memory, a tile at a time.
template <class P, u32 members, u32 threads>
DWELL_DEVICE void multiply_tiles(const Member& m, float* to, const float* a, const float* b, const float* bias, float* tiles) {
  constexpr u32 kAcross = P::n / P::tile_columns;
  constexpr u32 kTiles = P::m / P::tile_rows * kAcross;
  constexpr u32 kOutputs = P::tile_rows * P::tile_columns;
  constexpr u32 kAtOnce = threads / P::lanes;
  constexpr u32 kPack = P::k % (4 * P::lanes) == 0 ? 4 : 1;
  using Numbers = Pack<float, kPack>;
  float* const rows = tiles;
  float* const columns = tiles + P::tile_rows * P::tile_pitch;
  const u32 lane = m.thread() % P::lanes;
  DWELL_UNROLL_NOT
  for (u32 tile = m.rank(); tile < P::batch * kTiles; tile += members) {
    const u32 matrix = tile / kTiles;
    const u32 first_row = tile % kTiles / kAcross * P::tile_rows;
    const u32 first_column = tile % kAcross * P::tile_columns;
    if (tile != m.rank()) m.sync();  // the last tile has been read
    begin_tile<P, threads, P::tile_rows, P::packs_a, P::global_a>(m, rows, P::a(0, 0, 1) == 1,
                                                                  [&](u32 line, u32 d) { return a + P::a(matrix, first_row + line, d); });
    begin_tile<P, threads, P::tile_columns, P::packs_b, P::global_b>(
        m, columns, P::b(0, 1, 0) == 1, [&](u32 line, u32 d) { return b + P::b(matrix, d, first_column + line); });
    end_copies();
    m.sync();
    DWELL_UNROLL_NOT
    for (u32 turn = 0; turn < kOutputs; turn += kAtOnce) {
      const u32 mine = turn + m.thread() / P::lanes;
      const u32 i = mine < kOutputs ? mine : 0;
      const u32 row = i / P::tile_columns;
      const u32 column = i % P::tile_columns;
      const auto* const of_a = reinterpret_cast<const Numbers*>(rows + row * P::tile_pitch);
      const auto* const of_b = reinterpret_cast<const Numbers*>(columns + column * P::tile_pitch);
      float sums[kPack] = {};
      DWELL_UNROLL_BY_4
      for (u32 d = lane; d < P::k / kPack; d += P::lanes) {
        const Numbers x = of_a[d];
        const Numbers y = of_b[d];
        DWELL_UNROLL
        for (u32 k = 0; k < kPack; ++k) sums[k] += x.at[k] * y.at[k];
      }
      float sum = sums[0];
      DWELL_UNROLL
      for (u32 k = 1; k < kPack; ++k) sum += sums[k];
      sum = over_lanes<P::lanes>(sum, [](float x, float y) { return x + y; });
      float value = P::alpha() * sum;
      const u32 at_row = first_row + row;
      const u32 at_column = first_column + column;
      if (P::has_bias) value += P::beta() * bias[P::bias(matrix, at_row, at_column)];
      if (lane == 0 && mine < kOutputs) to[P::to(matrix, at_row, at_column)] = value;
    }
  }
}

// ---- Weights that stay -------------------------------------------------------------------------------------------------------------
// A member keeps the columns of b whose results it computes, a column behind the other, P::pitch elements apart: P has also
//   pitch, b(0, d, column), columns(rank): how many a member keeps, and column(rank, i): the i-th of them; packs: whether four elements of
//   a column lie in an aligned pack, in both memories.

template <class P, u32 threads>
DWELL_DEVICE void begin_weights(const Member& m, float* to, const float* b) {
  constexpr u32 kAtOnce = P::packs ? 4 : 1;
  constexpr u32 kPerColumn = P::k / kAtOnce;
  const u32 columns = P::columns(m.rank());
  // Neighbouring threads load neighbours.
  DWELL_UNROLL_NOT
  for (u32 i = m.thread(); i < columns * kPerColumn; i += threads) {
    const u32 column = P::b(0, 1, 0) == 1 ? i / kPerColumn : i % columns;
    const u32 d = (P::b(0, 1, 0) == 1 ? i % kPerColumn : i / columns) * kAtOnce;
    float* const at = to + column * P::pitch + d;
    const float* const from = b + P::b(0, d, P::column(m.rank(), column));
    if (P::packs)
      begin_copy_of_four(at, from);
    else
      begin_copy_of(at, from);
  }
}
// The member's part of a product with them: its columns of each row. P::hands_on: as words from `word` on. P::stays: in its own copy of the
// result, where it has these elements alone.
template <class P, u32 threads>
DWELL_DEVICE void multiply_kept(const Member& m, float* to, u32 word, const float* a, const float* weights, const float* bias) {
  const u32 columns = P::columns(m.rank());
  constexpr u32 kAtOnce = threads / P::lanes;
  const u32 lane = m.thread() % P::lanes;
  DWELL_UNROLL_NOT
  for (u32 turn = 0; turn < P::m * columns; turn += kAtOnce) {
    const u32 mine = turn + m.thread() / P::lanes;
    const u32 i = mine < P::m * columns ? mine : 0;
    const u32 row = P::m == 1 ? 0 : i / columns;
    const u32 kept = P::m == 1 ? i : i % columns;
    const u32 column = P::column(m.rank(), kept);
    const float* const mine_of_b = weights + kept * P::pitch;
    const float added = P::has_bias ? P::beta() * bias[P::bias(0, row, column)] : 0.0F;
    float sum = 0;
    DWELL_UNROLL_AT_MOST(P::k / P::lanes, 16)
    for (u32 d = lane; d < P::k; d += P::lanes) sum += a[P::a(0, row, d)] * mine_of_b[d];
    sum = over_lanes<P::lanes>(sum, [](float x, float y) { return x + y; });
    const float value = P::has_bias ? P::alpha() * sum + added : P::alpha() * sum;
    if (lane != 0 || mine >= P::m * columns) continue;
    if (P::hands_on) m.put(word + row * P::n + column, value);
    if (P::stays) to[P::to(0, row, column)] = value;
  }
}

}  // namespace device
}  // namespace dwell
