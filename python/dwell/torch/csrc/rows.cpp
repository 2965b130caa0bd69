// Operations along dimensions: reductions, softmax, cumsum, triangles, losses.
#include <ATen/Operators.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <dwell/reduction.hpp>

#include "fallback_reason.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"
#include "rows.hpp"
#include "unary_call.hpp"

namespace dwell::pytorch {

namespace {

using at::Scalar;
using at::Tensor;
using Made = std::optional<Tensor>;

constexpr std::int64_t kNone = 0;  // at::Reduction's
constexpr std::int64_t kMean = 1;
constexpr std::int64_t kSum = 2;
bool is_reduction(std::int64_t number) { return number >= kNone && number <= kSum; }

// Results are contiguous, whatever the strides of x, as PyTorch's are.
UnaryCall reduce(Reduction reduction, const Tensor& x, at::IntArrayRef dims, bool keep, std::optional<at::ScalarType> type,
                 double parameter = 0) {
  if (!is_small(x)) return {};
  const std::optional<Axes> axes = axes_of(x, dims);
  if (!axes) return {};
  return UnaryCall(x, sizes_without(x, *axes, keep), type.value_or(x.scalar_type()),
                   {.reduction = reduction, .dims = to_dims(x, *axes), .real = parameter},
                   [](Batch& batch, const TensorView& to, const TensorView& from, const UnaryCall::Parameters& with) {
                     batch.reduce(with.reduction, to, from, with.dims, with.real);
                   });
}

at::IntArrayRef named(const at::OptionalIntArrayRef& dims) { return dims.has_value() ? *dims : at::IntArrayRef(); }

// The type of a sum; nothing if PyTorch accumulates in another one.
std::optional<at::ScalarType> sum_type(const Tensor& x, std::optional<at::ScalarType> asked) {
  if (is_float(x)) {
    if (asked && !at::isFloatingType(*asked)) return decline(FallbackReason::type);
    return asked.value_or(x.scalar_type());
  }
  if (asked && *asked != at::kLong) return decline(FallbackReason::type);
  return at::kLong;
}

struct Sum {
  static UnaryCall of(const Tensor& x, const at::OptionalIntArrayRef& dims, bool keep, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::sum, x, named(dims), keep, result) : UnaryCall();
  }
};
struct Mean {
  static UnaryCall of(const Tensor& x, const at::OptionalIntArrayRef& dims, bool keep, std::optional<at::ScalarType> type) {
    if (!is_float(x) || (type && !at::isFloatingType(*type))) return decline(FallbackReason::type);
    return reduce(Reduction::mean, x, named(dims), keep, type);
  }
};
struct Prod {
  static UnaryCall of(const Tensor& x, std::int64_t dim, bool keep, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::prod, x, dim, keep, result) : UnaryCall();
  }
  static UnaryCall of(const Tensor& x, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    return result ? reduce(Reduction::prod, x, {}, false, result) : UnaryCall();
  }
};
template <Reduction kReduction>
struct Extreme {
  static UnaryCall of(const Tensor& x, at::IntArrayRef dims, bool keep) { return reduce(kReduction, x, dims, keep, {}); }
  static UnaryCall of(const Tensor& x) { return reduce(kReduction, x, {}, false, {}); }
};
template <Reduction kReduction>
struct Place {
  static UnaryCall of(const Tensor& x, std::optional<std::int64_t> dim, bool keep) {
    if (!dim && keep) return {};
    if (x.scalar_type() == at::kBool) return decline(FallbackReason::type);
    return reduce(kReduction, x, dim ? at::IntArrayRef(*dim) : at::IntArrayRef(), keep, at::kLong);
  }
};
template <Reduction kReduction>
struct Truth {
  static UnaryCall of(const Tensor& x, at::IntArrayRef dims, bool keep) {
    if (x.scalar_type() == at::kByte) return decline(FallbackReason::type);  // PyTorch's result is u8, not bool
    return reduce(kReduction, x, dims, keep, at::kBool);
  }
  static UnaryCall of(const Tensor& x, const at::OptionalIntArrayRef& dims, bool keep) {
    if (dims && dims->empty()) return {};  // versions of PyTorch differ in the meaning of no dimension
    return of(x, named(dims), keep);
  }
  static UnaryCall of(const Tensor& x, std::int64_t dim, bool keep) { return of(x, at::IntArrayRef(dim), keep); }
  static UnaryCall of(const Tensor& x) { return of(x, at::IntArrayRef(), false); }
};
template <Reduction kReduction>
struct Spread {
  static UnaryCall of(const Tensor& x, const at::OptionalIntArrayRef& dims, const std::optional<Scalar>& correction, bool keep) {
    if (!is_float(x)) return decline(FallbackReason::type);
    if (!is_small(x)) return {};
    const std::optional<Axes> axes = axes_of(x, named(dims));
    if (!axes || (correction && !has(at::kDouble, number_from(*correction)))) return {};
    const double less = correction ? correction->toDouble() : 1;
    // PyTorch warns about too few elements.
    double count = 1;
    for (const std::int64_t dim : to_dims(x, *axes)) count *= static_cast<double>(x.size(dim));
    return count > less ? reduce(kReduction, x, named(dims), keep, {}, less) : UnaryCall();
  }
};
struct LogSumExp {
  static UnaryCall of(const Tensor& x, at::IntArrayRef dims, bool keep) {
    if (!is_float(x)) return decline(FallbackReason::type);
    return !dims.empty() ? reduce(Reduction::logsumexp, x, dims, keep, {}) : UnaryCall();
  }
};
struct VectorNorm {
  static UnaryCall of(const Tensor& x, const Scalar& ord, const at::OptionalIntArrayRef& dims, bool keep,
                      std::optional<at::ScalarType> type) {
    if (!is_float(x) || (type && *type != x.scalar_type()) || !has(x.scalar_type(), number_from(ord))) return decline(FallbackReason::type);
    if (std::isnan(ord.toDouble())) return {};
    return reduce(Reduction::norm, x, named(dims), keep, {}, norms_of_one(x, named(dims)) && ord.toDouble() != 0 ? 1 : ord.toDouble());
  }

