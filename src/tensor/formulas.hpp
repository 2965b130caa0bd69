// Formulas that a batch has met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include <dwell/expression.hpp>
#include <dwell/operand.hpp>

#include "tensor/formula_code.hpp"
#include "tensor/program_builder.hpp"

namespace dwell::tensor {

// What each of them becomes, for operands of certain types. An expression takes the host a microsecond to make and to translate, and
// programs use the same few formulas again and again.
class Formulas {
 public:
  using Formula = Expression (*)(std::span<const Expression> operands);

  // The expression, with tensors as numbers of that type.
  static Expression of(Formula formula, ElementType computed, std::span<const Operand> operands);
  // What becomes of it when it is assigned to a tensor of type `result`; null where an expression is to be made each time. There are
  // kMostOperands at most, of types that tensors have. Stays where it is.
  const FormulaCode* find(Formula formula, ElementType computed, ElementType result, std::span<const Operand> operands);

 private:
  struct Key {
    Formula formula;
    std::uint64_t types;

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(key.formula) ^ key.types * 0x9E3779B97F4A7C15U) >> 3U);
    }
  };

  static ProgramBuilder built(Formula formula, ElementType computed, ElementType result, std::span<const Operand> operands,
                              std::span<Number> numbers, std::int64_t first_number);
  static std::optional<FormulaCode> translated(Formula formula, ElementType computed, ElementType result,
                                               std::span<const Operand> operands);

  std::unordered_map<Key, std::optional<FormulaCode>, Hash> known_;
};

}  // namespace dwell::tensor
