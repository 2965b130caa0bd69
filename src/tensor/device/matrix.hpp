// Elements of the matrices of a product, and what the product does to its result.
#pragma once

#include "tensor/device/number.hpp"
#include "tensor/device/product.hpp"

namespace dwell {
namespace device {

// Calls f with a null pointer to the type of the name, an integer's.
template <class F>
DWELL_DEVICE void with_integer(ElementType type, const F& f) {
  switch (type) {
    case ElementType::i8: f(static_cast<i8*>(nullptr)); break;
    case ElementType::i16: f(static_cast<i16*>(nullptr)); break;
    case ElementType::i32: f(static_cast<i32*>(nullptr)); break;
    case ElementType::u8: f(static_cast<u8*>(nullptr)); break;
    default: f(static_cast<i64*>(nullptr)); break;
  }
}
// Calls f with a null pointer to the type of 16 bits.
template <class F>
DWELL_DEVICE void with_short(ElementType type, const F& f) {
  if (type == ElementType::f16)
    f(static_cast<half*>(nullptr));
  else
    f(static_cast<bfloat16*>(nullptr));
}

// Calls f with a null pointer to the type of the name, of those whose numbers are of class C.
template <class F>
DWELL_DEVICE void with_type_of(ElementType type, u64, const F& f) {
  with_integer(type, f);
}
template <class F>
DWELL_DEVICE void with_type_of(ElementType type, float, const F& f) {
  with_short(type, f);
}

// Elements from an address on, of type T, as numbers of class C: float, double or u64.
template <class C, class T>
class TypedElements {
 public:
  using Type = T;  // in memory
  static constexpr bool kIsTyped = true;
  static constexpr bool kAreNumbers = kSame<C, T>;

  DWELL_DEVICE TypedElements(u64 address, ElementType) : at_(pointer_to_global<T>(address)) {}
  DWELL_DEVICE C load(i32 at) const { return number_of<C>(at_[at]); }
  static DWELL_DEVICE C number(T element) { return number_of<C>(element); }
  DWELL_DEVICE void store(i32 at, C value) const { at_[at] = Element<T>::of(value); }
  DWELL_DEVICE const T* pointer(i32 at) const { return at_ + at; }

 private:
  T* at_;
};

// The same for numbers of 16 bits of either type, which is known at run time: code for both is as long as for one.
class ShortElements {
 public:
  using Type = u16;
  static constexpr bool kIsTyped = true;
  static constexpr bool kAreNumbers = false;

  DWELL_DEVICE ShortElements(u64 address, ElementType type) : at_(pointer_to_global<u16>(address)), half_(type == ElementType::f16) {}
  DWELL_DEVICE float load(i32 at) const { return number(at_[at]); }
  DWELL_DEVICE float number(u16 bits) const {
    return half_ ? number_of<float>(half::from_bits(bits)) : number_of<float>(bfloat16::from_bits(bits));
  }
  DWELL_DEVICE void store(i32 at, float value) const {
    at_[at] = half_ ? Element<half>::of(value).bits() : Element<bfloat16>::of(value).bits();
  }
  DWELL_DEVICE const u16* pointer(i32 at) const { return at_ + at; }

 private:
  u16* at_;
  bool half_;
};

// The same for floats or numbers of 16 bits.
class FloatElements {
 public:
  DWELL_DEVICE FloatElements(u64 address, ElementType type) : address_(address), type_(type) {}
  DWELL_DEVICE float load(i32 at) const {
    return type_ == ElementType::f32 ? pointer_to_global<float>(address_)[at] : ShortElements(address_, type_).load(at);
  }
  DWELL_DEVICE void store(i32 at, float value) const {
    if (type_ == ElementType::f32)
      pointer_to_global<float>(address_)[at] = value;
    else
      ShortElements(address_, type_).store(at, value);
  }

 private:
  u64 address_;
  ElementType type_;
};

template <class C>
DWELL_DEVICE_COLD C load_any(u64 address, i32 at, ElementType type) {
  C number{};
  with_type_of(type, C(), [&](auto* as) { number = number_of<C>(pointer_to_global<typename Pointee<decltype(as)>::type>(address)[at]); });
  return number;
}
template <class C>
DWELL_DEVICE_COLD void store_any(u64 address, i32 at, ElementType type, C number) {
  with_type_of(type, C(), [&](auto* as) {
    using T = typename Pointee<decltype(as)>::type;
    pointer_to_global<T>(address)[at] = Element<T>::of(number);
  });
}

// The same for a type known only at run time: for rare cases.
template <class C>
class AnyElements {
 public:
  static constexpr bool kIsTyped = false;
  static constexpr bool kAreNumbers = false;

