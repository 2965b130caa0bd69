// Shared by the conformance tests of dense work: tensors in any memory layout, and random numbers for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/conformance/tensor_places.hpp"
#include "tests/conformance/tensor_test.hpp"

namespace dwell::test {

// The memory layout of a tensor.
enum class Lie : unsigned char { rows, columns, gaps, backwards };
inline constexpr Lie kAllLies[] = {Lie::rows, Lie::columns, Lie::gaps, Lie::backwards};

// Elements of any type as doubles. 64-bit ones lie within 2^53.
template <class T>
double number(T element) {
  return static_cast<double>(element);
}
inline double number(half element) { return static_cast<double>(static_cast<float>(element)); }
inline double number(bfloat16 element) { return static_cast<double>(static_cast<float>(element)); }

// Converts a number to an element: rounds it, or takes its lower bits.
template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(value));
  else if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

inline std::size_t place(const Dims& strides, const std::vector<std::int64_t>& at, std::int64_t first) {
  std::int64_t offset = first;
  for (std::size_t dim = 0; dim < at.size(); ++dim) offset += at[dim] * strides[dim];
  return static_cast<std::size_t>(offset);
}

// A tensor and the surrounding memory, in which nothing else may change.
template <class T>
class Placed {
 public:
  // vector<bool> stores no addressable elements.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

  Placed(Runtime& runtime, const Dims& shape, Lie lie) {
    Dims strides = TensorView::row_major(shape);
    if (lie == Lie::columns) {  // swaps the last two dimensions, or leaves a gap in a single one
      Dims turned = shape;
      const std::size_t dims = shape.size();
      if (dims > 1) std::swap(turned[dims - 1], turned[dims - 2]);
      strides = TensorView::row_major(turned);
      if (dims > 1) std::swap(strides[dims - 1], strides[dims - 2]);
    }
    first_ = 3;
    if (lie == Lie::gaps)
      for (std::size_t dim = 0; dim < shape.size(); ++dim) strides[dim] *= dim + 1 == shape.size() ? 2 : 3;
    std::int64_t reach = 0;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) reach += std::max<std::int64_t>(shape[dim] - 1, 0) * strides[dim];
    if (lie == Lie::rows) first_ = 0;
    if (lie == Lie::backwards)
      for (std::size_t dim = 0; dim < shape.size(); ++dim) {
        first_ += std::max<std::int64_t>(shape[dim] - 1, 0) * strides[dim];
        strides[dim] = -strides[dim];
      }
    memory_ = std::vector<Stored>(static_cast<std::size_t>(reach) + 8, element<T>(77));
    buffer_ = runtime.allocate<Stored>(memory_.size());
    const TensorView all(buffer_);
    view_ = TensorView(all.address() + static_cast<std::uint64_t>(first_) * sizeof(T),
                       std::is_same_v<T, bool> ? ElementType::boolean : all.type(), shape, strides);
    buffer_.write(memory_);
  }

  const TensorView& view() const { return view_; }
  const Dims& shape() const { return view_.shape(); }
  // Reads the expected contents.
  double at(const std::vector<std::int64_t>& where) const { return number(memory_[place(view_.strides(), where, first_)]); }
  void set(const std::vector<std::int64_t>& where, double value) { memory_[place(view_.strides(), where, first_)] = element<T>(value); }
  template <class F>
  Placed& fill(F f) {
    expect(f);
    buffer_.write(memory_);
    return *this;
  }
  // Sets the expected contents.
  template <class F>
  void expect(F f) {
    for_each(shape(), [&](const std::vector<std::int64_t>& where) { set(where, f(where)); });
  }
  // Describes the first bit difference in the device's memory; empty if none.
  std::string difference() const {
    const std::vector<Stored> got = read(buffer_);
    const auto bytes = [](const Stored& of) { return std::string_view(reinterpret_cast<const char*>(&of), sizeof(of)); };
    for (std::size_t i = 0; i < got.size(); ++i)
      if (bytes(got[i]) != bytes(memory_[i]))
        return "at " + std::to_string(static_cast<std::int64_t>(i) - first_) + ": " + std::to_string(number(got[i])) + " instead of " +
               std::to_string(number(memory_[i]));
    return {};
  }
  std::vector<Stored> elements() const {
    const std::vector<Stored> got = read(buffer_);
    std::vector<Stored> all;
    for_each(shape(), [&](const std::vector<std::int64_t>& where) { all.push_back(got[place(view_.strides(), where, first_)]); });
    return all;
  }

 private:
  Buffer<Stored> buffer_;
  std::vector<Stored> memory_;
  std::int64_t first_ = 0;
  TensorView view_;
};

using At = const std::vector<std::int64_t>&;

class DenseSuite : public TensorTest {
 protected:
  Random& random() { return random_; }
  Lie lie() { return kAllLies[random_() % 4]; }
  // A quarter of a small integer: products and sums of these are exact in float.
  double quarter() { return (static_cast<double>(random_() % 17) - 8) / 4; }
  double whole() { return static_cast<double>(random_() % 17) - 8; }

  template <class T>
  Placed<T> any(const Dims& shape) {
    Placed<T> made(runtime(), shape, lie());
    made.fill([&](const auto&) { return std::is_integral_v<T> ? whole() : quarter(); });
    return made;
  }

  // The same elements in another layout.
  template <class T>
  Placed<T> copy_of(const Placed<T>& other) {
    Placed<T> made(runtime(), other.shape(), lie());
    made.fill([&](At at) { return other.at(at); });
    return made;
  }

 private:
  Random random_{11};
};

}  // namespace dwell::test
