// Elementwise operations.
#include <ATen/Operators.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "fallback_reason.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;
using Numbers = std::span<const Expression>;

// ---- Rules: what an operation's arguments mean -----------------------------------------------------------------------------------------

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
// The rule of a formula of all arguments.
template <Call::Formula kFormula, Types kTypes, RoundsNumbers kRounds = RoundsNumbers::never>
struct Formed {
  template <class... Inputs>
  static Call of(const Inputs&... inputs) {
    return Call(kFormula, kTypes, ResultType::common, kRounds, inputs...);
  }
};

bool is_whole(const Input& x) {
  return x.tensor != nullptr ? at::isIntegralType(x.tensor->scalar_type(), true) : !x.number || !x.number->is_real();
}
bool is_short_float(const Input& x) { return x.tensor != nullptr && at::isReducedFloatingType(x.tensor->scalar_type()); }
bool is_bool(const Input& x) {
  return x.tensor != nullptr ? x.tensor->scalar_type() == at::kBool : x.number && x.number->type() == ElementType::boolean;
}

// Whether PyTorch accepts `alpha` as a factor of b, and it does not change the common type of a and b.
bool is_factor(const Input& a, const Input& b, const Scalar& alpha) {
  if (alpha.isFloatingPoint()) return !is_whole(a) || !is_whole(b);
  return alpha.isIntegral(false) && (alpha.equal(1) || !(is_bool(a) && is_bool(b)));
}
Expression add_scaled(Numbers x) { return x[0] + x[1] * x[2]; }
Expression sub_scaled(Numbers x) { return x[0] - x[1] * x[2]; }
Expression sub_from_scaled(Numbers x) { return x[1] - x[0] * x[2]; }
Call scaled(Call::Formula formula, const Input& a, const Input& b, const Scalar& alpha) {
  return Call(formula, Types::numbers, ResultType::converted, RoundsNumbers::on_cpu, a, b, alpha);
}
// a + alpha b.
struct Add {
  template <class Other>
  static Call of(const Tensor& a, const Other& b, const Scalar& alpha) {
    if (!is_factor(a, b, alpha)) return decline(FallbackReason::type);
    if (alpha.equal(1)) return Call(TensorOp::add, Types::all, ResultType::converted, a, b);
    return scaled(add_scaled, a, b, alpha);
  }
};
struct Sub {
  template <class Other>
  static Call of(const Tensor& a, const Other& b, const Scalar& alpha) {
    if (is_bool(a) || is_bool(b) || !is_factor(a, b, alpha)) return decline(FallbackReason::type);
    if (alpha.equal(1)) return Call(TensorOp::sub, Types::numbers, ResultType::converted, a, b);
    return scaled(sub_scaled, a, b, alpha);
  }
};
struct Rsub {
  template <class Other>
  static Call of(const Tensor& a, const Other& b, const Scalar& alpha) {
    if (is_bool(a) || is_bool(b) || !is_factor(a, b, alpha)) return decline(FallbackReason::type);
    if (alpha.equal(1)) return Call(TensorOp::sub, Types::numbers, ResultType::converted, b, a);
    return scaled(sub_from_scaled, a, b, alpha);
  }
};

