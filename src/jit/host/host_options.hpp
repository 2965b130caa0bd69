// Translates CompileOptions to flags of the host's C++ compiler.
#pragma once

#include <string>
#include <vector>

#include <dwell/compile_options.hpp>

namespace dwell::jit {

// The compiler, and the flags from the library's build.
struct HostTarget {
  bool clang = false;              // else g++
  std::vector<std::string> flags;  // those of the build (sanitizers)
};

// The compiler's flags, for the call and for the fingerprint. Folders that dwell makes for each compile (its own
// headers, CompileOptions::headers) and the names of files come beside it. Throws dwell::Error with errc::invalid_argument or
// errc::unsupported for an option that g++ and clang++ cannot honour.
std::vector<std::string> host_flags(const CompileOptions& options, const HostTarget& target);

// Whether the flags determine all dependencies of an object: none names a file (libraries, linker scripts, profiles, options of other
// programs) or selects the machine's own processor. Unknown flags count as such.
bool flags_can_be_told(const CompileOptions& options);

}  // namespace dwell::jit
