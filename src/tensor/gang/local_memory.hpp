// Places in a member's memory, which tensors share whose lives do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dwell::tensor::gang {

// Memory that is wanted from one step to another, both included.
struct Life {
  std::size_t first = 0;
  std::size_t last = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shift = 0;  // of the place from a multiple of the alignment, as the tensor's own address has it
  std::uint64_t place = 0;  // found
};

// Finds places, the lowest that is free for each in the order of their first steps. Returns the bytes of all together.
std::uint64_t place(std::span<Life> lives, std::uint64_t alignment);

}  // namespace dwell::tensor::gang
