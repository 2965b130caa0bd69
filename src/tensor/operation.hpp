// One task of a batch before it is submitted.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dwell/operator.hpp>
#include <dwell/tensor.hpp>

#include "base/inplace_vector.hpp"

namespace dwell::tensor {

// A group of threads does not gain from fewer elements than these, nor an operation that moves them from more groups.
inline constexpr std::int64_t kElementsOfGroup = 4096;
inline constexpr std::int64_t kMostGroups = 64;
// A program of so many instructions takes so long for an element that it pays to share what one group would do among several: down to the
// elements that its machine works on at once, or on CUDA, where it is plain and interpreted, to one for each thread.
inline constexpr std::uint32_t kLongProgram = 16;
inline constexpr std::int64_t kLeastElementsOfGroup = 1024;
inline constexpr std::int64_t kLeastElementsOfPlainGroup = 128;

// The most words that an operator of dwell's own takes, but for programs, and the most tensors.
inline constexpr std::size_t kMostOwnWords = 64;
inline constexpr std::size_t kMostOwnTensors = 5;

struct Operation {
  const Operator<>* op = nullptr;
  InplaceVector<std::uint32_t, kMostOwnWords> words;  // of arguments
  // That they name, the caller's; the first `written` of them are written, the others read.
  InplaceVector<const TensorView*, kMostOwnTensors> tensors;
  std::size_t written = 1;
  std::uint32_t groups = 1;  // that share the task
};

}  // namespace dwell::tensor
