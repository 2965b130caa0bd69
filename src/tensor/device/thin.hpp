// Computes products of few rows (product.hpp) with a group of 128 threads. Each element of b serves few results, so such a product takes as
// long as reading b. Threads is Group. Compiles for a CPU too, so tests can play all its threads.
#pragma once

#include <dwell/device/pack.hpp>
#include <dwell/device/span.hpp>

#include "tensor/device/matrix.hpp"

namespace dwell {
namespace device {

// ---- Where a thread works ----------------------------------------------------------------------------------------------------------

// The threads of a group are slices times lanes: threads of different slices take different steps along k, those of different lanes
// different columns. From the lowest bit on, a thread's rank has some bits of the lane (if neighbouring columns are neighbours in memory),
// the slice, and the other bits of the lane.
class ThinPlace {
 public:
  DWELL_DEVICE ThinPlace(u32 rank, u32 log_lanes, bool across)
      : rank_(rank),
        low_(!across                ? 0
             : log_lanes < kMostLow ? log_lanes
                                    : kMostLow),
        log_slices_(7 - log_lanes) {}

  DWELL_DEVICE u32 log_slices() const { return log_slices_; }
  DWELL_DEVICE u32 slice() const { return rank_ >> low_ & ((1U << log_slices_) - 1); }
  DWELL_DEVICE u32 lane() const { return (rank_ & ((1U << low_) - 1)) | rank_ >> (low_ + log_slices_) << low_; }

  // Steps of this slice among `count`.
  DWELL_DEVICE u32 steps(u32 count) const { return count > slice() ? ((count - slice() - 1) >> log_slices_) + 1 : 0; }

  // Bits of the slice by which threads of a warp differ: 3 to 5.
  DWELL_DEVICE u32 bits_in_warp() const { return log_slices_ < 5 - low_ ? log_slices_ : 5 - low_; }
  DWELL_DEVICE u32 distance(u32 bit) const { return 1U << (low_ + bit); }
  DWELL_DEVICE bool has(u32 bit) const { return (rank_ >> (low_ + bit) & 1U) != 0; }
  // Neighbouring warps that have the same columns, and this thread's among them.
  DWELL_DEVICE u32 warps() const { return 1U << (log_slices_ - bits_in_warp()); }
  DWELL_DEVICE u32 warp() const { return rank_ / 32 & (warps() - 1); }

 private:
  static constexpr u32 kMostLow = 2;

  const u32 rank_;
  const u32 low_;
  const u32 log_slices_;
};

// ---- Blocks ------------------------------------------------------------------------------------------------------------------------

// sums[r * width + c] += the product of row r of a and column c of a block: as many steps along k as columns. Its lines are columns, or
// with `across` steps. The rows' numbers are `pitch` apart.
template <u32 rows, u32 width, class Elements>
DWELL_DEVICE void multiply_block(float* sums, const Elements& elements, const Pack<typename Elements::Type, kThinPack<float>>* block,
                                 bool across, const float* a, u32 pitch) {
  constexpr u32 kPack = kThinPack<float>;
  float number[kPack][kPack];
  DWELL_UNROLL
  for (u32 i = 0; i < kPack; ++i) {
    DWELL_UNROLL
    for (u32 c = 0; c < kPack; ++c) number[i][c] = elements.number(across ? block[i].at[c] : block[c].at[i]);
  }
  DWELL_UNROLL
  for (u32 r = 0; r < rows; ++r) {
    const Pack<float, kPack> row = *reinterpret_cast<const Pack<float, kPack>*>(a + r * pitch);
    DWELL_UNROLL
    for (u32 i = 0; i < kPack; ++i) {
      DWELL_UNROLL
      for (u32 c = 0; c < kPack; ++c) sums[r * width + c] += row.at[i] * number[i][c];
    }
  }
}

// The blocks of a thread, one after the other, with the loads of the next ones always pending: on a GPU a group reads 16 KiB of floats
// ahead.
template <u32 rows, class Elements>
class ThinStream {
 public:
  using T = typename Elements::Type;
  static constexpr u32 kPack = kThinPack<float>;
  static constexpr u32 kWidth = thin_width(rows);
  static constexpr u32 kBeside = kWidth / kPack;        // blocks of the same steps
  static constexpr u32 kRound = kThinBlocks / kBeside;  // steps whose blocks are pending

