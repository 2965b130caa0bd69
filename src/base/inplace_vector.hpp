// A vector that takes no memory: std::inplace_vector of C++26.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

namespace dwell {

// Up to `most` elements, in its own memory. Who adds some knows that there is room.
template <class T, std::size_t most>
class InplaceVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InplaceVector() = default;
  InplaceVector(std::initializer_list<T> elements) { append(elements); }

  void push_back(const T& element) { at_[size_++] = element; }
  template <class Range>
  void append(const Range& elements) {
    for (const T& element : elements) push_back(element);
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return at_.data(); }
  const T* data() const noexcept { return at_.data(); }
  const T& operator[](std::size_t index) const noexcept { return at_[index]; }
  T& operator[](std::size_t index) noexcept { return at_[index]; }
  T* begin() noexcept { return at_.data(); }
  T* end() noexcept { return at_.data() + size_; }
  const T* begin() const noexcept { return at_.data(); }
  const T* end() const noexcept { return at_.data() + size_; }

 private:
  std::array<T, most> at_;  // uninitialised from size_ on
  std::size_t size_ = 0;
};

}  // namespace dwell
