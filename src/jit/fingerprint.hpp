// What a compiled source goes by.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "jit/compiler.hpp"

namespace dwell::jit {

// The digest that Compiler::fingerprint gives: of `compiler` (which build it is), its `flags` for this unit, the digest of the files it
// includes, dwell's own headers, and everything of `unit` but the symbols. 64 lower-case hexadecimal digits.
std::string fingerprint_of(const Unit& unit, std::string_view compiler, std::span<const std::string> flags = {},
                           std::string_view includes = {});

}  // namespace dwell::jit