  // `first`: the place of the first block; `line`: the stride of lines; `step` and `beside`: from a step to the thread's next one, and from
  // a block to the one beside it; all in elements. Of the blocks beside each other the first `blocks` exist.
  DWELL_DEVICE ThinStream(const Elements& elements, i64 first, i32 line, i64 step, i64 beside, u32 steps, u32 blocks)
      : elements_(elements), line_(line), step_(step), steps_(steps), blocks_(blocks) {
    DWELL_UNROLL
    for (u32 i = 0; i < kBeside; ++i) from_[i] = elements.pointer(0) + (first + i * beside);
  }

  DWELL_DEVICE void begin() {
    DWELL_UNROLL
    for (u32 i = 0; i < kRound; ++i) {
      DWELL_UNROLL
      for (u32 j = 0; j < kBeside; ++j)
        if (i < steps_ && j < blocks_) fetch(i, j);
    }
  }
  // Adds all products to `sums`. The rows' numbers of one step are `pitch` apart, those of the thread's next step are at a + a_step.
  DWELL_DEVICE void finish(float* sums, bool across, const float* a, u32 a_step, u32 pitch) {
    DWELL_UNROLL_NOT
    for (u32 left = steps_; left != 0;) {
      DWELL_UNROLL
      for (u32 i = 0; i < kRound; ++i) {
        DWELL_UNROLL
        for (u32 j = 0; j < kBeside; ++j) {
          if (j >= blocks_) continue;
          multiply_block<rows, kWidth>(sums + j * kPack, elements_, block_[i * kBeside + j], across, a, pitch);
          if (left > kRound) fetch(i, j);
        }
        a += a_step;
        if (--left == 0) return;
      }
    }
  }

 private:
  DWELL_DEVICE void fetch(u32 i, u32 j) {
    const T* from = from_[j];
    DWELL_UNROLL
    for (u32 line = 0; line < kPack; ++line) {
      block_[i * kBeside + j][line] = *reinterpret_cast<const Pack<T, kPack>*>(from);
      from += line_;
    }
    from_[j] += step_;
  }

