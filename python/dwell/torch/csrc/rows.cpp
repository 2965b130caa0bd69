// Operations along dimensions: reductions, and what follows from all elements of a row.
#include <ATen/Operators.h>

#include <optional>
#include <tuple>

#include <dwell/reduction.hpp>

#include "operations.hpp"
#include "rows.hpp"
#include "taken.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;
using Made = std::optional<Tensor>;

constexpr std::int64_t kMean = 1;  // at::Reduction's
constexpr std::int64_t kSum = 2;

Made reduce(Reduction reduction, const Tensor& x, at::IntArrayRef dims, bool keep, std::optional<at::ScalarType> type,
            double parameter = 0) {
  if (!has_rows(x)) return {};
  const std::optional<Axes> axes = axes_of(x, dims);
  if (!axes) return {};
  const Tensor out = empty_on(x, sizes_without(x, *axes, keep), type.value_or(x.scalar_type()));
  collect({&out, &x}, [&](Batch& batch) { batch.reduce(reduction, view_of(out), view_of(x), to_dims(x, *axes), parameter); });
  return out;
}

at::IntArrayRef named(const at::OptionalIntArrayRef& dims) { return dims.has_value() ? *dims : at::IntArrayRef(); }

// The type of a sum, when it is one that the numbers are added up in.
std::optional<at::ScalarType> sum_type(const Tensor& x, std::optional<at::ScalarType> asked) {
  if (is_float(x)) {
    if (asked && !at::isFloatingType(*asked)) return {};
    return asked.value_or(x.scalar_type());
  }
  if (asked && *asked != at::kLong) return {};
  return at::kLong;
}

struct Sum {
  static Made of(const Tensor& x, const at::OptionalIntArrayRef& dims, bool keep, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::sum, x, named(dims), keep, result) : std::nullopt;
  }
};
struct Mean {
  static Made of(const Tensor& x, const at::OptionalIntArrayRef& dims, bool keep, std::optional<at::ScalarType> type) {
    if (!is_float(x) || (type && !at::isFloatingType(*type))) return {};
    return reduce(Reduction::mean, x, named(dims), keep, type);
  }
};
struct Prod {
  static Made of(const Tensor& x, std::int64_t dim, bool keep, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::prod, x, dim, keep, result) : std::nullopt;
  }
  static Made of(const Tensor& x, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::prod, x, {}, false, result) : std::nullopt;
  }
};
template <Reduction kReduction>
struct Extreme {
  static Made of(const Tensor& x, at::IntArrayRef dims, bool keep) { return reduce(kReduction, x, dims, keep, {}); }
  static Made of(const Tensor& x) { return reduce(kReduction, x, {}, false, {}); }
};
template <Reduction kReduction>
struct Place {
  static Made of(const Tensor& x, std::optional<std::int64_t> dim, bool keep) {
    if (!dim && keep) return {};
    return reduce(kReduction, x, dim ? at::IntArrayRef(*dim) : at::IntArrayRef(), keep, at::kLong);
  }
};
template <Reduction kReduction>
struct Truth {
  static Made of(const Tensor& x, std::int64_t dim, bool keep) {
    return x.scalar_type() == at::kByte ? std::nullopt : reduce(kReduction, x, dim, keep, at::kBool);
  }
  static Made of(const Tensor& x) { return x.scalar_type() == at::kByte ? std::nullopt : reduce(kReduction, x, {}, false, at::kBool); }
};
template <Reduction kReduction>
struct Spread {
  static Made of(const Tensor& x, const at::OptionalIntArrayRef& dims, const std::optional<Scalar>& correction, bool keep) {
    if (!is_float(x) || !has_rows(x)) return {};
    const std::optional<Axes> axes = axes_of(x, named(dims));
    const double less = correction ? correction->toDouble() : 1;
    if (!axes) return {};
    // PyTorch warns of too few elements.
    double count = 1;
    for (const std::int64_t dim : to_dims(x, *axes)) count *= static_cast<double>(x.size(dim));
    return count > less ? reduce(kReduction, x, named(dims), keep, {}, less) : std::nullopt;
  }
};
struct LogSumExp {
  static Made of(const Tensor& x, at::IntArrayRef dims, bool keep) {
    return is_float(x) && !dims.empty() ? reduce(Reduction::logsumexp, x, dims, keep, {}) : std::nullopt;
  }
};
struct VectorNorm {
  static Made of(const Tensor& x, const Scalar& ord, const at::OptionalIntArrayRef& dims, bool keep, std::optional<at::ScalarType> type) {
    if (!is_float(x) || (type && *type != x.scalar_type())) return {};
    return reduce(Reduction::norm, x, named(dims), keep, {}, ord.toDouble());
  }
};
template <bool kMost>
struct ExtremeWithPlace {
  static std::optional<std::tuple<Tensor, Tensor>> of(const Tensor& x, std::int64_t dim, bool keep) {
    if (!has_rows(x) || x.dim() == 0) return {};
    const std::optional<Axes> axes = axes_of(x, dim);
    if (!axes) return {};
    const at::DimVector sizes = sizes_without(x, *axes, keep);
    const Tensor values = empty_on(x, sizes, x.scalar_type());
    const Tensor places = empty_on(x, sizes, at::kLong);
    collect({&values, &places, &x}, [&](Batch& batch) {
      if (kMost)
        batch.max(view_of(values), view_of(places), view_of(x), dim);
      else
        batch.min(view_of(values), view_of(places), view_of(x), dim);
    });
    return std::tuple(values, places);
  }
};

// ---- Rows to rows ----------------------------------------------------------------------------------------------------------------------

