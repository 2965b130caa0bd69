#include "tensor/program_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace dwell::tensor {
namespace {

// The flags of the program x = op(x, ...).
std::uint32_t flags_of(TensorOp op, const TensorView& x, std::size_t operands) {
  ProgramBuilder builder(x.shape());
  const std::vector<Operand> given(operands, x);
  EXPECT_TRUE(builder.add(op, x.type(), x, given));
  std::vector<std::uint32_t> words;
  builder.write_to(words);
  return words[0] & (device::ProgramWords::kPlain | device::ProgramWords::kPacked | device::ProgramWords::kLight);
}

TEST(ProgramBuilderTest, ProgramsNameTheRequiredMachine) {
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

TEST(ProgramBuilderTest, InPlaceResultsAreStoredOnce) {
  const TensorView x(0x1000, ElementType::f32, {100});
  const TensorView y(0x2000, ElementType::f32, {100});
  ProgramBuilder builder(x.shape());
  const std::array<Operand, 2> by_another{x, y};
  const std::array<Operand, 2> by_itself{x, x};
  EXPECT_TRUE(builder.add(TensorOp::add, ElementType::f32, x, by_another));
  EXPECT_EQ(builder.instructions(), 3U) << "load, add, store";
  EXPECT_TRUE(builder.add(TensorOp::relu, ElementType::f32, x, std::span(by_another).first(1)));
  EXPECT_TRUE(builder.add(TensorOp::mul, ElementType::f32, x, by_another));
  EXPECT_EQ(builder.instructions(), 5U);
  EXPECT_FALSE(builder.has_overwritten());
  EXPECT_TRUE(builder.add(TensorOp::mul, ElementType::f32, x, by_itself));
  EXPECT_EQ(builder.instructions(), 7U) << "it is read from memory, where it has to be";
  EXPECT_TRUE(builder.has_overwritten());
  EXPECT_TRUE(builder.add(TensorOp::relu, ElementType::f32, y, std::span(by_another).first(1)));
  EXPECT_EQ(builder.instructions(), 9U) << "another tensor: both are stored";
  EXPECT_FALSE(builder.prune(0)) << "the store that was read is of use";
}

}  // namespace
}  // namespace dwell::tensor