  const Elements elements_;
  const T* from_[kBeside];
  const i32 line_;
  const i64 step_;
  const u32 steps_;
  const u32 blocks_;
  Pack<T, kPack> block_[kThinBlocks][kPack];
};

// Copies the numbers of `rows` rows of a, those from `first` on among m, to memory that the group shares: row r's number at step d, of
// `depth` from `start` on, to to[r * pitch + d]. Rows that a lacks are 0.
template <u32 rows, class C, class Elements, class Threads>
DWELL_DEVICE void copy_rows(const Threads& g, C* to, u32 pitch, const Matrix<Elements>& a, u32 first, u32 m, u32 start, u32 depth) {
  constexpr u32 kSteps = rows == 1 ? 4 : 1;  // loads that are pending: of steps or of rows
  DWELL_UNROLL_NOT
  for (u32 d = g.rank(); d < depth; d += kSteps * g.size()) {
    C number[kSteps * rows] = {};
    DWELL_UNROLL
    for (u32 i = 0; i < kSteps * rows; ++i) {
      const u32 at = d + i / rows * g.size();
      if (first + i % rows < m && at < depth) number[i] = a.elements.load(a.at(first + i % rows, start + at));
    }
    DWELL_UNROLL
    for (u32 i = 0; i < kSteps * rows; ++i) {
      const u32 at = d + i / rows * g.size();
      if (at < depth) to[i % rows * pitch + at] = number[i];
    }
  }
}

// ---- Products ----------------------------------------------------------------------------------------------------------------------

// Stores the results of `rows` rows from `row` on in one column. `sums` are `pitch` apart.
template <u32 rows>
DWELL_DEVICE_COLD void store_column(const u32* words, u32 matrix, u32 row, u32 column, const float* sums, u32 pitch) {
  const ProductWords all(words);
  if (column >= all.n()) return;
  const Result<float, FloatElements> result(all, matrix);
  float bias[rows];
  DWELL_UNROLL
  for (u32 r = 0; r < rows; ++r) bias[r] = row + r < all.m() ? result.bias(row + r, column) : 0;
  DWELL_UNROLL
  for (u32 r = 0; r < rows; ++r)
    if (row + r < all.m()) result.store(row + r, column, sums[r * pitch], bias[r]);
}

// Adds up the sums of all slices, bit by bit, and stores the results of the rows from `row` on. `memory`: 128 numbers for each row.
// `across_lanes(value, distance)`: the value of the lane whose rank differs in the bit `distance`; all lanes of a warp call it together.
template <u32 rows, u32 width, class Threads, class AcrossLanes>
DWELL_DEVICE_COLD void store_sums(const Threads& g, const u32* words, bool across, u32 matrix, u32 row, u32 column, float* memory,
                                  float* sums, const AcrossLanes& across_lanes) {
  static_assert(width <= 8, "three exchanges leave one sum of a row");
  const ProductWords all(words);
  const ThinPlace place(g.rank(), all.log_lanes(), across);
  u32 mine = 0;
  bool stores = place.warp() == 0;
  // Threads that differ in a bit exchange half of their sums, while there are several.
  DWELL_UNROLL
  for (u32 bit = 0; bit < 3; ++bit) {
    const u32 half = width >> (bit + 1);
    const bool upper = place.has(bit);
    DWELL_UNROLL
    for (u32 i = 0; i < rows * (half != 0 ? half : 1); ++i) {
      float* const sum = sums + (half != 0 ? i / half * width + i % half : i * width);
      const float given = half != 0 && !upper ? sum[half] : sum[0];
      const float kept = half != 0 && upper ? sum[half] : sum[0];
      sum[0] = kept + across_lanes(given, place.distance(bit));
    }
    mine += upper ? half : 0;
    stores = stores && (half != 0 || !upper);
  }
  DWELL_UNROLL_NOT
  for (u32 bit = 3; bit < place.bits_in_warp(); ++bit) {
    DWELL_UNROLL
    for (u32 r = 0; r < rows; ++r) sums[r * width] += across_lanes(sums[r * width], place.distance(bit));
    stores = stores && !place.has(bit);
  }
  if (place.warps() != 1) {
    g.sync();  // all have read a's rows
    DWELL_UNROLL
    for (u32 r = 0; r < rows; ++r) memory[r * g.size() + g.rank()] = sums[r * width];
    g.sync();
    DWELL_UNROLL_NOT
    for (u32 other = 1; stores && other < place.warps(); ++other) {
      DWELL_UNROLL
      for (u32 r = 0; r < rows; ++r) sums[r * width] += memory[r * g.size() + g.rank() + other * 32];
    }
  }
  if (!stores) return;
  constexpr u32 kPack = kThinPack<float>;
  store_column<rows>(words, matrix, row, column + (mine / kPack << all.log_lanes()) * kPack + mine % kPack, sums, width);
}

// Products whose b is a stream of aligned packs, with `rows` rows at once.
template <u32 rows, class Elements, class Threads, class AcrossLanes>
DWELL_DEVICE_COLD void multiply_stream(const Threads& g, const u32* words, const AcrossLanes& across_lanes) {
  using Stream = ThinStream<rows, Elements>;
  constexpr u32 kPack = Stream::kPack;
  constexpr u32 kPitch = kThinBytes / sizeof(float) / rows;
  const ProductWords all(words);
  const Span<float> memory = g.template shared<float>(kThinBytes / sizeof(float));
  if (memory.empty()) return;
  const u32 m = all.m();
  const u32 n = all.n();
  const u32 k = all.k();
  const u32 log_lanes = all.log_lanes();
  u32 held = ~0U;  // the matrix whose rows are in memory as a whole
  each_tile(g, all, m, Stream::kWidth << log_lanes, [&](u32 matrix, u32, u32 first) {
    const Matrix<Elements> b(all, ProductWords::b, matrix);
    const bool across = b.column_stride == 1;
    const ThinPlace place(g.rank(), log_lanes, across);
    const u32 column = first + place.lane() * kPack;
    const u32 beside = kPack << log_lanes;
    const u32 blocks = column >= n ? 0 : (n - column + beside - 1) >> (log_lanes + kLogThinPack);
    const u32 step = kPack << place.log_slices();
    const float* const of_a = memory.data() + place.slice() * kPack;
    DWELL_UNROLL_NOT
    for (u32 row = 0; row < m; row += rows) {
      float sums[rows * Stream::kWidth] = {};
      DWELL_UNROLL_NOT
      for (u32 start = 0; start < k; start += kPitch) {
        const u32 depth = k - start < kPitch ? k - start : kPitch;
        const i64 from = static_cast<i64>(start + place.slice() * kPack) * b.row_stride + static_cast<i64>(column) * b.column_stride;
        Stream stream(b.elements, from, across ? b.row_stride : b.column_stride, static_cast<i64>(step) * b.row_stride,
                      static_cast<i64>(beside) * b.column_stride, blocks == 0 ? 0 : place.steps(depth / kPack), blocks);
        stream.begin();
        if (held != matrix) {
          g.sync();  // all have read what was in memory
          copy_rows<rows>(g, memory.data(), kPitch, Matrix<Elements>(all, ProductWords::a, matrix), row, m, start, depth);
          g.sync();
          held = k <= kPitch && m <= rows && place.warps() == 1 ? matrix : ~0U;
        }
        stream.finish(sums, across, of_a, step, kPitch);
      }
      store_sums<rows, Stream::kWidth>(g, words, across, matrix, row, column, memory.data(), sums, across_lanes);
    }
  });
}

// Products of any layout: each thread has one column. The order of sums is that of multiply_stream.
template <class C, class Elements, class Threads>
DWELL_DEVICE_COLD void multiply_thin(const Threads& g, const u32* words) {
  // Elements along k that a thread loads at once; without gain where each is a call.
  constexpr u32 kLoads = Elements::kIsTyped ? 32 / sizeof(C) : 1;
  constexpr u32 kPack = kThinPack<C>;
  const ProductWords all(words);
  const Span<C> memory = g.template shared<C>(kThinRowsAtOnce * g.size());
  if (memory.empty()) return;
  const u32 m = all.m();
  const u32 n = all.n();
  const u32 k = all.k();
  const u32 log_lanes = all.log_lanes();
  const u32 pitch = kThinBytes / static_cast<u32>(sizeof(C)) / (m == 1 ? 1 : kThinRowsAtOnce);
  each_tile(g, all, m, 1U << log_lanes, [&](u32 matrix, u32, u32 first) {
    const Matrix<Elements> a(all, ProductWords::a, matrix);
    const Matrix<Elements> b(all, ProductWords::b, matrix);
    const ThinPlace place(g.rank(), log_lanes, is_closer(b.column_stride, b.row_stride));
    const u32 column = first + place.lane();
    C* const sums = memory.data() + g.rank();
    DWELL_UNROLL_NOT
    for (u32 row = 0; row < m; row += kThinRowsAtOnce) {
      const u32 rows = m - row < kThinRowsAtOnce ? m - row : kThinRowsAtOnce;
      g.sync();  // all have read the sums before
      DWELL_UNROLL
      for (u32 r = 0; r < kThinRowsAtOnce; ++r) sums[r * g.size()] = C();
      DWELL_UNROLL_NOT
      for (u32 start = 0; start < k; start += pitch) {
        const u32 depth = k - start < pitch ? k - start : pitch;
        const u32 steps = place.steps((depth + kPack - 1) / kPack) * kPack;
        DWELL_UNROLL_NOT
        for (u32 next = 0; column < n && next < steps; next += kLoads) {
          // The loads of the column, and of a row, are pending together: a step waits for memory.
          const auto step_of = [&](u32 i) {
            const u32 at = next + i;
            return (((at / kPack) << place.log_slices()) + place.slice()) * kPack + at % kPack;
          };
          C of_b[kLoads];
          DWELL_UNROLL
          for (u32 i = 0; i < kLoads; ++i) of_b[i] = b.elements.load(b.at(start + (step_of(i) < depth ? step_of(i) : 0), column));
          DWELL_UNROLL_NOT
          for (u32 r = 0; r < rows; ++r) {
            C of_a[kLoads];
            DWELL_UNROLL
            for (u32 i = 0; i < kLoads; ++i) of_a[i] = a.elements.load(a.at(row + r, start + (step_of(i) < depth ? step_of(i) : 0)));
            C sum = sums[r * g.size()];
            DWELL_UNROLL
            for (u32 i = 0; i < kLoads; ++i) sum = step_of(i) < depth ? sum + of_a[i] * of_b[i] : sum;
            sums[r * g.size()] = sum;
          }
        }
      }
      bool stores = place.warp() == 0;
      DWELL_UNROLL_NOT
      for (u32 bit = 0; bit < place.bits_in_warp(); ++bit) {
        g.sync();
        stores = stores && !place.has(bit);
        if (place.has(bit)) continue;
        DWELL_UNROLL
        for (u32 r = 0; r < kThinRowsAtOnce; ++r) sums[r * g.size()] += sums[r * g.size() + place.distance(bit)];
      }
      g.sync();
      if (!stores || column >= n) continue;
      const Result<C, Elements> result(all, matrix);
      DWELL_UNROLL_NOT
      for (u32 r = 0; r < rows; ++r) {
        C sum = sums[r * g.size()];
        DWELL_UNROLL_NOT
        for (u32 other = 1; other < place.warps(); ++other) sum += sums[r * g.size() + other * 32];
        result.store(row + r, column, sum);
      }
    }
  });
}

// Products whose results are few, and short: each thread computes one, without any barrier.
template <class C, class Elements, class Threads>
DWELL_DEVICE_COLD void multiply_singly(const Threads& g, const u32* words) {
  // Elements that a thread loads at once; without gain where each is a call.
  constexpr u32 kLoads = Elements::kIsTyped ? 32 / sizeof(C) : 1;
  const ProductWords all(words);
  const u32 n = all.n();
  const u32 depth = all.k();
  DWELL_UNROLL_NOT
  for (u32 at = g.index() * g.size() + g.rank(); at < all.tiles(); at += g.count() * g.size()) {
    const u32 line = at / n;
    const u32 column = at - line * n;
    const u32 matrix = all.dims() == 0 ? 0 : line / all.m();
    const u32 row = line - matrix * all.m();
    const Matrix<Elements> a(all, ProductWords::a, matrix);
    const Matrix<Elements> b(all, ProductWords::b, matrix);
    const Result<C, Elements> result(all, matrix);
    C sum = C();
    DWELL_UNROLL_NOT
    for (u32 k = 0; k < depth; k += kLoads) {
      C of_a[kLoads];
      C of_b[kLoads];
      DWELL_UNROLL
      for (u32 i = 0; i < kLoads; ++i) {
        const u32 step = k + i < depth ? k + i : k;
        of_a[i] = a.elements.load(a.at(row, step));
        of_b[i] = b.elements.load(b.at(step, column));
      }
      DWELL_UNROLL
      for (u32 i = 0; i < kLoads; ++i) sum = k + i < depth ? sum + of_a[i] * of_b[i] : sum;
    }
    result.store(row, column, sum);
  }
}

}  // namespace device
}  // namespace dwell