// A division. Integers only by a number other than 0: PyTorch raises an error for 0, and elements of a tensor are not known yet.
template <TensorOp kOp>
struct Divided {
  template <class A, class B>
  static Call of(const A& a, const B& b) {
    const Input divisor(b);
    if (is_whole(Input(a)) && is_whole(divisor) && (divisor.tensor != nullptr || !divisor.number || divisor.number->integer() == 0))
      return decline(FallbackReason::elements);
    return Call(kOp, Types::numbers, ResultType::common, a, b);
  }
};
// A division rounded to an integer. Not of 16-bit floats: backends round their quotients at different places.
template <TensorOp kOp>
struct WholeQuotient {
  template <class A, class B>
  static Call of(const A& a, const B& b) {
    if (is_short_float(Input(a)) || is_short_float(Input(b))) return decline(FallbackReason::type);
    return Divided<kOp>::of(a, b);
  }
};
struct DivMode {
  template <class Other>
  static Call of(const Tensor& a, const Other& b, std::optional<c10::string_view> mode) {
    if (!mode) return Call(TensorOp::div, Types::to_floats, ResultType::converted, a, b);
    if (*mode == "floor") return WholeQuotient<TensorOp::floor_divide>::of(a, b);
    if (*mode != "trunc") return {};
    const Input divisor(b);
    // On a GPU PyTorch multiplies by the reciprocal of a number, with another result where the quotient is nearly whole.
    if (divisor.tensor == nullptr && !a.is_cpu() && !(is_whole(Input(a)) && is_whole(divisor))) return decline(FallbackReason::type);
    return WholeQuotient<TensorOp::trunc_divide>::of(a, b);
  }
};
struct Pow {
  template <class A, class B>
  static Call of(const A& base, const B& exponent) {
    const Input x(base);
    const Input power(exponent);
    if (power.tensor == nullptr && power.number) {
      const Number& number = *power.number;
      // PyTorch raises an error.
      if (number.integer() < 0 && is_whole(x)) return {};
      if (x.tensor != nullptr && at::isFloatingType(x.tensor->scalar_type()))
        if (std::optional<Call> call = by_number(x, number.real())) return *call;
    }
    return Call(TensorOp::pow, Types::numbers, ResultType::common, x, power);
  }

 private:
  // PyTorch has other functions for some exponents, which differ at infinities and -0, and round in between.
  static std::optional<Call> by_number(const Input& x, double exponent) {
    const at::ScalarType type = x.tensor->scalar_type();
    if (type == at::kHalf && x.tensor->is_cpu()) return {};
    if (exponent == 2) return Call(TensorOp::mul, Types::floats, ResultType::common, x, x);
    if (exponent == 0.5) return Call(TensorOp::sqrt, Types::floats, ResultType::common, x);
    if (exponent == -0.5) return Call(TensorOp::rsqrt, Types::floats, ResultType::common, x);
    if (exponent == -1) return Call(TensorOp::reciprocal, Types::floats, ResultType::common, x);
    if (exponent == 3)
      return Call(type == at::kHalf       ? cube<ElementType::f16>
                  : type == at::kBFloat16 ? cube<ElementType::bf16>
                                          : cube<ElementType::f64>,
                  Types::floats, ResultType::common, x);
    if (exponent == -2)
      return Call(type == at::kHalf       ? inverse_square<ElementType::f16>
                  : type == at::kBFloat16 ? inverse_square<ElementType::bf16>
                                          : inverse_square<ElementType::f64>,
                  Types::floats, ResultType::common, x);
    return {};
  }
  // The square rounded to a type of 16 bits; to f64, as it is.
  template <ElementType kType>
  static Expression square(const Expression& x) {
    return kType == ElementType::f64 ? x * x : (x * x).as(kType).as(ElementType::f32);
  }
  template <ElementType kType>
  static Expression cube(Numbers x) {
    return square<kType>(x[0]) * x[0];
  }
  template <ElementType kType>
  static Expression inverse_square(Numbers x) {
    return 1.0 / square<kType>(x[0]);
  }
};
struct PowOfNumber {
  static Call of(const Scalar& base, const Tensor& exponent) {
    if (!exponent.is_contiguous()) return decline(FallbackReason::layout);  // strides of the result differ
    return Pow::of(base, exponent);
  }
};
struct RoundDecimals {
  static Call of(const Tensor& x, std::int64_t decimals) {
    if (is_short_float(Input(x))) return decline(FallbackReason::type);  // PyTorch rounds behind each step
    if (decimals == 0) return Call(TensorOp::round, Types::floats, ResultType::common, x);
    const Scalar unit(std::pow(10.0, std::abs(static_cast<double>(decimals))));
    if (decimals < 0) return Call([](Numbers n) { return ops::round(n[0] / n[1]) * n[1]; }, Types::floats, ResultType::common, x, unit);
    return Call([](Numbers n) { return ops::round(n[0] * n[1]) / n[1]; }, Types::floats, ResultType::common, x, unit);
  }
};

