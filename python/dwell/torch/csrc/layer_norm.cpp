// layer_norm and rms_norm. A row is all elements along the last dimensions.
#include <ATen/Operators.h>

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "fallback_reason.hpp"
#include "operation_kernel.hpp"
#include "operations.hpp"
#include "rows.hpp"

namespace dwell::pytorch {

namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;
using Three = std::optional<std::tuple<Tensor, Tensor, Tensor>>;

bool exists(const Maybe& of) { return of && of->defined(); }

// The dimensions of rows, and their shape.
struct Rows {
  Axes axes;
  Dims shape;
};

// Returns nothing if PyTorch is to run the call, or to refuse it.
std::optional<Rows> rows_of(const Tensor& x, c10::SymIntArrayRef normalized, const Maybe& weight, const Maybe& bias) {
  if (!is_float(x)) return decline(FallbackReason::type);
  if (!is_small(x) || normalized.empty() || normalized.size() > static_cast<std::size_t>(x.dim())) return {};
  const std::size_t first = static_cast<std::size_t>(x.dim()) - normalized.size();
  Rows rows;
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(first + i));
    if (normalized[i] != size) return {};
    rows.axes.set(first + i);
    rows.shape.push_back(size);
  }
  for (const Maybe* const of : {&weight, &bias}) {
    if (!exists(*of)) continue;
    const Tensor& factor = **of;
    if (factor.scalar_type() != x.scalar_type()) return decline(FallbackReason::type);
    if (factor.device() != x.device()) return decline(FallbackReason::device);
    if (!is_small(factor) || factor.sizes() != x.sizes().slice(first)) return {};
  }
  return rows;
}

// Returns whether a row is a whole number of 32-byte vectors of PyTorch's CPU kernel, or shorter than one.
bool has_none_beside_vectors(const Dims& shape, std::int64_t element_size) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  const std::int64_t vector = 32 / element_size;
  return elements < vector || elements % vector == 0;
}

struct LayerNorm {
  static Three of(const Tensor& x, c10::SymIntArrayRef normalized, const Maybe& weight, const Maybe& bias, double epsilon) {
    const std::optional<Rows> rows = rows_of(x, normalized, weight, bias);
    if (!rows) return {};
    const at::DimVector sizes = sizes_without(x, rows->axes, true);
    const at::ScalarType wide = wide_type(x.scalar_type());
    const at::ScalarType of_rows = x.is_cpu() ? x.scalar_type() : wide;
    const Tensor out = empty_on(x, x.sizes(), x.scalar_type());
    const Tensor mean = empty_on(x, sizes, of_rows);
    const Tensor rstd = empty_on(x, sizes, of_rows);
    const Tensor spread = of_rows != wide ? empty_on(x, sizes, wide) : rstd;
    const auto or_x = [&](const Maybe& of) { return exists(of) ? &*of : &x; };
    const auto view = [&](const Maybe& of) { return exists(of) ? std::optional(view_of(*of)) : std::optional<TensorView>(); };
    collect({&out, &mean, &rstd, &spread, &x, or_x(weight), or_x(bias)}, 4, 4, [&](Batch& batch) {
      const TensorView from = view_of(x);
      const Dims along = to_dims(x, rows->axes);
      batch.layer_norm(view_of(out), from, rows->shape, view(weight), view(bias), epsilon);
      batch.mean(view_of(mean), from, along);
      // PyTorch combines means of parts, which gives NaN if one is infinite; on a CPU also for the variance if the square of one is.
      batch.assign(view_of(mean), Expression(view_of(mean)) + Expression(view_of(mean)) * 0.0);
      batch.var(view_of(spread), from, along, 0);
      const Expression root = ops::rsqrt(Expression(view_of(spread)) + epsilon);
      const Expression size = Expression(view_of(mean)).as(*element_type_of(wide));
      const Expression nothing = size * size * 0.0;
      const bool none = has_none_beside_vectors(rows->shape, x.element_size());
      batch.assign(view_of(rstd), !x.is_cpu() ? root : none ? root + nothing : ops::where(root, size * 0.0 * size, ops::eq(nothing, 0.0)));
    });
    return std::tuple(out, mean, rstd);
  }
};

struct RmsNorm {
  static std::optional<std::tuple<Tensor, Tensor>> of(const Tensor& x, at::IntArrayRef normalized, const Maybe& weight,
                                                      std::optional<double> epsilon) {
    const std::optional<Rows> rows = rows_of(x, c10::fromIntArrayRefSlow(normalized), weight, {});
    if (!rows) return {};
    const at::ScalarType wide = wide_type(x.scalar_type());
    const double least =
        epsilon.value_or(wide == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon());
    const Tensor out = empty_on(x, x.sizes(), x.scalar_type());
    const Tensor rstd = empty_on(x, sizes_without(x, rows->axes, true), wide);
    const Tensor squares = empty_on(x, x.sizes(), wide);
    // PyTorch's GPU kernel reads four elements at once. For other rows, and for f64, it computes the mean of squares from mean and
    // variance, which gives NaN in a whole row if one element is infinite.
    std::int64_t elements = 1;
    for (const std::int64_t size : rows->shape) elements *= size;
    const bool of_means = !x.is_cpu() && (elements % 4 != 0 || x.scalar_type() == at::kDouble);
    const Tensor mean = of_means ? empty_on(rstd, rstd.sizes(), wide) : rstd;
    collect({&out, &rstd, &squares, &mean, &x, exists(weight) ? &*weight : &x}, 4, 4, [&](Batch& batch) {
      const TensorView from = view_of(x);
      batch.rms_norm(view_of(out), from, rows->shape, exists(weight) ? std::optional(view_of(*weight)) : std::nullopt, least);
      const Expression number = Expression(from).as(*element_type_of(wide));
      batch.assign(view_of(squares), number * number);
      batch.mean(view_of(rstd), view_of(squares), to_dims(x, rows->axes));
      if (of_means) {
        batch.mean(view_of(mean), from, to_dims(x, rows->axes));
        const Expression nothing = Expression(view_of(mean)) * 0.0;
        batch.assign(view_of(rstd), Expression(view_of(rstd)) + nothing);
        batch.assign(view_of(out), ops::where(Expression(view_of(out)), nothing, ops::eq(nothing, 0.0)));
      }
      batch.assign(view_of(rstd), ops::rsqrt(Expression(view_of(rstd)) + least));
    });
    return std::tuple(out, rstd);
  }
};

