// PyTorch's type promotion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <dwell/device/tensor_op.hpp>
#include <dwell/element_type.hpp>

namespace dwell::tensor {

// Returns the smallest type that holds the numbers of both, up to rounding. Both are types of tensors.
ElementType promoted(ElementType a, ElementType b);

// The precedence of operands: numbers of the program yield to tensors without dimensions, and those to tensors with some, unless they are
// of a higher kind: floating point above integers above bool.
enum class Weight : unsigned char { number, scalar, tensor };

// Accumulates the common type of operands.
class CommonType {
 public:
  void add(ElementType type, Weight weight) {
    const auto at = static_cast<std::size_t>(weight);
    types_[at] = has_[at] ? promoted(types_[at], type) : type;
    has_[at] = true;
  }
  ElementType type() const;

 private:
  ElementType types_[3] = {};
  bool has_[3] = {};
};

// Returns the type in which an operation computes, from the common type of its operands, or the type of its result. Throws
// errc::invalid_argument for unsupported types.
ElementType computed_in(TensorOp op, ElementType common);
ElementType result_of(TensorOp op, ElementType computed);
// Returns the operation for numbers of that type: for bool, bitwise operations equal logical ones.
TensorOp performed_in(TensorOp op, ElementType computed);

constexpr bool is_floating(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 || type == ElementType::f64;
}

// Whether an operation that computes in a 16-bit type rounds numbers of the program to it. Others use f32 numbers, and round only the
// result.
constexpr bool rounds_numbers(TensorOp op) {
  switch (op) {
#define DWELL_CASE(name, operands, ...) case TensorOp::name:
    DWELL_COMPARISONS(DWELL_CASE)
#undef DWELL_CASE
    case TensorOp::floor_divide:
    case TensorOp::remainder:
    case TensorOp::fmod:
    case TensorOp::pow: return true;
    default: return false;
  }
}
constexpr bool is_short(ElementType type) { return type == ElementType::f16 || type == ElementType::bf16; }

// Returns whether the integer is exact in f32, so that programs of narrow numbers may use it.
constexpr bool is_exact_float(std::int64_t integer) { return integer >= -(1 << 24) && integer <= 1 << 24; }

// Returns whether tensors of the type have operations. Others are only copied, as bits.
constexpr bool is_computable(ElementType type) {
  switch (type) {
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64:
    case ElementType::complex64:
    case ElementType::complex128: return false;
    default: return true;
  }
}
// Returns whether it applies only to integers and bool.
constexpr bool is_bitwise(TensorOp op) {
  switch (op) {
#define DWELL_CASE(name, operands, ...) case TensorOp::name:
    DWELL_BITWISE_OPS(DWELL_CASE)
#undef DWELL_CASE
    return true;
    default: return false;
  }
}

// Throws errc::unsupported unless tensors of the type have operations: "argmax: tensors of u16 have no operations ...". `what` is the call,
// with the argument where it has several.
void require_computable(std::string_view what, ElementType type);
// As require_computable for both types, unless they are equal: then elements are copied.
void require_convertible(std::string_view what, ElementType from, ElementType to);

int operands_of(TensorOp op);
std::string_view name_of(TensorOp op);

}  // namespace dwell::tensor
