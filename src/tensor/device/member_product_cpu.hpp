// Products of matrices of floats, as the one member of a gang on a CPU computes them (member_product.hpp), with vectors.
#pragma once

#include "tensor/device/member.hpp"

#if !DWELL_PARALLEL_GROUP

#include <dwell/device/platform/cpu_vectors.hpp>

namespace dwell {
namespace device {

// ---- Vectors -----------------------------------------------------------------------------------------------------------------------

template <u32 lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(lanes * sizeof(float))));
};
template <>
struct VectorOf<1> {
  using type = float;
};
template <u32 lanes>
using Vector = typename VectorOf<lanes>::type;

template <u32 lanes>
DWELL_DEVICE float lane_of(const Vector<lanes>& vector, u32 lane) {
  return vector[lane];
}
template <>
DWELL_DEVICE float lane_of<1>(const float& vector, u32) {
  return vector;
}

// Elements `stride` apart, from an address on.
template <u32 lanes, i32 stride>
DWELL_DEVICE Vector<lanes> load_lanes(const float* from) {
  Vector<lanes> vector;
  if (stride == 1) {
    __builtin_memcpy(&vector, from, sizeof(vector));
  } else {
    float each[lanes];
    for (u32 i = 0; i < lanes; ++i) each[i] = from[static_cast<i32>(i) * stride];
    __builtin_memcpy(&vector, each, sizeof(vector));
  }
  return vector;
}
template <u32 lanes, i32 stride>
DWELL_DEVICE void store_lanes(float* to, Vector<lanes> vector) {
  if (stride == 1)
    __builtin_memcpy(to, &vector, sizeof(vector));
  else
    for (u32 i = 0; i < lanes; ++i) to[static_cast<i32>(i) * stride] = lane_of<lanes>(vector, i);
}

// The sum of each of four vectors.
template <u32 lanes>
DWELL_DEVICE Vector<4> sums_of(const Vector<lanes>* of) {
  Vector<lanes / 2> halves[4];
  for (u32 i = 0; i < 4; ++i) {
    Vector<lanes / 2> half[2];
    __builtin_memcpy(half, of + i, sizeof(half));
    halves[i] = half[0] + half[1];
  }
  return sums_of<lanes / 2>(halves);
}
template <>
DWELL_DEVICE Vector<4> sums_of<4>(const Vector<4>* of) {
#if DWELL_SHUFFLES_VECTORS
  const Vector<4> left = __builtin_shufflevector(of[0], of[1], 0, 4, 1, 5) + __builtin_shufflevector(of[0], of[1], 2, 6, 3, 7);
  const Vector<4> right = __builtin_shufflevector(of[2], of[3], 0, 4, 1, 5) + __builtin_shufflevector(of[2], of[3], 2, 6, 3, 7);
  return __builtin_shufflevector(left, right, 0, 1, 4, 5) + __builtin_shufflevector(left, right, 2, 3, 6, 7);
#else
  Vector<4> sums;
  for (u32 i = 0; i < 4; ++i) sums[i] = (of[i][0] + of[i][2]) + (of[i][1] + of[i][3]);
  return sums;
#endif
}

// ---- Products ----------------------------------------------------------------------------------------------------------------------

// P is as in member_product.hpp. The transposed product: rows of the result are columns of P's.
template <class P>
struct Transposed {
  static constexpr u32 m = P::n;
  static constexpr u32 n = P::m;
  static constexpr u32 k = P::k;
  static constexpr bool has_bias = P::has_bias;
  static DWELL_DEVICE float alpha() { return P::alpha(); }
  static DWELL_DEVICE float beta() { return P::beta(); }
  static DWELL_HOST_DEVICE i32 to(u32 matrix, u32 row, u32 column) { return P::to(matrix, column, row); }
  static DWELL_HOST_DEVICE i32 a(u32 matrix, u32 row, u32 d) { return P::b(matrix, d, row); }
  static DWELL_HOST_DEVICE i32 b(u32 matrix, u32 d, u32 column) { return P::a(matrix, column, d); }
  static DWELL_HOST_DEVICE i32 bias(u32 matrix, u32 row, u32 column) { return P::bias(matrix, column, row); }
};

