// Reads the dependency files of -MD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// Returns the prerequisites of a make rule, as written by g++, clang++ and GNU as: names as the compiler opened them.
std::vector<std::string> prerequisites_of(std::string_view rule);

}  // namespace dwell::jit
