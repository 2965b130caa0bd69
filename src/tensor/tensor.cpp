#include <dwell/tensor.hpp>

#include <algorithm>
#include <limits>

#include <dwell/error.hpp>

namespace dwell {

namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(errc::invalid_argument, message); }

std::int64_t elements_of(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) refuse("a tensor cannot have the shape " + to_string(shape));
  return count;
}

void check_dim(std::size_t dim, const Dims& shape) {
  if (dim >= shape.size()) refuse("a tensor of shape " + to_string(shape) + " has no dimension " + std::to_string(dim));
}

}  // namespace

// ---- Dims --------------------------------------------------------------------------------------------------------------------------

void Dims::refuse(std::size_t dims) { dwell::refuse("a tensor has up to 8 dimensions, not " + std::to_string(dims)); }

void Dims::insert_front(std::int64_t value) {
  push_back(0);
  std::copy_backward(at_.begin(), at_.begin() + static_cast<std::ptrdiff_t>(size_ - 1), at_.begin() + static_cast<std::ptrdiff_t>(size_));
  at_[0] = value;
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + (dims.size() == 1 ? ",)" : ")");
}

// ---- TensorView --------------------------------------------------------------------------------------------------------------------

TensorView::TensorView(detail::SliceParts parts, ElementType type, const Dims& shape)
    : address_(parts.words.address()), use_(parts.use), type_(type), shape_(shape), strides_(row_major(shape)) {
  if (static_cast<std::uint64_t>(elements_of(shape)) != parts.words.size())
    refuse("a tensor of shape " + to_string(shape) + " has " + std::to_string(elements_of(shape)) + " elements, the buffer " +
           std::to_string(parts.words.size()));
  measure();
}

TensorView::TensorView(const BufferView& memory, const Dims& shape)
    : TensorView(detail::SliceParts(memory.use_, memory.words_), memory.type_, shape) {
  memory_ = Memory::host;
}

TensorView::TensorView(const BufferView& memory, const Dims& shape, const Dims& strides, std::size_t first)
    : TensorView(memory.address() + first * bytes_of(memory.type()), memory.type(), shape, strides) {
  use_ = memory.use_;
  memory_ = Memory::host;  // that of a buffer is known by the buffer
  if (elements_ != 0 && (extent_.first < memory.address() || extent_.end > memory.address() + memory.bytes()))
    refuse("elements of a tensor of shape " + to_string(shape) + " and strides " + to_string(strides) + " from element " +
           std::to_string(first) + " on are none of the " + std::to_string(memory.count()) + " of the buffer");
}

TensorView::TensorView(std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides, Memory memory)
    : address_(address), type_(type), memory_(memory), shape_(shape), strides_(strides) {
  check();
  measure();
}

TensorView::TensorView(std::uint64_t address, ElementType type, const Dims& shape, Memory memory)
    : address_(address), type_(type), memory_(memory), shape_(shape), strides_(row_major(shape)) {
  check();
  measure();
}

void TensorView::check() const {
  std::int64_t count = 1;
  bool is_shape = true;
  for (const std::int64_t size : shape_) is_shape = is_shape && size >= 0 && !__builtin_mul_overflow(count, size, &count);
  if (!is_shape || shape_.size() != strides_.size() || address_ >> 48U != 0 || (address_ & (bytes_of(type_) - 1)) != 0) refuse_view();
}

void TensorView::refuse_view() const {
  static_cast<void>(elements_of(shape_));
  if (shape_.size() != strides_.size())
    refuse("a tensor of shape " + to_string(shape_) + " cannot have the strides " + to_string(strides_) +
           ": one for each dimension is needed");
  if (address_ >> 48U != 0) refuse("address " + std::to_string(address_) + " of a tensor has more than 48 bits");
  refuse("address " + std::to_string(address_) + " of a tensor is not aligned for " + std::string(name_of(type_)));
}

void TensorView::measure() noexcept {
  elements_ = 1;
  contiguous_ = true;
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t dim = dims(); dim-- > 0;) {
    contiguous_ = contiguous_ && (shape_[dim] == 1 || strides_[dim] == elements_);
    elements_ *= shape_[dim];
    (strides_[dim] < 0 ? low : high) += (shape_[dim] - 1) * strides_[dim];
  }
  if (elements_ == 0) {
    contiguous_ = true;
    extent_ = {};
    return;
  }
  const auto bytes = static_cast<std::int64_t>(bytes_of(type_));
  extent_ = {address_ + static_cast<std::uint64_t>(low * bytes), address_ + static_cast<std::uint64_t>((high + 1) * bytes)};
}

