// Names and parameters of a cubin's kernels: sizes from the image, kinds from the mangled names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.hpp"

namespace dwell::jit {

// The kernels of a cubin, in the order of its symbol table; empty when it is none. Sizes of parameters are those that the image itself
// states. Their kinds come from the mangled name: arithmetic types, pointers to them, pointers to structures of unknown size; all others
// are Kind::structure. A kernel with C linkage has no types: its parameters are Kind::opaque, described by their sizes. Throws dwell::Error
// with errc::compile_failed when the image lacks a kernel's parameters.
std::vector<ModuleKernel> read_kernels(std::span<const std::byte> cubin);

// The types between the parentheses that end `demangled` ("void f<int>(int, float const*)"), as text. Empty for none, also when there are
// no parentheses.
std::vector<std::string_view> parameter_types(std::string_view demangled);

// Returns the parameter of `bytes` bytes with this demangled type ("float const*").
Parameter kernel_parameter(std::string_view type, std::size_t bytes);

}  // namespace dwell::jit
