// Resources of the tensor operators, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <optional>
#include <string>
#include <vector>

#include "jit/object/cubin.hpp"
#include "tensor/operators.hpp"
#include "tensor/program_builder.hpp"
#include "tensor/program_source.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

class CudaTensorTest : public CudaFiguresTest {
 protected:
  static Unit unit_of(const tensor::OwnSource& source) {
    Unit unit{source.name, source.text, "dwell/tensor.op", 1, {}};
    for (const std::string& instance : source.instances)
      unit.exports.push_back({instance, "instance_" + std::to_string(unit.exports.size())});
    unit.options.max_registers = tensor::kRegisters;
    return unit;
  }
};

TEST_F(CudaTensorTest, OperatorsLeaveRoomForSixWorkers) {
  const Object object = compiler().compile(unit_of(tensor::kElementwise));
  EXPECT_EQ(object.log, "");
  const Image image = compiler().link(std::vector<Opcode>{{&object, 0}, {&object, 1}}, Tier::relocatable);
  EXPECT_LE(image.resources.registers, 64U);
  // Temporaries in the two kinds of slots take 256 bytes each.
  EXPECT_LE(image.resources.stack_bytes, 900U);
}

TEST_F(CudaTensorTest, OperatorsAreCompiledForEachArchitecture) {
  for (const std::string arch : {"sm_75", "sm_120"}) {
    if (!compiles_for(arch)) continue;
    EXPECT_EQ(compiler_for(arch).compile(unit_of(tensor::kElementwise)).log, "") << arch;
  }
}

// An operation of a program.
struct Applied {
  TensorOp op;
  ElementType computed;
  TensorView to;
  std::vector<Operand> operands;
};

Unit unit_of_program(const std::vector<Applied>& operations) {
  tensor::ProgramBuilder builder(operations.front().to.shape());
  for (const Applied& at : operations) EXPECT_TRUE(builder.add(at.op, at.computed, at.to, at.operands));
  std::vector<std::uint32_t> words;
  builder.write_to(words);
  tensor::ProgramForm form;
  tensor::take_form(words, form);
  const std::string name = tensor::operator_name_of(form);
  Unit unit = jit::unit_of(name, tensor::source_of(form), name + "_1");
  unit.options.max_registers = tensor::kRegisters;
  unit.options.contract = false;
  unit.form = Form::native;
  return unit;
}

TEST_F(CudaTensorTest, CompiledProgramsStayWithinTheirResources) {
  const auto tensor = [](std::uint64_t address, ElementType type) { return TensorView(address, type, {4096}); };
  const TensorView x = tensor(0x10000, ElementType::f32);
  const TensorView y = tensor(0x20000, ElementType::f32);
  const TensorView z = tensor(0x30000, ElementType::f32);
  const TensorView half = tensor(0x40000, ElementType::f16);
  const TensorView real = tensor(0x50000, ElementType::f64);
  const TensorView whole = tensor(0x60000, ElementType::i32);
  const TensorView square(0x70000, ElementType::f32, {64, 64});
  const TensorView turned = TensorView(0x80000, ElementType::f32, {64, 64}).transpose(0, 1);
  const TensorView truth = tensor(0x90000, ElementType::boolean);
  const Operand two = 2.0;
  const struct {
    const char* what;
    std::uint32_t most_stack;  // bytes, for out-of-line functions on a part of a block
    std::vector<Applied> operations;
  } cases[] = {
      {"a sum", 96, {{TensorOp::add, ElementType::f32, z, {x, y}}}},
      {"a chain",
       208,
       {{TensorOp::mul, ElementType::f32, z, {x, two}},
        {TensorOp::add, ElementType::f32, z, {z, y}},
        {TensorOp::relu, ElementType::f32, z, {z}},
        {TensorOp::sigmoid, ElementType::f32, z, {z}},
        {TensorOp::div, ElementType::f32, z, {x, z}}}},
      {"halves", 96, {{TensorOp::mul, ElementType::f16, half, {half, two}}, {TensorOp::add, ElementType::f16, half, {half, half}}}},
      {"doubles", 64, {{TensorOp::mul, ElementType::f64, real, {real, two}}}},
      {"integers", 64, {{TensorOp::mul, ElementType::i32, whole, {whole, whole}}}},
      {"conditions", 96, {{TensorOp::where, ElementType::f32, z, {x, y, truth}}}},
      {"strides", 96, {{TensorOp::add, ElementType::f32, square, {square, turned}}}},
  };
  for (const auto& at : cases) {
    const Object object = compiler().compile(unit_of_program(at.operations));
    EXPECT_EQ(object.log, "") << at.what;
    const std::optional<Cubin> cubin = Cubin::open(object.bytes);
    ASSERT_TRUE(cubin) << at.what;
    const std::optional<Resources> resources = cubin->entry(object.entries.at(0).symbol);
    ASSERT_TRUE(resources) << at.what;
    EXPECT_LE(resources->registers, tensor::kRegisters) << at.what;
    EXPECT_LE(resources->stack_bytes, at.most_stack) << at.what;
    RecordProperty(at.what, std::to_string(resources->registers) + " registers, " + std::to_string(object.bytes.size()) + " bytes");
  }
}

}  // namespace
}  // namespace dwell::jit