// Whether there are rows along a dimension of floats.
bool has_float_rows(const Tensor& x, std::int64_t dim) { return is_float(x) && has_rows(x) && x.dim() != 0 && axes_of(x, dim); }

template <bool kLog>
struct Softmax {
  static Made of(const Tensor& x, std::int64_t dim, bool half_to_float) {
    if (half_to_float || !has_float_rows(x, dim)) return {};
    const Tensor out = empty_on(x, x.sizes(), x.scalar_type());
    collect({&out, &x}, [&](Batch& batch) {
      if (kLog)
        batch.log_softmax(view_of(out), view_of(x), dim);
      else
        batch.softmax(view_of(out), view_of(x), dim);
    });
    return out;
  }
};
// From the gradient of the result, and the result.
template <bool kLog>
struct SoftmaxBackward {
  static Made of(const Tensor& grad, const Tensor& result, std::int64_t dim, at::ScalarType type) {
    if (!has_float_rows(result, dim) || !has_rows(grad) || grad.sizes() != result.sizes() || grad.scalar_type() != result.scalar_type() ||
        type != result.scalar_type() || grad.device() != result.device())
      return {};
    const bool is_short = type == at::kHalf || type == at::kBFloat16;
    const at::ScalarType wide = is_short ? at::kFloat : type;
    const Tensor out = empty_on(grad, grad.sizes(), type);
    const Tensor sums = empty_on(grad, sizes_without(grad, *axes_of(grad, dim), true), wide);
    const Tensor products = kLog ? Tensor() : empty_on(grad, grad.sizes(), wide);
    const ElementType in = *element_type_of(wide);
    const Tensor& terms = kLog ? grad : products;
    collect({&out, &grad, &result, &sums, &terms}, [&](Batch& batch) {
      const Expression g = Expression(view_of(grad)).as(in);
      const Expression y = Expression(view_of(result)).as(in);
      if (!kLog) batch.assign(view_of(products), g * y);
      batch.sum(view_of(sums), view_of(terms), {dim});
      const Expression sum(view_of(sums));
      batch.assign(view_of(out), kLog ? g - ops::exp(y) * sum : g * y - y * sum);
    });
    return out;
  }
};
struct Cumsum {
  static Made of(const Tensor& x, std::int64_t dim, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    if (!result || !has_rows(x) || x.dim() == 0 || !axes_of(x, dim)) return {};
    const Tensor out = empty_on(x, x.sizes(), *result);
    collect({&out, &x}, [&](Batch& batch) { batch.cumsum(view_of(out), view_of(x), dim); });
    return out;
  }
};

// ---- Losses ----------------------------------------------------------------------------------------------------------------------------

struct SquaredError {
  static Made of(const Tensor& x, const Tensor& target, std::int64_t reduction) {
    if (!is_float(x) || x.scalar_type() != target.scalar_type() || x.sizes() != target.sizes() || !x.is_contiguous() ||
        !target.is_contiguous())
      return {};
    const Tensor terms =
        Call([](std::span<const Expression> n) { return (n[0] - n[1]) * (n[0] - n[1]); }, Types::floats, Gives::common, x, target).make();
    if (!terms.defined()) return {};
    if (reduction != kMean && reduction != kSum) return terms;
    return reduce(reduction == kMean ? Reduction::mean : Reduction::sum, terms, {}, false, {});
  }
};
struct SquaredErrorBackward {
  static Call of(const Tensor& grad, const Tensor& x, const Tensor& target, std::int64_t reduction) {
    if (x.sizes() != target.sizes()) return {};
    const double factor = reduction == kMean ? 2.0 / static_cast<double>(x.numel()) : 2.0;
    return Call([](std::span<const Expression> n) { return n[3] * (n[1] - n[2]) * n[0]; }, Types::floats, Gives::common, grad, x, target,
                Scalar(factor));
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::Reduction;

void dwell::pytorch::take_rows(torch::Library& m) {
  take_all<Sum, aten::sum_dim_IntList>(m);
  take_all<Mean, aten::mean_dim>(m);
  take_all<Prod, aten::prod, aten::prod_dim_int>(m);
  take_all<Extreme<Reduction::amax>, aten::amax, aten::max>(m);
  take_all<Extreme<Reduction::amin>, aten::amin, aten::min>(m);
  take_all<Place<Reduction::argmax>, aten::argmax>(m);
  take_all<Place<Reduction::argmin>, aten::argmin>(m);
  take_all<Truth<Reduction::any>, aten::any, aten::any_dim>(m);
  take_all<Truth<Reduction::all>, aten::all, aten::all_dim>(m);
  take_all<Spread<Reduction::var>, aten::var_correction>(m);
  take_all<Spread<Reduction::stddev>, aten::std_correction>(m);
  take_all<LogSumExp, aten::logsumexp>(m);
  take_all<VectorNorm, aten::linalg_vector_norm>(m);
  take_all<ExtremeWithPlace<true>, aten::max_dim>(m);
  take_all<ExtremeWithPlace<false>, aten::min_dim>(m);
  take_all<Softmax<false>, aten::_softmax>(m);
  take_all<Softmax<true>, aten::_log_softmax>(m);
  take_all<SoftmaxBackward<false>, aten::_softmax_backward_data>(m);
  take_all<SoftmaxBackward<true>, aten::_log_softmax_backward_data>(m);
  take_all<Cumsum, aten::cumsum>(m);
  take_all<SquaredError, aten::mse_loss>(m);
  take_all<SquaredErrorBackward, aten::mse_loss_backward>(m);
}
