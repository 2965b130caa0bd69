// Resources of the real resident loop, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>

#include <dwell/error.hpp>

#include "device/part.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#include "jit/object/heap_use.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

// Limits of the loop's resources, by architecture. A higher figure costs workers: change it here only on purpose.
struct LoopBudget {
  const char* arch;
  std::uint32_t registers;     // a thread; 64 leave room for six workers a multiprocessor, up to 96 for the usual four
  std::uint32_t stack_bytes;   // a thread, including functions off the fast path
  std::uint32_t shared_bytes;  // a worker: two tasks, and the part of its state that operators see
  std::uint32_t barriers;      // a worker; sm_90 and later count them: 64 a multiprocessor, 24 on sm_120
};
constexpr LoopBudget kBudgets[] = {
    {"sm_75", 96, 736, 6208, 3},  {"sm_80", 96, 736, 6208, 3},  {"sm_90", 64, 528, 6208, 3},
    {"sm_100", 88, 568, 6208, 3}, {"sm_120", 88, 568, 6208, 3},
};

void PrintTo(const LoopBudget& budget, std::ostream* out) { *out << budget.arch; }

class CudaLoopTest : public CudaFiguresTest, public testing::WithParamInterface<LoopBudget> {
 protected:
  void SetUp() override {
    CudaFiguresTest::SetUp();
    if (!IsSkipped() && !compiles_for(GetParam().arch)) GTEST_SKIP() << "this NVRTC does not compile for " << GetParam().arch;
  }
  static CudaCompiler& compiler() { return compiler_for(GetParam().arch); }
  static Image link(const std::vector<Opcode>& entries) { return compiler().link(entries); }
  static Object nothing() { return compiler().compile(unit_of("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n", "nothing_1")); }
};

INSTANTIATE_TEST_SUITE_P(For, CudaLoopTest, testing::ValuesIn(kBudgets),
                         [](const testing::TestParamInfo<LoopBudget>& at) { return std::string(at.param.arch); });

TEST_P(CudaLoopTest, StaysWithinTheRegisterBudget) {
  const Object small = nothing();
  const Object axpy = compiler().compile(axpy_unit("axpy_1"));
  for (const auto& entries : {std::vector<Opcode>{}, {&small}, {&small, &axpy}}) {
    const Resources resources = link(entries).resources;
    EXPECT_LE(resources.registers, GetParam().registers) << "with " << entries.size() << " operators";
    EXPECT_LE(resources.stack_bytes, GetParam().stack_bytes) << "with " << entries.size() << " operators";
    EXPECT_LE(resources.shared_bytes, GetParam().shared_bytes) << "with " << entries.size() << " operators";
    EXPECT_LE(resources.barriers, GetParam().barriers) << "with " << entries.size() << " operators";
    EXPECT_EQ(resources.constant_bytes, 8 * (entries.size() + 1)) << "the table of operators is all";
  }
}

TEST_P(CudaLoopTest, DoesNotSpill) {
  const CudaCompiler::LoopReport report = compiler().loop_report();
  EXPECT_THAT(report.log, testing::HasSubstr("Function properties for dwell_resident\n")) << "the report says nothing of the loop";
  EXPECT_EQ(report.spill_bytes, 0U) << report.log;
}

// The loop of a program that has only plain and wide tasks.
TEST_P(CudaLoopTest, WithoutPartsIsSmall) {
  const Object small = nothing();
  const Image base = compiler().link(std::vector<Opcode>{&small}, Tier::relocatable, device::part::base);
  const Image all = link({&small});
  EXPECT_LT(base.bytes.size(), all.bytes.size() * 2 / 5);
  EXPECT_LE(base.resources.registers, all.resources.registers);
  EXPECT_EQ(compiler().loop_report(device::part::base).spill_bytes, 0U) << compiler().loop_report(device::part::base).log;
}

using CudaPartsTest = CudaFiguresTest;