// With g the gradient times the weight, and y the row before weight and bias: that of x is (g - mean(g) - y mean(g y)) / deviation. Those
// of weight and bias are sums over rows.
struct LayerNormBackward {
  static Three of(const Tensor& grad, const Tensor& x, c10::SymIntArrayRef normalized, const Tensor& mean, const Tensor& rstd,
                  const Maybe& weight, const Maybe& bias, std::array<bool, 3> wanted) {
    const std::optional<Rows> rows = rows_of(x, normalized, weight, bias);
    if (!rows || (wanted[1] && !exists(weight)) || (wanted[2] && !exists(bias))) return {};
    const at::DimVector sizes = sizes_without(x, rows->axes, true);
    const at::ScalarType wide = wide_type(x.scalar_type());
    const auto is_like_x = [&](const Tensor& of, at::IntArrayRef shape, at::ScalarType type) {
      return holds(of.scalar_type() == x.scalar_type() || of.scalar_type() == type, FallbackReason::type) &&
             holds(of.device() == x.device(), FallbackReason::device) && of.sizes() == shape && is_small(of);
    };
    if (!is_like_x(grad, x.sizes(), x.scalar_type()) || !is_like_x(mean, sizes, wide) || !is_like_x(rstd, sizes, wide)) return {};

    const auto made = [&](bool is, at::IntArrayRef shape) { return is ? empty_on(x, shape, x.scalar_type()) : Tensor(); };
    const auto between = [&](bool is, at::IntArrayRef shape) { return is ? empty_on(x, shape, wide) : Tensor(); };
    const at::IntArrayRef of_row(rows->shape.begin(), rows->shape.size());
    const Tensor of_x = made(wanted[0], x.sizes());
    const Tensor of_weight = made(wanted[1], of_row);
    const Tensor of_bias = made(wanted[2], of_row);
    const Tensor weighted = between(wanted[0] && exists(weight), x.sizes());
    const Tensor products = between(wanted[0] || wanted[1], x.sizes());
    const Tensor sum = between(wanted[0], sizes);
    const Tensor product_sum = between(wanted[0], sizes);
    std::vector<const Tensor*> named;
    for (const Tensor* const one : {&of_x, &of_weight, &of_bias, &weighted, &products, &sum, &product_sum})
      if (one->defined()) named.push_back(one);
    const std::size_t results = named.size();
    for (const Tensor* const one : {&grad, &x, &mean, &rstd}) named.push_back(one);
    if (exists(weight)) named.push_back(&*weight);
    const Dims along = to_dims(x, rows->axes);
    const Dims across = to_dims(x, ~rows->axes);
    // The shape of x summed over its rows.
    const auto add_up = [&](Batch& batch, const Tensor& to, const Tensor& from) {
      if (across.size() == 0)
        batch.assign(view_of(to), Expression(view_of(from)));
      else
        batch.sum(view_of(to), view_of(from), across);
    };
    Collector::of(x.device()).take(named, results, results, [&](Batch& batch) {
      const auto number = [in = *element_type_of(wide)](const Tensor& of) { return Expression(view_of(of)).as(in); };
      const Expression y = (number(x) - number(mean)) * number(rstd);
      if (wanted[1]) {
        batch.assign(view_of(products), number(grad) * y);
        add_up(batch, of_weight, products);
      }
      if (wanted[2]) add_up(batch, of_bias, grad);
      if (!wanted[0]) return;
      const Tensor& g = exists(weight) ? weighted : grad;
      if (exists(weight)) batch.assign(view_of(weighted), number(grad) * number(*weight));
      batch.assign(view_of(products), number(g) * y);
      batch.sum(view_of(sum), view_of(g), along);
      batch.sum(view_of(product_sum), view_of(products), along);
      const double part = static_cast<double>(sum.numel()) / static_cast<double>(x.numel());
      batch.assign(view_of(of_x), (number(g) - (number(sum) + y * number(product_sum)) * part) * number(rstd));
    });
    return std::tuple(of_x, of_weight, of_bias);
  }
};

}  // namespace

}  // namespace dwell::pytorch

using namespace dwell::pytorch;  // NOLINT(google-build-using-namespace): of this file alone
namespace aten = at::_ops;

void dwell::pytorch::take_layer_norm(torch::Library& m) {
  take_all<LayerNorm, aten::native_layer_norm>(m);
  take_all<LayerNormBackward, aten::native_layer_norm_backward>(m);
  take_all<RmsNorm, aten::_fused_rms_norm>(m);
}
