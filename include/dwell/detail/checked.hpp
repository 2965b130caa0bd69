// Arithmetic on sizes, strides and offsets that somebody else has named.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

namespace dwell::detail {

// An integer of 64 bits with a sign that knows whether it is one: where a sum, a difference or a product does not fit, nothing computed
// from it does either. Asked once behind the whole computation, it costs a flag a step. A small value.
//   const Checked end = Checked(first) + Checked(count) * bytes;
//   if (!end.fits()) throw Error(errc::invalid_argument, "...");
class Checked {
 public:
  constexpr Checked() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): operands of mixed types are usual
  template <std::integral T>
  constexpr Checked(T value) : value_(static_cast<std::int64_t>(value)), fits_(std::in_range<std::int64_t>(value)) {}

  constexpr bool fits() const { return fits_; }
  // The number; any where it does not fit.
  constexpr std::int64_t value() const { return value_; }
  // Returns whether it fits and lies in [first, last].
  constexpr bool is_in(std::int64_t first, std::int64_t last) const { return fits_ && value_ >= first && value_ <= last; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked sum;
    sum.fits_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.fits_ && b.fits_;
    return sum;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    Checked difference;
    difference.fits_ = !__builtin_sub_overflow(a.value_, b.value_, &difference.value_) && a.fits_ && b.fits_;
    return difference;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked product;
    product.fits_ = !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.fits_ && b.fits_;
    return product;
  }
  constexpr Checked& operator+=(Checked other) { return *this = *this + other; }
  constexpr Checked& operator*=(Checked other) { return *this = *this * other; }
  // Returns whether both fit and are the same number.
  friend constexpr bool operator==(Checked a, Checked b) { return a.fits_ && b.fits_ && a.value_ == b.value_; }

 private:
  std::int64_t value_ = 0;
  bool fits_ = true;
};

// |value|, of the least number too.
constexpr std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

// How many elements sizes make: 0 where one is 0. Those that are not 0 must fit all the same, so that the product
// of any of them does. None is negative.
template <class Sizes>
constexpr Checked product_of(const Sizes& sizes) {
  Checked product = 1;
  bool none = false;
  for (const auto size : sizes) {
    if (size == 0)
      none = true;
    else
      product *= size;
  }
  return product.fits() && none ? Checked(0) : product;
}

}  // namespace dwell::detail
