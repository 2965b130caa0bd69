#include "call.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <dwell/batch.hpp>

#include "collector.hpp"
#include "fallback_reason.hpp"
#include "memory.hpp"
#include "operation_kernel.hpp"

namespace dwell::pytorch {

namespace {

std::optional<Number> number_of(const at::Tensor& wrapped) {
  switch (wrapped.scalar_type()) {
    case at::kDouble: return Number(*static_cast<const double*>(wrapped.const_data_ptr()));
    case at::kLong: return Number(*static_cast<const std::int64_t*>(wrapped.const_data_ptr()));
    case at::kBool: return Number(*static_cast<const bool*>(wrapped.const_data_ptr()));
    default: return number_from(wrapped.item());
  }
}

at::Scalar scalar_of(const Number& number) {
  if (number.is_real()) return number.real();
  if (number.type() == ElementType::boolean) return number.integer() != 0;
  return number.integer();
}

// Returns whether T holds the number, up to rounding.
template <class T>
bool is_in_range(const Number& number) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    if (!number.is_real()) return number.integer() >= Limits::min() && number.integer() <= Limits::max();
    constexpr double kBeyond = 2 * static_cast<double>(Limits::max() / 2 + 1);
    const double value = number.real();
    return value >= static_cast<double>(Limits::min()) && value <= static_cast<double>(Limits::max()) && value < kBeyond;
  } else {
    const double value = number.real();
    return !(std::abs(value) > static_cast<double>(static_cast<float>(Limits::max()))) || std::isinf(value);
  }
}
bool is_short(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

// Returns whether an operation on tensors of this type and the number computes in this type.
bool keeps(at::ScalarType type, const std::optional<Number>& number) {
  if (!number) return false;
  if (at::isFloatingType(type)) return true;
  return type != at::kBool ? !number->is_real() : number->type() == ElementType::boolean;
}

// Allocates a result as PyTorch's TensorIterator does: its strides follow from those of the inputs, the first ones first. `foremost`: the
// input that PyTorch passes first. `numbers`: PyTorch passes numbers as tensors without dimensions.
at::Tensor allocated_for(std::span<const Input> inputs, std::size_t foremost, bool numbers, at::ScalarType type, const at::Tensor& beside) {
  const c10::impl::ExcludeDispatchKeyGuard guard(the_key.key);
  at::TensorIteratorConfig config;
  at::Tensor out;
  std::array<std::optional<UnguardedScope>, Call::kMost> unguarded;  // an iterator notes addresses
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].tensor != nullptr) unguarded[i].emplace(storage_of(*inputs[i].tensor));
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(type, beside.device()).add_output(out);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[(i + foremost) % inputs.size()];
    if (input.tensor != nullptr)
      config.add_const_input(*input.tensor);
    else if (numbers)
      config.add_owned_const_input(empty_on(beside, {}, type));
  }
  return config.build().output();
}

// Returns whether its strides are those of a new tensor, in dimensions of one element too.
bool has_default_strides(const at::Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::int64_t dim = tensor.dim(); dim-- != 0;) {
    if (tensor.stride(dim) != expected) return false;
    expected *= tensor.size(dim);
  }
  return true;
}

bool have_same_sizes(const at::Tensor& a, const at::Tensor& b) {
  const at::IntArrayRef sizes = a.sizes();
  const at::IntArrayRef others = b.sizes();
  bool same = sizes.size() == others.size();
  for (std::size_t dim = 0; same && dim < sizes.size(); ++dim) same = sizes[dim] == others[dim];
  return same;
}

// Returns whether no two elements share memory.
bool is_apart(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return true;
  // Each dimension steps over all that those with smaller strides reach.
  std::array<std::pair<std::int64_t, std::int64_t>, Dims::kMost> dims;  // stride, size
  std::size_t count = 0;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
    if (tensor.size(dim) > 1) dims.at(count++) = {tensor.stride(dim), tensor.size(dim)};
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i].first <= reach) return false;
    reach += dims[i].first * (dims[i].second - 1);
  }
  return true;
}

}  // namespace

bool has(at::ScalarType type, const std::optional<Number>& number) {
  if (!number) return false;
  switch (type) {
    case at::kByte: return is_in_range<std::uint8_t>(*number);
    case at::kChar: return is_in_range<std::int8_t>(*number);
    case at::kShort: return is_in_range<std::int16_t>(*number);
    case at::kInt: return is_in_range<std::int32_t>(*number);
    case at::kLong: return is_in_range<std::int64_t>(*number);
    case at::kHalf: return is_in_range<at::Half>(*number);
    case at::kBFloat16: return is_in_range<at::BFloat16>(*number);
    case at::kFloat: return is_in_range<float>(*number);
    default: return true;
  }
}

