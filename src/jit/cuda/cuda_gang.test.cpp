// Programs of a gang for each architecture. Needs NVRTC but no GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/cuda/cuda_compiler.hpp"
#include "jit/object/cubin.hpp"
#include "tensor/gang/cost_probes.hpp"
#include "tensor/gang/source.hpp"
#include "tensor/operators.hpp"
#include "tensor/product.hpp"
#include "tensor/reduction.hpp"
#include "tensor/selection.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/noted_operations.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

class CudaGangTest : public CudaFiguresTest, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(For, CudaGangTest, testing::Values("sm_75", "sm_90", "sm_120"),
                         [](const testing::TestParamInfo<const char*>& at) { return std::string(at.param); });

TEST_P(CudaGangTest, ANetworkCompilesWithoutWarnings) {
  if (!compiles_for(GetParam())) GTEST_SKIP() << "this NVRTC does not compile for " << GetParam();
  tensor::NotedNetwork network;
  const TensorView large = tensor::made_up({256, 256});
  tensor::note_program(network.noted, TensorOp::add, large, std::vector<Operand>{large, network.second});
  tensor::note_program(network.noted, TensorOp::mul, large, std::vector<Operand>{large, large});
  tensor::note_linear(network.noted, tensor::made_up({64, 256}), tensor::made_up({64, 256}), tensor::made_up({256, 256}),
                      tensor::made_up({256}));
  const GangSlices slices[] = {{.memory = network.x.extent()}, {.memory = network.y.extent(), .output = true}};
  for (const std::uint32_t members : {7U, 32U, 16U}) {
    tensor::gang::Limits limits = tensor::on_a_gpu(members);
    limits.repeats = members == 32 ? 20 : 1;
    limits.on_call = members == 16;
    if (limits.on_call) limits.slices = slices;
    const tensor::gang::Plan plan = tensor::gang::plan_of(
        network.noted, [](const TensorView::Extent&) { return true; }, limits);
    const tensor::gang::Source source = tensor::gang::source_of(plan, tensor::gang::Runner::cuda);
    CudaCompiler compiler({.arch = GetParam(), .cache = {}});
    Unit unit{"kernels", source.text, "dwell_gang.op", 1, {}};
    unit.program = true;
    unit.options.contract = false;
    const ModuleObject object = compiler.compile_module(unit);
    EXPECT_EQ(object.log, "") << source.text;
  }
}

TEST_P(CudaGangTest, ProbesOfCostsCompileWithoutWarnings) {
  if (!compiles_for(GetParam())) GTEST_SKIP() << "this NVRTC does not compile for " << GetParam();
  using tensor::gang::Probe;
  for (const Probe probe : {Probe::steps, Probe::elements, Probe::products, Probe::exchanges, Probe::barriers}) {
    const tensor::gang::Plan plan = tensor::gang::plan_of_probe(probe, 0x10000, tensor::on_a_gpu());
    const tensor::gang::Source source = tensor::gang::source_of(plan, tensor::gang::Runner::cuda);
    CudaCompiler compiler({.arch = GetParam(), .cache = {}});
    Unit unit{"kernels", source.text, "dwell_gang.op", 1, {}};
    unit.program = true;
    unit.options.contract = false;
    EXPECT_EQ(compiler.compile_module(unit).log, "") << source.text;
  }
}

// As an operator of the loop's workers.
TEST_P(CudaGangTest, ANetworkInTheLoopCompilesWithoutWarningsAndLinks) {
  if (!compiles_for(GetParam())) GTEST_SKIP() << "this NVRTC does not compile for " << GetParam();
  const tensor::NotedNetwork network;
  // Beside operators that include the same headers, with other limits.
  std::vector<Object> objects;
  for (const tensor::OwnSource* const own : {&tensor::kReduce, &tensor::kProduct, &tensor::kSmallProduct, &tensor::kSelection}) {
    Unit unit = unit_of(own->name, own->text, std::string(own->name) + "_1");
    unit.options.max_registers = 72;
    objects.push_back(compiler_for(GetParam()).compile(unit));
  }
  for (const std::uint32_t members : {1U, 7U}) {
    tensor::gang::Limits limits = tensor::on_a_gpu(members);
    limits.in_loop = true;
    limits.threads = 128;
    const tensor::gang::Plan plan = tensor::gang::plan_of(
        network.noted, [](const TensorView::Extent&) { return true; }, limits);
    const tensor::gang::Source source = tensor::gang::source_of(plan, tensor::gang::Runner::loop);
    Unit unit = unit_of(source.name, source.text, source.name + "_1");
    unit.options.contract = false;
    objects.push_back(compiler_for(GetParam()).compile(unit));
    EXPECT_EQ(objects.back().log, "") << source.text;
  }
  std::vector<Opcode> all;
  all.reserve(objects.size());
  for (const Object& object : objects) all.emplace_back(&object);
  const Image image = compiler_for(GetParam()).link(all);
  EXPECT_EQ(image.resources.barriers, 3U) << "the loop's own; a block's barrier would wait for the control warp";
}

}  // namespace
}  // namespace dwell::jit
