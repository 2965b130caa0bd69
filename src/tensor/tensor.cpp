#include <dwell/tensor.hpp>

#include <algorithm>
#include <limits>

#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>

namespace dwell {

namespace {

using detail::Checked;

// The end of a device's address space: 48 bits.
constexpr std::int64_t kEndOfAddresses = std::int64_t{1} << 48U;

[[noreturn]] void refuse(const std::string& message) { throw Error(errc::invalid_argument, message); }

bool any_negative(const Dims& shape) {
  return std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; });
}

[[noreturn]] void refuse_shape(const Dims& shape) {
  refuse("a tensor cannot have the shape " + to_string(shape) +
         (any_negative(shape) ? ": sizes are 0 or more" : ": those of its sizes that are not 0 make 2^63 elements or more"));
}

std::int64_t elements_of(const Dims& shape) {
  const Checked count = detail::product_of(shape);
  if (!count.fits() || any_negative(shape)) refuse_shape(shape);
  return count.value();
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
// A view with elements has been validated: its elements and the strides between them are within 2^48 bytes. So values computed from these
// and from valid indices fit into 64 bits, here and in all derived views. Strides of dimensions of size 1, and of views without elements,
// are arbitrary.

namespace {

// Returns the address of element `first`; the buffer's address if there are no elements.
std::uint64_t address_in(const BufferView& memory, const Dims& shape, std::size_t first) {
  if (first <= memory.count()) return memory.address() + first * bytes_of(memory.type());
  if (elements_of(shape) == 0) return memory.address();
  refuse("a tensor of shape " + to_string(shape) + " cannot begin at element " + std::to_string(first) + " of a buffer that has " +
         std::to_string(memory.count()));
}

}  // namespace

TensorView::TensorView(detail::SliceParts parts, ElementType type, const Dims& shape)
    : address_(parts.words.address()), use_(parts.use), type_(type), shape_(shape), strides_(row_major(shape)) {
  if (static_cast<std::uint64_t>(elements_of(shape)) != parts.words.size())
    refuse("a tensor of shape " + to_string(shape) + " has " + std::to_string(elements_of(shape)) + " elements, the buffer " +
           std::to_string(parts.words.size()));
  check();
}

TensorView::TensorView(const BufferView& memory, const Dims& shape)
    : TensorView(detail::SliceParts(memory.use_, memory.words_), memory.type_, shape) {
  memory_ = Memory::host;
}

TensorView::TensorView(const BufferView& memory, const Dims& shape, const Dims& strides, std::size_t first)
    : TensorView(address_in(memory, shape, first), memory.type(), shape, strides) {
  use_ = memory.use_;
  memory_ = Memory::host;  // for views without a buffer; a buffer has its own
  if (elements_ != 0 && (extent_.first < memory.address() || extent_.end > memory.address() + memory.bytes()))
    refuse("elements of a tensor of shape " + to_string(shape) + " and strides " + to_string(strides) + " from element " +
           std::to_string(first) + " on are none of the " + std::to_string(memory.count()) + " of the buffer");
}

TensorView::TensorView(std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides, Memory memory)
    : address_(address), type_(type), memory_(memory), shape_(shape), strides_(strides) {
  check();
}

TensorView::TensorView(std::uint64_t address, ElementType type, const Dims& shape, Memory memory)
    : address_(address), type_(type), memory_(memory), shape_(shape), strides_(row_major(shape)) {
  check();
}

void TensorView::check() {
  if (shape_.size() != strides_.size() || address_ >> 48U != 0 || (address_ & (bytes_of(type_) - 1)) != 0) refuse_view();
  measure();
}

void TensorView::refuse_view() const {
  static_cast<void>(elements_of(shape_));
  if (shape_.size() != strides_.size())
    refuse("a tensor of shape " + to_string(shape_) + " cannot have the strides " + to_string(strides_) +
           ": one for each dimension is needed");
  if (address_ >> 48U != 0) refuse("address " + std::to_string(address_) + " of a tensor has more than 48 bits");
  if ((address_ & (bytes_of(type_) - 1)) != 0)
    refuse("address " + std::to_string(address_) + " of a tensor is not aligned for " + std::string(name_of(type_)));
  refuse("elements of a tensor of " + std::string(name_of(type_)) + " of shape " + to_string(shape_) + " and strides " +
         to_string(strides_) + " at address " + std::to_string(address_) + " lie beyond the addresses 0 to 2^48");
}

void TensorView::measure() {
  Checked count = 1;  // of elements, leaving out sizes of 0
  bool none = false;
  bool negative = false;
  contiguous_ = true;
  Checked low;
  Checked high;
  for (std::size_t dim = dims(); dim-- > 0;) {
    const std::int64_t size = shape_[dim];
    const std::int64_t stride = strides_[dim];
    contiguous_ = contiguous_ && (size == 1 || stride == count.value());
    if (size <= 0) {
      none = true;
      negative = negative || size < 0;
      continue;
    }
    count *= size;
    (stride < 0 ? low : high) += Checked(size - 1) * stride;
  }
  if (negative || !count.fits()) refuse_shape(shape_);
  if (none) {
    elements_ = 0;
    contiguous_ = true;
    extent_ = {};
    return;
  }
  elements_ = count.value();
  const auto bytes = static_cast<std::int64_t>(bytes_of(type_));
  const Checked first = Checked(address_) + low * bytes;
  const Checked end = Checked(address_) + (high + 1) * bytes;
  if (!first.is_in(0, kEndOfAddresses) || !end.is_in(0, kEndOfAddresses)) refuse_view();
  extent_ = {static_cast<std::uint64_t>(first.value()), static_cast<std::uint64_t>(end.value())};
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
  const Checked last = Checked(first) + (Checked(count) - 1) * step;
  if (count < 0 || (count > 0 && (first < 0 || first >= shape_[dim] || !last.is_in(0, shape_[dim] - 1))))
    refuse(std::to_string(count) + " elements from " + std::to_string(first) + " on by " + std::to_string(step) +
           " do not lie in dimension " + std::to_string(dim) + " of a tensor of shape " + to_string(shape_));
  TensorView view = *this;
  if (count > 0 && elements_ > 0)
    view.address_ += static_cast<std::uint64_t>(first * strides_[dim] * static_cast<std::int64_t>(bytes_of(type_)));
  view.shape_[dim] = count;
  // If it does not fit, no two elements are a step apart, and any stride is equivalent.
  if (const Checked stride = Checked(strides_[dim]) * step; stride.fits()) view.strides_[dim] = stride.value();
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
  // From the innermost dimension on: old dimensions that make up one or more new ones must be contiguous.
  std::size_t from = dims();
  std::int64_t size = 1;  // of the unused part of the old dimensions
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
  Checked stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    // Views of such a shape are rejected.
    strides[dim] = stride.fits() ? stride.value() : std::numeric_limits<std::int64_t>::max();
    stride *= std::max<std::int64_t>(shape[dim], 1);
  }
  return strides;
}

}  // namespace dwell
