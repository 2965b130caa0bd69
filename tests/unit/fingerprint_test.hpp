// Properties of every compiler's fingerprints.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include <dwell/error.hpp>

#include "jit/base/temporary_directory.hpp"
#include "jit/compiler.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {

// A fingerprint follows the options and all includes; it is "" if these are unknown. `lead` begins each source; this compiler honours
// `flag`, but not the options `foreign`.
inline void expect_fingerprints_follow(Compiler& compiler, const std::string& lead, const std::string& flag,
                                       const CompileOptions& foreign) {
  const TemporaryDirectory folder;
  const auto print = [&](const CompileOptions& options, const std::string& more = {}) {
    return compiler.fingerprint(unit_with(options, more + lead + "#include <size.h>\nDWELL_OPERATOR(a)(dwell::Group) {}\n"));
  };
  std::ofstream(folder.path() / "size.h") << "1";
  const CompileOptions options{.include_paths = {folder.path()}};
  const std::string first = print(options);
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(print(options), first);
  EXPECT_NE(print(options.with_flag(flag)), first);
  EXPECT_NE(print(options.with_define("X")), first);
  EXPECT_NE(print(options.with_header("x.h", "")), first);
  EXPECT_NE(print(options.with_header("size.h", "1")), first);
  EXPECT_EQ(print(options, "#define X <x.h>\n#include X\n"), "");
  EXPECT_THROW(print(foreign), Error);
  std::ofstream(folder.path() / "size.h") << "2";
  EXPECT_NE(print(options), first);
}

}  // namespace dwell::jit