// The tensors of a product.
struct ProductMemory {
  float* to;
  const float* a;
  const float* b;
  const float* bias;
  u32 matrix;
};

template <u32 value>
struct Constant {};

// Stores results of neighbouring columns.
template <class P, u32 lanes>
DWELL_DEVICE void store_results(const ProductMemory& in, u32 row, u32 column, Vector<lanes> sums) {
  sums *= P::alpha();
  if (P::has_bias) sums += P::beta() * load_lanes<lanes, P::bias(0, 0, 1) - P::bias(0, 0, 0)>(in.bias + P::bias(in.matrix, row, column));
  store_lanes<lanes, P::to(0, 0, 1) - P::to(0, 0, 0)>(in.to + P::to(in.matrix, row, column), sums);
}

// Lanes are columns of the result: `rows` rows of `vectors` vectors at once.
template <class P>
struct Across {
  static constexpr u32 kRows = P::m == 1 ? 1 : 4;
  static constexpr u32 kWidth = (P::m == 1 ? 8 : 2) * kVectorLanes;

  static DWELL_DEVICE void all(const ProductMemory& in) { rows_from(in, 0, Constant<kRows>()); }

 private:
  template <u32 rows>
  static DWELL_DEVICE void rows_from(const ProductMemory& in, u32 row, Constant<rows>) {
    for (; row + rows <= P::m; row += rows) columns_from<rows>(in, row, 0, Constant<kWidth>());
    if (P::m % rows != 0) rows_from(in, row, Constant<rows / 2>());
  }
  static DWELL_DEVICE void rows_from(const ProductMemory&, u32, Constant<0>) {}

  template <u32 rows, u32 width>
  static DWELL_DEVICE void columns_from(const ProductMemory& in, u32 row, u32 column, Constant<width>) {
    for (; column + width <= P::n; column += width)
      block<rows, (width < kVectorLanes ? width : kVectorLanes)>(in, row, column, Constant<width>());
    if (P::n % width != 0) columns_from<rows>(in, row, column, Constant<width / 2>());
  }
  template <u32 rows>
  static DWELL_DEVICE void columns_from(const ProductMemory&, u32, u32, Constant<0>) {}

  template <u32 rows, u32 lanes, u32 width>
  static DWELL_DEVICE void block(const ProductMemory& in, u32 row, u32 column, Constant<width>) {
    constexpr u32 kVectors = width / lanes;
    constexpr i32 kStride = P::b(0, 0, 1) - P::b(0, 0, 0);
    Vector<lanes> sums[rows][kVectors] = {};
    for (u32 d = 0; d < P::k; ++d) {
      Vector<lanes> right[kVectors];
      for (u32 v = 0; v < kVectors; ++v) right[v] = load_lanes<lanes, kStride>(in.b + P::b(in.matrix, d, column + v * lanes));
      for (u32 r = 0; r < rows; ++r) {
        const float left = in.a[P::a(in.matrix, row + r, d)];
        for (u32 v = 0; v < kVectors; ++v) sums[r][v] += left * right[v];
      }
    }
    for (u32 r = 0; r < rows; ++r)
      for (u32 v = 0; v < kVectors; ++v) store_results<P, lanes>(in, row + r, column + v * lanes, sums[r][v]);
  }
};

// Lanes are steps along k, which lie one behind the other in both factors.
template <class P>
struct Along {
  static constexpr u32 kRows = P::m == 1 ? 1 : 2;
  static constexpr u32 kColumns = P::m == 1 && P::n % 8 == 0 ? 8 : 4;  // at once

  static DWELL_DEVICE void all(const ProductMemory& in) { rows_from(in, 0, Constant<kRows>()); }

 private:
  // Without a rest, where there are such.
  static DWELL_HOST_DEVICE u32 lanes() {
    u32 lanes = kVectorLanes;
    while (lanes > 4 && P::k % lanes != 0 && P::k < 32 * lanes) lanes /= 2;
    return lanes;
  }
  static constexpr u32 kWhole = P::k / lanes() * lanes();

