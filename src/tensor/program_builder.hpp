// From expressions to the program that computes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <dwell/operand.hpp>
#include <dwell/tensor.hpp>

#include "tensor/device/program.hpp"
#include "tensor/expressed.hpp"
#include "tensor/formula_code.hpp"
#include "tensor/named_tensors.hpp"

namespace dwell::tensor {

// A program over tensors of one shape (tensor/device/program.hpp), to which assignments are added one by one. The machine that runs
// it has one accumulator: an operation has at most one operand that is computed right before it, others are kept in temporaries. What an
// assignment has stored is still in the accumulator for the next.
class ProgramBuilder {
 public:
  // For results of this shape.
  explicit ProgramBuilder(const Dims& shape) : tensors_(shape) {}

  // Adds `to` = `from`, which broadcasts to the shape. Tensors that are written here or were before must not overlap others of the program,
  // but by being the same. False, and nothing is changed, when the program has no room for more. Throws errc::resource_limit when it is
  // empty and has not room enough.
  bool add(const TensorView& to, const Pointer& from);

  // The same for one operation on tensors whose elements are of the type `computed`, and numbers, when that takes nothing but an
  // instruction. False too when it takes more.
  bool add(TensorOp op, ElementType computed, const TensorView& to, std::span<const Operand> operands);

  // The same for what has become of a formula. A program whose numbers are as wide (`is_wide`), or an empty one.
  bool add(const FormulaCode& formula, const TensorView& to, std::span<const Operand> operands);

  // The tensors that are named so far, and which of them are written.
  const NamedTensors& tensors() const { return tensors_; }
  bool writes(std::size_t tensor) const { return (written_ >> tensor & 1U) != 0; }
  // As NamedTensors::span, of those.
  TensorView::Extent span_of_writes() const { return span_of_writes_; }

  // What it does for each element.
  std::uint32_t instructions() const { return instructions_; }
  std::span<const std::uint32_t> code() const { return std::span(code_).first(instructions_); }
  std::span<const std::uint64_t> constants() const { return std::span(constant_).first(constants_); }
  // Whether some number takes 64 bits.
  bool is_wide() const { return wide_; }
  // The bits of a constant of a class.
  static std::uint64_t bits_of(const Number& value, device::NumberClass number);

  // Whether no instruction is left.
  bool empty() const { return instructions_ == 0; }
  // Whether `prune` might find something without unseen tensors: one was stored to twice.
  bool has_overwritten() const { return overwritten_; }
  // Removes what nobody sees: stores of elements that are stored anew before they are read, or that are of tensors with a bit in `unseen`,
  // what only these need, and tensors that are then named no more. Returns whether there was any.
  bool prune(std::uint32_t unseen);

  // Puts the program into `words`. Throws errc::unsupported for tensors that are too large.
  void write_to(std::vector<std::uint32_t>& words) const;

 private:
  struct Node {
    unsigned uses = 0;                // that are still to come
    std::optional<unsigned> kept_in;  // a temporary
  };
  // Where an instruction finds an operand.
  struct Location {
    device::OperandKind kind;
    unsigned index;
  };

  void survey(const Expressed& node);
  void note(ElementType type);
  device::NumberClass number_of(ElementType type) const { return wide_ ? device::class_of(type) : device::NumberClass::f32; }
  void emit(device::Instruction instruction);
  unsigned tensor(const TensorView& view);
  unsigned constant(std::uint64_t bits);
  unsigned constant(const Number& value, device::NumberClass number) { return constant(bits_of(value, number)); }
  unsigned keep(device::NumberClass number);
  void drop(unsigned temporary) { kept_ &= ~(1U << temporary); }
  void used(const Expressed& node);
  std::optional<Location> location_of(const Expressed& node, device::NumberClass number);
  bool is_accumulated(const Expressed& node);
  void compute(const Expressed& node);
  void compute_as(const Expressed& node, device::NumberClass number);
  void compute_cast(const Expressed& node, device::NumberClass number);
  void compute_operation(const Expressed& node);

  // What an attempt that fails is undone to.
  struct Mark {
    std::size_t tensors;
    std::uint32_t instructions;
    std::uint32_t constants;
    std::optional<unsigned> accumulated;
    bool uses_index;
  };
  Mark mark() const { return {tensors_.size(), instructions_, constants_, accumulated_, uses_index_}; }
  void undo(const Mark& mark);
  // `changes`: in place of the store before.
  void store(unsigned target, device::NumberClass number, bool changes = false);
  void note_store(unsigned target, bool changes = false);
  ElementType rounding_of(ElementType type, ElementType computed) const;

  NamedTensors tensors_;
  bool wide_ = false;
  bool uses_index_ = false;    // so the order of elements matters
  bool overwritten_ = false;   // some tensor was stored to twice
  std::uint32_t written_ = 0;  // a bit a tensor
  TensorView::Extent span_of_writes_ = NamedTensors::kNoSpan;
  std::uint32_t instructions_ = 0;
  std::uint32_t constants_ = 0;
  std::array<std::uint32_t, device::kMaxInstructions> code_;
  std::array<std::uint64_t, device::kMaxConstants> constant_;
  std::optional<unsigned> accumulated_;  // the tensor whose elements, as numbers of its type, the accumulator has

  // Of the assignment under way.
  std::unordered_map<const Expressed*, Node> nodes_;
  bool needs_wide_ = false;
  std::uint32_t kept_ = 0;  // temporaries in use
};

}  // namespace dwell::tensor
