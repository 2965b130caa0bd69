// A planned program, compiled and with the memory that its members use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/compile_options.hpp>
#include <dwell/devices.hpp>
#include <dwell/kernel.hpp>
#include <dwell/module.hpp>
#include <dwell/runtime.hpp>

#include "tensor/gang/plan.hpp"

namespace dwell::tensor::gang {

// The limits of a CUDA device, with the default costs.
Limits limits_of(const DeviceSummary& device);
// The limits of the runtime's device, with the costs that are known of it. `in_loop`: members are workers of its loop.
Limits limits_of(const Runtime& runtime, bool in_loop = false);

// As operators that run programs: without contraction, so that elementwise steps give the bits of the batch's tasks. On a CPU also with
// the widest vectors that the processor has and that pay, and without errno and exceptions' flags, which nobody reads: these keep the bits.
CompileOptions options_of(const Runtime& runtime, bool on_cuda);

// The kernel of a plan for CUDA. Throws as Runtime::compile, and errc::out_of_memory.
struct CompiledGang {
  CompiledGang(Runtime& runtime, const Plan& plan);

  // The argument that is the kernel's list.
  detail::LaunchArgument list_argument() const;
  Ticket launch(std::span<const detail::LaunchArgument> arguments, void* stream) const;
  PreparedLaunch prepare(std::span<const detail::LaunchArgument> arguments) const;

  std::string source;
  Module module;
  Kernel<> kernel;
  LaunchConfig config;
  std::vector<std::uint32_t> passed_list;  // empty: the list's address is passed
  Buffer<std::uint32_t> list;
  Buffer<std::uint64_t> words;    // of exchanges
  Buffer<std::uint32_t> numbers;  // that members keep from run to run
  const std::uint32_t* list_at = nullptr;
  std::uint64_t* words_at = nullptr;
  std::uint32_t* numbers_at = nullptr;
};

// A plan as an operator of the loop's workers, on CUDA: one of them, or a gang.
struct GangInLoop {
  // Throws as Runtime::define_async(...).get(), and errc::out_of_memory.
  GangInLoop(Runtime& runtime, const Plan& plan);

  std::string source;
  Operator<> op;  // takes list, words, numbers, and the runs of the operations
  Buffer<std::uint32_t> list;
  Buffer<std::uint64_t> words;    // of exchanges
  Buffer<std::uint32_t> numbers;  // that members keep from run to run
};

// A value as a kernel's argument, which points to it.
template <class T>
detail::LaunchArgument argument_of(const T& value) {
  return {detail::kernel_parameter<T>(), &value, nullptr};
}

}  // namespace dwell::tensor::gang
