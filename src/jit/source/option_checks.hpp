// Checks of CompileOptions shared by both compilers. Every error is errc::invalid_argument or errc::unsupported, names the option, and
// lists what is possible.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/compile_options.hpp>
#include <dwell/error.hpp>

namespace dwell::jit {

// Returns the error for `option` of CompileOptions. Its fields: "option", and the name as "CompileOptions::standard".
Error option_error(errc code, std::string_view option, const std::string& message);

// Throws unless the standard is 14, 17 or 20.
void check_standard(const CompileOptions& options);

// "NAME=VALUE" for each of `defines`, in the order of their names. A name is an identifier, or one with parameters ("SQUARE(x)"); a value
// is one line. Throws for others.
std::vector<std::string> checked_defines(const CompileOptions& options);

// The folders of `include_paths`, absolute and without links, in their order. A relative one is taken from the current folder. Throws for
// one that is no folder.
std::vector<std::string> checked_include_paths(const CompileOptions& options);

// Throws unless every name of `headers` is a relative path that stays below its root and is none of dwell's own, and no text contains a
// null character.
void check_headers(const CompileOptions& options);

// A flag that must not be among CompileOptions::flags. `name` is written without leading dashes and stands for "-name", "--name" and
// "--name=..."; with `joined` also for whatever begins with "-name".
struct RefusedFlag {
  std::string_view name;
  std::string_view reason;
  bool joined = false;
};
// The reason for refusing flags that name files.
inline constexpr std::string_view kUnseenByCache = "the cache would not see the file; use #include with include_paths or headers";

// Throws when one of `flags` is among `refused`, does not begin with a dash (it would name a file), or holds a line end or null character.
void check_flags(const CompileOptions& options, std::span<const RefusedFlag> refused);

}  // namespace dwell::jit
