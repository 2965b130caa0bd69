// Small products of matrices (product.hpp): a tile of the result is computed by one group, in an order that the task's words alone
// determine, so that results do not depend on how many groups share the task.
#pragma once

#include <dwell/device/group.hpp>

#include "tensor/device/matrix.hpp"
#include "tensor/device/tiles.hpp"

namespace dwell {
namespace device {

#if DWELL_PARALLEL_GROUP

template <class T>
DWELL_DEVICE void multiply_short(const Group& g, const u32* words) {
#if DWELL_HAS_MMA
  multiply_short_tiles<T>(g, words, WarpMma<T>());
#else
  multiply_plain_tiles<float, AnyElements<float>>(g, words);
#endif
}

// Together: computes a product in tiles, divided among all groups of the task.
DWELL_DEVICE void run_product(const Group& g, const u32* words) {
  switch (ProductWords(words).type()) {
    case ElementType::f32: multiply_plain_tiles<float, TypedElements<float, float>>(g, words); break;
    case ElementType::f64: multiply_plain_tiles<double, TypedElements<double, double>>(g, words); break;
    case ElementType::f16: multiply_short<half>(g, words); break;
    case ElementType::bf16: multiply_short<bfloat16>(g, words); break;
    default: multiply_plain_tiles<u64, AnyElements<u64>>(g, words); break;
  }
}

#else

// ---- On a CPU ----------------------------------------------------------------------------------------------------------------------

// A tile in progress. The operands' lines are copied into memory of the thread, as numbers, so one loop serves all layouts.
template <class C>
class Tile {
 public:
  // Adds the products of `depth` steps, 64 at most, to the sums. Lines l of a and b have their number d at [d * kTile + l]. Lines up to the
  // next multiple of 8 are read too.
  void multiply(u32 rows, u32 columns, u32 depth) {
    for (u32 column = 0; column < columns; column += 2 * kLanes) {
      u32 row = 0;
      for (; row + 1 < rows; row += 4) step<4>(row, column, depth);
      if (row < rows) step<1>(row, column, depth);
    }
  }

  static constexpr u32 kSteps = 64;
  alignas(64) C sums[kTile * kTile];  // a row behind the other
  alignas(64) C a[kSteps * kTile];
  alignas(64) C b[kSteps * kTile];

 private:
  static constexpr u32 kLanes = 16 / sizeof(C);
  typedef C Vector __attribute__((vector_size(16)));

  static Vector vector(const C* from) {
    Vector loaded;
    __builtin_memcpy(&loaded, from, sizeof(loaded));
    return loaded;
  }

  template <u32 rows>
  void step(u32 row, u32 column, u32 depth) {
    Vector left[rows];
    Vector right[rows];
    C* const to = sums + row * kTile + column;
    for (u32 r = 0; r < rows; ++r) {
      left[r] = vector(to + r * kTile);
      right[r] = vector(to + r * kTile + kLanes);
    }
    for (u32 d = 0; d < depth; ++d) {
      const Vector of_left = vector(b + d * kTile + column);
      const Vector of_right = vector(b + d * kTile + column + kLanes);
      for (u32 r = 0; r < rows; ++r) {
        const C factor = a[d * kTile + row + r];
        left[r] += factor * of_left;
        right[r] += factor * of_right;
      }
    }
    for (u32 r = 0; r < rows; ++r) {
      __builtin_memcpy(to + r * kTile, &left[r], sizeof(Vector));
      __builtin_memcpy(to + r * kTile + kLanes, &right[r], sizeof(Vector));
    }
  }
};

// Copies `depth` numbers of each of `lines` lines to to[d * kTile + l], and 0 for the lines behind them that Tile::multiply reads too.
template <class C, class T>
void copy_lines(C* to, const T* from, i32 line_stride, i32 depth_stride, u32 lines, u32 depth) {
  if (line_stride == 1) {
    for (u32 d = 0; d < depth; ++d) {
      const T* const line = from + static_cast<i64>(d) * depth_stride;
      for (u32 l = 0; l < lines; ++l) to[d * kTile + l] = number_of<C>(line[l]);
    }
  } else {
    C numbers[Tile<C>::kSteps];
    for (u32 l = 0; l < lines; ++l) {
      const T* const line = from + static_cast<i64>(l) * line_stride;
      if (depth_stride == 1)
        for (u32 d = 0; d < depth; ++d) numbers[d] = number_of<C>(line[d]);
      else
        for (u32 d = 0; d < depth; ++d) numbers[d] = number_of<C>(line[static_cast<i64>(d) * depth_stride]);
      for (u32 d = 0; d < depth; ++d) to[d * kTile + l] = numbers[d];
    }
  }
  for (u32 l = lines; l % 8 != 0; ++l)
    for (u32 d = 0; d < depth; ++d) to[d * kTile + l] = C();
}

template <class C, class T>
void multiply_tiles(const Group& g, const u32* words) {
  using Elements = TypedElements<C, T>;
  const ProductWords all(words);
  Tile<C> tile;
  each_tile(g, all, kTile, kTile, [&](u32 matrix, u32 row, u32 column) {
    const Matrix<Elements> a(all, ProductWords::a, matrix);
    const Matrix<Elements> b(all, ProductWords::b, matrix);
    const u32 rows = all.m() - row < kTile ? all.m() - row : kTile;
    const u32 columns = all.n() - column < kTile ? all.n() - column : kTile;
    for (C& sum : tile.sums) sum = C();
    for (u32 first = 0; first < all.k(); first += Tile<C>::kSteps) {
      const u32 depth = all.k() - first < Tile<C>::kSteps ? all.k() - first : Tile<C>::kSteps;
      copy_lines(tile.a, a.elements.pointer(a.at(row, first)), a.row_stride, a.column_stride, rows, depth);
      copy_lines(tile.b, b.elements.pointer(b.at(first, column)), b.column_stride, b.row_stride, columns, depth);
      tile.multiply(rows, columns, depth);
    }
    const Result<C, Elements> result(all, matrix);
    for (u32 r = 0; r < rows; ++r)
      for (u32 c = 0; c < columns; ++c) result.store(row + r, column + c, tile.sums[r * kTile + c]);
  });
}

// Computes a product, divided among all groups of the task.
DWELL_DEVICE void run_product(const Group& g, const u32* words) {
  const ElementType type = ProductWords(words).type();
  switch (type) {
    case ElementType::f32: multiply_tiles<float, float>(g, words); break;
    case ElementType::f64: multiply_tiles<double, double>(g, words); break;
    case ElementType::f16: multiply_tiles<float, half>(g, words); break;
    case ElementType::bf16: multiply_tiles<float, bfloat16>(g, words); break;
    default: with_integer(type, [&](auto* as) { multiply_tiles<u64, typename Pointee<decltype(as)>::type>(g, words); });
  }
}

#endif

}  // namespace device
}  // namespace dwell
