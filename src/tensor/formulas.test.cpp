#include "tensor/formulas.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dwell::tensor {
namespace {

using Numbers = std::span<const Expression>;

const TensorView kX(0x1000, ElementType::f32, {100});
const TensorView kY(0x2000, ElementType::f32, {100});
const TensorView kTo(0x3000, ElementType::f32, {100});

std::vector<std::uint32_t> words_of(const ProgramBuilder& program) {
  std::vector<std::uint32_t> words;
  program.write_to(words);
  return words;
}

TEST(FormulasTest, GivenNumbersAreDistinguishedFromConstants) {
  const auto formula = [](Numbers n) { return n[0] * n[1] + (n[2] + 1.0) * n[3]; };
  Formulas formulas;
  for (const double number : {1.0, 5.0, 1'000'005.0}) {
    const std::array<Operand, 4> given{kX, kY, number, 1};
    const FormulaCode* const code = formulas.find(formula, ElementType::f32, ElementType::f32, given);
    ASSERT_NE(code, nullptr);
    EXPECT_EQ(code->constants.size(), 3U);
    ProgramBuilder program(kTo.shape());
    ASSERT_TRUE(program.add(*code, kTo, given));
    ProgramBuilder other(kTo.shape());
    ASSERT_TRUE(other.add(TensorOp::relu, ElementType::f32, kTo, std::span(given).first(1)));
    ASSERT_TRUE(other.add(*code, kTo, given));
    EXPECT_EQ(program.constants().size(), number == 1.0 ? 1U : 2U) << "equal ones are one";
    EXPECT_EQ(words_of(other).size(), words_of(program).size() + 3) << "behind load, relu and store";
  }
}

// Placeholder numbers stand for the given ones while a formula is translated; this is the second one's.
TEST(FormulasTest, FormulaMayContainPlaceholderNumbers) {
  const std::array<Operand, 2> given{kX, 5.0};
  Formulas formulas;
  const auto both = [](Numbers n) { return n[0] * n[1] + 1'000'004.0; };
  EXPECT_EQ(formulas.find(both, ElementType::f32, ElementType::f32, given), nullptr);
  const auto its_own = [](Numbers n) { return n[0] + 1'000'004.0; };
  const FormulaCode* const code = formulas.find(its_own, ElementType::f32, ElementType::f32, given);
  ASSERT_NE(code, nullptr);
  ASSERT_EQ(code->constants.size(), 1U);
  EXPECT_FALSE(code->constants[0].operand.has_value());
}

TEST(FormulasTest, CodeIsCachedByTypes) {
  const auto sum = [](Numbers n) { return n[0] + n[1] * 2.0; };
  const TensorView halves(0x4000, ElementType::f16, {100});
  const TensorView doubles(0x5000, ElementType::f64, {100});
  Formulas formulas;
  const auto find = [&](ElementType computed, ElementType result, const TensorView& a) {
    return formulas.find(sum, computed, result, std::array<Operand, 2>{a, kY});
  };
  const FormulaCode* const floats = find(ElementType::f32, ElementType::f32, kX);
  ASSERT_NE(floats, nullptr);
  EXPECT_EQ(find(ElementType::f32, ElementType::f32, kTo), floats);
  EXPECT_FALSE(floats->wide);
  for (const FormulaCode* const other : {find(ElementType::f32, ElementType::f16, kX), find(ElementType::f32, ElementType::f32, halves),
                                         find(ElementType::f64, ElementType::f64, doubles)}) {
    ASSERT_NE(other, nullptr);
    EXPECT_NE(other, floats);
  }
  EXPECT_TRUE(find(ElementType::f64, ElementType::f64, doubles)->wide);
}

TEST(FormulasTest, CodeWithBoolOperandsIsNotCached) {
  const auto formula = [](Numbers n) { return n[0] + n[1] + 1.0; };
  const std::array<Operand, 2> given{kX, true};
  EXPECT_EQ(Formulas().find(formula, ElementType::f32, ElementType::f32, given), nullptr);
}

TEST(FormulasTest, LoadedElementsAreNotLoadedAgain) {
  const auto copy = [](Numbers n) { return n[0]; };
  const TensorView halves(0x4000, ElementType::f16, {100});
  Formulas formulas;
  for (const TensorView& from : {kX, halves}) {
    const std::array<Operand, 1> given{from};
    const FormulaCode* const code = formulas.find(copy, ElementType::f32, ElementType::f32, given);
    ASSERT_NE(code, nullptr);
    EXPECT_EQ(code->begins_with_elements, from.type() == ElementType::f32);
    ProgramBuilder program(kTo.shape());
    ASSERT_TRUE(program.add(TensorOp::relu, ElementType::f32, kX, std::array<Operand, 1>{kX}));
    const std::uint32_t before = program.instructions();
    ASSERT_TRUE(program.add(*code, kTo, given));
    EXPECT_EQ(program.instructions() - before, from.type() == ElementType::f32 ? 1U : 2U);
  }
}

}  // namespace
}  // namespace dwell::tensor
