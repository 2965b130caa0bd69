#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <dwell/batch.hpp>
#include <dwell/error.hpp>

#include "base/inplace_vector.hpp"
#include "tensor/collected.hpp"
#include "tensor/layout.hpp"
#include "tensor/promotion.hpp"
#include "tensor/reduction.hpp"
#include "tensor/write_apart.hpp"

namespace dwell {

namespace {

using Axes = std::array<bool, Dims::kMost>;

// Returns a view of a result with the input's shape, repeated along the axes. The result has these with size 1, or lacks them.
TensorView repeated(const TensorView& to, const TensorView& x, const Dims& axes, std::string_view what) {
  const Dims kept = reduced_shape(x.shape(), axes, true);
  const bool keeps = to.shape() == kept;
  if (!keeps && !(to.shape() == reduced_shape(x.shape(), axes, false)))
    throw Error(errc::invalid_argument, std::string(what) + " of shape " + to_string(x.shape()) + " along " +
                                            (axes.size() == 0 ? "all dimensions" : to_string(axes)) + " has the shape " +
                                            to_string(reduced_shape(x.shape(), axes, false)) + " or " + to_string(kept) + ", not " +
                                            to_string(to.shape()));
  const Axes along = tensor::axes_of(x.shape(), axes);
  Dims strides = x.shape();
  std::size_t next = 0;
  for (std::size_t dim = 0; dim < x.dims(); ++dim) {
    strides[dim] = along.at(dim) ? 0 : to.strides()[keeps ? dim : next];
    if (!along.at(dim)) ++next;
  }
  return {to.address(), to.type(), x.shape(), strides};
}

void check_shape(const TensorView& to, const TensorView& x, std::string_view what) {
  if (!(to.shape() == x.shape()))
    throw Error(errc::invalid_argument,
                std::string(what) + " of shape " + to_string(x.shape()) + " does not fit a result of shape " + to_string(to.shape()));
}

// Returns `axis`; throws if x has no such dimension.
Dims one_axis(const TensorView& x, std::int64_t axis) {
  static_cast<void>(tensor::axes_of(x.shape(), {axis}));
  return {axis};
}

// Returns the last dimensions, whose sizes are `shape`, for a normalisation.
Dims last_dims(std::string_view what, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight,
               const std::optional<TensorView>& bias) {
  bool fits = shape.size() > 0 && shape.size() <= x.dims();
  Dims axes;
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    const std::size_t dim = x.dims() - shape.size() + i;
    fits = x.shape()[dim] == shape[i];
    axes.push_back(static_cast<std::int64_t>(dim));
  }
  if (!fits)
    throw Error(errc::invalid_argument,
                std::string(what) + " of shape " + to_string(x.shape()) + " is along its last dimensions, not " + to_string(shape));
  const auto check = [&](const std::optional<TensorView>& given, const char* name) {
    if (given && !(given->shape() == shape))
      throw Error(errc::invalid_argument, std::string(name) + " of " + std::string(what) + " along " + to_string(shape) +
                                              " have that shape, not " + to_string(given->shape()));
  };
  check(weight, "weights");
  check(bias, "biases");
  return axes;
}

}  // namespace

void Batch::add_rows(const tensor::Rows& rows, std::span<const TensorView* const> writes, std::span<const TensorView* const> reads) {
  tensor::Collected& all = *state_;
  tensor::Operation operation;
  operation.op = &all.operators.get(tensor::kReduce);
  operation.kind = tensor::NotedOperation::Kind::rows;
  operation.tensors.append(writes);
  operation.tensors.append(reads);
  operation.written = writes.size();
  for (const TensorView* const tensor : operation.tensors) check(*tensor);
  const auto task = [&](device::RowPhase phase, std::uint64_t statistics, tensor::Operation& of) {
    of.words = rows.words(phase, statistics);
    of.groups = std::min(rows.groups(phase), all.workers);
    add(of);
  };
  if (rows.parts() == 1) return task(device::RowPhase::whole, 0, operation);
  const TensorView statistics = made_like(TensorView(0, ElementType::f64, {rows.statistics()}));
  tensor::Operation parts;
  parts.op = operation.op;
  parts.kind = operation.kind;
  parts.tensors = {&statistics, reads.front()};
  task(device::RowPhase::parts, statistics.address(), parts);
  operation.tensors.push_back(&statistics);
  task(device::RowPhase::rest, statistics.address(), operation);
}

void Batch::reduce(Reduction reduction, const TensorView& to, const TensorView& x, const Dims& axes, double parameter) {
  reduce(reduction, to, nullptr, x, axes, parameter);
}

