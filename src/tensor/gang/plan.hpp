// The plan of a recorded program: who computes what, where tensors lie, and the list of steps that each member runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <dwell/gang_program.hpp>
#include <dwell/tensor.hpp>

#include "tensor/gang/cost_model.hpp"
#include "tensor/gang/forms.hpp"
#include "tensor/gang/noted.hpp"

namespace dwell::tensor::gang {

struct Limits {
  std::uint32_t members = 0;                // 0: as many as the plan finds best
  std::uint32_t most_members = 1;           // that may run at once
  std::uint64_t local_bytes = 0;            // of a member's memory, the list included
  std::uint32_t threads = 0;                // of a member on CUDA; 0: as many as the plan finds best
  bool on_cuda = false;                     // a member has many threads
  std::uint32_t repeats = 1;                // runs of the operations in a run of the program
  std::span<const GangSlices> slices = {};  // valid during plan_of
  // The host calls each run (dwell::Step): slices are its numbers, whose `first` and `stride` mean nothing.
  bool on_call = false;
  CostModel costs = {};  // by which the plan decides
  // Members are workers of the loop: `local_bytes` is Options::scratch_bytes.
  bool in_loop = false;

  bool is_repeated() const { return repeats > 1 || !slices.empty() || on_call; }
};

struct Plan {
  std::uint32_t members = 1;
  std::uint32_t threads = 1;      // of a member
  std::uint64_t local_bytes = 0;  // of a member's memory, behind the list
  std::uint32_t exchanged = 0;    // words of the largest exchange
  std::uint32_t arrived = 0;      // words of a call's inputs
  // Lists of steps (device/member.hpp), one behind the other, each with a 0 as its end. A program that repeats has three: the steps before
  // all runs of the operations, those of a run, and those behind all of them. Another program has one. On call, a run's first step waits
  // for the call, or finds that there will be no more runs.
  std::vector<std::uint32_t> list;
  bool on_call = false;
  std::vector<std::uint32_t> begins;  // of the lists
  std::vector<FormText> forms;        // by number
  std::vector<std::string> remarks;   // a line for each form
};

// The heads of a list's steps, by their places in plan.list.
std::vector<std::size_t> steps_of(const Plan& plan, std::size_t list);

// Plans operations. `needed`: whether someone may read this memory behind the program. Throws errc::unsupported, with the reason, if the
// program does not fit a gang; errc::invalid_argument for slices that are not as GangSlices says.
//
// Each member has small tensors in its own memory and does all steps, but for large products: a member computes a part of the result's
// elements, and gets the others from the other members before the first step that uses them. One exchange serves all products before that.
Plan plan_of(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& limits);

}  // namespace dwell::tensor::gang
