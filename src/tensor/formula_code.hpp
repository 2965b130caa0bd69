// The code of a formula in a program.
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
    std::optional<std::size_t> operand;  // the operand that supplies it
    device::NumberClass number;          // class in which the operand is read
    std::uint64_t bits = 0;              // else
  };

  bool wide = false;
  // The first instruction loads a tensor: a program that has just assigned that tensor skips it.
  bool begins_with_elements = false;
  // Tensors are numbered as the operands, the result follows them.
  std::vector<std::uint32_t> code;
  std::vector<Constant> constants;
};

}  // namespace dwell::tensor
