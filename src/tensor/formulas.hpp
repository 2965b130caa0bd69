// A cache of a batch's formulas.
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

// Caches the code of each formula, by types of operands. Building and translating an expression takes the host a microsecond, and programs
// reuse the same few formulas.
class Formulas {
 public:
  using Formula = Expression (*)(std::span<const Expression> operands);

  // Returns the expression, with tensors converted to `computed`.
  static Expression of(Formula formula, ElementType computed, std::span<const Operand> operands);
  // Returns its code for an assignment to a tensor of type `result`; null if an expression must be built each time. Takes at most
  // kMostOperands operands, of types that tensors have. The pointer stays valid.
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