TensorView TensorView::permute(const Dims& wanted) const {
  TensorView view = *this;
  unsigned seen = 0;
  for (std::size_t dim = 0; dim < wanted.size(); ++dim) {
    const auto from = static_cast<std::size_t>(wanted[dim]);
    check_dim(from, shape_);
    seen |= 1U << from;
    if (dim < dims()) view.shape_[dim] = shape_[from];
    if (dim < dims()) view.strides_[dim] = strides_[from];
  }
  if (wanted.size() != dims() || seen != (1U << dims()) - 1)
    refuse(to_string(wanted) + " is no order of the dimensions of a tensor of shape " + to_string(shape_));
  view.measure();
  return view;
}

TensorView TensorView::transpose(std::size_t first, std::size_t second) const {
  check_dim(first, shape_);
  check_dim(second, shape_);
  TensorView view = *this;
  std::swap(view.shape_[first], view.shape_[second]);
  std::swap(view.strides_[first], view.strides_[second]);
  view.measure();
  return view;
}

TensorView TensorView::slice(std::size_t dim, std::int64_t first, std::int64_t count, std::int64_t step) const {
  check_dim(dim, shape_);
  const std::int64_t last = first + (count - 1) * step;
  if (count < 0 || (count > 0 && (first < 0 || first >= shape_[dim] || last < 0 || last >= shape_[dim])))
    refuse(std::to_string(count) + " elements from " + std::to_string(first) + " on by " + std::to_string(step) +
           " do not lie in dimension " + std::to_string(dim) + " of a tensor of shape " + to_string(shape_));
  TensorView view = *this;
  if (count > 0) view.address_ += static_cast<std::uint64_t>(first * strides_[dim] * static_cast<std::int64_t>(bytes_of(type_)));
  view.shape_[dim] = count;
  view.strides_[dim] *= step;
  view.measure();
  return view;
}

TensorView TensorView::select(std::size_t dim, std::int64_t index) const {
  TensorView view = slice(dim, index, 1);
  view.shape_.erase(dim);
  view.strides_.erase(dim);
  view.measure();
  return view;
}

TensorView TensorView::expand(const Dims& shape) const {
  const auto cannot = [&] { refuse("a tensor of shape " + to_string(shape_) + " cannot be expanded to " + to_string(shape)); };
  if (shape.size() < dims()) cannot();
  TensorView view = *this;
  while (view.dims() < shape.size()) {
    view.shape_.insert_front(1);
    view.strides_.insert_front(0);
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == -1 || shape[dim] == view.shape_[dim]) continue;
    if (view.shape_[dim] != 1) cannot();
    view.shape_[dim] = shape[dim];
    view.strides_[dim] = 0;
  }
  static_cast<void>(elements_of(view.shape_));
  view.measure();
  return view;
}

TensorView TensorView::reshape(const Dims& shape) const {
  if (elements_of(shape) != elements())
    refuse("a tensor of shape " + to_string(shape_) + " has other elements than the shape " + to_string(shape));
  TensorView view = *this;
  view.shape_ = shape;
  view.strides_ = row_major(shape);
  if (contiguous()) {
    view.measure();
    return view;
  }
  // From the innermost dimension on: as many of the old ones as make up one or more of the new ones must lie behind each other.
  std::size_t from = dims();
  std::int64_t size = 1;  // of the old ones that are not used up
  std::int64_t stride = 0;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] == 1) continue;
    while (size == 1 && from > 0) {
      --from;
      size = shape_[from];
      stride = strides_[from];
    }
    while (size < shape[dim] && from > 0) {
      --from;
      if (shape_[from] != 1 && strides_[from] != stride * size)
        refuse("the elements of a tensor of shape " + to_string(shape_) + " and strides " + to_string(strides_) +
               " have no strides in the shape " + to_string(shape) + ": copy it");
      size *= shape_[from];
    }
    if (size % shape[dim] != 0)
      refuse("the elements of a tensor of shape " + to_string(shape_) + " and strides " + to_string(strides_) +
             " have no strides in the shape " + to_string(shape) + ": copy it");
    view.strides_[dim] = stride;
    stride *= shape[dim];
    size /= shape[dim];
  }
  view.measure();
  return view;
}

Dims TensorView::row_major(const Dims& shape) {
  Dims strides;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) strides.push_back(1);
  std::int64_t stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    // A shape with so many elements is refused by who makes a view of it.
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(shape[dim], 1), &stride)) stride = std::numeric_limits<std::int64_t>::max();
  }
  return strides;
}

}  // namespace dwell
