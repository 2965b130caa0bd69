// The plan of a recorded program: who computes what, where tensors lie, and the list of steps that each member runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <dwell/tensor.hpp>

#include "tensor/gang/forms.hpp"
#include "tensor/gang/noted.hpp"

namespace dwell::tensor::gang {

struct Limits {
  std::uint32_t members = 0;       // 0: as many as the plan finds best
  std::uint32_t most_members = 1;  // that may run at once
  std::uint64_t local_bytes = 0;   // of a member's memory, the list included
  bool on_cuda = false;            // a member has many threads
};

struct Plan {
  std::uint32_t members = 1;
  std::uint32_t threads = 1;         // of a member
  std::uint64_t local_bytes = 0;     // of a member's memory, behind the list
  std::uint32_t exchanged = 0;       // words of the largest exchange
  std::vector<std::uint32_t> list;   // of steps (device/member.hpp)
  std::vector<FormText> forms;       // by number
  std::vector<std::string> remarks;  // a line for each form
};

// Plans operations. `needed`: whether someone may read this memory behind the program. Throws errc::unsupported, with the reason, if the
// program does not fit a gang.
//
// Each member has small tensors in its own memory and does all steps, but for large products: a member computes a part of the result's
// elements, and gets the others from the other members before the first step that uses them. One exchange serves all products before that.
Plan plan_of(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& limits);

}  // namespace dwell::tensor::gang
