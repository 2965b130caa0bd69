// What operators that use the kit take of a multiprocessor, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "jit/cuda/cuda_compiler.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

struct KitOperator {
  const char* name;
  const char* parameters;
  const char* body;
};
constexpr KitOperator kKit[] = {
    {"fill", "float a, Span<float> z", "g.transform(z, [=] { return a; });"},
    {"scale", "float a, Span<const float> x, Span<float> z", "g.transform(z, [=](float b) { return a * b; }, x);"},
    {"axpy", "float a, Span<const float> x, Span<float> y", "g.transform(y, [=](float b, float c) { return a * b + c; }, x, y);"},
    {"add3", "Span<const float> x, Span<const float> y, Span<const float> z, Span<float> w",
     "g.transform(w, [](float a, float b, float c) { return a + b + c; }, x, y, z);"},
    {"add4", "Span<const float> x, Span<const float> y, Span<const float> z, Span<float> w",
     "g.transform(w, [](float a, float b, float c, float d) { return a + b + c + d; }, x, y, z, w);"},
    {"doubles", "Span<const double> x, Span<double> y", "g.transform(y, [](double a, double b) { return a * b; }, x, y);"},
    {"halves", "Span<const half> x, Span<half> y", "g.transform(y, [](float a, float b) { return a * b; }, x, y);"},
    {"bfloats", "Span<const bfloat16> x, Span<bfloat16> y", "g.transform(y, [](float a, float b) { return a * b; }, x, y);"},
    {"bytes", "Span<const u8> x, Span<u8> y", "g.transform(y, [](u8 a, u8 b) { return a ^ b; }, x, y);"},
    {"widen", "Span<const u8> x, Span<float> y", "g.transform(y, [](u8 a) { return a / 255.0F; }, x);"},
    {"pairs", "Span<const complex<float>> x, Span<complex<float>> y",
     "g.transform(y, [](complex<float> a, complex<float> b) { return a * b; }, x, y);"},
    {"copy", "Span<const float> x, Span<float> y", "g.copy(y, x);"},
    {"copy_bytes", "Span<const u8> x, Span<u8> y", "g.copy(y, x);"},
    {"sum", "Span<const float> x, Span<float> y",
     "const float all = g.reduce(x, 0.0F, [](float a, float b) { return a + b; }); if (g.rank() == 0) y[g.index()] = all;"},
    {"sum_halves", "Span<const half> x, Span<float> y",
     "const float all = g.reduce(x, 0.0F, [](float a, float b) { return a + b; }); if (g.rank() == 0) y[g.index()] = all;"},
    {"sum_bytes", "Span<const u8> x, Span<u32> y",
     "const u32 all = g.reduce(x, 0U, [](u32 a, u32 b) { return a + b; }); if (g.rank() == 0) y[g.index()] = all;"},
    {"scan", "Span<const float> x, Span<float> y", "g.inclusive_scan(y, x, 0.0F, [](float a, float b) { return a + b; });"},
    {"offsets", "Span<const u32> x, Span<u32> y", "g.exclusive_scan(y, x, 0U, [](u32 a, u32 b) { return a + b; });"},
    {"histogram", "Span<const u8> x, Span<u32> y", "for (auto i : g.range(x.size())) y.atomic_add(x[i], 1U);"},
};

void PrintTo(const KitOperator& op, std::ostream* out) { *out << op.name; }

Unit unit_for(const KitOperator& op) {
  return unit_of(
      op.name,
      std::string("using namespace dwell;\nDWELL_OPERATOR(") + op.name + ")(Group g, " + op.parameters + ") {\n  " + op.body + "\n}\n",
      std::string(op.name) + "_1");
}

class CudaKitTest : public CudaTest, public testing::WithParamInterface<KitOperator> {};
INSTANTIATE_TEST_SUITE_P(Of, CudaKitTest, testing::ValuesIn(kKit),
                         [](const testing::TestParamInfo<KitOperator>& at) { return std::string(at.param.name); });

// 64 leave room for six workers a multiprocessor, 96 for four. Inlined operators take more beside a loop that hands seats over, and the
// assembler heeds no limit for a kernel with launch bounds.
TEST_P(CudaKitTest, LeavesRoomForSixWorkersCalledAndFourInlined) {
  Unit unit = unit_for(GetParam());
  const Object called = compiler().compile(unit);
  EXPECT_EQ(called.log, "") << "the assembler's report is not for the author";
  EXPECT_LE(compiler().link(std::vector<Opcode>{{&called}}, Tier::relocatable).resources.registers, 64U);
  unit.form = Form::lto;
  const Object inlined = compiler().compile(unit);
  EXPECT_LE(compiler().link(std::vector<Opcode>{{&inlined}}, Tier::lto).resources.registers, 96U);
}

using CudaRegisterLimitTest = CudaTest;

TEST_F(CudaRegisterLimitTest, AnOperatorThatNeedsManyRegistersGetsThem) {
  const Object hungry = compiler().compile(hungry_unit("hungry_1"));
  EXPECT_EQ(hungry.log, "");
  const Image image = compiler().link(std::vector<Opcode>{{&hungry}});
  EXPECT_GT(image.entries.at(0).resources.registers, 100U);
}

TEST_F(CudaRegisterLimitTest, AnErrorCarriesNothingOfTheReport) {
  try {
    compiler().compile(unit_of("bad", "DWELL_OPERATOR(bad)(dwell::Group) { oops(); }\n", "bad_1"));
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::AllOf(testing::HasSubstr("oops"), testing::Not(testing::HasSubstr("ptxas"))));
  }
}

}  // namespace
}  // namespace dwell::jit
