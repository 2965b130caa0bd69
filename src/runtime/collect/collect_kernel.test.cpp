#include "runtime/collect/collect_kernel.hpp"

#include <string>

#include "jit/compiler.hpp"
#include "tests/unit/cuda_test.hpp"

namespace dwell::runtime {
namespace {

class CollectKernelTest : public jit::CudaFiguresTest {};

TEST_F(CollectKernelTest, CompilesForAGpu) {
  jit::Unit unit;
  unit.text = CollectKernel::source().text;
  unit.file = "heap_collect.cu";
  unit.options = CollectKernel::options();
  unit.program = true;
  const jit::ModuleObject made = compiler().compile_module(unit);
  ASSERT_EQ(made.kernels.size(), 1U);
  EXPECT_EQ(made.kernels[0].name, "dwell_collect");
}

}  // namespace
}  // namespace dwell::runtime
