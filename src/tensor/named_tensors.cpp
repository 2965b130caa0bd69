#include "tensor/named_tensors.hpp"

#include <span>
#include <string>
#include <utility>

#include <dwell/detail/checked.hpp>
#include <dwell/detail/task.hpp>
#include <dwell/device/pack.hpp>
#include <dwell/error.hpp>

#include "tensor/layout.hpp"

namespace dwell::tensor {

std::uint32_t ViewMemory::flags(const TensorView& view) {
  if (view.use_ != nullptr) return view.use_->flags;
  return detail::kMemory | (view.memory_ == Memory::host ? detail::kSystem : 0);
}

TensorView ViewMemory::seen_as(const TensorView& view, std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides) {
  TensorView seen = view;
  seen.address_ = address;
  seen.type_ = type;
  seen.shape_ = shape;
  seen.strides_ = strides;
  seen.check();
  return seen;
}

Bits bits_of(const TensorView& view, const TensorView& beside) {
  const auto as = [&](ElementType type) { return ViewMemory::seen_as(view, view.address(), type, view.shape(), view.strides()); };
  switch (bytes_of(view.type())) {
    case 2: return {as(ElementType::i16)};
    case 4: return {as(ElementType::i32)};
    case 8: return {as(ElementType::i64)};
    default: break;
  }
  if (view.contiguous() && beside.contiguous())
    return {ViewMemory::seen_as(view, view.address(), ElementType::i64, {2 * view.elements()}, {1})};
  Dims strides = view.strides();
  for (std::size_t dim = 0; dim < strides.size(); ++dim) strides[dim] = view.shape()[dim] == 1 ? 1 : 2 * strides[dim];
  const auto half = [&](std::uint64_t offset) {
    return ViewMemory::seen_as(view, view.address() + offset, ElementType::i64, view.shape(), strides);
  };
  return {half(0), half(8)};
}

NamedTensors::NamedTensors(const Dims& shape) : shape_(shape), elements_(TensorView(0, ElementType::u8, shape).elements()) {}

NamedTensors::Step NamedTensors::step_of(const TensorView& view) const {
  if (view.elements() == 1) return Step::none;
  return is_flat(view, elements_) ? Step::one : Step::general;
}

TensorView NamedTensors::view_at(std::size_t place) const {
  if (step_[place] == Step::one) return {address_[place], type_[place], shape_};
  return TensorView(address_[place], type_[place], {}).expand(shape_);
}

bool NamedTensors::is_at(std::size_t place, const TensorView& view) const {
  if (view.address() != address_[place] || view.type() != type_[place]) return false;
  const Step step = step_of(view);
  if (step != step_[place]) return false;
  return step != Step::general || view.expand(shape_).strides() == views_[place].strides();
}

std::optional<unsigned> NamedTensors::place(const TensorView& view) {
  for (unsigned at = 0; at < size_; ++at)
    if (view.address() == address_[at] && is_at(at, view)) return at;
  if (size_ == device::kMaxTensors) return std::nullopt;
  const Step step = step_of(view);
  if (step == Step::general && flat_) {
    for (std::size_t at = 0; at < size_; ++at) views_.push_back(view_at(at));
    flat_ = false;
  }
  const TensorView::Extent extent = view.extent();
  address_[size_] = view.address();
  first_[size_] = extent.first;
  end_[size_] = extent.end;
  type_[size_] = view.type();
  step_[size_] = step;
  if (!flat_) views_.push_back(step == Step::general ? view.expand(shape_) : view_at(size_));
  note(size_);
  flags_ |= ViewMemory::flags(view);
  return static_cast<unsigned>(size_++);
}

void NamedTensors::shrink(std::size_t count) {
  size_ = count;
  if (!flat_) views_.resize(count);
}

void NamedTensors::keep_only(std::uint32_t used) {
  const std::size_t before = std::exchange(size_, 0);
  span_ = kNoSpan;
  are_f32_ = true;
  misaligned_ = 0;
  for (std::size_t from = 0; from < before; ++from) {
    if ((used >> from & 1U) == 0) continue;
    const std::size_t to = size_++;
    address_[to] = address_[from];
    first_[to] = first_[from];
    end_[to] = end_[from];
    type_[to] = type_[from];
    step_[to] = step_[from];
    if (!flat_ && to != from) views_[to] = views_[from];
    note(to);
  }
  if (!flat_) views_.resize(size_);
}

void NamedTensors::note(std::size_t place) {
  widen(span_, extent(place));
  are_f32_ = are_f32_ && type_[place] == ElementType::f32;
  if (step_[place] == Step::one) misaligned_ |= address_[place] & (device::kWidestAccess - 1);
}

std::uint32_t NamedTensors::append_to(std::vector<std::uint32_t>& words, bool any_order) const {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31U;
  if (elements_ >= kLimit)
    throw Error(errc::unsupported,
                "a tensor of " + std::to_string(elements_) + " elements is too large for an operation: 2^31 - 1 are the most");
  const auto tensor = [&](std::size_t place) {
    words.push_back(static_cast<std::uint32_t>(address_[place]));
    words.push_back(static_cast<std::uint32_t>(address_[place] >> 32U) | static_cast<std::uint32_t>(type_[place]) << device::kTypeShift);
  };
  words.push_back(static_cast<std::uint32_t>(elements_));
  if (flat_) {
    for (std::size_t place = 0; place < size_; ++place) {
      tensor(place);
      words.push_back(step_[place] == Step::one ? 1 : 0);
    }
    return 1;
  }
  Dims sizes = shape_;
  std::array<Dims, device::kMaxTensors> strides;
  for (std::size_t place = 0; place < size_; ++place) strides.at(place) = views_[place].strides();
  join_dims(sizes, std::span(strides).first(size_), any_order);
  if (sizes.size() > 1)
    for (const std::int64_t size : sizes) words.push_back(static_cast<std::uint32_t>(size));
  for (std::size_t place = 0; place < size_; ++place) {
    tensor(place);
    std::uint64_t reach = 0;  // less than the bytes of its extent
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
      reach += static_cast<std::uint64_t>(sizes[dim] - 1) * detail::magnitude(strides.at(place)[dim]);
      words.push_back(static_cast<std::uint32_t>(strides.at(place)[dim]));
    }
    if (reach >= std::uint64_t{kLimit})
      throw Error(errc::unsupported, "the elements of a tensor of shape " + to_string(shape_) + " and strides " +
                                         to_string(views_[place].strides()) +
                                         " lie too far apart for an operation: 2^31 - 1 elements are the most");
  }
  return static_cast<std::uint32_t>(sizes.size());
}

}  // namespace dwell::tensor
