// Operators that log, compiled by NVRTC. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <dwell/error.hpp>

#include "jit/cuda/cuda_compiler.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

class CudaLogTest : public CudaTest {
 protected:
  static Unit logging(const std::string& call, const CompileOptions& options = {}) {
    Unit unit =
        unit_of("log_line", "DWELL_OPERATOR(log_line)(dwell::Group g, int i, float f, double d) {\n  " + call + ";\n}\n", "log_line_1");
    unit.options = options;
    return unit;
  }
  static Image link(const Object& object, Tier tier = Tier::relocatable) { return compiler().link(std::vector<Opcode>{&object}, tier); }
  static constexpr const char* kFour = R"(if (g.rank() == 0) dwell::log(g, dwell::level::info, "{} {:.3f} {} {:x}", i, f, i, i))";
};

TEST_F(CudaLogTest, ALineOfFourArgumentsLinksAndSpillsNothing) {
  const Object object = compiler().compile(logging(kFour));
  const Image image = link(object);
  ASSERT_EQ(image.entries.size(), 1U);
  EXPECT_EQ(image.entries[0].resources.stack_bytes, 0U);
  EXPECT_LE(image.entries[0].resources.registers, 56U) << "the loop's own are 64";
}

TEST_F(CudaLogTest, InlinedAndDebuggedOperatorsLogToo) {
  Unit inlined = logging(kFour);
  inlined.form = Form::lto;
  const Object object = compiler().compile(inlined);
  EXPECT_FALSE(link(object, Tier::lto).bytes.empty());
  CompileOptions debug;
  debug.debug = true;
  const Object debugged = compiler().compile(logging(kFour, debug));
  EXPECT_FALSE(link(debugged).bytes.empty());
}

TEST_F(CudaLogTest, OperatorsThatCheckBoundsLinkWithOthersAndAmongThemselves) {
  const std::string text =
      "DWELL_OPERATOR(access)(dwell::Group g, int i, dwell::Span<float> x) {\n"
      "  const auto mine = g.shared<double>(4);\n"
      "  mine[g.rank() % 4] = x.subspan(1, 2)[i];\n"
      "  x.atomic_add(i, static_cast<float>(mine[0]));\n"
      "}\n";
  std::vector<Object> objects;
  for (const char* const symbol : {"access_1", "access_2"}) {
    Unit unit = unit_of("access", text, symbol);
    unit.options.debug = true;
    objects.push_back(compiler().compile(unit));
  }
  objects.push_back(compiler().compile(logging(kFour)));
  const Image image = compiler().link(std::vector<Opcode>{&objects[0], &objects[1], &objects[2]}, Tier::relocatable);
  EXPECT_EQ(image.entries.size(), 3U);
}

TEST_F(CudaLogTest, AnOlderStandardHasNoLog) {
  CompileOptions older;
  older.standard = 17;
  EXPECT_FALSE(compiler().compile(logging("", older)).entries.empty());
  DWELL_EXPECT_ERROR(static_cast<void>(compiler().compile(logging(kFour, older))), errc::compile_failed, testing::HasSubstr("log"));
}

TEST_F(CudaLogTest, AWrongFormatIsNamed) {
  const auto refuses = [](const std::string& arguments, const std::string& why) {
    DWELL_EXPECT_ERROR(static_cast<void>(compiler().compile(logging("dwell::log(g, dwell::level::info, " + arguments + ")"))),
                       errc::compile_failed, testing::HasSubstr(why));
  };
  refuses(R"("{} {}", i)", "more_placeholders_than_arguments");
  refuses(R"("{}", i, f)", "more_arguments_than_placeholders");
  refuses(R"("{:.3d}", d)", "this_type_does_not_fit_the_argument");
  refuses(R"("{:5.2}", i)", "a_precision_needs_a_float");
}

}  // namespace
}  // namespace dwell::jit
