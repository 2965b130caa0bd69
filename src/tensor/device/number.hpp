// Conversions among the elements of tensors, the numbers that a program computes with, and the slots that hold those.
#pragma once

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/element_type.hpp>
#include <dwell/device/half.hpp>

namespace dwell {
namespace device {

// The class of numbers for elements of type T: float in float slots; float, double or i64 in slots of 64 bits.
template <class Slot, class T>
struct ClassOf {
  using type = i64;
};
template <>
struct ClassOf<u64, float> {
  using type = float;
};
template <>
struct ClassOf<u64, half> {
  using type = float;
};
template <>
struct ClassOf<u64, bfloat16> {
  using type = float;
};
template <>
struct ClassOf<u64, double> {
  using type = double;
};
template <class T>
struct ClassOf<float, T> {
  using type = float;
};

// A number of class C in a slot, and out of it.
template <class C>
DWELL_DEVICE C number_in(u64 slot) {
  return bits_as<C>(slot);
}
template <>
DWELL_DEVICE float number_in<float>(u64 slot) {
  return bits_as<float>(static_cast<u32>(slot));
}
template <class C>
DWELL_DEVICE C number_in(float slot) {
  return slot;
}
DWELL_DEVICE void put_number(u64* slot, float value) { *slot = bits_as<u32>(value); }
DWELL_DEVICE void put_number(u64* slot, double value) { *slot = bits_as<u64>(value); }
DWELL_DEVICE void put_number(u64* slot, i64 value) { *slot = static_cast<u64>(value); }
DWELL_DEVICE void put_number(float* slot, float value) { *slot = value; }

// An element of a bool tensor. Any byte but 0 is true, since other code may have written it.
struct Truth {
  u8 byte;
};

// ---- From class to class ---------------------------------------------------------------------------------------------------------------
// The language defines conversions from floating point to integers for values that fit. Others are as in PTX (cvt.rzi), except NaN in 32
// bits: the nearest integer, and the least for NaN.

// Converts a number to another class: rounded to nearest, towards 0 from floating point to integers.
template <class To>
struct Converted {
  template <class From>
  static DWELL_DEVICE To of(From number) {
    return static_cast<To>(number);
  }
};
template <class To>
struct WholeNumber {
  template <class From>
  static DWELL_DEVICE To of(From number) {
    return static_cast<To>(number);
  }
  static DWELL_DEVICE To of(float number) { return truncated<To>(number); }
  static DWELL_DEVICE To of(double number) { return truncated<To>(number); }
};
template <>
struct Converted<i32> : WholeNumber<i32> {};
template <>
struct Converted<i64> : WholeNumber<i64> {};

// ---- From elements to numbers and back
// ---------------------------------------------------------------------------------------------------

// Converts an element to a number.
template <class C, class T>
DWELL_DEVICE C number_of(T element) {
  return Converted<C>::of(element);
}
template <class C>
DWELL_DEVICE C number_of(half element) {
  return Converted<C>::of(static_cast<float>(element));
}
template <class C>
DWELL_DEVICE C number_of(bfloat16 element) {
  return Converted<C>::of(static_cast<float>(element));
}
template <class C>
DWELL_DEVICE C number_of(Truth element) {
  return static_cast<C>(element.byte != 0);
}

// Converts floating point to an integer on the way to an integer type, as PyTorch does on a GPU. So values that do not fit the type convert
// alike on all devices, as far as PyTorch's devices agree.
template <class T>
struct Between {
  using type = i32;
};
template <>
struct Between<i64> {
  using type = i64;
};
template <>
struct Between<u8> {
  using type = i64;
};

// Converts a number to an element of type T: rounded to nearest, towards 0 from floating point to integers, cut to the lower bits among
// integers; for bool, true if not 0.
template <class T>
struct Element {
  template <class C>
  static DWELL_DEVICE T of(C number) {
    return static_cast<T>(Converted<typename Between<T>::type>::of(number));
  }
};
template <>
struct Element<float> {
  template <class C>
  static DWELL_DEVICE float of(C number) {
    return static_cast<float>(number);
  }
};
template <>
struct Element<double> {
  template <class C>
  static DWELL_DEVICE double of(C number) {
    return static_cast<double>(number);
  }
};
template <>
struct Element<half> {
  template <class C>
  static DWELL_DEVICE half of(C number) {
    return half(static_cast<float>(number));
  }
};
template <>
struct Element<bfloat16> {
  template <class C>
  static DWELL_DEVICE bfloat16 of(C number) {
    return bfloat16(static_cast<float>(number));
  }
};
template <>
struct Element<Truth> {
  template <class C>
  static DWELL_DEVICE Truth of(C number) {
    return Truth{static_cast<u8>(number != 0)};
  }
};

// The type of a name, one of those that programs know.
template <ElementType name>
struct TypeOf {
  using type = float;
};
#define DWELL_TYPE_OF(name, T)       \
  template <>                        \
  struct TypeOf<ElementType::name> { \
    using type = T;                  \
  };
DWELL_TYPE_OF(f16, half)
DWELL_TYPE_OF(bf16, bfloat16)
DWELL_TYPE_OF(f64, double)
DWELL_TYPE_OF(i8, i8)
DWELL_TYPE_OF(i16, i16)
DWELL_TYPE_OF(i32, i32)
DWELL_TYPE_OF(i64, i64)
DWELL_TYPE_OF(u8, u8)
DWELL_TYPE_OF(boolean, Truth)
#undef DWELL_TYPE_OF

// Calls f with a null pointer to the type of the name, one of those that programs know.
template <class F>
DWELL_DEVICE void with_type(ElementType type, const F& f) {
  switch (type) {
    case ElementType::f16: f(static_cast<half*>(nullptr)); break;
    case ElementType::bf16: f(static_cast<bfloat16*>(nullptr)); break;
    case ElementType::f64: f(static_cast<double*>(nullptr)); break;
    case ElementType::i8: f(static_cast<i8*>(nullptr)); break;
    case ElementType::i16: f(static_cast<i16*>(nullptr)); break;
    case ElementType::i32: f(static_cast<i32*>(nullptr)); break;
    case ElementType::i64: f(static_cast<i64*>(nullptr)); break;
    case ElementType::u8: f(static_cast<u8*>(nullptr)); break;
    case ElementType::boolean: f(static_cast<Truth*>(nullptr)); break;
    default: f(static_cast<float*>(nullptr)); break;
  }
}
template <class Pointer>
struct Pointee;
template <class T>
struct Pointee<T*> {
  using type = T;
};

}  // namespace device
}  // namespace dwell
