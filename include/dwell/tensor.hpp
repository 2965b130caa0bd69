// Arrays of several dimensions in memory of the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <dwell/buffer.hpp>
#include <dwell/buffer_view.hpp>
#include <dwell/element_type.hpp>

namespace dwell {

namespace tensor {
struct ViewMemory;
}

// Sizes of up to 8 dimensions, outermost first, or their strides, in elements. A small value.
class Dims {
 public:
  static constexpr std::size_t kMost = 8;

  Dims() = default;
  // Throws errc::invalid_argument for more than 8.
  Dims(std::initializer_list<std::int64_t> list) : Dims(std::span<const std::int64_t>(list.begin(), list.size())) {}
  explicit Dims(std::span<const std::int64_t> list) : size_(list.size()) {
    if (size_ > kMost) refuse(size_);
    for (std::size_t dim = 0; dim < size_; ++dim) at_[dim] = list[dim];
  }

  std::size_t size() const noexcept { return size_; }
  std::int64_t operator[](std::size_t dim) const noexcept { return at_[dim]; }
  std::int64_t& operator[](std::size_t dim) noexcept { return at_[dim]; }
  const std::int64_t* begin() const noexcept { return at_.data(); }
  const std::int64_t* end() const noexcept { return at_.data() + size_; }
  // Appends a dimension. Throws errc::invalid_argument for a ninth.
  void push_back(std::int64_t value) {
    if (size_ == kMost) refuse(kMost + 1);
    at_[size_++] = value;
  }
  void insert_front(std::int64_t value);
  void erase(std::size_t dim) {
    --size_;
    for (; dim < size_; ++dim) at_[dim] = at_[dim + 1];
  }

  bool operator==(const Dims& other) const noexcept {
    if (size_ != other.size_) return false;
    for (std::size_t dim = 0; dim < size_; ++dim)
      if (at_[dim] != other.at_[dim]) return false;
    return true;
  }

 private:
  [[noreturn]] static void refuse(std::size_t dims);

  std::array<std::int64_t, kMost> at_{};
  std::size_t size_ = 0;
};

// "(3, 1, 4)"
std::string to_string(const Dims& dims);

// A tensor as data: the address of its first element on the device, the type of the elements, shape and strides in elements (0 and negative
// ones too). Without dimensions it has one element; with a dimension of size 0, none. A small value without ownership. A view of a Buffer
// refers to the Buffer, which must live until the tasks are submitted.
class TensorView {
 public:
  // No elements.
  TensorView() = default;
  // Views all elements of a buffer, or of a part of it, in row-major order. Throws errc::invalid_argument when the shape has another number
  // of elements.
  template <class T>
  TensorView(const Slice<T>& slice, const Dims& shape) : TensorView(detail::SliceParts(slice), type_of<T>(), shape) {}
  template <class T>
  TensorView(const Buffer<T>& buffer, const Dims& shape) : TensorView(buffer.slice(), shape) {}
  // The same in one dimension.
  // NOLINTBEGIN(google-explicit-constructor)
  template <class T>
  TensorView(const Slice<T>& slice) : TensorView(slice, {static_cast<std::int64_t>(slice.size())}) {}
  template <class T>
  TensorView(const Buffer<T>& buffer) : TensorView(buffer.slice()) {}
  // NOLINTEND(google-explicit-constructor)
  // Views elements of a run-time type. With strides, the view begins at element `first` of `memory`. Throws errc::invalid_argument unless
  // the view has all elements of `memory` (with strides: only elements of it), and unless the address is aligned for the type and has at
  // most 48 bits.
  TensorView(const BufferView& memory, const Dims& shape);
  TensorView(const BufferView& memory, const Dims& shape, const Dims& strides, std::size_t first);
  // Views memory outside of dwell's buffers, which the caller keeps alive until the tasks have run. `memory` says where it lies: results in
  // host memory need the wider fence. Throws errc::invalid_argument when the address is not aligned for the type, elements lie below
  // address 0 or beyond 2^48, the product of the sizes other than 0 is 2^63 or more, or shape and strides have different dimensions.
  TensorView(std::uint64_t address, ElementType type, const Dims& shape, const Dims& strides, Memory memory = Memory::device);
  TensorView(std::uint64_t address, ElementType type, const Dims& shape, Memory memory = Memory::device);
  // A faster constructor for contiguous elements in one dimension. Throws as the others.
  struct Elements {
    std::int64_t count;
  };
  TensorView(Elements elements, std::uint64_t address, ElementType type) : address_(address), type_(type), elements_(elements.count) {
    const std::uint64_t width = bytes_of(type);
    shape_[0] = elements_;
    extent_ = {address, address + static_cast<std::uint64_t>(elements_) * width};
    // With a larger count, the end may have wrapped around.
    const bool is_many = static_cast<std::uint64_t>(elements_) >> 48U != 0;
    if (elements_ <= 0 || is_many || (address | (extent_.end - 1)) >> 48U != 0 || (address & (width - 1)) != 0) check();
  }

  std::uint64_t address() const noexcept { return address_; }
  ElementType type() const noexcept { return type_; }
  const Dims& shape() const noexcept { return shape_; }
  const Dims& strides() const noexcept { return strides_; }
  std::size_t dims() const noexcept { return shape_.size(); }
  std::int64_t elements() const noexcept { return elements_; }
  // Returns whether its elements are contiguous in row-major order.
  bool contiguous() const noexcept { return contiguous_; }

  // The address range of its elements, [first, end), gaps included.
  struct Extent {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    bool overlaps(const Extent& other) const noexcept { return first < other.end && other.first < end; }
  };
  Extent extent() const noexcept { return extent_; }

  // Other views of the same memory. They throw errc::invalid_argument for dimensions and indices that do not exist.
  // The dimensions in another order.
  TensorView permute(const Dims& wanted) const;
  TensorView transpose(std::size_t first, std::size_t second) const;
  // `count` elements along a dimension, from `first` on, every `step`-th; backwards for a negative step.
  TensorView slice(std::size_t dim, std::int64_t first, std::int64_t count, std::int64_t step = 1) const;
  // Removes a dimension by an index of it.
  TensorView select(std::size_t dim, std::int64_t index) const;
  // Repeated along dimensions of size 1, and along new ones in front. -1 keeps a size.
  TensorView expand(const Dims& shape) const;
  // The same elements in row-major order with another shape. Also throws errc::invalid_argument if no strides can express it: copy the
  // tensor then.
  TensorView reshape(const Dims& shape) const;

  // Returns the strides of a contiguous shape.
  static Dims row_major(const Dims& shape);

 private:
  friend struct tensor::ViewMemory;
  TensorView(detail::SliceParts parts, ElementType type, const Dims& shape);

  template <class T>
  static ElementType type_of() {
    static_assert(device::ElementKind<std::remove_const_t<T>>::value != Kind::structure, "the elements have no ElementType");
    return element_type_of<std::remove_const_t<T>>().value();
  }

  // Validates the view and computes the derived members. Throws.
  void check();
  [[noreturn, gnu::cold]] void refuse_view() const;
  // Computes the members derived from address, type, shape and strides. Throws when the shape has too many elements, or some lie outside
  // the address range.
  void measure();

  std::uint64_t address_ = 0;
  const detail::BufferUse* use_ = nullptr;  // null: outside of buffers
  ElementType type_ = ElementType::f32;
  Memory memory_ = Memory::device;  // of a view outside of buffers
  Dims shape_{0};
  Dims strides_{1};
  std::int64_t elements_ = 0;
  bool contiguous_ = true;
  Extent extent_;
};

}  // namespace dwell
