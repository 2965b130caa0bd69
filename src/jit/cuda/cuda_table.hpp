// The code between the loop and the operators of an image, generated for each link. It uses functions by their symbols only, so it does not
// depend on the version of the device headers.
#pragma once

#include <span>
#include <string>

#include "jit/compiler.hpp"
#include "jit/cuda/cuda_library.hpp"

namespace dwell::jit {

// The table `dwell_operators` in PTX for `arch`, of a version that `linker` reads: one dwell::device::Entry an opcode and a null one behind
// the last. With it, for every native object, the jit::Statics of its entries, and in Tier::relocatable the table `dwell_uses`.
std::string table_source(std::span<const Opcode> table, Tier tier, const std::string& arch, CudaVersion linker);

// `dwell_dispatch` in CUDA C++: calls the operator behind an opcode by name, so that it can be inlined, if its object has form lto; else
// through `dwell_operators`. With it the table `dwell_uses`.
std::string dispatch_source(std::span<const Opcode> table);

}  // namespace dwell::jit
