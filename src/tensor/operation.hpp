// One task of a batch before it is submitted.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dwell/operator.hpp>
#include <dwell/tensor.hpp>

#include "base/inplace_vector.hpp"
#include "tensor/gang/noted.hpp"

namespace dwell::tensor {

// The fewest elements that make another group worthwhile, for operations that move elements.
inline constexpr std::int64_t kElementsOfGroup = 4096;
inline constexpr std::int64_t kMostGroups = 64;
// From this many instructions on an element takes so long that smaller shares per group pay: down to the elements that the machine computes
// at once, or on CUDA, for a plain interpreted program, to one per thread.
inline constexpr std::uint32_t kLongProgram = 16;
inline constexpr std::int64_t kLeastElementsOfGroup = 1024;
inline constexpr std::int64_t kLeastElementsOfPlainGroup = 128;

// The most words and tensors of dwell's own operators, except programs.
inline constexpr std::size_t kMostOwnWords = 64;
inline constexpr std::size_t kMostOwnTensors = 5;

struct Operation {
  NotedOperation::Kind kind = NotedOperation::Kind::other;
  const Operator<>* op = nullptr;
  InplaceVector<std::uint32_t, kMostOwnWords> words;  // of arguments
  // The caller's tensors that they use; the first `written` are written, the others read.
  InplaceVector<const TensorView*, kMostOwnTensors> tensors;
  std::size_t written = 1;
  std::uint32_t groups = 1;  // groups of the task
};

}  // namespace dwell::tensor