std::optional<Number> number_from(const at::Scalar& given) {
  if (given.isFloatingPoint()) return Number(given.toDouble());
  if (given.isBoolean()) return Number(given.toBool());
  if (given.type() == at::kLong && !given.isSymbolic()) return Number(given.toLong());
  return std::nullopt;
}

Input::Input(const at::Tensor& given) {
  if (given.unsafeGetTensorImpl()->is_wrapped_number())
    number = number_of(given);
  else
    tensor = &given;
}

bool is_small(const at::Tensor& tensor) {
  return holds(is_plain(tensor), FallbackReason::layout) &&
         holds(tensor.numel() > 0 && tensor.numel() <= limits().elements.load(std::memory_order_relaxed) &&
                   tensor.dim() <= static_cast<std::int64_t>(Dims::kMost),
               FallbackReason::size) &&
         holds(memory_of(storage_of(tensor)) != nullptr, FallbackReason::layout) &&
         holds(element_type_of(tensor.scalar_type()).has_value(), FallbackReason::type);
}

at::Tensor empty_on(const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type) {
  if (beside.is_cpu()) return at::detail::empty_cpu(sizes, type);
  return at::detail::empty_generic(sizes, beside.storage().unsafeGetStorageImpl()->allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type, std::nullopt);
}

bool may_hold_results(const at::Tensor& out) {
  return is_small(out) &&
         holds(is_apart(out) && !c10::impl::cow::is_cow_data_ptr(storage_of(out)._mutable_data_ptr_no_checks()), FallbackReason::layout);
}

bool fits(const at::Tensor& out, const at::Tensor& beside, at::IntArrayRef sizes, at::ScalarType type) {
  return may_hold_results(out) && holds(out.sizes() == sizes, FallbackReason::arguments) &&
         holds(out.scalar_type() == type, FallbackReason::type) && holds(out.device() == beside.device(), FallbackReason::device);
}

bool is_clear_of(const at::Tensor& out, const at::Tensor& x) {
  return &storage_of(out) != &storage_of(x) || holds(address_of(out) != address_of(x) && may_write(out, x), FallbackReason::layout);
}

bool may_write(const at::Tensor& out, const at::Tensor& x) {
  if (out.is_same(x)) return true;
  if (&storage_of(out) != &storage_of(x)) return true;
  if (address_of(out) == address_of(x) && out.sizes() == x.sizes() && out.strides() == x.strides()) return true;
  const auto extent = [](const at::Tensor& tensor) {
    const std::uint64_t first = address_of(tensor);
    std::uint64_t last = first;
    for (std::int64_t dim = 0; dim < tensor.dim(); ++dim)
      last += static_cast<std::uint64_t>(tensor.stride(dim) * (tensor.size(dim) - 1)) * tensor.itemsize();
    return std::pair(first, last);
  };
  const auto [first, last] = extent(out);
  const auto [x_first, x_last] = extent(x);
  return last < x_first || x_last < first;
}

// The type that PyTorch computes in.
std::optional<at::ScalarType> Call::common_type(const at::Tensor& first) const {
  at::ScalarType type = first.scalar_type();
  bool same = true;
  for (std::size_t i = 0; i < count_ && same; ++i) {
    if (is_condition(i)) continue;
    const Input& input = inputs_[i];
    same = input.tensor != nullptr ? input.tensor->scalar_type() == type : keeps(type, input.number);
  }
  if (!same) {
    at::native::ResultTypeState state;
    for (std::size_t i = 0; i < count_; ++i) {
      if (is_condition(i)) continue;
      const Input& input = inputs_[i];
      if (input.tensor == nullptr && !input.number) return decline(FallbackReason::type);
      state = input.tensor != nullptr ? at::native::update_result_type_state(*input.tensor, state)
                                      : at::native::update_result_type_state(scalar_of(*input.number), state);
    }
    type = at::native::result_type(state);
    if (is_short(type) && rounds_inputs_late(type)) return decline(FallbackReason::type);
    // Integers beside a real number: the batch computes in f32, whatever PyTorch's default type is.
    if (type == at::kDouble && c10::get_default_dtype_as_scalartype() != at::kFloat) return decline(FallbackReason::type);
  }
  for (const Input& input : inputs())
    if (input.tensor == nullptr && !has(type, input.number)) return decline(FallbackReason::type);
  const bool is_float = at::isFloatingType(type);
  switch (types_) {
    case Types::all: break;
    case Types::numbers:
      if (type == at::kBool) return decline(FallbackReason::type);
      break;
    case Types::integers:
      if (is_float) return decline(FallbackReason::type);
      break;
    case Types::whole:
      if (is_float || type == at::kBool) return decline(FallbackReason::type);
      break;
    case Types::floats:
      for (std::size_t i = 0; i < count_; ++i)
        if (inputs_[i].tensor != nullptr && !is_condition(i) && !at::isFloatingType(inputs_[i].tensor->scalar_type()))
          return decline(FallbackReason::type);
      break;
    case Types::to_floats:
      if (!is_float) type = c10::typeMetaToScalarType(c10::get_default_dtype());
      if (!is_float && type != at::kFloat) return decline(FallbackReason::type);
      break;
  }
  if (!element_type_of(type)) return decline(FallbackReason::type);
  return type;
}

