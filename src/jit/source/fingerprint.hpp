// The cache key of a compiled source.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "jit/compiler.hpp"

namespace dwell::jit {

// Returns the digest for Compiler::fingerprint: of `compiler` (its build), its `flags` for this unit, the digest of the files it includes,
// dwell's own headers, and all of `unit` except the symbols. 64 lower-case hexadecimal digits.
std::string fingerprint_of(const Unit& unit, std::string_view compiler, std::span<const std::string> flags = {},
                           std::string_view includes = {});

// Sets the fingerprint of `unit` and calls `compile(unit)`; retries a few times if its includes change meanwhile. Throws as `compile`, and
// IncludesChanged after the last retry.
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
