// The effect of the options on the host compiler's objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <dwell/device.hpp>
#include <dwell/error.hpp>

#include "jit/base/dynamic_library.hpp"
#include "jit/base/temporary_directory.hpp"
#include "jit/host/host_compiler.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/fingerprint_test.hpp"
#include "tests/unit/operators.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dwell::jit {
namespace {

HostCompiler& host_compiler() {
  static HostCompiler shared;
  return shared;
}

// The value of the integer `expression` in an operator compiled with `options`.
i64 value_of(const CompileOptions& options, const std::string& expression, const std::string& lead = {}) {
  const std::string body = "DWELL_OPERATOR(a)(dwell::Group, dwell::i64* to) { *to = static_cast<dwell::i64>(" + expression + "); }\n";
  const Object object = host_compiler().compile(unit_with(options, lead + body));
  const TemporaryDirectory folder;
  const std::string file = folder.path() / "a.so";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(object.bytes.data()), static_cast<std::streamsize>(object.bytes.size()));
  const DynamicLibrary library(file);
  device::Context context{};
  context.share = device::kWholeTask;
  i64 value = 0;
  const auto address = reinterpret_cast<u64>(&value);
  const u32 words[] = {static_cast<u32>(address), static_cast<u32>(address >> 32U)};
  library.get<void(device::Context*, u32, const u32*)>("a_1")(&context, 0, words);
  return value;
}

TEST(HostOptionsCompiled, OptionsChangeTheObject) {
  EXPECT_EQ(value_of({.standard = 14, .debug = true}, "__cplusplus"), 201402);
  EXPECT_EQ(value_of({.standard = 17}, "__cplusplus"), 201703);
  EXPECT_EQ(value_of({.debug = true, .defines = {{"TWICE(x)", "((x) * 2)"}, {"N", "20 + 1"}}}, "TWICE(N)"), 42);
  EXPECT_EQ(value_of({.fast_math = true}, "__FINITE_MATH_ONLY__"), 1);
  EXPECT_EQ(value_of({}, "__FINITE_MATH_ONLY__"), 0);
  EXPECT_EQ(value_of({.flags = {"-UX", "-funsigned-char"}}, "static_cast<char>(255)"), 255);
}

#if defined(__x86_64__)
TEST(HostOptionsCompiled, FastMathKeepsTheThreadsMode) {
  constexpr unsigned kFlags = 0x3F;  // exceptions raised since they were cleared: not part of the mode
  const unsigned before = _mm_getcsr() & ~kFlags;
  value_of({.fast_math = true}, "1");
  EXPECT_EQ(_mm_getcsr() & ~kFlags, before);
}
#endif

TEST(HostOptionsCompiled, HeadersInMemoryTakePrecedence) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "size.h") << "#define SIZE 1\n";
  CompileOptions options{.include_paths = {folder.path()}};
  EXPECT_EQ(value_of(options, "SIZE", "#include <size.h>\n"), 1);
  options.headers = {{"size.h", "#include \"my/own.h\"\n"}, {"my/own.h", "#include \"my/two.h\"\n"}, {"my/two.h", "#define SIZE 2\n"}};
  EXPECT_EQ(value_of(options, "SIZE", "#include <size.h>\n"), 2);
}

TEST(HostOptionsCompiled, DebugInformationIsPresent) {
  const auto has_lines = [](const CompileOptions& options) {
    const Object object =
        host_compiler().compile(unit_with(options, "DWELL_OPERATOR(a)(dwell::Group, dwell::Span<float> y) { y[0] = 1; }\n"));
    return Elf::open(object.bytes)->section(".debug_line") != nullptr;
  };
  EXPECT_TRUE(has_lines({.line_info = true}));
  EXPECT_TRUE(has_lines({.debug = true}));
  const bool built_with = host_compiler().identity().find(" -g") != std::string::npos;  // sanitizer builds add it
  EXPECT_EQ(has_lines({}), built_with);
}

TEST(HostOptionsCompiled, OptionsArePartOfTheFingerprint) {
  expect_fingerprints_follow(host_compiler(), "#include <cstdint>\n", "-funsigned-char", {.arch = "sm_90"});
  const Unit unit = unit_with(CompileOptions().with_flag("-lm"), "DWELL_OPERATOR(a)(dwell::Group) {}\n");
  EXPECT_EQ(host_compiler().fingerprint(unit), "") << "nobody knows what that reads";
}

}  // namespace
}  // namespace dwell::jit
