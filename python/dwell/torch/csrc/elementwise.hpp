// The common parts of the rules of elementwise operations, which stand in several files so that they compile side by side.
#pragma once

#include <cmath>
#include <span>

#include "operation_kernel.hpp"

namespace dwell::pytorch {

using Numbers = std::span<const Expression>;

// The rule of one operation on all arguments.
template <TensorOp kOp, Types kTypes, ResultType kGives = ResultType::common>
struct Direct {
  template <class... Inputs>
  static Call of(const Inputs&... inputs) {
    return Call(kOp, kTypes, kGives, inputs...);
  }
};

// The result's type of an operation, by its row in tensor_op.hpp.
constexpr ResultType gives(TensorOp op) {
  switch (op) {
#define DWELL_CASE(name, ...) case TensorOp::name:
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
#undef DWELL_CASE
    return ResultType::boolean;
    default: return ResultType::common;
  }
}

inline bool is_whole(const Input& x) {
  return x.tensor != nullptr ? at::isIntegralType(x.tensor->scalar_type(), true) : !x.number || !x.number->is_real();
}
inline bool is_short_float(const Input& x) { return x.tensor != nullptr && at::isReducedFloatingType(x.tensor->scalar_type()); }
inline bool is_nan(const at::Scalar& number) { return number.isFloatingPoint() && std::isnan(number.toDouble()); }

// Returns whether the type of x holds these numbers.
inline bool have(const at::Tensor& x, const auto&... numbers) { return (has(x.scalar_type(), number_from(numbers)) && ...); }

}  // namespace dwell::pytorch
