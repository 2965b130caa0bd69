// A view of elements in memory that the device can reach.
#pragma once

#include <dwell/device/bounds.hpp>
#include <dwell/device/order.hpp>
#include <dwell/device/platform.hpp>

namespace dwell {

namespace device {
template <bool Condition>
struct EnableIf;
template <>
struct EnableIf<true> {
  static constexpr int value = 0;
};
}  // namespace device

// `size()` elements of type T that lie one after the other from `data()`. A view: it owns nothing, and is copied by value.
// Inside an operator it stays valid for the whole task. Operators compiled with CompileOptions::debug check bounds: an access beyond the
// elements fails the task with status::out_of_bounds. On a CPU an exception ends the operator; on CUDA the access goes to other memory, and
// the operator continues. Other operators check nothing.
template <class T>
class Span {
 public:
  using element = T;

  DWELL_HOST_DEVICE Span() : data_(nullptr), size_(0) {}
  DWELL_HOST_DEVICE Span(T* data, u64 size) : data_(data), size_(size) {}

  // A view for reading of a view for writing.
  template <class U, int = device::EnableIf<!device::kSame<U, T> && device::kSame<const U, T>>::value>
  DWELL_HOST_DEVICE Span(const Span<U>& other) : data_(other.data()), size_(other.size()) {}

  DWELL_HOST_DEVICE T* data() const { return data_; }
  DWELL_HOST_DEVICE u64 size() const { return size_; }
  DWELL_HOST_DEVICE bool empty() const { return size_ == 0; }
  DWELL_HOST_DEVICE T& operator[](device::Index index) const { return *at(index); }
  DWELL_HOST_DEVICE T* begin() const { return data_; }
  DWELL_HOST_DEVICE T* end() const { return data_ + size_; }

  // Elements [first, first + count), which must exist. Empty in an operator that checks bounds, if some do not.
  DWELL_HOST_DEVICE Span subspan(device::Index first, u64 count) const {
    return has(first, count) ? Span(data_ + device::value_of(first), count) : Span();
  }

  // Atomic operations on element `index`, in memory of buffers or of Group::shared. T has 4 or 8 bytes; add, min and max take integers,
  // float and double. Those that change the element return what it was before. An order means what it does in C++; a load acquires at most,
  // a store releases at most. scope::system orders against the host and other devices too, which only memory that they reach needs. Defined
  // in span_atomic.hpp, which operators have.
  DWELL_DEVICE T atomic_load(device::Index index, order o = order::relaxed, scope s = scope::device) const;
  DWELL_DEVICE void atomic_store(device::Index index, T value, order o = order::relaxed, scope s = scope::device) const;
  DWELL_DEVICE T atomic_exchange(device::Index index, T value, order o = order::relaxed, scope s = scope::device) const;
  DWELL_DEVICE T atomic_add(device::Index index, T value, order o = order::relaxed, scope s = scope::device) const;
  DWELL_DEVICE T atomic_min(device::Index index, T value, order o = order::relaxed, scope s = scope::device) const;
  DWELL_DEVICE T atomic_max(device::Index index, T value, order o = order::relaxed, scope s = scope::device) const;
  // Stores `value` if the element has the bits of `expected`. Returns whether it did. If not, `expected` is set to the element's value, and
  // nothing is released.
  DWELL_DEVICE bool atomic_compare_exchange(device::Index index, T& expected, T value, order o = order::relaxed,
                                            scope s = scope::device) const;

 private:
  // The address of an element.
  DWELL_HOST_DEVICE T* at(device::Index index) const {
#if DWELL_CHECKED
    if (index.value >= size_) return device::refuse_element<T>(index, size_);
#endif
    return data_ + device::value_of(index);
  }
  // Checks that elements exist; true in operators that check nothing.
  DWELL_HOST_DEVICE bool has(device::Index first, u64 count) const {
#if DWELL_CHECKED
    if (first.value > size_ || count > size_ - first.value) {
      device::refuse(first, count, size_);
      return false;
    }
#else
    static_cast<void>(first);
    static_cast<void>(count);
#endif
    return true;
  }

  T* data_;
  u64 size_;
};

}  // namespace dwell
