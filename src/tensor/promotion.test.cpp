#include "tensor/promotion.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace dwell::tensor {
namespace {

using E = ElementType;

// torch.promote_types, in this order.
constexpr std::array kTypes = {E::u8, E::i8, E::i16, E::i32, E::i64, E::f16, E::f32, E::f64, E::boolean, E::bf16};
constexpr std::array<std::array<E, 10>, 10> kPromoted = {{
    {E::u8, E::i16, E::i16, E::i32, E::i64, E::f16, E::f32, E::f64, E::u8, E::bf16},
    {E::i16, E::i8, E::i16, E::i32, E::i64, E::f16, E::f32, E::f64, E::i8, E::bf16},
    {E::i16, E::i16, E::i16, E::i32, E::i64, E::f16, E::f32, E::f64, E::i16, E::bf16},
    {E::i32, E::i32, E::i32, E::i32, E::i64, E::f16, E::f32, E::f64, E::i32, E::bf16},
    {E::i64, E::i64, E::i64, E::i64, E::i64, E::f16, E::f32, E::f64, E::i64, E::bf16},
    {E::f16, E::f16, E::f16, E::f16, E::f16, E::f16, E::f32, E::f64, E::f16, E::f32},
    {E::f32, E::f32, E::f32, E::f32, E::f32, E::f32, E::f32, E::f64, E::f32, E::f32},
    {E::f64, E::f64, E::f64, E::f64, E::f64, E::f64, E::f64, E::f64, E::f64, E::f64},
    {E::u8, E::i8, E::i16, E::i32, E::i64, E::f16, E::f32, E::f64, E::boolean, E::bf16},
    {E::bf16, E::bf16, E::bf16, E::bf16, E::bf16, E::f32, E::f32, E::f64, E::bf16, E::bf16},
}};

TEST(Promotion, MatchesPyTorch) {
  for (std::size_t a = 0; a < kTypes.size(); ++a)
    for (std::size_t b = 0; b < kTypes.size(); ++b)
      EXPECT_EQ(promoted(kTypes[a], kTypes[b]), kPromoted[a][b]) << dwell::name_of(kTypes[a]) << ", " << dwell::name_of(kTypes[b]);
}

TEST(Promotion, LighterOperandsWidenOnlyLowerKinds) {
  const auto common = [](std::initializer_list<std::pair<E, Weight>> operands) {
    CommonType type;
    for (const auto& [element, weight] : operands) type.add(element, weight);
    return type.type();
  };
  EXPECT_EQ(common({{E::i8, Weight::tensor}, {E::i64, Weight::scalar}}), E::i8);
  EXPECT_EQ(common({{E::i64, Weight::scalar}, {E::i8, Weight::tensor}}), E::i8);
  EXPECT_EQ(common({{E::i8, Weight::tensor}, {E::f64, Weight::scalar}}), E::f64);
  EXPECT_EQ(common({{E::boolean, Weight::tensor}, {E::i16, Weight::scalar}, {E::i64, Weight::number}}), E::i16);
  EXPECT_EQ(common({{E::f16, Weight::tensor}, {E::f64, Weight::scalar}, {E::f32, Weight::number}}), E::f16);
  EXPECT_EQ(common({{E::i64, Weight::number}, {E::boolean, Weight::number}}), E::i64);
  EXPECT_EQ(common({{E::i32, Weight::scalar}, {E::f32, Weight::number}}), E::f32);
  EXPECT_EQ(common({{E::f16, Weight::tensor}, {E::bf16, Weight::tensor}}), E::f32);
}

TEST(Promotion, EachOperationHasItsNameAndOperands) {
  EXPECT_EQ(name_of(TensorOp::add), "add");
  EXPECT_EQ(name_of(TensorOp::where), "where");
  EXPECT_EQ(name_of(TensorOp::softplus), "softplus");
  EXPECT_EQ(operands_of(TensorOp::exp), 1);
  EXPECT_EQ(operands_of(TensorOp::pow), 2);
  EXPECT_EQ(operands_of(TensorOp::clamp), 3);
}

}  // namespace
}  // namespace dwell::tensor