 private:
  // Returns whether each norm is of one element. PyTorch returns its absolute value then, without a power that may overflow.
  static bool norms_of_one(const Tensor& x, at::IntArrayRef dims) {
    const std::optional<Axes> axes = axes_of(x, dims);
    if (!axes) return false;
    const Dims reduced = to_dims(x, *axes);
    return std::all_of(reduced.begin(), reduced.end(), [&](std::int64_t dim) { return x.size(dim) == 1; });
  }
};

// The largest or smallest element along a dimension, and its index.
template <bool kMost>
class ExtremeWithPlace {
 public:
  static ExtremeWithPlace of(const Tensor& x, std::int64_t dim, bool keep) {
    if (!is_small(x) || x.dim() == 0) return {};
    const std::optional<Axes> axes = axes_of(x, dim);
    return axes ? ExtremeWithPlace(x, dim, sizes_without(x, *axes, keep)) : ExtremeWithPlace();
  }
  std::optional<std::tuple<Tensor, Tensor>> make() const {
    if (x_ == nullptr) return {};
    std::tuple made(empty_on(*x_, sizes_, x_->scalar_type()), empty_on(*x_, sizes_, at::kLong));
    add(std::get<0>(made), std::get<1>(made));
    return made;
  }
  bool write(const Tensor& values, const Tensor& places) const {
    if (x_ == nullptr || !fits(values, *x_, sizes_, x_->scalar_type()) || !fits(places, *x_, sizes_, at::kLong) ||
        !is_clear_of(values, *x_) || !is_clear_of(places, *x_) || !is_clear_of(values, places))
      return false;
    add(values, places);
    return true;
  }

 private:
  ExtremeWithPlace() = default;
  ExtremeWithPlace(const Tensor& x, std::int64_t dim, at::DimVector sizes) : x_(&x), dim_(dim), sizes_(std::move(sizes)) {}

  void add(const Tensor& values, const Tensor& places) const {
    collect({&values, &places, x_}, 2, 0, [&](Batch& batch) {
      if (kMost)
        batch.max(view_of(values), view_of(places), view_of(*x_), dim_);
      else
        batch.min(view_of(values), view_of(places), view_of(*x_), dim_);
    });
  }

  const Tensor* x_ = nullptr;
  std::int64_t dim_ = 0;
  at::DimVector sizes_;
};

// ---- Rows to rows ----------------------------------------------------------------------------------------------------------------------

