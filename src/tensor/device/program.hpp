// A program over the elements of tensors, as it travels in a task.
#pragma once

#include <dwell/device/element_type.hpp>
#include <dwell/device/tensor_op.hpp>

namespace dwell {
namespace device {

// The class in which an instruction computes. Numbers of 16 bits are floats between load and rounding. All integers and bool are i64, cut
// to their type after each instruction.
enum class NumberClass : u8 { f32, f64, i64 };

DWELL_HOST_DEVICE NumberClass class_of(ElementType type) {
  if (type == ElementType::f64) return NumberClass::f64;
  return type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 ? NumberClass::f32 : NumberClass::i64;
}

// Returns whether numbers of a class may need rounding to a type.
DWELL_HOST_DEVICE bool is_rounded(NumberClass number, ElementType type) {
  return type != (number == NumberClass::f32 ? ElementType::f32 : number == NumberClass::f64 ? ElementType::f64 : ElementType::i64);
}

// One step of the machine that runs a program. It has an accumulator, and temporaries that keep values of it; each holds one value for each
// element. An operand is an element of a tensor, a temporary or a constant.
//   load     accumulator = operand
//   keep     temporary = accumulator
//   store    tensor = accumulator
//   cast     accumulator, which is of `number`, becomes one of the result's class
//   index    accumulator = the element's place in the order of rows
//   compute  accumulator = op(accumulator, operand, third), or op(operand, accumulator, third) when `swapped`
// Behind load, cast, index and compute the accumulator is rounded to the result's type.
enum class Step : u8 { load, keep, store, cast, index, compute };
enum class OperandKind : u8 { none, tensor, temporary, constant };

// Thirty-two bits: the step or 8 + the operation (8), result's type (4), kind of operand (2), its index (6), whether the third operand is a
// constant (1), its index (6), swapped (1), number (2), whether there is a third (1).
class Instruction {
 public:
  static constexpr u32 kFirstOp = 8;

  DWELL_HOST_DEVICE explicit Instruction(u32 bits) : bits_(bits) {}
  DWELL_HOST_DEVICE Instruction(Step step, NumberClass number, ElementType result, OperandKind kind = OperandKind::none, u32 operand = 0)
      : bits_(word(static_cast<u32>(step), number, result, kind, operand)) {}
  DWELL_HOST_DEVICE Instruction(TensorOp op, NumberClass number, ElementType result, OperandKind kind = OperandKind::none, u32 operand = 0,
                                bool swapped = false)
      : bits_(word(kFirstOp + static_cast<u32>(op), number, result, kind, operand) | (swapped ? 1U << 27U : 0U)) {}
  // With a third operand, a temporary or a constant.
  DWELL_HOST_DEVICE Instruction with_third(OperandKind kind, u32 index) const {
    return Instruction((bits_ & ~(127U << 20U)) | (kind == OperandKind::constant ? 1U << 20U : 0U) | index << 21U | 1U << 30U);
  }

  // With its operand's index replaced.
  DWELL_HOST_DEVICE Instruction with_operand(u32 index) const { return Instruction((bits_ & ~(63U << 14U)) | index << 14U); }

  DWELL_HOST_DEVICE u32 bits() const { return bits_; }
  // The step's number, or kFirstOp + the operation's.
  DWELL_HOST_DEVICE u32 code() const { return bits_ & 0xFFU; }
  DWELL_HOST_DEVICE ElementType result() const { return static_cast<ElementType>(bits_ >> 8U & 0xFU); }
  DWELL_HOST_DEVICE OperandKind kind() const { return static_cast<OperandKind>(bits_ >> 12U & 3U); }
  DWELL_HOST_DEVICE u32 operand() const { return bits_ >> 14U & 63U; }
  DWELL_HOST_DEVICE bool third_is_constant() const { return (bits_ >> 20U & 1U) != 0; }
  DWELL_HOST_DEVICE u32 third() const { return bits_ >> 21U & 63U; }
  DWELL_HOST_DEVICE bool swapped() const { return (bits_ >> 27U & 1U) != 0; }
  DWELL_HOST_DEVICE NumberClass number() const { return static_cast<NumberClass>(bits_ >> 28U & 3U); }
  DWELL_HOST_DEVICE bool has_third() const { return (bits_ >> 30U & 1U) != 0; }

 private:
  static DWELL_HOST_DEVICE u32 word(u32 code, NumberClass number, ElementType result, OperandKind kind, u32 operand) {
    return code | static_cast<u32>(result) << 8U | static_cast<u32>(kind) << 12U | operand << 14U | static_cast<u32>(number) << 28U;
  }

