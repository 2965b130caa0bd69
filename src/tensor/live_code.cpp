#include "tensor/live_code.hpp"

#include <array>

#include "tensor/device/program.hpp"

namespace dwell::tensor {

using device::Instruction;
using device::OperandKind;
using device::Step;

namespace {

// The needs of later instructions, computed from the last instruction to the first.
struct Needs {
  std::uint32_t overwritten;      // tensors whose earlier stores are not read, a bit each
  bool accumulator = false;       // whether its value is read
  std::uint32_t temporaries = 0;  // a bit each

  // Returns whether the instruction is live; then adds its own needs.
  bool take(Instruction in) {
    const auto code = in.code();
    if (code == static_cast<std::uint32_t>(Step::store)) {
      if ((overwritten >> in.operand() & 1U) != 0) return false;
      overwritten |= 1U << in.operand();
      return accumulator = true;
    }
    if (code == static_cast<std::uint32_t>(Step::keep)) {
      const bool used = (temporaries >> in.operand() & 1U) != 0;
      temporaries &= ~(1U << in.operand());
      accumulator |= used;
      return used;
    }
    if (!accumulator) return false;
    accumulator = code != static_cast<std::uint32_t>(Step::load) && code != static_cast<std::uint32_t>(Step::index);
    if (in.kind() == OperandKind::tensor) overwritten &= ~(1U << in.operand());
    if (in.kind() == OperandKind::temporary) temporaries |= 1U << in.operand();
    if (in.has_third() && !in.third_is_constant()) temporaries |= 1U << in.third();
    return true;
  }
};

}  // namespace

std::uint32_t keep_live_code(std::span<std::uint32_t> code, std::uint32_t unseen) {
  Needs needs{.overwritten = unseen};
  std::array<bool, device::kMaxInstructions> live;
  for (std::size_t i = code.size(); i-- != 0;) live[i] = needs.take(Instruction(code[i]));
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < code.size(); ++i)
    if (live[i]) code[count++] = code[i];
  return count;
}

}  // namespace dwell::tensor
