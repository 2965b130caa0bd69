// Operands of operations on tensors: tensors and numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <dwell/element_type.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

// A number of the program, beside tensors: floating point, an integer or a bool. A value; integers above 2^63 wrap around.
class Number {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  constexpr Number(double value = 0) noexcept : real_(value) {}
  constexpr Number(float value) noexcept : real_(value) {}
  constexpr Number(bool value) noexcept : integer_(value ? 1 : 0), type_(ElementType::boolean) {}
  template <std::integral T>
  constexpr Number(T value) noexcept : integer_(static_cast<std::int64_t>(value)), type_(ElementType::i64) {}
  // NOLINTEND(google-explicit-constructor)

  // The type for promotion: f32 for floating point (stored with the precision of f64), i64, or bool.
  constexpr ElementType type() const noexcept { return type_; }
  constexpr bool is_real() const noexcept { return type_ == ElementType::f32; }
  // The value as floating point, whatever its type.
  constexpr double real() const noexcept { return is_real() ? real_ : static_cast<double>(integer_); }
  // The value of an integer or a bool; 0 for floating point.
  constexpr std::int64_t integer() const noexcept { return is_real() ? 0 : integer_; }
  // The value rounded once to f32.
  constexpr float as_float() const noexcept { return is_real() ? static_cast<float>(real_) : static_cast<float>(integer_); }

 private:
  union {
    double real_;
    std::int64_t integer_;  // set unless the type is f32
  };
  ElementType type_ = ElementType::f32;
};

// Returns the nearest number that the type holds, f16 or bf16; the number itself for other types.
Number rounded(const Number& number, ElementType type);

// An operand of an operation: a reference to a tensor, or a number. The caller keeps the tensor's view alive.
class Operand {
 public:
  Operand() = default;  // the number 0
  // NOLINTBEGIN(google-explicit-constructor)
  Operand(const TensorView& tensor) noexcept : tensor_(&tensor) {}
  constexpr Operand(const Number& number) noexcept : number_(number) {}
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Operand(T value) noexcept : number_(value) {}
  // NOLINTEND(google-explicit-constructor)

  // Null for a number.
  const TensorView* tensor() const noexcept { return tensor_; }
  // The number, if it is no tensor.
  const Number& number() const noexcept { return number_; }

 private:
  const TensorView* tensor_ = nullptr;
  Number number_;
};

}  // namespace dwell
