#include "tensor/program_builder.hpp"

#include <gtest/gtest.h>

namespace dwell::tensor {
namespace {

// The flags of the program x = op(x, ...).
std::uint32_t flags_of(TensorOp op, const TensorView& x, std::size_t operands) {
  ProgramBuilder builder(x.shape());
  const std::vector<Given> given(operands, Given{.tensor = &x});
  EXPECT_TRUE(builder.add(op, x.type(), x, given));
  std::vector<std::uint32_t> words;
  builder.write_to(words);
  return words[0] & (device::ProgramWords::kPlain | device::ProgramWords::kPacked | device::ProgramWords::kLight);
}

TEST(ProgramBuilderTest, ProgramsSayWhichMachineIsEnough) {
  using Words = device::ProgramWords;
  const TensorView floats(0x1000, ElementType::f32, {100});
  EXPECT_EQ(flags_of(TensorOp::add, floats, 2), Words::kPlain | Words::kPacked | Words::kLight);
  EXPECT_EQ(flags_of(TensorOp::relu, TensorView(0x1004, ElementType::f32, {100}), 1), Words::kPlain | Words::kLight) << "not aligned";
  EXPECT_EQ(flags_of(TensorOp::div, floats, 2), Words::kPlain | Words::kPacked) << "calls a function for rare numbers";
  EXPECT_EQ(flags_of(TensorOp::sigmoid, floats, 1), Words::kPlain | Words::kPacked);
  EXPECT_EQ(flags_of(TensorOp::sin, floats, 1), 0U) << "a rare function";
  EXPECT_EQ(flags_of(TensorOp::add, TensorView(0x1000, ElementType::f64, {100}), 2), 0U);
  EXPECT_EQ(flags_of(TensorOp::add, TensorView(0x1000, ElementType::f32, {50}, {2}), 2), 0U) << "no neighbours";
}

}  // namespace
}  // namespace dwell::tensor
