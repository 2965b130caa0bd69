// What a formula becomes in a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/device/program.hpp"

namespace dwell::tensor {

// An assignment without its tensors and numbers.
struct FormulaCode {
  static constexpr std::size_t kMostOperands = 5;

  struct Constant {
    std::optional<std::size_t> operand;  // that gives it
    device::NumberClass number;          // as which the operand is read
    std::uint64_t bits = 0;              // else
  };

  bool wide = false;
  // A program has it at hand when what it was assigned before is what the first instruction loads.
  bool begins_with_elements = false;
  // Tensors are numbered as the operands are, and the result is behind them.
  std::vector<std::uint32_t> code;
  std::vector<Constant> constants;
};

}  // namespace dwell::tensor
