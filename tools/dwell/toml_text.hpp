// Finds faults in a text that make toml++ misbehave.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dwell::tool {

struct TomlFault {
  unsigned line;  // from 1 on
  std::string what;
};

// Returns the first place at which toml++ 3.3 would misbehave, or nothing:
// - Its check for white space reaches __builtin_unreachable for U+00A1 to U+0499, U+2C5E to U+3057 and U+FB26 to U+FEFE. It runs outside of
//   strings and comments, where TOML 1.0 has only ASCII, and after a backslash in a string.
// - A key of n parts makes n nested tables, which are destroyed by recursion.
// toml++ reports all other errors.
std::optional<TomlFault> fault_in_toml(std::string_view text);

}  // namespace dwell::tool