bool is_nan(const Scalar& number) { return number.isFloatingPoint() && std::isnan(number.toDouble()); }
struct Clamp {
  static Call of(const Tensor& x, const std::optional<Scalar>& least, const std::optional<Scalar>& most) {
    // Versions and devices differ for a bound that is NaN.
    if ((least && is_nan(*least)) || (most && is_nan(*most))) return {};
    if (least && most) return Call(TensorOp::clamp, Types::numbers, ResultType::common, x, *least, *most);
    if (least) return Call(TensorOp::clamp_min, Types::numbers, ResultType::common, x, *least);
    if (most) return Call(TensorOp::clamp_max, Types::numbers, ResultType::common, x, *most);
    return {};
  }
};
struct ClampTensors {
  static Call of(const Tensor& x, const std::optional<Tensor>& least, const std::optional<Tensor>& most) {
    const bool has_least = least && least->defined();
    const bool has_most = most && most->defined();
    if (has_least && has_most)
      return Call([](Numbers n) { return ops::minimum(ops::maximum(n[0], n[1]), n[2]); }, Types::numbers, ResultType::common, x, *least,
                  *most);
    if (has_least) return Call(TensorOp::maximum, Types::numbers, ResultType::common, x, *least);
    if (has_most) return Call(TensorOp::minimum, Types::numbers, ResultType::common, x, *most);
    return {};
  }
};
// PyTorch keeps -0 on a CPU, and returns 0 on a GPU.
struct Relu {
  static Call of(const Tensor& x) {
    if (x.is_cpu() || !at::isFloatingType(x.scalar_type())) return Call(TensorOp::relu, Types::numbers, ResultType::common, x);
    return Call([](Numbers n) { return ops::where(0.0, n[0], ops::le(n[0], 0.0)); }, Types::numbers, ResultType::common, x);
  }
};
// PyTorch's GPU kernels multiply f64 by 1/6 rounded to f32.
template <TensorOp kOp>
struct Hard {
  static Call of(const Tensor& x) {
    if (!x.is_cpu() && x.scalar_type() == at::kDouble) return decline(FallbackReason::type);
    return Call(kOp, Types::floats, ResultType::common, x);
  }
};
struct Hardtanh {
  static Call of(const Tensor& x, const Scalar& least, const Scalar& most) {
    if (is_nan(least) || is_nan(most)) return {};
    return Call(TensorOp::clamp, Types::floats, ResultType::common, x, least, most);
  }
};
struct Gelu {
  static Call of(const Tensor& x, c10::string_view approximate) {
    if (approximate != "none" && approximate != "tanh") return {};
    return Call(approximate == "tanh" ? TensorOp::gelu_tanh : TensorOp::gelu, Types::floats, ResultType::common, x);
  }
};
// Whether the type of x holds these numbers.
bool have(const Tensor& x, const auto&... numbers) { return (has(x.scalar_type(), number_from(numbers)) && ...); }
// elu: x, factor below 0, factor of the whole, factor of the exponent.
struct Elu {
  static Call of(const Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
    if (!have(x, alpha, scale, input_scale)) return decline(FallbackReason::type);
    if (scale.equal(1)) return Call(TensorOp::elu, Types::floats, ResultType::common, x, alpha, input_scale);
    return Call([](Numbers n) { return ops::where(n[0] * n[2], ops::expm1(n[0] * n[3]) * n[1], ops::gt(n[0], 0.0)); }, Types::floats,
                ResultType::common, x, Scalar(alpha.toDouble() * scale.toDouble()), scale, input_scale);
  }
};
struct Celu {
  static Call of(const Tensor& x, const Scalar& alpha) {
    return have(x, alpha) && alpha.toDouble() != 0 ? Elu::of(x, alpha, 1, 1 / alpha.toDouble()) : Call();
  }
};
// With PyTorch's constants.
struct Selu {
  static Call of(const Tensor& x) { return Elu::of(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); }
};
// Unlike clamp, keeps NaN, also when the limits are swapped.
Expression limited_logit(const Expression& x, const Expression& least, const Expression& most) {
  return ops::logit(ops::where(least, ops::where(most, x, ops::gt(x, most)), ops::lt(x, least)));
}
// A computation of numbers alone has the digits of f32, so f64 values are passed in.
struct Logit {
  static Call of(const Tensor& x, std::optional<double> eps) {
    if (eps && std::isnan(*eps)) return {};
    if (!eps || *eps < 0) return Call(TensorOp::logit, Types::to_floats, ResultType::common, x);
    if (x.scalar_type() == at::kDouble)
      return Call([](Numbers n) { return limited_logit(n[0], n[1], n[2]); }, Types::to_floats, ResultType::common, x, Scalar(*eps),
                  Scalar(1.0 - *eps));
    if (is_short_float(Input(x))) return decline(FallbackReason::type);  // PyTorch rounds behind each step
    return Call([](Numbers n) { return limited_logit(n[0], n[1], 1.0 - n[1]); }, Types::to_floats, ResultType::common, x, Scalar(*eps));
  }
};
struct Lerp {
  template <class Weight>
  static Call of(const Tensor& from, const Tensor& to, const Weight& weight) {
    if (from.scalar_type() != to.scalar_type()) return decline(FallbackReason::type);
    if constexpr (std::is_same_v<Weight, Tensor>) {
      if (from.scalar_type() != weight.scalar_type()) return decline(FallbackReason::type);
    }
    return Call(TensorOp::lerp, Types::floats, ResultType::common, from, to, weight);
  }
};
struct Where {
  template <class A, class B>
  static Call of(const Tensor& condition, const A& a, const B& b) {
    if (condition.scalar_type() != at::kBool || condition.unsafeGetTensorImpl()->is_wrapped_number()) return decline(FallbackReason::type);
    return Call(TensorOp::where, Types::all, ResultType::common, a, b, condition);
  }
};
struct MaskedFill {
  static Call of(const Tensor& x, const Tensor& mask, const Scalar& value) {
    if (mask.scalar_type() != at::kBool || !at::isFloatingType(x.scalar_type())) return decline(FallbackReason::type);
    return Call(TensorOp::where, Types::floats, ResultType::common, value, x, mask);
  }
};
// Backends multiply by the number at different places, which matters if products overflow.
struct Addcmul {
  static Call of(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
    if (x.is_cpu()) return Call([](Numbers n) { return n[0] + n[3] * n[1] * n[2]; }, Types::floats, ResultType::common, x, a, b, value);
    return Call([](Numbers n) { return n[0] + n[3] * (n[1] * n[2]); }, Types::floats, ResultType::common, x, a, b, value);
  }
};
struct Addcdiv {
  static Call of(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
    if (x.is_cpu()) return Call([](Numbers n) { return n[0] + n[3] * n[1] / n[2]; }, Types::floats, ResultType::common, x, a, b, value);
    return Call([](Numbers n) { return n[0] + n[3] * (n[1] / n[2]); }, Types::floats, ResultType::common, x, a, b, value);
  }
};
// Of any types: the element is converted to the type of the target.
struct Copy {
  static Call of(const Tensor& self, const Tensor& from, bool) {
    if (self.is_same(from)) return {};
    if (self.device() != from.device()) return decline(FallbackReason::device);
    // CUDA converts NaN to 0 as a 32-bit integer, unless it comes from f64.
    if (self.scalar_type() == at::kInt && !self.is_cpu() && at::isFloatingType(from.scalar_type()) && from.scalar_type() != at::kDouble)
      return Call([](Numbers x) { return ops::where(x[0], 0.0, ops::eq(x[0], x[0])); }, Types::all, ResultType::target, from).in_floats();
    return Call([](Numbers x) { return x[0]; }, Types::all, ResultType::target, from);
  }
};
struct Fill {
  static Call of(const Tensor&, const Scalar& value) {
    return Call([](Numbers x) { return x[0]; }, Types::all, ResultType::target, value);
  }
};
struct Zero {
  static Call of(const Tensor&) {
    return Call([](Numbers x) { return x[0]; }, Types::all, ResultType::target, Scalar(0));
  }
};

