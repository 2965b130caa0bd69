// What a compiled source goes by.
#pragma once

#include <string>
#include <string_view>

#include "jit/compiler.hpp"

namespace dwell::jit {

// The digest that Compiler::fingerprint gives: of `compiler` (its identity and flags for this unit), dwell's own headers, and everything
// of `unit` but the symbols. 64 lower-case hexadecimal digits.
std::string fingerprint_of(const Unit& unit, std::string_view compiler);

}  // namespace dwell::jit