void Batch::reduce(Reduction reduction, const TensorView& to, const TensorView* values, const TensorView& x, const Dims& axes,
                   double parameter) {
  const std::string_view what = name_of(reduction);
  tensor::check_result(to);
  if (values != nullptr) tensor::check_result(*values);
  tensor::RowsPlan plan = tensor::plan_of(reduction, x.type(), to.type(), parameter);
  // In 64 bits squares of the largest floats do not overflow, at little cost on a CPU. PyTorch's CPU variances use them too.
  if (plan.statistic == device::RowStatistic::moments && !state_->operators.on_cuda()) plan.number = device::NumberClass::f64;
  if (values != nullptr) static_cast<void>(tensor::computed_in(what, x.type(), values->type(), false));
  static_cast<void>(repeated(to, x, axes, what));
  if (values != nullptr) static_cast<void>(repeated(*values, x, axes, what));
  if (to.elements() == 0) return;
  const bool needs_one = plan.result == device::RowResult::place || reduction == Reduction::amax || reduction == Reduction::amin ||
                         (reduction == Reduction::norm && (std::isinf(parameter) || parameter < 0));
  if (x.elements() == 0 && needs_one)
    throw Error(errc::invalid_argument,
                std::string(what) + " of no elements has no value (shape " + to_string(x.shape()) + "): name dimensions that have some");
  if (x.elements() == 0 && reduction == Reduction::any) return assign_for(what, to, false);  // no number is less than all others and not 0
  const auto write = [&](const TensorView& out, const TensorView* out_values) {
    const TensorView result = repeated(out, x, axes, what);
    TensorView third;
    if (out_values != nullptr) third = repeated(*out_values, x, axes, what);
    const tensor::Rows rows(plan, tensor::axes_of(x.shape(), axes), plan.result == device::RowResult::place, state_->operators.on_cuda(), x,
                            result, out_values != nullptr ? &third : nullptr, nullptr);
    InplaceVector<const TensorView*, 2> writes{&out};
    if (out_values != nullptr) writes.push_back(out_values);
    add_rows(rows, writes, std::array{&x});
  };
  write_apart(to, to.extent().overlaps(x.extent()), [&](const TensorView& out) {
    if (values == nullptr) return write(out, nullptr);
    write_apart(*values, values->extent().overlaps(x.extent()), [&](const TensorView& out_values) { write(out, &out_values); });
  });
}

void Batch::replace(std::string_view what, const TensorView& to, const TensorView& x, const Dims& axes, device::RowResult result,
                    double parameter, const std::optional<TensorView>& weight, const std::optional<TensorView>& bias) {
  using device::RowResult;
  tensor::check_result(to);
  check_shape(to, x, what);
  tensor::RowsPlan plan;
  plan.result = result;
  plan.parameter = parameter;
  plan.number = tensor::computed_in(what, x.type(), to.type(), result != RowResult::running);
  if (result == RowResult::softmax || result == RowResult::log_softmax) plan.statistic = device::RowStatistic::exponentials;
  if (result == RowResult::layer_norm) plan.statistic = device::RowStatistic::moments;
  if (result == RowResult::rms_norm) plan.map = device::RowMap::square;
  InplaceVector<const TensorView*, 3> reads{&x};
  bool apart = to.extent().overlaps(x.extent()) && !tensor::are_same(to, x);
  const auto add_operand = [&](const std::optional<TensorView>& given, std::optional<TensorView>& all) -> const TensorView* {
    if (!given) return nullptr;
    static_cast<void>(tensor::computed_in(what, given->type(), to.type(), true));
    reads.push_back(&*given);
    apart = apart || to.extent().overlaps(given->extent());
    return &all.emplace(given->expand(x.shape()));
  };
  std::optional<TensorView> all_weights;
  std::optional<TensorView> all_biases;
  const TensorView* const third = add_operand(weight, all_weights);
  const TensorView* const fourth = add_operand(bias, all_biases);
  if (to.elements() == 0) return;
  write_apart(to, apart, [&](const TensorView& out) {
    const tensor::Rows rows(plan, tensor::axes_of(x.shape(), axes), result == RowResult::running, state_->operators.on_cuda(), x, out,
                            third, fourth);
    add_rows(rows, std::array{&out}, reads);
  });
}

void Batch::max(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis) {
  reduce(Reduction::argmax, places, &values, x, one_axis(x, axis), 0);
}
void Batch::min(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis) {
  reduce(Reduction::argmin, places, &values, x, one_axis(x, axis), 0);
}
void Batch::softmax(const TensorView& to, const TensorView& x, std::int64_t axis) {
  replace("softmax", to, x, one_axis(x, axis), device::RowResult::softmax, 0);
}
void Batch::log_softmax(const TensorView& to, const TensorView& x, std::int64_t axis) {
  replace("log_softmax", to, x, one_axis(x, axis), device::RowResult::log_softmax, 0);
}
void Batch::cumsum(const TensorView& to, const TensorView& x, std::int64_t axis) {
  replace("cumsum", to, x, one_axis(x, axis), device::RowResult::running, 0);
}
void Batch::layer_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight,
                       const std::optional<TensorView>& bias, double epsilon) {
  replace("layer_norm", to, x, last_dims("layer_norm", x, shape, weight, bias), device::RowResult::layer_norm, epsilon, weight, bias);
}
void Batch::rms_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight,
                     double epsilon) {
  replace("rms_norm", to, x, last_dims("rms_norm", x, shape, weight, {}), device::RowResult::rms_norm, epsilon, weight);
}

}  // namespace dwell