// ---- What autograd needs ---------------------------------------------------------------------------------------------------------------

using ops::erf, ops::exp, ops::ge, ops::gt, ops::le, ops::log1p, ops::logical_and, ops::logical_or, ops::lt, ops::sigmoid, ops::tanh,
    ops::where;

// NaN fails each comparison: conditions are those of PyTorch's kernels.
Expression sigmoid_backward(Numbers x) { return x[0] * (1.0 - x[1]) * x[1]; }
Expression tanh_backward(Numbers x) { return x[0] * (1.0 - x[1] * x[1]); }
Expression threshold_backward(Numbers x) { return where(0.0, x[0], le(x[1], x[2])); }
Expression silu_backward(Numbers x) {
  const Expression s = sigmoid(x[1]);
  return x[0] * s * (1.0 + x[1] * (1.0 - s));
}
Expression gelu_backward(Numbers x) {
  const Expression cdf = 0.5 * (1.0 + erf(x[1] * 0.70710678118654752440));
  const Expression pdf = exp(x[1] * x[1] * -0.5) * 0.39894228040143267794;
  return x[0] * (cdf + x[1] * pdf);
}
Expression gelu_tanh_backward(Numbers x) {
  constexpr double kBeta = 0.79788456080286535588;
  constexpr double kKappa = 0.044715;
  const Expression square = x[1] * x[1];
  const Expression inner = tanh((x[1] + kKappa * (square * x[1])) * kBeta);
  const Expression left = 0.5 * (1.0 + inner);
  const Expression right = 0.5 * x[1] * (1.0 - inner * inner) * (kBeta * (1.0 + 3 * kKappa * square));
  return x[0] * (left + right);
}
Expression leaky_relu_backward(Numbers x) { return where(x[0], x[0] * x[2], gt(x[1], 0.0)); }
Expression hardtanh_backward(Numbers x) { return where(0.0, x[0], logical_or(le(x[1], x[2]), ge(x[1], x[3]))); }
Expression hardsigmoid_backward(Numbers x) {
  return where(x[0] * static_cast<double>(1.0F / 6.0F), 0.0, logical_and(gt(x[1], -3.0), lt(x[1], 3.0)));
}

