// One task of a batch before it is submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <dwell/operator.hpp>
#include <dwell/tensor.hpp>

namespace dwell::tensor {

// A group of threads does not gain from fewer elements than these, nor an operation that moves them from more groups.
inline constexpr std::int64_t kElementsOfGroup = 4096;
inline constexpr std::int64_t kMostGroups = 64;
// A program of so many instructions takes so long for an element, when it is interpreted, that it pays to share what one group would do
// among several: down to the elements that its machine works on at once, or on CUDA, where it is plain, to one for each thread.
inline constexpr std::uint32_t kLongProgram = 16;
inline constexpr std::int64_t kLeastElementsOfGroup = 1024;
inline constexpr std::int64_t kLeastElementsOfPlainGroup = 128;

struct Operation {
  Operator<> op;
  std::vector<std::uint32_t> words;  // of arguments
  std::vector<TensorView> tensors;   // that they name; the first `written` of them are written, the others read
  std::size_t written = 1;
  std::uint32_t groups = 1;  // that share the task
};

}  // namespace dwell::tensor