  DWELL_DEVICE AnyElements(u64 address, ElementType type) : address_(address), type_(type) {}
  DWELL_DEVICE C load(i32 at) const { return load_any<C>(address_, at, type_); }
  DWELL_DEVICE void store(i32 at, C value) const { store_any<C>(address_, at, type_, value); }
  DWELL_DEVICE const C* pointer(i32) const { return nullptr; }

 private:
  u64 address_;
  ElementType type_;
};

DWELL_DEVICE u32 bytes_of_element(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64: return 8;
    case ElementType::f32:
    case ElementType::i32: return 4;
    case ElementType::i8:
    case ElementType::u8: return 1;
    default: return 2;
  }
}

// alpha and beta as numbers.
DWELL_DEVICE float factor(u64 bits, float) { return bits_as<float>(static_cast<u32>(bits)); }
DWELL_DEVICE double factor(u64 bits, double) { return bits_as<double>(bits); }
DWELL_DEVICE u64 factor(u64 bits, u64) { return bits; }

// The address of the first element of one matrix of the batch. A template, as all functions apart must be: several operators of an image
// have this header.
template <class Words>
DWELL_DEVICE_COLD u64 address_of_matrix(const u32* words, u32 which, u32 matrix) {
  const Words all(words);
  const u32* const tensor = all.tensor(static_cast<ProductWords::Tensor>(which));
  i64 offset = 0;
  DWELL_UNROLL_NOT
  for (u32 dim = all.dims(); dim-- > 0;) {
    const u32 next = matrix / all.size(dim);
    offset += static_cast<i64>(matrix - next * all.size(dim)) * ProductWords::batch_stride(tensor, dim);
    matrix = next;
  }
  return ProductWords::address(tensor) + static_cast<u64>(offset * bytes_of_element(all.type()));
}

// One tensor of a product, for one matrix of the batch.
template <class Elements>
class Matrix {
 public:
  DWELL_DEVICE Matrix(ProductWords all, ProductWords::Tensor which, u32 matrix)
      : elements(all.dims() == 0 ? ProductWords::address(all.tensor(which)) : address_of_matrix<ProductWords>(all.words(), which, matrix),
                 all.type()),
        row_stride(ProductWords::row_stride(all.tensor(which))),
        column_stride(ProductWords::column_stride(all.tensor(which))) {}

  DWELL_DEVICE i32 at(u32 row, u32 column) const { return static_cast<i32>(row) * row_stride + static_cast<i32>(column) * column_stride; }

  const Elements elements;
  const i32 row_stride;
  const i32 column_stride;
};

// Computes results from sums, and stores them.
template <class C, class Elements>
class Result {
 public:
  DWELL_DEVICE Result(ProductWords all, u32 matrix)
      : to_(all, ProductWords::to, matrix),
        // Not read without a bias.
        bias_(all, all.has_bias() ? ProductWords::bias : ProductWords::to, matrix),
        has_bias_(all.has_bias()),
        alpha_(factor(all.alpha(), C())),
        beta_(has_bias_ ? factor(all.beta(), C()) : C()) {}

  DWELL_DEVICE void store(u32 row, u32 column, C sum) const { store(row, column, sum, bias(row, column)); }

  // The same in two steps, so that the loads of several results are pending together.
  DWELL_DEVICE C bias(u32 row, u32 column) const { return has_bias_ ? bias_.elements.load(bias_.at(row, column)) : C(); }
  DWELL_DEVICE void store(u32 row, u32 column, C sum, C bias) const {
    C value = alpha_ * sum;
    if (has_bias_) value += beta_ * bias;
    to_.elements.store(to_.at(row, column), value);
  }

 private:
  const Matrix<Elements> to_;
  const Matrix<Elements> bias_;
  const bool has_bias_;
  const C alpha_;
  const C beta_;
};

// Calls f(matrix, first row, first column) for the tiles of all matrices that fall to this group.
template <class Threads, class F>
DWELL_DEVICE void each_tile(const Threads& g, ProductWords all, u32 rows, u32 columns, const F& f) {
  const u32 down = (all.m() + rows - 1) / rows;
  const u32 across = (all.n() + columns - 1) / columns;
  DWELL_UNROLL_NOT
  for (u32 tile = g.index(); tile < all.tiles(); tile += g.count())
    f(tile / (across * down), tile / across % down * rows, tile % across * columns);
}

}  // namespace device
}  // namespace dwell
