// The C++ text of a planned program.
#pragma once

#include <cstdint>
#include <string>

#include <dwell/device/platform.hpp>

#include "tensor/gang/plan.hpp"

namespace dwell::device {
struct StepMemory;
}

namespace dwell::tensor::gang {

// The runners of a gang's members.
//   cuda     a kernel of plan.members blocks
//   loop     an operator of a gang of plan.members workers
//   cpu      a task, and the thread that calls its function: one member, with the products of a CPU
//   threads  threads of a CPU, a member each: as the kernel, for tests where there is no GPU
enum class Runner : std::uint8_t { cuda, loop, cpu, threads };

// Names the kernel, `kKernelName`; else an operator, whose name follows from the text. That of a CPU stores the function's address.
struct Source {
  std::string name;
  std::string text;
};
inline constexpr const char* kKernelName = "dwell_gang";
// Runs the operations `repeats` times; once, if the plan does not repeat.
using FunctionOfCaller = void (*)(const std::uint32_t* list, std::uint8_t* local, std::uint32_t repeats);
using FunctionOfMember = void (*)(std::uint32_t rank, const std::uint32_t* list, std::uint8_t* local, u64* words, std::uint32_t* numbers,
                                  std::uint32_t repeats);
// The same for a plan on call: one run for each call of the host.
using FunctionOfCalled = void (*)(std::uint32_t rank, const std::uint32_t* list, std::uint8_t* local, u64* words, std::uint32_t* numbers,
                                  const device::StepMemory* step);
Source source_of(const Plan& plan, Runner runner);

// Returns whether the list is an argument of the kernel by value, which every thread reads from constant memory. Else members copy it.
bool passes_list(const Plan& plan);
// Bytes of a member's memory in front of its tensors, where members copy the list.
std::uint64_t list_bytes(const Plan& plan);
// Bytes of a member's memory in the loop, from Group::shared.
inline std::uint64_t bytes_in_loop(const Plan& plan) { return list_bytes(plan) + plan.local_bytes; }

}  // namespace dwell::tensor::gang