  template <u32 rows>
  static DWELL_DEVICE void rows_from(const ProductMemory& in, u32 row, Constant<rows>) {
    for (; row + rows <= P::m; row += rows)
      for (u32 column = 0; column < P::n; column += kColumns) block<rows, lanes()>(in, row, column);
    if (P::m % rows != 0) rows_from(in, row, Constant<rows / 2>());
  }
  static DWELL_DEVICE void rows_from(const ProductMemory&, u32, Constant<0>) {}

  template <u32 rows, u32 lanes>
  static DWELL_DEVICE void block(const ProductMemory& in, u32 row, u32 column) {
    // Beyond the last column it computes that one again.
    const float* right[kColumns];
    for (u32 c = 0; c < kColumns; ++c) {
      const u32 at = P::n % kColumns == 0 || column + c < P::n ? column + c : P::n - 1;
      right[c] = in.b + P::b(in.matrix, 0, at);
    }
    Vector<lanes> sums[rows][kColumns] = {};
    for (u32 d = 0; d < kWhole; d += lanes) {
      Vector<lanes> left[rows];
      for (u32 r = 0; r < rows; ++r) left[r] = load_lanes<lanes, 1>(in.a + P::a(in.matrix, row + r, d));
      for (u32 c = 0; c < kColumns; ++c) {
        const Vector<lanes> factor = load_lanes<lanes, 1>(right[c] + d);
        for (u32 r = 0; r < rows; ++r) sums[r][c] += left[r] * factor;
      }
    }
    for (u32 r = 0; r < rows; ++r)
      for (u32 c = 0; c < kColumns; c += 4) {
        Vector<4> four = sums_of<lanes>(sums[r] + c);
        for (u32 d = kWhole; d < P::k; ++d)
          for (u32 i = 0; i < 4; ++i) four[i] += in.a[P::a(in.matrix, row + r, d)] * right[c + i][d];
        if (P::n % kColumns == 0 || column + c + 4 <= P::n)
          store_results<P, 4>(in, row + r, column + c, four);
        else
          for (u32 i = 0; i < 4 && column + c + i < P::n; ++i) store_results<P, 1>(in, row + r, column + c + i, four[i]);
      }
  }
};

// How a product is computed: by the layout of its factors, which is known when it is compiled.
template <class P>
struct ProductOnCpu {
  static constexpr bool kAlong = P::k >= 4 && P::a(0, 0, 1) - P::a(0, 0, 0) == 1 && P::b(0, 1, 0) - P::b(0, 0, 0) == 1;
  static constexpr bool kAcross = P::n >= 4 && P::b(0, 0, 1) - P::b(0, 0, 0) == 1;
  static constexpr bool kDown = P::m >= 4 && P::a(0, 1, 0) - P::a(0, 0, 0) == 1;
  static constexpr u32 kWay = kAcross ? 0 : kAlong ? (P::n >= 4 || P::n >= P::m ? 1 : 2) : kDown ? 3 : 0;

  static DWELL_DEVICE void all(const ProductMemory& in) { by(in, Constant<kWay>()); }

 private:
  static DWELL_DEVICE void by(const ProductMemory& in, Constant<0>) { Across<P>::all(in); }
  static DWELL_DEVICE void by(const ProductMemory& in, Constant<1>) { Along<P>::all(in); }
  static DWELL_DEVICE void by(const ProductMemory& in, Constant<2>) { Along<Transposed<P>>::all(transposed(in)); }
  static DWELL_DEVICE void by(const ProductMemory& in, Constant<3>) { Across<Transposed<P>>::all(transposed(in)); }
  static DWELL_DEVICE ProductMemory transposed(const ProductMemory& in) { return {in.to, in.b, in.a, in.bias, in.matrix}; }
};

// to = alpha * a * b + beta * bias for each matrix of a batch. The order of additions depends on P and on the processor's vectors alone.
template <class P, u32 threads>
DWELL_DEVICE void multiply(const Member&, float* to, const float* a, const float* b, const float* bias) {
  static_assert(threads == 1, "a gang on a CPU is one thread");
  for (u32 matrix = 0; matrix < P::batch; ++matrix) ProductOnCpu<P>::all({to, a, b, bias, matrix});
}

}  // namespace device
}  // namespace dwell

#endif