  u32 bits_;
};

// Classes of instructions in plain programs. light: moves, and operations without calls; usual: other allowed ones; no: not allowed.
enum class Plain : u8 { light, usual, no };
DWELL_HOST_DEVICE Plain plain_of(Instruction in) {
  if (in.number() != NumberClass::f32 || in.result() != ElementType::f32 || in.kind() == OperandKind::temporary) return Plain::no;
  if (in.has_third() && !in.third_is_constant()) return Plain::no;
  if (in.code() < Instruction::kFirstOp)
    return in.code() == static_cast<u32>(Step::load) || in.code() == static_cast<u32>(Step::store) ? Plain::light : Plain::no;
  switch (static_cast<TensorOp>(in.code() - Instruction::kFirstOp)) {
#define DWELL_CASE(name, operands, ...) case TensorOp::name:
    DWELL_LIGHT_OPS(DWELL_CASE)
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
    return Plain::light;
    DWELL_LIGHT_FLOAT_OPS(DWELL_CASE)
    DWELL_USUAL_FLOAT_OPS(DWELL_CASE)
    return Plain::usual;
#undef DWELL_CASE
    default: return Plain::no;
  }
}

DWELL_CONSTANT u32 kMaxInstructions = 64;
DWELL_CONSTANT u32 kMaxTensors = 16;
DWELL_CONSTANT u32 kMaxDims = 8;
DWELL_CONSTANT u32 kMaxConstants = 32;
DWELL_CONSTANT u32 kMaxTemporaries = 8;
// Above the bits of the upper half of a span's address, by which the host finds tasks that name a buffer.
DWELL_CONSTANT u32 kTypeShift = 20;

// The words of a program:
//   0            dimensions (4 bits), tensors (5), instructions (7), constants (6); bits 28 to 31: light, packed, plain, wide
//   1            elements, below 2^31
//   sizes        of the dimensions, outermost first; none for one dimension
//   tensors      each two words, 48 bits of address and from bit 52 on the element type, and a stride a dimension, in elements
//   code         an instruction a word
//   constants    two words each in a wide program, else one
// A program is wide when some number is not f32: its accumulator has 64 bits. It is plain when it has no temporaries, its elements are f32
// that lie behind each other or are all one, and each instruction is a load, a store or an operation with a result of f32 (plain_of); it is
// light when none of these calls anything; and packed when it is plain and all of these tensors but single elements are aligned to the
// widest access.
class ProgramWords {
 public:
  // Words that a program has.
  static DWELL_HOST_DEVICE u32 words(bool wide, u32 dims, u32 tensors, u32 instructions, u32 constants) {
    return 2 + (dims > 1 ? dims : 0) + tensors * (2 + dims) + instructions + constants * (wide ? 2 : 1);
  }
  static DWELL_HOST_DEVICE u32 head(bool wide, u32 dims, u32 tensors, u32 instructions, u32 constants) {
    return dims | tensors << 4U | instructions << 9U | constants << 16U | (wide ? 1U << 31U : 0U);
  }
  static constexpr u32 kPlain = 1U << 30U;
  static constexpr u32 kPacked = 1U << 29U;
  static constexpr u32 kLight = 1U << 28U;

  explicit DWELL_HOST_DEVICE ProgramWords(const u32* words) : words_(words) {}

  DWELL_HOST_DEVICE bool wide() const { return words_[0] >> 31U != 0; }
  DWELL_HOST_DEVICE bool plain() const { return (words_[0] & kPlain) != 0; }
  DWELL_HOST_DEVICE bool packed() const { return (words_[0] & kPacked) != 0; }
  DWELL_HOST_DEVICE bool light() const { return (words_[0] & kLight) != 0; }
  DWELL_HOST_DEVICE u32 dims() const { return words_[0] & 0xFU; }
  DWELL_HOST_DEVICE u32 tensors() const { return words_[0] >> 4U & 0x1FU; }
  DWELL_HOST_DEVICE u32 instructions() const { return words_[0] >> 9U & 0x7FU; }
  DWELL_HOST_DEVICE u32 constants() const { return words_[0] >> 16U & 0x3FU; }
  DWELL_HOST_DEVICE u32 elements() const { return words_[1]; }
  DWELL_HOST_DEVICE u32 size(u32 dim) const { return words_[2 + dim]; }

  // The words of a tensor.
  DWELL_HOST_DEVICE const u32* tensor(u32 index) const {
    const u32 dimensions = dims();
    return words_ + 2 + (dimensions > 1 ? dimensions : 0) + index * (2 + dimensions);
  }
  DWELL_HOST_DEVICE const u32* code() const { return tensor(tensors()); }
  DWELL_HOST_DEVICE const u32* constant(u32 index) const { return code() + instructions() + (wide() ? 2 * index : index); }

  static DWELL_HOST_DEVICE u64 address(const u32* tensor) { return tensor[0] | static_cast<u64>(tensor[1] & 0xFFFFU) << 32U; }
  static DWELL_HOST_DEVICE ElementType type(const u32* tensor) { return static_cast<ElementType>(tensor[1] >> kTypeShift); }
  static DWELL_HOST_DEVICE i32 stride(const u32* tensor, u32 dim) { return static_cast<i32>(tensor[2 + dim]); }

 private:
  const u32* words_;
};

}  // namespace device
}  // namespace dwell
