#include <dwell/operand.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include <dwell/expression.hpp>

namespace dwell {
namespace {

TEST(OperandTest, NumberKeepsItsTypeAndValue) {
  static_assert(Number(2.5).is_real() && Number(2.5F).real() == 2.5);
  static_assert(Number(true).type() == ElementType::boolean && Number(true).integer() == 1);
  static_assert(Number(-3).type() == ElementType::i64 && Number(-3).real() == -3.0);
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(Number(kLarge).integer(), kLarge) << "no floating point in between";
  EXPECT_EQ(Number(std::numeric_limits<std::uint64_t>::max()).integer(), -1);
  constexpr std::int64_t kBetween = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  EXPECT_EQ(Number(kBetween).as_float(), static_cast<float>(kBetween)) << "rounded once";
  EXPECT_NE(Number(kBetween).as_float(), static_cast<float>(static_cast<double>(kBetween)));
}

TEST(OperandTest, RoundsToTypesOf16Bits) {
  EXPECT_EQ(rounded(0.1, ElementType::f16).real(), 0.0999755859375);
  EXPECT_EQ(rounded(0.1, ElementType::bf16).real(), 0.10009765625);
  EXPECT_EQ(rounded(2049, ElementType::f16).real(), 2048.0);
  EXPECT_TRUE(rounded(2049, ElementType::f16).is_real());
  EXPECT_EQ(rounded(0.1, ElementType::f32).real(), 0.1) << "other types round nothing";
  EXPECT_EQ(rounded(7, ElementType::i64).integer(), 7);
}

TEST(OperandTest, IsATensorOrANumber) {
  const TensorView view(0x1000, ElementType::f16, {4});
  const Operand tensor = view;
  const Operand number = 7;
  EXPECT_EQ(tensor.tensor(), &view);
  EXPECT_EQ(number.tensor(), nullptr);
  EXPECT_EQ(number.number().integer(), 7);
  EXPECT_EQ(Operand().number().real(), 0.0);
  EXPECT_EQ(Expression(tensor).type(), ElementType::f16);
  EXPECT_EQ(Expression(tensor).shape(), Dims{4});
  EXPECT_EQ(Expression(number).type(), ElementType::i64);
  EXPECT_EQ(Expression(Operand(true)).type(), ElementType::boolean);
}

}  // namespace
}  // namespace dwell