using WithParameters = const UnaryCall::Parameters&;

// Returns whether x is floating point and has that dimension.
bool has_float_rows(const Tensor& x, std::int64_t dim) {
  return holds(is_float(x), FallbackReason::type) && is_small(x) && x.dim() != 0 && axes_of(x, dim);
}

template <bool kLog>
struct Softmax {
  static UnaryCall of(const Tensor& x, std::int64_t dim, bool half_to_float) {
    if (half_to_float) return decline(FallbackReason::type);
    if (!has_float_rows(x, dim)) return {};
    return UnaryCall(x, x.sizes(), x.scalar_type(), {.number = dim},
                     [](Batch& batch, const TensorView& to, const TensorView& from, WithParameters with) {
                       if (kLog)
                         batch.log_softmax(to, from, with.number);
                       else
                         batch.softmax(to, from, with.number);
                     });
  }
};
template <bool kLog>
struct SoftmaxOfType {
  static UnaryCall of(const Tensor& x, std::int64_t dim, std::optional<at::ScalarType> type) {
    return type ? decline(FallbackReason::type) : Softmax<kLog>::of(x, dim, false);
  }
};
// The gradient of x from that of the result, and the result.
template <bool kLog>
struct SoftmaxBackward {
  static Made of(const Tensor& grad, const Tensor& result, std::int64_t dim, at::ScalarType type) {
    if (!has_float_rows(result, dim) || !is_small(grad) || grad.sizes() != result.sizes()) return {};
    if (grad.scalar_type() != result.scalar_type() || type != result.scalar_type()) return decline(FallbackReason::type);
    if (grad.device() != result.device()) return decline(FallbackReason::device);
    const at::ScalarType wide = wide_type(type);
    const Tensor out = empty_on(grad, grad.sizes(), type);
    const Tensor sums = empty_on(grad, sizes_without(grad, *axes_of(grad, dim), true), wide);
    // PyTorch's GPU kernel gets products rounded to the type.
    const Tensor products = kLog ? Tensor() : empty_on(grad, grad.sizes(), grad.is_cpu() ? wide : type);
    const ElementType in = *element_type_of(wide);
    const Tensor& terms = kLog ? grad : products;
    const Tensor& between = kLog ? sums : products;
    collect({&out, &sums, &between, &grad, &result}, 3, 0, [&](Batch& batch) {
      const Expression g = Expression(view_of(grad)).as(in);
      const Expression y = Expression(view_of(result)).as(in);
      if (!kLog) batch.assign(view_of(products), g * y);
      batch.sum(view_of(sums), view_of(terms), {dim});
      const Expression sum(view_of(sums));
      if (kLog)
        batch.assign(view_of(out), g - ops::exp(y) * sum);
      else if (grad.is_cpu())
        batch.assign(view_of(out), y * (g - sum));
      else
        batch.assign(view_of(out), Expression(view_of(products)).as(in) - y * sum);
    });
    return out;
  }
};
struct Cumsum {
  static UnaryCall of(const Tensor& x, std::int64_t dim, std::optional<at::ScalarType> type) {
    const auto result = sum_type(x, type);
    if (!result || !is_small(x) || x.dim() == 0 || !axes_of(x, dim)) return {};
    // PyTorch's GPU kernel adds in 16 bits, in an order of its own.
    if (!x.is_cpu() && wide_type(*result) != *result) return decline(FallbackReason::type);
    return UnaryCall(
        x, x.sizes(), *result, {.number = dim},
        [](Batch& batch, const TensorView& to, const TensorView& from, WithParameters with) { batch.cumsum(to, from, with.number); },
        UnaryCall::InPlace::yes);
  }
};

// ---- Parts of matrices -----------------------------------------------------------------------------------------------------------------

template <bool kLower>
struct Triangle {
  static UnaryCall of(const Tensor& x, const c10::SymInt& diagonal) {
    const std::optional<std::int64_t> number = diagonal.maybe_as_int();
    if (!number || !is_small(x) || x.dim() < 2) return {};
    return UnaryCall(
        x, x.sizes(), x.scalar_type(), {.number = *number},
        [](Batch& batch, const TensorView& to, const TensorView& from, WithParameters with) {
          if (kLower)
            batch.tril(to, from, with.number);
          else
            batch.triu(to, from, with.number);
        },
        UnaryCall::InPlace::yes);
  }
};

