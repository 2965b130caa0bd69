// Translates expressions to programs.
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

// A program over tensors of one shape (tensor/device/program.hpp), built from assignments one by one. Its machine has one accumulator: an
// operation has at most one operand computed right before it, others are kept in temporaries. The value of an assignment stays in the
// accumulator for the next one.
class ProgramBuilder {
 public:
  // For results of this shape.
  explicit ProgramBuilder(const Dims& shape) : tensors_(shape) {}

  // Adds `to` = `from`, which broadcasts to the shape. Tensors written here or before may overlap others of the program only if they are
  // identical. Returns false, and changes nothing, when the program has no room. Throws errc::resource_limit when it is empty and still has
  // no room.
  bool add(const TensorView& to, const Pointer& from);

  // Adds one operation on tensors of type `computed`, and numbers, if it is a single instruction. Also returns false if it is not.
  bool add(TensorOp op, ElementType computed, const TensorView& to, std::span<const Operand> operands);

  // Adds the code of a formula. The program must be empty, or have numbers of the same width (`is_wide`).
  bool add(const FormulaCode& formula, const TensorView& to, std::span<const Operand> operands);

  // The tensors so far, and which of them are written.
  const NamedTensors& tensors() const { return tensors_; }
  bool writes(std::size_t tensor) const { return (written_ >> tensor & 1U) != 0; }
  // As NamedTensors::span, of the written tensors.
  TensorView::Extent span_of_writes() const { return span_of_writes_; }

  // The number of instructions for each element.
  std::uint32_t instructions() const { return instructions_; }
  std::span<const std::uint32_t> code() const { return std::span(code_).first(instructions_); }
  std::span<const std::uint64_t> constants() const { return std::span(constant_).first(constants_); }
  // Returns whether some number takes 64 bits.
  bool is_wide() const { return wide_; }
  // The bits of a constant of a class.
  static std::uint64_t bits_of(const Number& value, device::NumberClass number);

  // Returns whether it has no instructions.
  bool empty() const { return instructions_ == 0; }
  // Returns whether `prune` may remove code without unseen tensors: some tensor was stored twice.
  bool has_overwritten() const { return overwritten_; }
  // Removes dead code: stores that are overwritten before a read, stores to tensors with a bit in `unseen`, the instructions that only
  // these need, and tensors without uses. Returns whether it removed any.
  bool prune(std::uint32_t unseen);

  // Puts the program into `words`. Throws errc::unsupported for tensors that are too large.
  void write_to(std::vector<std::uint32_t>& words) const;

 private:
  struct Node {
    unsigned uses = 0;                // remaining uses
    std::optional<unsigned> kept_in;  // a temporary
  };
  // The location of an operand.
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

  // The state to which a failed attempt is rolled back.
  struct Mark {
    std::size_t tensors;
    std::uint32_t instructions;
    std::uint32_t constants;
    std::optional<unsigned> accumulated;
    bool uses_index;
  };
  Mark mark() const { return {tensors_.size(), instructions_, constants_, accumulated_, uses_index_}; }
  void undo(const Mark& mark);
  // `changes`: replaces the previous store.
  void store(unsigned target, device::NumberClass number, bool changes = false);
  void note_store(unsigned target, bool changes = false);
  ElementType rounding_of(ElementType type, ElementType computed) const;

  NamedTensors tensors_;
  bool wide_ = false;
  bool uses_index_ = false;    // so the order of elements matters
  bool overwritten_ = false;   // some tensor was stored twice
  std::uint32_t written_ = 0;  // a bit a tensor
  TensorView::Extent span_of_writes_ = NamedTensors::kNoSpan;
  std::uint32_t instructions_ = 0;
  std::uint32_t constants_ = 0;
  std::array<std::uint32_t, device::kMaxInstructions> code_;
  std::array<std::uint64_t, device::kMaxConstants> constant_;
  std::optional<unsigned> accumulated_;  // the tensor whose elements, as numbers of its type, are in the accumulator

  // State of the current assignment.
  std::unordered_map<const Expressed*, Node> nodes_;
  bool needs_wide_ = false;
  std::uint32_t kept_ = 0;  // temporaries in use
};

}  // namespace dwell::tensor
