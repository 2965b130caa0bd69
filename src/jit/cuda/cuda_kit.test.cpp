// Resources of operators that use the kit, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

class CudaKitTest : public CudaFiguresTest {
 protected:
  static Object compile(const KitOperator& op, Form form) {
    std::string text = "using namespace dwell;\nDWELL_OPERATOR(";
    text.append(op.name).append(")(Group g, ").append(op.parameters).append(") {\n  ").append(op.body).append("\n}\n");
    Unit unit = unit_of(op.name, text, std::string(op.name) + "_1");
    unit.form = form;
    return compiler().compile(unit);
  }
};

TEST_F(CudaKitTest, CalledOperatorsLeaveRoomForSixWorkers) {
  std::vector<Object> objects;
  for (const KitOperator& op : kKit) {
    objects.push_back(compile(op, Form::native));
    EXPECT_EQ(objects.back().log, "") << op.name << ": the assembler's report is not for the author";
  }
  std::vector<Opcode> table;
  for (const Object& object : objects) table.emplace_back(&object);
  const Image image = compiler().link(table, Tier::relocatable);
  EXPECT_LE(image.resources.registers, 64U) << "64 leave room for six workers a multiprocessor";
  for (const EntryResources& entry : image.entries) EXPECT_LE(entry.resources.registers, 64U) << entry.symbol;
}

TEST_F(CudaKitTest, InlinedOperatorsLeaveRoomForFiveWorkers) {
  std::vector<Object> objects;
  for (const KitOperator& op : kKit) objects.push_back(compile(op, Form::lto));
  std::vector<Opcode> table;
  for (const Object& object : objects) table.emplace_back(&object);
  const Image image = compiler().link(table, Tier::lto);
  EXPECT_LE(image.resources.registers, 72U) << "72 leave room for five workers a multiprocessor";
  EXPECT_LE(image.resources.stack_bytes, 480U) << "what the loop itself takes, and little more";
}

using CudaRegisterLimitTest = CudaFiguresTest;

TEST_F(CudaRegisterLimitTest, AnOperatorGetsAllRegistersItNeeds) {
  const Object hungry = compiler().compile(hungry_unit("hungry_1"));
  EXPECT_EQ(hungry.log, "");
  const Image image = compiler().link(std::vector<Opcode>{{&hungry}});
  EXPECT_GT(image.entries.at(0).resources.registers, 100U);
}

TEST_F(CudaRegisterLimitTest, ErrorsOmitTheResourceReport) {
  try {
    compiler().compile(unit_of("bad", "DWELL_OPERATOR(bad)(dwell::Group) { oops(); }\n", "bad_1"));
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::AllOf(testing::HasSubstr("oops"), testing::Not(testing::HasSubstr("ptxas"))));
  }
}

}  // namespace
}  // namespace dwell::jit
