// Elementwise operations that autograd needs.
#include <ATen/Operators.h>

#include <cmath>
#include <limits>
#include <optional>

#include "elementwise.hpp"
#include "fallback_reason.hpp"
#include "operations.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;

// The rule of a formula of all arguments.
template <Call::Formula kFormula, Types kTypes, RoundsNumbers kRounds = RoundsNumbers::never>
struct Formed {
  template <class... Inputs>
  static Call of(const Inputs&... inputs) {
    return Call(kFormula, kTypes, ResultType::common, kRounds, inputs...);
  }
};

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

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;

void dwell::pytorch::take_elementwise_backward(torch::Library& m) {
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
