// The types of results, as PyTorch has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <dwell/device/tensor_op.hpp>
#include <dwell/element_type.hpp>

namespace dwell::tensor {

// The least type that holds the numbers of both, up to rounding. Both are types that tensors have.
ElementType promoted(ElementType a, ElementType b);

// How much a type counts beside others: numbers of the program give way to tensors without dimensions, and those to tensors with some,
// unless they are of a higher kind: floating point above integers above bool.
enum class Weight : unsigned char { number, scalar, tensor };

// The common type of operands that are added one by one.
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

// The type that an operation computes in, given the common type of its operands, and that of its result. Throws errc::invalid_argument for
// types that it does not have.
ElementType computed_in(TensorOp op, ElementType common);
ElementType result_of(TensorOp op, ElementType computed);
// The operation that does it for numbers of that type: for bool, bitwise operations equal logical ones.
TensorOp performed_in(TensorOp op, ElementType computed);

constexpr bool is_floating(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 || type == ElementType::f64;
}

// Whether an operation takes a number of the program as one of the type that it computes in, where that has 16 bits. Others take it as one
// of f32: the result is rounded alone.
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

// Whether each integer up to this one is a float, so that programs of narrow numbers may have it.
constexpr bool is_exact_float(std::int64_t integer) { return integer >= -(1 << 24) && integer <= 1 << 24; }

// Whether tensors of the type have operations. Those of others are only copied, as bits.
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
// Whether it is of integers and bool alone.
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
// The same of both, unless they are one type, as which elements are copied.
void require_convertible(std::string_view what, ElementType from, ElementType to);

int operands_of(TensorOp op);
std::string_view name_of(TensorOp op);

}  // namespace dwell::tensor
