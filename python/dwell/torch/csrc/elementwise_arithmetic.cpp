// Arithmetic with rules of its own: sums with a factor, divisions, powers, shifts.
#include <ATen/Operators.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "elementwise.hpp"
#include "fallback_reason.hpp"
#include "operations.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;

bool is_bool(const Input& x) {
  return x.tensor != nullptr ? x.tensor->scalar_type() == at::kBool : x.number && x.number->type() == ElementType::boolean;
}

// Returns whether PyTorch accepts `alpha` as a factor of b, and it does not change the common type of a and b.
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

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::TensorOp;

#define DWELL_SHIFT(name, short_name)                                                                                       \
  take_all<Direct<TensorOp::name, Types::whole>, aten::bitwise_##name##_Tensor, aten::bitwise_##name##__Tensor,             \
           aten::bitwise_##name##_Tensor_out, aten::bitwise_##name##_Tensor_Scalar, aten::bitwise_##name##__Tensor_Scalar,  \
           aten::bitwise_##name##_Tensor_Scalar_out, aten::bitwise_##name##_Scalar_Tensor, aten::__##short_name##___Tensor, \
           aten::__##short_name##___Scalar, aten::__i##short_name##___Tensor, aten::__i##short_name##___Scalar>(m)

void dwell::pytorch::take_arithmetic(torch::Library& m) {
  take_all<RoundDecimals, aten::round_decimals, aten::round__decimals, aten::round_decimals_out>(m);
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
  DWELL_SHIFT(left_shift, lshift);
  DWELL_SHIFT(right_shift, rshift);
}
#undef DWELL_SHIFT
