// Elementwise operations with rules of their own: limits, activations, choices, copies.
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

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::TensorOp;

void dwell::pytorch::take_elementwise(torch::Library& m) {
  // Operations whose rows say `own`, and those of PyTorch that have no row.
  take_all<Direct<TensorOp::sign, Types::numbers>, aten::sgn, aten::sgn_, aten::sgn_out>(m);
  take_all<Relu, aten::relu, aten::relu_>(m);
  take_all<Hard<TensorOp::hardsigmoid>, aten::hardsigmoid, aten::hardsigmoid_, aten::hardsigmoid_out>(m);
  take_all<Hard<TensorOp::hardswish>, aten::hardswish, aten::hardswish_, aten::hardswish_out>(m);
  take_all<Direct<TensorOp::maximum, Types::numbers>, aten::maximum, aten::maximum_out>(m);
  take_all<Direct<TensorOp::minimum, Types::numbers>, aten::minimum, aten::minimum_out>(m);
  take_all<Direct<TensorOp::fmax, Types::numbers>, aten::fmax, aten::fmax_out>(m);
  take_all<Direct<TensorOp::fmin, Types::numbers>, aten::fmin, aten::fmin_out>(m);
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
}