Expression hardswish_backward(Numbers x) { return where(0.0, where(x[0] * (x[1] * (1.0 / 3) + 0.5), x[0], lt(x[1], 3.0)), le(x[1], -3.0)); }
Expression mish_backward(Numbers x) {
  const Expression t = tanh(log1p(exp(x[1])));
  return x[0] * (t + x[1] * sigmoid(x[1]) * (1.0 - t * t));
}
// Arguments: gradient, x, beta, threshold.
Expression softplus_backward(Numbers x) {
  const Expression z = exp(x[1] * x[2]);
  return where(x[0], x[0] * z / (z + 1.0), gt(x[1] * x[2], x[3]));
}
// Arguments: gradient, x or the result, and the factors below 0, above 0, and of the exponent.
Expression elu_backward_of_x(Numbers x) { return where(x[0] * x[4] * x[2] * exp(x[1] * x[4]), x[0] * x[3], le(x[1], 0.0)); }
Expression elu_backward_of_result(Numbers x) { return where(x[0] * x[4] * (x[1] + x[2]), x[0] * x[3], le(x[1], 0.0)); }
Expression logit_backward(Numbers x) { return x[0] / (x[1] * (1.0 - x[1])); }

struct EluBackward {
  static Call of(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, bool is_result, const Tensor& x) {
    if (!have(x, alpha, scale, input_scale)) return decline(FallbackReason::type);
    // PyTorch refuses it: x cannot be computed from the result.
    if (is_result && alpha.toDouble() < 0) return {};
    return Call(is_result ? elu_backward_of_result : elu_backward_of_x, Types::floats, ResultType::common, grad, x,
                Scalar(alpha.toDouble() * scale.toDouble()), scale, input_scale);
  }
};
struct HardtanhBackward {
  static Call of(const Tensor& grad, const Tensor& x, const Scalar& least, const Scalar& most) {
    if (is_nan(least) || is_nan(most)) return {};  // PyTorch's vector and scalar kernels differ
    return Call(hardtanh_backward, Types::floats, ResultType::common, grad, x, least, most);
  }
};
struct LogitBackward {
  static Call of(const Tensor& grad, const Tensor& x, std::optional<double> eps) {
    if (eps && std::isnan(*eps)) return {};
    const bool limited = eps && *eps >= 0;
    const double least = limited ? *eps : 0;
    const double outside = limited ? 0 : std::numeric_limits<double>::quiet_NaN();
    if (x.scalar_type() == at::kDouble)
      return Call([](Numbers n) { return where(n[4], logit_backward(n), logical_or(lt(n[1], n[2]), gt(n[1], n[3]))); }, Types::floats,
                  ResultType::common, grad, x, Scalar(least), Scalar(1.0 - least), Scalar(outside));
    return Call([](Numbers n) { return where(n[3], logit_backward(n), logical_or(lt(n[1], n[2]), gt(n[1], 1.0 - n[2]))); }, Types::floats,
                ResultType::common, grad, x, Scalar(least), Scalar(outside));
  }
};
struct GeluBackward {
  static Call of(const Tensor& grad, const Tensor& x, c10::string_view approximate) {
    if (approximate != "none" && approximate != "tanh") return {};
    return Call(approximate == "tanh" ? gelu_tanh_backward : gelu_backward, Types::floats, ResultType::common, grad, x);
  }
};
struct LeakyReluBackward {
  static Call of(const Tensor& grad, const Tensor& x, const Scalar& slope, bool) {
    return Call(leaky_relu_backward, Types::floats, ResultType::common, grad, x, slope);
  }
};

}  // namespace

}  // namespace dwell::pytorch

