// The C++ text of a planned program.
#pragma once

#include <string>

#include "tensor/gang/plan.hpp"

namespace dwell::tensor::gang {

// Names a kernel of plan.members blocks, `kKernelName`; on a CPU an operator, whose name follows from the text.
struct Source {
  std::string name;
  std::string text;
};
inline constexpr const char* kKernelName = "dwell_gang";
Source source_of(const Plan& plan, bool on_cuda);

// Returns whether the list is an argument of the kernel by value, which every thread reads from constant memory. Else members copy it.
bool passes_list(const Plan& plan);
// Bytes of a member's memory in front of its tensors, where members copy the list.
std::uint64_t list_bytes(const Plan& plan);

}  // namespace dwell::tensor::gang