// ---- Losses ----------------------------------------------------------------------------------------------------------------------------

struct SquaredError {
  static Made of(const Tensor& x, const Tensor& target, std::int64_t reduction) {
    if (!is_float(x) || x.scalar_type() != target.scalar_type()) return decline(FallbackReason::type);
    if (x.sizes() != target.sizes() || !is_reduction(reduction)) return {};
    const Tensor terms =
        Call([](std::span<const Expression> n) { return (n[0] - n[1]) * (n[0] - n[1]); }, Types::floats, ResultType::common, x, target)
            .make();
    if (!terms.defined()) return {};
    if (reduction == kNone) return terms;
    return reduce(reduction == kMean ? Reduction::mean : Reduction::sum, terms, {}, false, {}).make();
  }
};
struct SquaredErrorBackward {
  static Call of(const Tensor& grad, const Tensor& x, const Tensor& target, std::int64_t reduction) {
    if (x.sizes() != target.sizes() || !is_reduction(reduction)) return {};
    if (!grad.is_contiguous() || !x.is_contiguous() || !target.is_contiguous())
      return decline(FallbackReason::layout);  // strides of the result differ
    const double factor = reduction == kMean ? 2.0 / static_cast<double>(x.numel()) : 2.0;
    return Call([](std::span<const Expression> n) { return n[3] * (n[1] - n[2]) * n[0]; }, Types::floats, ResultType::common, grad, x,
                target, Scalar(factor));
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;
using dwell::Reduction;

void dwell::pytorch::take_rows(torch::Library& m) {
  take_all<Sum, aten::sum_dim_IntList, aten::sum_IntList_out>(m);
  take_all<Mean, aten::mean_dim, aten::mean_out>(m);
  take_all<Prod, aten::prod, aten::prod_dim_int, aten::prod_int_out>(m);
  take_all<Extreme<Reduction::amax>, aten::amax, aten::amax_out, aten::max, aten::max_unary_out>(m);
  take_all<Extreme<Reduction::amin>, aten::amin, aten::amin_out, aten::min, aten::min_unary_out>(m);
  take_all<Place<Reduction::argmax>, aten::argmax, aten::argmax_out>(m);
  take_all<Place<Reduction::argmin>, aten::argmin, aten::argmin_out>(m);
  take_all<Truth<Reduction::any>, aten::any, aten::any_dim, aten::any_dims, aten::any_all_out, aten::any_out, aten::any_dims_out>(m);
  take_all<Truth<Reduction::all>, aten::all, aten::all_dim, aten::all_dims, aten::all_all_out, aten::all_out, aten::all_dims_out>(m);
  take_all<Spread<Reduction::var>, aten::var_correction, aten::var_correction_out>(m);
  take_all<Spread<Reduction::stddev>, aten::std_correction, aten::std_correction_out>(m);
  take_all<LogSumExp, aten::logsumexp, aten::logsumexp_out>(m);
  take_all<VectorNorm, aten::linalg_vector_norm, aten::linalg_vector_norm_out>(m);
  take_all<ExtremeWithPlace<true>, aten::max_dim, aten::max_dim_max>(m);
  take_all<ExtremeWithPlace<false>, aten::min_dim, aten::min_dim_min>(m);
  take_all<Softmax<false>, aten::_softmax, aten::_softmax_out>(m);
  take_all<Softmax<true>, aten::_log_softmax, aten::_log_softmax_out>(m);
  offer_all<SoftmaxOfType<false>, aten::softmax_int>();
  offer_all<SoftmaxOfType<true>, aten::log_softmax_int>();
  take_all<SoftmaxBackward<false>, aten::_softmax_backward_data>(m);
  take_all<SoftmaxBackward<true>, aten::_log_softmax_backward_data>(m);
  take_all<Cumsum, aten::cumsum, aten::cumsum_, aten::cumsum_out>(m);
  take_all<Triangle<true>, aten::tril, aten::tril_, aten::tril_out>(m);
  take_all<Triangle<false>, aten::triu, aten::triu_, aten::triu_out>(m);
  take_all<SquaredError, aten::mse_loss>(m);
  take_all<SquaredErrorBackward, aten::mse_loss_backward>(m);
}
