// A thread's current numbers, and how rows of them are mapped and combined (rows.hpp).
#pragma once

#include "tensor/device/math.hpp"
#include "tensor/device/number.hpp"
#include "tensor/device/rows.hpp"

namespace dwell {
namespace device {

template <class C>
struct Lanes {
#if DWELL_PARALLEL_GROUP
  static constexpr u32 kCount = sizeof(C) == 4 ? 8 : 2;
#else
  static constexpr u32 kCount = 128;
#endif
  C at[kCount];
};

// A number for the row of each lane. On CUDA all lanes of a thread belong to one row.
template <class C>
struct PerRow {
#if DWELL_PARALLEL_GROUP
  C number;
  DWELL_DEVICE C& of(u32) { return number; }
  DWELL_DEVICE C at(u32) const { return number; }
#else
  C number[Lanes<C>::kCount];
  C& of(u32 k) { return number[k]; }
  C at(u32 k) const { return number[k]; }
#endif
};

// ---- Functions that integers are never asked for, and that are long for doubles of a GPU ---------------------------------------------

template <class C>
DWELL_DEVICE_COLD C power_of_row(C x, C exponent) {
  return math::pow(x, exponent);
}
// A template, as all functions apart must be: several operators of an image have this header.
template <class C>
DWELL_DEVICE_COLD C exp_apart(C x) {
  return math::exp(x);
}
DWELL_DEVICE double exp_of_row(double x) { return exp_apart(x); }
DWELL_DEVICE float exp_of_row(float x) { return math::exp(x); }

template <class C>
struct RowMath {
  static DWELL_DEVICE C exp(C x) { return exp_of_row(x); }
  static DWELL_DEVICE_COLD C log(C x) { return math::log(x); }
  static DWELL_DEVICE_COLD C sqrt(C x) { return math::sqrt(x); }
  static DWELL_DEVICE C pow(C x, C exponent) { return power_of_row(x, exponent); }
  static DWELL_DEVICE C quotient(C x, C y) { return x / y; }
  static DWELL_DEVICE C infinity() { return static_cast<C>(bits_as<float>(0x7F800000U)); }
  static DWELL_DEVICE C least() { return -infinity(); }
  static DWELL_DEVICE C most() { return infinity(); }
};
template <>
struct RowMath<i64> {
  static DWELL_DEVICE i64 exp(i64 x) { return x; }
  static DWELL_DEVICE i64 log(i64 x) { return x; }
  static DWELL_DEVICE i64 sqrt(i64 x) { return x; }
  static DWELL_DEVICE i64 pow(i64 x, i64) { return x; }
  static DWELL_DEVICE i64 quotient(i64 x, i64) { return x; }
  static DWELL_DEVICE i64 infinity() { return most(); }
  static DWELL_DEVICE i64 least() { return -most() - 1; }
  static DWELL_DEVICE i64 most() { return 0x7FFFFFFFFFFFFFFFLL; }
};

// ---- Folds -------------------------------------------------------------------------------------------------------------------------

// The neutral element of a fold.
template <class C>
DWELL_DEVICE C neutral_of(RowFold fold) {
  switch (fold) {
    case RowFold::product: return C(1);
    case RowFold::max: return RowMath<C>::least();
    case RowFold::min: return RowMath<C>::most();
    default: return C(0);
  }
}

// Calls `use` with the function that combines two numbers, which is commutative.
template <class C, class Use>
DWELL_DEVICE void with_fold(RowFold fold, const Use& use) {
  switch (fold) {
    case RowFold::product: use([](C a, C b) { return math::mul(a, b); }); break;
    // Returns a NaN over any number, and the second of two equal ones, as PyTorch's reductions do.
    case RowFold::max: use([](C a, C b) { return !math::is_number(a) || a > b ? a : b; }); break;
    case RowFold::min: use([](C a, C b) { return !math::is_number(a) || a < b ? a : b; }); break;
    default: use([](C a, C b) { return math::add(a, b); }); break;
  }
}

// The same, chosen at each call.
template <class C>
struct Folded {
  RowFold fold;
  DWELL_DEVICE C operator()(C a, C b) const {
    C result = a;
    with_fold<C>(fold, [&](auto f) { result = f(a, b); });
    return result;
  }
};

// ---- Maps --------------------------------------------------------------------------------------------------------------------------

// Calls `use` with a function of an element and the number of its row.
template <class C, class Use>
DWELL_DEVICE void with_map(RowMap map, C exponent, const Use& use) {
  switch (map) {
    case RowMap::nonzero: use([](C x, C) { return static_cast<C>(x != 0); }); break;
    case RowMap::abs: use([](C x, C) { return math::abs(x); }); break;
    case RowMap::square: use([](C x, C) { return math::mul(x, x); }); break;
    case RowMap::power: use([exponent](C x, C) { return RowMath<C>::pow(math::abs(x), exponent); }); break;
    case RowMap::difference_squared: use([](C x, C row) { return math::mul(math::sub(x, row), math::sub(x, row)); }); break;
    case RowMap::difference: use([](C x, C row) { return math::sub(x, row); }); break;
    case RowMap::exp_difference: use([](C x, C row) { return RowMath<C>::exp(math::sub(x, row)); }); break;
    default: break;
  }
}

// ---- The largest and smallest elements ---------------------------------------------------------------------------------------------

// An element and its place in the row.
template <class C>
struct Placed {
  C number;
  u32 place;
};
DWELL_CONSTANT u32 kNowhere = ~0U;

// Returns whether a number beats the best so far, which precedes it in the row. NaN beats all numbers.
template <class C>
DWELL_DEVICE bool is_better(bool most, C number, C best) {
  return (number != number && best == best) || (most ? number > best : number < best);
}

template <class C>
struct Better {
  bool most;
  DWELL_DEVICE Placed<C> operator()(Placed<C> a, Placed<C> b) const {
    if (a.place == kNowhere) return b;
    if (b.place == kNowhere) return a;
    if (is_better(most, a.number, b.number)) return a;
    if (is_better(most, b.number, a.number)) return b;
    return a.place < b.place ? a : b;
  }
};

}  // namespace device
}  // namespace dwell