// ---- The table -------------------------------------------------------------------------------------------------------------------------

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::TensorOp;

// Operations with a row in tensor_op.hpp. `one`: of one tensor: with a new result, in place, and with `out`.
#define DWELL_TAKE_one(name, types) \
  take_all<Direct<TensorOp::name, Types::types, gives(TensorOp::name)>, aten::name, aten::name##_, aten::name##_out>(m);
// `two`: the same of two tensors, and of a tensor and a number.
#define DWELL_TAKE_two(name, types)                                                                                \
  take_all<Direct<TensorOp::name, Types::types, gives(TensorOp::name)>, aten::name##_Tensor, aten::name##__Tensor, \
           aten::name##_Tensor_out, aten::name##_Scalar, aten::name##__Scalar, aten::name##_Scalar_out>(m);
#define DWELL_TAKE_own(name)
#define DWELL_TAKE(name, operands, numpy, calls, ...) DWELL_TAKE_##calls(name __VA_OPT__(, ) __VA_ARGS__)

#define DWELL_SHIFT(name, short_name)                                                                                       \
  take_all<Direct<TensorOp::name, Types::whole>, aten::bitwise_##name##_Tensor, aten::bitwise_##name##__Tensor,             \
           aten::bitwise_##name##_Tensor_out, aten::bitwise_##name##_Tensor_Scalar, aten::bitwise_##name##__Tensor_Scalar,  \
           aten::bitwise_##name##_Tensor_Scalar_out, aten::bitwise_##name##_Scalar_Tensor, aten::__##short_name##___Tensor, \
           aten::__##short_name##___Scalar, aten::__i##short_name##___Tensor, aten::__i##short_name##___Scalar>(m)

