// Resources of the tensor operators, for each architecture. Needs NVRTC and nvJitLink but no GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/cuda/cuda_compiler.hpp"
#include "jit/object/cubin.hpp"
#include "tensor/operators.hpp"
#include "tensor/product.hpp"
#include "tensor/reduction.hpp"
#include "tensor/selection.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

// The limit that batches define them with.
constexpr int kRegisters = 72;

struct Budget {
  const tensor::OwnSource* source;
  std::uint32_t stack_bytes;  // a thread: saved registers and spills
  std::size_t bytes;          // of the object: each one slows the loading of an image
};

class CudaTensorTest : public CudaFiguresTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    CudaFiguresTest::SetUp();
    if (!IsSkipped() && !compiles_for(GetParam())) GTEST_SKIP() << "this NVRTC does not compile for " << GetParam();
  }
};

INSTANTIATE_TEST_SUITE_P(For, CudaTensorTest, testing::Values("sm_75", "sm_90", "sm_120"),
                         [](const testing::TestParamInfo<const char*>& at) { return std::string(at.param); });

TEST_P(CudaTensorTest, OperatorsLeaveRoomForFiveWorkers) {
  for (const Budget& budget : {Budget{&tensor::kProduct, 344, 220'000},
                               {&tensor::kSmallProduct, 740, 390'000},
                               {&tensor::kSelection, 56, 125'000},
                               {&tensor::kReduce, 640, 510'000}}) {
    Unit unit = unit_of(budget.source->name, budget.source->text, std::string(budget.source->name) + "_1");
    unit.options.max_registers = kRegisters;
    unit.form = Form::native;
    const Object object = compiler_for(GetParam()).compile(unit);
    EXPECT_EQ(object.log, "") << unit.name;
    const std::optional<Cubin> cubin = Cubin::open(object.bytes);
    ASSERT_TRUE(cubin);
    const std::optional<Resources> resources = cubin->entry(object.entries.at(0).symbol);
    ASSERT_TRUE(resources) << unit.name;
    EXPECT_LE(resources->registers, kRegisters) << unit.name;
    EXPECT_LE(resources->stack_bytes, budget.stack_bytes) << unit.name;
    EXPECT_LE(object.bytes.size(), budget.bytes) << unit.name;
  }
}

}  // namespace
}  // namespace dwell::jit
