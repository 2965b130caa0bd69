// The files that compilers and assemblers write with -MD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dwell::jit {

// The files behind the colon of a rule for make, as g++, clang++ and GNU as write it: names as the compiler opened them.
std::vector<std::string> prerequisites_of(std::string_view rule);

}  // namespace dwell::jit
