#include "runtime/collect/collect_kernel.hpp"

#include <string>
#include <utility>

#include "jit/compiler.hpp"
#include "tests/unit/cuda_test.hpp"

namespace dwell::runtime {
namespace {

class CollectKernelTest : public jit::CudaFiguresTest {};

TEST_F(CollectKernelTest, CompilesForAGpu) {
  for (const auto& [work, name] :
       {std::pair(CollectKernel::Work::collect, "dwell_collect"), {CollectKernel::Work::move, "dwell_move_objects"}}) {
    jit::Unit unit;
    unit.text = CollectKernel::source(work).text;
    unit.file = "heap_collect.cu";
    unit.options = CollectKernel::options();
    unit.program = true;
    const jit::ModuleObject made = compiler().compile_module(unit);
    ASSERT_EQ(made.kernels.size(), 1U);
    EXPECT_EQ(made.kernels[0].name, name);
  }
}

}  // namespace
}  // namespace dwell::runtime
