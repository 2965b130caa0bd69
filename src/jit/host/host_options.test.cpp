#include "jit/host/host_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <dwell/error.hpp>

#include "tests/unit/expect_error.hpp"

namespace dwell::jit {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> added_flags(const CompileOptions& options) {
  std::vector<std::string> result;
  const auto before = host_flags({}, {});
  const auto after = host_flags(options, {});
  for (const std::string& flag : after) {
    if (std::find(before.begin(), before.end(), flag) == before.end()) result.push_back(flag);
  }
  return result;
}

std::string refusal(const CompileOptions& options, errc kind) {
  try {
    host_flags(options, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.message();
  }
  return "accepted";
}

TEST(HostOptions, RequiredFlagsArePresent) {
  EXPECT_THAT(host_flags({}, {}), ElementsAre("-std=c++20", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-plt",
                                              "-fdiagnostics-color=never", "-fno-gnu-unique", "-Wl,-z,defs"));
  const auto sanitized = host_flags({}, {.clang = true, .flags = {"-fsanitize=thread"}});
  EXPECT_THAT(sanitized, testing::AllOf(Contains("-fsanitize=thread"), Not(Contains("-Wl,-z,defs")), Not(Contains("-fno-gnu-unique"))));
}

TEST(HostOptions, EachOptionHasItsFlag) {
  EXPECT_THAT(added_flags({.standard = 17}), ElementsAre("-std=c++17"));
  EXPECT_THAT(added_flags({.fast_math = true}), testing::AllOf(Contains("-ffinite-math-only"), Contains("-ffp-contract=fast")));
  EXPECT_THAT(added_flags({.fast_math = true, .contract = false}), Contains("-ffp-contract=off"));
  EXPECT_THAT(added_flags({.contract = true}), ElementsAre("-ffp-contract=fast"));
  EXPECT_THAT(added_flags({.contract = false}), ElementsAre("-ffp-contract=off"));
  EXPECT_THAT(added_flags({.flush_denormals = false, .precise_division = true, .precise_sqrt = true}), ElementsAre());
  EXPECT_THAT(added_flags({.line_info = true}), ElementsAre("-g1"));
  EXPECT_THAT(added_flags({.line_info = true, .debug = true}), ElementsAre("-O0", "-g", "-DDWELL_CHECKED=1"));
  EXPECT_THAT(added_flags({.defines = {{"TILE", "32"}}, .include_paths = {"/usr"}, .flags = {"-funroll-loops"}}),
              ElementsAre("-DTILE=32", "-I/usr", "-funroll-loops"));
}

TEST(HostOptions, UnsupportedOptionsAreNamed) {
  EXPECT_THAT(refusal({.arch = "sm_90"}, errc::unsupported), testing::AllOf(HasSubstr("arch"), HasSubstr("sm_90"), HasSubstr("-march")));
  const auto expect_option = [](const CompileOptions& options, const std::string& which) {
    DWELL_EXPECT_ERROR_FIELDS(host_flags(options, {}), errc::unsupported, "option", "CompileOptions::" + which);
  };
  expect_option({.arch = "sm_90"}, "arch");
  expect_option({.max_registers = 64}, "max_registers");
  expect_option({.lto = true}, "lto");
  expect_option({.flush_denormals = true}, "flush_denormals");
  expect_option({.precise_division = false}, "precise_division");
  expect_option({.fast_math = true, .precise_sqrt = true}, "precise_sqrt");
  EXPECT_THAT(refusal({.standard = 98}, errc::invalid_argument), HasSubstr("C++98"));
  for (const char* const flag : {"-o", "-ox", "-c", "-E", "-shared", "-std=c++17", "--std=c++17", "-ffast-math", "-Ofast", "-I/x",
                                 "-isystem", "-include", "-g", "-MD", "-flto=auto", "-DA", "-fplugin=x.so", "-xc", "--output=x"}) {
    EXPECT_THAT(refusal({.flags = {flag}}, errc::invalid_argument), HasSubstr(flag));
  }
}

TEST(HostOptions, FlagsNamingFilesDisableTheCache) {
  EXPECT_TRUE(flags_can_be_told({.flags = {"-O3", "-march=x86-64-v3", "-funroll-loops", "-Wno-unused", "-fsanitize=undefined"}}));
  for (const char* const flag : {"-lm", "-L/x", "-Wl,--wrap=f", "-Xlinker", "-T/x.ld", "-Tx.ld", "--script=x.ld", "-fprofile-use=x",
                                 "-stdlib=libc++", "-march=native", "-fsanitize-ignorelist=x", "-ffoo=/x", "@x"}) {
    EXPECT_FALSE(flags_can_be_told({.flags = {flag}})) << flag;
  }
}

}  // namespace
}  // namespace dwell::jit
