// Elements in memory whose type is known only when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <dwell/buffer.hpp>
#include <dwell/element_type.hpp>

namespace dwell {

class Arguments;
class DeviceValue;
class TensorView;

// A Span as data: the address on the device, the number of elements, and their type. Becomes an argument of a task through Arguments::add.
// A view of a Buffer or a Slice refers to the buffer, which must live until the task is submitted. A small value to be copied; members may
// be called from any thread.
class BufferView {
 public:
  // An empty view.
  BufferView() = default;
  // Views memory without a known buffer: as with a bare Span, the caller keeps it alive, and a task that names it pays for the wider fence
  // of host memory. `address` is the device's. Throws errc::invalid_argument when a span cannot hold the address (52 bits) or the count
  // (44).
  BufferView(std::uint64_t address, std::size_t count, ElementType type);
  // NOLINTBEGIN(google-explicit-constructor)
  template <class T>
  BufferView(const Slice<T>& slice) : BufferView(detail::SliceParts(slice), type_of<T>()) {}
  template <class T>
  BufferView(const Buffer<T>& buffer) : BufferView(buffer.slice()) {}
  // NOLINTEND(google-explicit-constructor)
  // Views the same memory as elements of another type. Throws errc::invalid_argument when its bytes are no whole number of them, or its
  // address is not aligned for them.
  template <class T>
  BufferView(const Slice<T>& slice, ElementType type) : BufferView(detail::SliceParts(slice), sizeof(T), type) {}
  template <class T>
  BufferView(const Buffer<T>& buffer, ElementType type) : BufferView(buffer.slice(), type) {}

  std::uint64_t address() const noexcept { return words_.address(); }
  std::size_t count() const noexcept { return words_.size(); }
  ElementType type() const noexcept { return type_; }
  std::size_t bytes() const { return count() * bytes_of(type_); }

  // Elements [first, first + count). Throws errc::invalid_argument when they do not exist.
  BufferView part(std::size_t first, std::size_t count) const;

 private:
  friend class Arguments;
  friend class DeviceValue;
  friend class TensorView;
  BufferView(detail::SliceParts parts, ElementType type) : use_(parts.use), words_(parts.words), type_(type) {}
  BufferView(detail::SliceParts parts, std::size_t element, ElementType type);

  template <class T>
  static ElementType type_of() {
    static_assert(device::ElementKind<std::remove_const_t<T>>::value != Kind::structure,
                  "the elements have no ElementType: name the one they are seen as, BufferView(buffer, type)");
    return element_type_of<std::remove_const_t<T>>().value();
  }

  const detail::BufferUse* use_ = nullptr;  // null: the buffer is not known
  detail::SpanWords words_;
  ElementType type_ = ElementType::u8;
};

}  // namespace dwell
