// Tensors of random numbers in device memory, as tests of programs on tensors need them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/runtime.hpp>
#include <dwell/tensor.hpp>

namespace dwell::test {

// Has the memory of its tensors. Goes before the runtime.
class RandomTensors {
 public:
  explicit RandomTensors(unsigned seed) : random_(seed) {}

  // A contiguous tensor of floats between -scale and scale.
  TensorView make(Runtime& runtime, const Dims& shape, float scale = 1) {
    std::size_t elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
    Buffer<float>& buffer = buffers_.emplace_back(runtime.allocate<float>(elements));
    std::vector<float> values(elements);
    for (float& value : values) value = number(scale);
    buffer.write(values);
    return {address_of(buffer), ElementType::f32, shape};
  }
  // Drops all tensors, and begins with the random numbers of this seed.
  void restart(unsigned seed) {
    buffers_.clear();
    random_.seed(seed);
  }

  float number(float scale = 1) { return scale * uniform_(random_); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  std::mt19937& random() { return random_; }

  // The elements of all tensors, in the order in which they were made.
  std::vector<std::vector<float>> all() {
    std::vector<std::vector<float>> values;
    for (Buffer<float>& buffer : buffers_) buffer.read(values.emplace_back(buffer.size()));
    return values;
  }
  void restore(const std::vector<std::vector<float>>& values) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].write(values[i]);
  }
  std::uint64_t address(std::size_t at) const { return address_of(buffers_[at]); }
  // The memory of a tensor that was made here.
  Buffer<float>& memory_of(const TensorView& view) {
    return *std::ranges::find_if(buffers_, [&](const Buffer<float>& buffer) { return address_of(buffer) == view.address(); });
  }

 private:
  static std::uint64_t address_of(const Buffer<float>& buffer) { return reinterpret_cast<std::uint64_t>(buffer.data()); }

  std::mt19937 random_;
  std::uniform_real_distribution<float> uniform_{-1, 1};
  std::deque<Buffer<float>> buffers_;
};

}  // namespace dwell::test