void dwell::pytorch::take_elementwise(torch::Library& m) {
  DWELL_TENSOR_OPS(DWELL_TAKE)

  // Operations whose rows say `own`, and those of PyTorch that have no row.
  take_all<Direct<TensorOp::sign, Types::numbers>, aten::sgn, aten::sgn_, aten::sgn_out>(m);
  take_all<Relu, aten::relu, aten::relu_>(m);
  take_all<RoundDecimals, aten::round_decimals, aten::round__decimals, aten::round_decimals_out>(m);
  take_all<Hard<TensorOp::hardsigmoid>, aten::hardsigmoid, aten::hardsigmoid_, aten::hardsigmoid_out>(m);
  take_all<Hard<TensorOp::hardswish>, aten::hardswish, aten::hardswish_, aten::hardswish_out>(m);

  take_all<Add, aten::add_Tensor, aten::add__Tensor, aten::add_out>(m);
  take_all<Sub, aten::sub_Tensor, aten::sub__Tensor, aten::sub_out>(m);
  take_all<Rsub, aten::rsub_Tensor, aten::rsub_Scalar>(m);
  take_all<Direct<TensorOp::mul, Types::all, ResultType::converted>, aten::mul_Tensor, aten::mul__Tensor, aten::mul_out>(m);
  take_all<Direct<TensorOp::div, Types::to_floats, ResultType::converted>, aten::div_Tensor, aten::div__Tensor, aten::div_out>(m);
  take_all<DivMode, aten::div_Tensor_mode, aten::div__Tensor_mode, aten::div_out_mode>(m);
  // The dispatcher gets numbers as tensors.
  offer_all<Add, aten::add_Scalar, aten::add__Scalar>();
  offer_all<Sub, aten::sub_Scalar, aten::sub__Scalar>();
  offer_all<Direct<TensorOp::mul, Types::all, ResultType::converted>, aten::mul_Scalar, aten::mul__Scalar>();
  offer_all<Direct<TensorOp::div, Types::to_floats, ResultType::converted>, aten::div_Scalar, aten::div__Scalar>();
  take_all<WholeQuotient<TensorOp::floor_divide>, aten::floor_divide, aten::floor_divide__Tensor, aten::floor_divide_out>(m);
  take_all<Divided<TensorOp::remainder>, aten::remainder_Scalar_Tensor, aten::remainder_Tensor, aten::remainder__Tensor,
           aten::remainder_Tensor_out>(m);
  take_all<Divided<TensorOp::fmod>, aten::fmod_Tensor, aten::fmod__Tensor, aten::fmod_Tensor_out>(m);
  take_all<PowOfNumber, aten::pow_Scalar, aten::pow_Scalar_out>(m);
  take_all<Pow, aten::pow_Tensor_Tensor, aten::pow__Tensor, aten::pow_Tensor_Tensor_out, aten::pow_Tensor_Scalar, aten::pow__Scalar,
           aten::pow_Tensor_Scalar_out>(m);
  take_all<Direct<TensorOp::maximum, Types::numbers>, aten::maximum, aten::maximum_out>(m);
  take_all<Direct<TensorOp::minimum, Types::numbers>, aten::minimum, aten::minimum_out>(m);
  take_all<Direct<TensorOp::fmax, Types::numbers>, aten::fmax, aten::fmax_out>(m);
  take_all<Direct<TensorOp::fmin, Types::numbers>, aten::fmin, aten::fmin_out>(m);

  DWELL_SHIFT(left_shift, lshift);
  DWELL_SHIFT(right_shift, rshift);

  take_all<Clamp, aten::clamp, aten::clamp_, aten::clamp_out>(m);
  take_all<Direct<TensorOp::clamp_min, Types::numbers>, aten::clamp_min, aten::clamp_min_, aten::clamp_min_out>(m);
  take_all<Direct<TensorOp::clamp_max, Types::numbers>, aten::clamp_max, aten::clamp_max_, aten::clamp_max_out>(m);
  take_all<ClampTensors, aten::clamp_Tensor, aten::clamp__Tensor, aten::clamp_Tensor_out>(m);
  take_all<Direct<TensorOp::maximum, Types::numbers>, aten::clamp_min_Tensor, aten::clamp_min__Tensor, aten::clamp_min_Tensor_out>(m);
  take_all<Direct<TensorOp::minimum, Types::numbers>, aten::clamp_max_Tensor, aten::clamp_max__Tensor, aten::clamp_max_Tensor_out>(m);
  take_all<Hardtanh, aten::hardtanh, aten::hardtanh_, aten::hardtanh_out>(m);
  take_all<Direct<TensorOp::leaky_relu, Types::floats>, aten::leaky_relu, aten::leaky_relu_, aten::leaky_relu_out>(m);
  take_all<Direct<TensorOp::threshold, Types::floats>, aten::threshold, aten::threshold_, aten::threshold_out>(m);
  take_all<Direct<TensorOp::softplus, Types::floats>, aten::softplus, aten::softplus_out>(m);
  take_all<Elu, aten::elu, aten::elu_, aten::elu_out>(m);
  take_all<Celu, aten::celu, aten::celu_>(m);
  take_all<Selu, aten::selu, aten::selu_>(m);
  take_all<Logit, aten::logit, aten::logit_, aten::logit_out>(m);
  take_all<Gelu, aten::gelu, aten::gelu_, aten::gelu_out>(m);

  take_all<Lerp, aten::lerp_Scalar, aten::lerp__Scalar, aten::lerp_Scalar_out, aten::lerp_Tensor, aten::lerp__Tensor,
           aten::lerp_Tensor_out>(m);
  take_all<Where, aten::where_self, aten::where_self_out>(m);
  take_all<MaskedFill, aten::masked_fill__Scalar>(m);
  take_all<Addcmul, aten::addcmul, aten::addcmul_, aten::addcmul_out>(m);
  take_all<Addcdiv, aten::addcdiv, aten::addcdiv_, aten::addcdiv_out>(m);
  take_all<Copy, aten::copy_>(m);
  take_all<Fill, aten::fill__Scalar>(m);
  take_all<Zero, aten::zero_>(m);

  take_all<Formed<sigmoid_backward, Types::floats>, aten::sigmoid_backward, aten::sigmoid_backward_grad_input>(m);
  take_all<Formed<tanh_backward, Types::floats>, aten::tanh_backward, aten::tanh_backward_grad_input>(m);
  take_all<Formed<threshold_backward, Types::floats, RoundsNumbers::on_cuda>, aten::threshold_backward,
           aten::threshold_backward_grad_input>(m);
  take_all<Formed<silu_backward, Types::floats>, aten::silu_backward>(m);
  take_all<GeluBackward, aten::gelu_backward, aten::gelu_backward_grad_input>(m);
  take_all<LeakyReluBackward, aten::leaky_relu_backward>(m);
  take_all<HardtanhBackward, aten::hardtanh_backward>(m);
  take_all<Formed<hardsigmoid_backward, Types::floats>, aten::hardsigmoid_backward>(m);
  take_all<Formed<hardswish_backward, Types::floats>, aten::hardswish_backward>(m);
  take_all<Formed<mish_backward, Types::floats>, aten::mish_backward>(m);
  take_all<Formed<softplus_backward, Types::floats>, aten::softplus_backward, aten::softplus_backward_grad_input>(m);
  take_all<EluBackward, aten::elu_backward, aten::elu_backward_grad_input>(m);
  take_all<LogitBackward, aten::logit_backward, aten::logit_backward_grad_input>(m);
}
#undef DWELL_SHIFT
#undef DWELL_TAKE
#undef DWELL_TAKE_own
#undef DWELL_TAKE_two
#undef DWELL_TAKE_one