// Returns whether dwell or PyTorch computes with an input of another type before it is rounded to `common`, a 16-bit type.
bool Call::rounds_inputs_late(at::ScalarType common) const {
  if (result_type_ == ResultType::target) return false;
  const auto is_wider = [common](const Input& input) {
    return input.tensor != nullptr && input.tensor->scalar_type() != common && input.tensor->itemsize() > 1;
  };
  if (formula_ != nullptr) return std::ranges::any_of(inputs(), is_wider);
  // On a CPU a second factor or a divisor of one element keeps its digits.
  return (op_ == TensorOp::mul || op_ == TensorOp::div) && is_wider(inputs_[1]) && inputs_[1].tensor->is_cpu() &&
         inputs_[1].tensor->numel() == 1;
}

// Returns whether PyTorch's kernel gets numbers as tensors.
bool Call::broadcasts_numbers() const {
  if (formula_ != nullptr) return false;
  switch (op_) {
    case TensorOp::clamp:
    case TensorOp::clamp_min:
    case TensorOp::clamp_max:
    case TensorOp::threshold:
    case TensorOp::lerp:
    case TensorOp::leaky_relu:
    case TensorOp::elu:
    case TensorOp::softplus: return false;
    case TensorOp::pow: return inputs_[0].tensor == nullptr;
    default: return true;
  }
}

// Returns whether PyTorch rounds numbers to the type that it computes in, where dwell would not.
bool Call::rounds_numbers(at::ScalarType computed, const c10::Device& device) const {
  if (!is_short(computed)) return false;
  RoundsNumbers rounds = rounds_;
  if (formula_ == nullptr) {
    if (op_ == TensorOp::add || op_ == TensorOp::sub) rounds = RoundsNumbers::on_cpu;
    if (op_ == TensorOp::threshold) rounds = RoundsNumbers::on_cuda;
  }
  return rounds == (device.is_cpu() ? RoundsNumbers::on_cpu : RoundsNumbers::on_cuda);
}

at::Tensor Call::make() const {
  const at::Tensor* first = nullptr;
  bool same = true;        // all have the sizes of the first
  bool contiguous = true;  // all are
  bool numbers = false;    // some are none
  for (const Input& input : inputs()) {
    if (input.tensor == nullptr) {
      numbers = true;
      continue;
    }
    const at::Tensor& tensor = *input.tensor;
    if (!is_small(tensor)) return {};
    if (first == nullptr) first = &tensor;
    if (!holds(tensor.device() == first->device(), FallbackReason::device)) return {};
    same = same && have_same_sizes(tensor, *first);
    contiguous = contiguous && tensor.is_contiguous();
  }
  if (first == nullptr) return {};
  const std::optional<at::ScalarType> computed = common_type(*first);
  if (!computed) return {};
  const at::ScalarType type = result_type_ == ResultType::boolean ? at::kBool : *computed;
  at::Tensor out;
  numbers = numbers && broadcasts_numbers();
  if (same && contiguous && (!numbers || has_default_strides(*first))) {
    out = empty_on(*first, first->sizes(), type);
  } else {
    at::DimVector sizes(first->sizes());
    bool plain = contiguous;
    for (const Input& input : inputs()) {
      if (input.tensor == nullptr) continue;
      if (!at::are_expandable(sizes, input.tensor->sizes())) return {};
      sizes = at::infer_size_dimvector(sizes, input.tensor->sizes());
      plain = plain && has_default_strides(*input.tensor);
    }
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    if (!holds(elements <= limits().elements.load(std::memory_order_relaxed) && sizes.size() <= Dims::kMost, FallbackReason::size))
      return {};
    out = plain ? empty_on(*first, sizes, type) : allocated_for(inputs(), is_condition(count_ - 1) ? count_ - 1 : 0, numbers, type, *first);
  }
  collect(out, *computed, true);
  return out;
}

