// Resources of the operators for tensors, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include "tensor/operators.hpp"
#include "tests/unit/cuda_test.hpp"

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
  // Temporaries of the two kinds of slots take 256 bytes each.
  EXPECT_LE(image.resources.stack_bytes, 900U);
}

TEST_F(CudaTensorTest, OperatorsAreCompiledForEachArchitecture) {
  for (const std::string arch : {"sm_75", "sm_80", "sm_120"}) {
    if (!compiles_for(arch)) continue;
    EXPECT_EQ(compiler_for(arch).compile(unit_of(tensor::kElementwise)).log, "") << arch;
  }
}

}  // namespace
}  // namespace dwell::jit
