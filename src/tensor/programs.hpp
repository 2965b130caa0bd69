// The programs of a batch that may still grow.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include <dwell/tensor.hpp>

#include "tensor/program_builder.hpp"

namespace dwell::tensor {

// A queue of programs in reused storage: a program is a kilobyte, and nearly every task has one.
class Programs {
 public:
  // Each assignment is compared with all of them.
  static constexpr std::size_t kMost = 16;

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kMost; }
  std::size_t size() const { return size_; }
  // From the oldest on.
  ProgramBuilder& operator[](std::size_t index) { return *at_[(first_ + index) % kMost]; }
  ProgramBuilder& first() { return (*this)[0]; }

  // Begins a program for results of this shape; there must be fewer than kMost.
  ProgramBuilder& begin(const Dims& shape) { return at_[(first_ + size_++) % kMost].emplace(shape); }
  void drop_first() {
    first_ = (first_ + 1) % kMost;
    --size_;
  }
  void drop_last() { --size_; }

 private:
  std::array<std::optional<ProgramBuilder>, kMost> at_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace dwell::tensor