bool Call::write(const at::Tensor& out) const {
  if (count_ == 0 || !may_hold_results(out)) return false;
  const at::Tensor* first = nullptr;
  bool same = true;  // all have the sizes of the result
  for (const Input& input : inputs()) {
    if (input.tensor == nullptr) continue;
    const at::Tensor& tensor = *input.tensor;
    if (first == nullptr) first = &tensor;
    if (tensor.is_same(out)) continue;
    if (!is_small(tensor) || !holds(tensor.device() == out.device(), FallbackReason::device) ||
        !holds(may_write(out, tensor), FallbackReason::layout))
      return false;
    same = same && have_same_sizes(tensor, out);
  }
  const std::optional<at::ScalarType> computed = common_type(first != nullptr ? *first : out);
  if (!computed) return false;
  if (*computed != out.scalar_type() && !converts(*computed, out.scalar_type())) return false;
  if ((!same || first == nullptr) && !broadcasts_to(out.sizes())) return false;
  collect(out, result_type_ == ResultType::target ? out.scalar_type() : *computed, false);
  return true;
}

// Returns whether a result of type `computed` may be converted to `written`.
bool Call::converts(at::ScalarType computed, at::ScalarType written) const {
  switch (result_type_) {
    case ResultType::common: return holds(false, FallbackReason::type);
    case ResultType::converted: return holds(at::canCast(computed, written), FallbackReason::type);
    case ResultType::boolean: return true;
    case ResultType::target: break;
  }
  // PyTorch converts a number as such.
  return std::ranges::all_of(
      inputs(), [&](const Input& input) { return input.tensor != nullptr || holds(has(written, input.number), FallbackReason::type); });
}

// Returns whether the inputs broadcast to exactly that shape; with ResultType::target, whether they can be broadcast to it.
bool Call::broadcasts_to(at::IntArrayRef wanted) const {
  bool same = result_type_ == ResultType::target;
  at::DimVector sizes;
  for (const Input& input : inputs()) {
    if (input.tensor == nullptr) continue;
    if (input.tensor->sizes() == wanted) {
      same = true;
      continue;
    }
    if (!at::are_expandable(sizes, input.tensor->sizes())) return false;
    sizes = at::infer_size_dimvector(sizes, input.tensor->sizes());
  }
  return same ? sizes.size() <= wanted.size() && at::is_expandable_to(sizes, wanted) : wanted == at::IntArrayRef(sizes);
}

void Call::collect(const at::Tensor& out, at::ScalarType computed, bool made) const {
  std::array<const at::Tensor*, kMost + 1> named{&out};
  std::size_t tensors = 1;
  bool flat = out.dim() != 0 && out.is_contiguous();
  for (const Input& input : inputs()) {
    if (input.tensor == nullptr) continue;
    named[tensors++] = input.tensor;
    flat = flat && (input.tensor->is_same(out) || input.tensor->dim() == 0 ||
                    (input.tensor->is_contiguous() && have_same_sizes(*input.tensor, out)));
  }
  // A flat call needs no dimensions. Views are built in place: they are large.
  const auto view = [flat](const at::Tensor& tensor, std::optional<TensorView>& to) -> const TensorView& {
    if (!flat || tensor.dim() == 0) return to.emplace(view_of(tensor));
    return to.emplace(TensorView::Elements{tensor.numel()}, address_of(tensor), *element_type_of(tensor.scalar_type()));
  };
  Collector::of(out.device()).take(std::span(named).first(tensors), 1, made ? 1 : 0, [&](Batch& batch) {
    std::optional<TensorView> to;
    view(out, to);
    std::array<std::optional<TensorView>, kMost> views;
    std::array<Operand, kMost> operands;
    const bool rounds = rounds_numbers(computed, out.device());
    for (std::size_t i = 0; i < count_; ++i) {
      const at::Tensor* const tensor = inputs_[i].tensor;
      if (tensor == nullptr)
        operands[i] = rounds ? rounded(*inputs_[i].number, *element_type_of(computed)) : *inputs_[i].number;
      else
        operands[i] = tensor->is_same(out) ? *to : view(*tensor, views[i]);
    }
    const std::span<const Operand> given = std::span(operands).first(count_);
    if (formula_ == nullptr) return batch.apply(op_, *to, given);
    // PyTorch's kernels compute formulas of 16-bit tensors in f32, and round once.
    batch.apply(formula_, in_floats_ || is_short(computed) ? ElementType::f32 : *element_type_of(computed), *to, given);
  });
}

}  // namespace dwell::pytorch
