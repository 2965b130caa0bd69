// The name of a compiled source.
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

// Gives `unit` its fingerprint and compiles by it, with `compile(unit)`; again, a few times, when what it includes changes meanwhile.
// Throws as `compile`, and IncludesChanged when that does not end.
template <class Compile>
auto compile_by_fingerprint(Compiler& compiler, Unit& unit, const Compile& compile) {
  for (int again = 3;; --again) {
    unit.fingerprint = compiler.fingerprint(unit);
    try {
      return compile(unit);
    } catch (const IncludesChanged&) {
      if (again == 0) throw;
    }
  }
}

}  // namespace dwell::jit
