// The effect of the options on NVRTC's objects. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <dwell/error.hpp>

#include "jit/base/temporary_directory.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/fingerprint_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;

class NvrtcOptionsCompiled : public CudaTest {
 protected:
  // An operator that compiles only if `condition` holds.
  static Object compile_if(const CompileOptions& options, const std::string& condition, const std::string& lead = {}) {
    const std::string text = "static_assert(" + condition + ", \"\");\nDWELL_OPERATOR(a)(dwell::Group) {}\n";
    return compiler().compile(unit_with(options, lead + text));
  }
  static Bytes arithmetic(const CompileOptions& options) {
    const std::string text = "DWELL_OPERATOR(a)(dwell::Group, float a, float b, float* to) { *to = a * b + a / sqrtf(b); }\n";
    return compiler().compile(unit_with(options, text)).bytes;
  }
  static Bytes link(const Object& object) {
    const Opcode table[] = {&object};
    return compiler().link(table).bytes;
  }
  // The registers of an operator that uses many if it may.
  static std::uint32_t registers_of(const CompileOptions& options) {
    Unit unit = hungry_unit("hungry_1");
    unit.options = options;
    return Cubin::open(link(compiler().compile(unit)))->entry("hungry_1")->registers;
  }
};

TEST_F(NvrtcOptionsCompiled, OptionsChangeTheObject) {
  EXPECT_NO_THROW(compile_if({.standard = 14}, "__cplusplus == 201402L"));
  EXPECT_NO_THROW(compile_if({.standard = 17}, "__cplusplus == 201703L"));
  EXPECT_THROW(compile_if({}, "__cplusplus == 201703L"), Error);
  EXPECT_NO_THROW(compile_if({.defines = {{"TWICE(x)", "((x) * 2)"}, {"N", "20 + 1"}}}, "TWICE(N) == 42"));
  EXPECT_NO_THROW(compile_if({}, "true", "#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)\n#error plain\n#endif\n"));
  EXPECT_NO_THROW(compile_if({.arch = "sm_90"}, "true", "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n#error special\n#endif\n"));
  EXPECT_GT(registers_of({}), 64U);
  EXPECT_LE(registers_of({.max_registers = 64}), 64U);
}

TEST_F(NvrtcOptionsCompiled, OptionsChangeTheArithmetic) {
  const Bytes plain = arithmetic({});
  EXPECT_NE(arithmetic({.fast_math = true}), plain);
  EXPECT_NE(arithmetic({.flush_denormals = true}), plain);
  EXPECT_NE(arithmetic({.contract = false}), plain);
  EXPECT_NE(arithmetic({.precise_division = false}), plain);
  EXPECT_NE(arithmetic({.precise_sqrt = false}), plain);
  const CompileOptions taken_back{
      .fast_math = true, .flush_denormals = false, .contract = true, .precise_division = true, .precise_sqrt = true};
  EXPECT_EQ(arithmetic(taken_back), plain);
}

TEST_F(NvrtcOptionsCompiled, VariantsOfOneArchitectureLinkTogether) {
  const Object plain = compile_if({.arch = "sm_90"}, "true");
  const Object special = compiler().compile(axpy_unit("axpy_1"));
  const Opcode table[] = {&plain, &special};
  EXPECT_FALSE(compiler().link(table).bytes.empty());
}

TEST_F(NvrtcOptionsCompiled, HeadersInMemoryTakePrecedence) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "size.h") << "constexpr int kSize = 1;\n";
  CompileOptions options{.include_paths = {folder.path()}};
  EXPECT_NO_THROW(compile_if(options, "kSize == 1", "#include <size.h>\n"));
  options.headers = {{"size.h", "#include \"my/own.h\"\n"}, {"my/own.h", "constexpr int kSize = 2;\n"}};
  EXPECT_NO_THROW(compile_if(options, "kSize == 2", "#include <size.h>\n"));
}

TEST_F(NvrtcOptionsCompiled, DebugInformationLinks) {
  const auto has_lines = [](const CompileOptions& options) {
    const Object object = compiler().compile(unit_with(options, "DWELL_OPERATOR(a)(dwell::Group, dwell::Span<float> y) { y[0] = 1; }\n"));
    EXPECT_EQ(object.log, "");
    EXPECT_FALSE(link(object).empty());
    return Elf::open(object.bytes)->section(".debug_line") != nullptr;
  };
  EXPECT_FALSE(has_lines({}));
  EXPECT_TRUE(has_lines({.line_info = true}));
  EXPECT_TRUE(has_lines({.line_info = true, .debug = true}));
}

TEST_F(NvrtcOptionsCompiled, NvrtcRefusalsAreReported) {
  try {
    arithmetic({.flags = {"--no-such-option"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::invalid_argument);
    EXPECT_THAT(error.message(), HasSubstr("--no-such-option"));
  }
}

TEST_F(NvrtcOptionsCompiled, OptionsArePartOfTheFingerprint) {
  expect_fingerprints_follow(compiler(), "", "--restrict", {.arch = "sm_80"});
}

}  // namespace
}  // namespace dwell::jit
