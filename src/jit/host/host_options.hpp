// From CompileOptions to the flags of the host's C++ compiler.
#pragma once

#include <string>
#include <vector>

#include <dwell/compile_options.hpp>

namespace dwell::jit {

// The compiler, and what the library was built to pass to it.
struct HostTarget {
  bool clang = false;              // else g++
  std::vector<std::string> flags;  // those of the build (sanitizers)
};

// The compiler's flags, for the call and for the fingerprint. Folders that dwell makes for each compile (its own
// headers, CompileOptions::headers) and the names of files come beside it. Throws dwell::Error with errc::invalid_argument or
// errc::unsupported for an option that g++ and clang++ cannot honour.
std::vector<std::string> host_flags(const CompileOptions& options, const HostTarget& target);

// Whether all that an object depends on can be told from its flags: each is known to name no file (libraries, linker scripts, profiles,
// options of other programs) and not to ask for the machine's own processor. Flags that dwell does not know count as those that do.
bool flags_can_be_told(const CompileOptions& options);

}  // namespace dwell::jit