// Each set of parts gives a loop.
TEST_F(CudaPartsTest, AnySetOfPartsCompiles) {
  const Object small = compiler().compile(unit_of("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n", "nothing_1"));
  const auto linked = [&](std::uint32_t parts) { return compiler().link(std::vector<Opcode>{&small}, Tier::relocatable, parts); };
  const std::size_t least = linked(device::part::base).bytes.size();
  const std::size_t most = linked(device::part::all).bytes.size();
  std::mt19937 random(36);
  for (int i = 0; i < 6; ++i) {
    const std::uint32_t parts = device::part::base | (static_cast<std::uint32_t>(random()) & (2 * device::part::repeats - 1));
    SCOPED_TRACE("DWELL_PARTS=" + std::to_string(parts));
    const Image image = linked(parts);
    EXPECT_LE(image.resources.registers, 64U);
    EXPECT_EQ(compiler().loop_report(parts).spill_bytes, 0U);
    EXPECT_GE(image.bytes.size(), least);
    EXPECT_LE(image.bytes.size(), most);
  }
}

// NVRTC options of one object do not leak into other compilations of the process.
TEST_F(CudaPartsTest, DebugOptionDoesNotChangeTheLoop) {
  Unit unit = unit_of("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n", "nothing_1");
  const Object small = compiler().compile(unit);
  // Disables the cache, so that each loop is compiled here.
  const auto linked = [&] {
    return CudaCompiler({.arch = "sm_90", .cache = {}}).link(std::vector<Opcode>{&small}, Tier::relocatable, device::part::base).bytes;
  };
  const auto before = linked();
  unit.options.debug = true;
  static_cast<void>(CudaCompiler({.arch = "sm_90", .cache = {}}).compile(unit));
  EXPECT_TRUE(linked() == before);
}

TEST_P(CudaLoopTest, HasAllPartsForAnOperatorThatMakesTasks) {
  const Object small = nothing();
  const Object maker = compiler().compile(unit_of("maker",
                                                  "DWELL_USES(maker)\n"
                                                  "DWELL_OPERATOR(maker)(dwell::Group g) { g.spawn(uses::maker); }\n",
                                                  "maker_1"));
  const Image base = compiler().link(std::vector<Opcode>{&small}, Tier::relocatable, device::part::base);
  std::vector<Opcode> both{&small, &maker};
  both[1].uses = {1};
  const Image makes = compiler().link(both, Tier::relocatable, device::part::base);
  EXPECT_GT(makes.bytes.size(), base.bytes.size() * 2);
}

TEST_P(CudaLoopTest, HasTheHeapForAnOperatorThatAllocates) {
  const Object small = nothing();
  const Object maker = compiler().compile(unit_of("maker",
                                                  "DWELL_OPERATOR(maker)(dwell::Group g, dwell::Span<dwell::Ref<dwell::u32>> to) {\n"
                                                  "  to[g.rank()] = g.make<dwell::u32>(1u);\n"
                                                  "}\n",
                                                  "maker_1"));
  EXPECT_FALSE(uses_heap(small.bytes));
  EXPECT_TRUE(uses_heap(maker.bytes));
  const Image image = link({&small, &maker});  // fails if the heap's functions are missing
  EXPECT_GT(image.bytes.size(), link({&small}).bytes.size() + maker.bytes.size());
}

TEST_P(CudaLoopTest, CountsTheResourcesOfItsOperators) {
  const Object small = nothing();
  const Object hungry = compiler().compile(hungry_unit("hungry_1"));
  const Resources alone = link({&small}).resources;
  const Image image = link({&small, &hungry});
  ASSERT_EQ(image.entries.size(), 2U);
  const Resources* const entry = &image.entries[1].resources;
  EXPECT_GT(entry->registers, 100U) << "it is meant to be hungry";
  EXPECT_GE(image.resources.registers, entry->registers);
  EXPECT_LE(image.resources.registers, 255U);
  EXPECT_GE(image.resources.stack_bytes, entry->stack_bytes);
  EXPECT_GE(image.resources.stack_bytes, alone.stack_bytes);
  EXPECT_EQ(image.resources.shared_bytes, alone.shared_bytes + 4096) << "its tile";
  EXPECT_EQ(link({&small, nullptr}).resources.registers, alone.registers) << "a version that has left takes its needs with it";
}

}  // namespace
}  // namespace dwell::jit
