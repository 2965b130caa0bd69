#include "tensor/formulas.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <dwell/error.hpp>

#include "tensor/device/program.hpp"

namespace dwell::tensor {

namespace {

using device::Instruction;
using device::OperandKind;
using device::Step;

constexpr std::uint64_t kPage = 4096;
// Returns the address of the placeholder for an operand; they are a page apart, and the result's follows the last.
constexpr std::uint64_t address_of(std::size_t operand) { return (operand + 1) * kPage; }
constexpr std::size_t operand_at(std::uint64_t address) { return static_cast<std::size_t>(address / kPage) - 1; }

}  // namespace

Expression Formulas::of(Formula formula, ElementType computed, std::span<const Operand> operands) {
  std::vector<Expression> expressions;
  expressions.reserve(operands.size());
  for (const Operand& operand : operands) {
    const Expression expression(operand);
    expressions.push_back(operand.tensor() != nullptr ? expression.as(computed) : expression);
  }
  return formula(expressions);
}

// Builds a program of the formula alone, with placeholders: own tensors for tensors, and numbers from `first_number` on for numbers, stored
// in `numbers`.
ProgramBuilder Formulas::built(Formula formula, ElementType computed, ElementType result, std::span<const Operand> operands,
                               std::span<Number> numbers, std::int64_t first_number) {
  const Dims several{2};
  std::array<TensorView, FormulaCode::kMostOperands> views;
  std::array<Operand, FormulaCode::kMostOperands> placeholders;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::int64_t number = first_number + static_cast<std::int64_t>(i);
    if (const TensorView* const view = operands[i].tensor()) {
      views.at(i) = TensorView(address_of(i), view->type(), view->dims() == 0 ? Dims{} : several);
      placeholders.at(i) = views.at(i);
    } else {
      numbers[i] = operands[i].number().is_real() ? Number(static_cast<double>(number)) : Number(number);
      placeholders.at(i) = numbers[i];
    }
  }
  ProgramBuilder program(several);
  program.add(TensorView(address_of(operands.size()), result, several),
              of(formula, computed, std::span(placeholders).first(operands.size())).state_);
  return program;
}

std::optional<FormulaCode> Formulas::translated(Formula formula, ElementType computed, ElementType result,
                                                std::span<const Operand> operands) {
  // Distinguishes numbers derived from operands from the formula's own by building it with other operands. These must be exact in all
  // classes.
  constexpr std::int64_t kFirst = 1'000'003;
  constexpr std::int64_t kOther = 2'000'003;
  std::array<Number, FormulaCode::kMostOperands> given;
  std::array<Number, FormulaCode::kMostOperands> other;
  const ProgramBuilder program = built(formula, computed, result, operands, std::span(given).first(operands.size()), kFirst);
  const ProgramBuilder again = built(formula, computed, result, operands, std::span(other).first(operands.size()), kOther);
  if (!std::ranges::equal(program.code(), again.code())) return {};

  FormulaCode made;
  made.wide = program.is_wide();
  // The class in which each constant is read.
  std::vector<std::optional<device::NumberClass>> classes(program.constants().size());
  bool one_class = true;
  const auto read = [&](std::uint32_t constant, device::NumberClass number) {
    one_class = one_class && classes[constant].value_or(number) == number;
    classes[constant] = number;
  };
  for (const std::uint32_t word : program.code()) {
    Instruction in(word);
    if (in.kind() == OperandKind::constant) read(in.operand(), in.number());
    if (in.has_third() && in.third_is_constant()) read(in.third(), in.number());
    if (in.kind() == OperandKind::tensor)
      in = in.with_operand(static_cast<std::uint32_t>(operand_at(program.tensors().extent(in.operand()).first)));
    made.code.push_back(in.bits());
  }
  if (!one_class) return {};
  for (std::size_t at = 0; at < classes.size(); ++at) {
    if (!classes[at]) return {};
    FormulaCode::Constant constant{.operand = {}, .number = *classes[at], .bits = program.constants()[at]};
    for (std::size_t i = 0; i < operands.size() && !constant.operand; ++i) {
      const auto is_from = [&](const Number& number, const ProgramBuilder& in) {
        return in.constants()[at] == ProgramBuilder::bits_of(number, constant.number);
      };
      if (operands[i].tensor() == nullptr && is_from(given[i], program) && is_from(other[i], again)) constant.operand = i;
    }
    if (!constant.operand && constant.bits != again.constants()[at]) return {};
    made.constants.push_back(constant);
  }
  const Instruction first(made.code.front());
  if (first.code() == static_cast<std::uint32_t>(Step::load) && first.kind() == OperandKind::tensor)
    made.begins_with_elements = operands[first.operand()].tensor()->type() == first.result();
  return made;
}

const FormulaCode* Formulas::find(Formula formula, ElementType computed, ElementType result, std::span<const Operand> operands) {
  std::uint64_t types = static_cast<std::uint64_t>(computed) << 8U | static_cast<std::uint64_t>(result);
  for (const Operand& operand : operands) {
    const TensorView* const view = operand.tensor();
    // A bool has too few values to be distinguished from the formula's own numbers.
    if (view == nullptr && operand.number().type() == ElementType::boolean) return nullptr;
    const std::uint64_t kind = view == nullptr ? 1 : view->dims() == 0 ? 2 : 3;
    types = types << 8U | kind << 6U | static_cast<std::uint64_t>(view != nullptr ? view->type() : operand.number().type());
  }
  const auto [at, is_new] = known_.try_emplace({formula, types});
  if (is_new) {
    try {
      at->second = translated(formula, computed, result, operands);
    } catch (const Error&) {  // the assignment throws the same for its own tensors
    }
  }
  return at->second ? &*at->second : nullptr;
}

}  // namespace dwell::tensor
