// Values of arrays: elements in memory, or an operation on other values that is still to be computed.
#pragma once

#include <dwell/batch.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensor_operand.hpp"

namespace dwell::python {

class Collector;
struct Value;

// A view of memory, and the same as an expression.
struct Leaf {
  TensorView view;
  Expression expression;

  explicit Leaf(const TensorView& of) : view(of), expression(of) {}
};
using LeafPointer = std::shared_ptr<const Leaf>;

// An operand of a value: a number, a view of a value's memory, or all of a value, which may be lazy. dwell::Operand of it is made when the
// value is collected.
struct Input {
  std::shared_ptr<Value> value;  // null: a number
  LeafPointer leaf;              // null: all of the value
  Number number;

  // Returns whether it is a lazy value. The caller holds the collector's lock.
  bool waits() const;
};

// Collects a value that is no elementwise operation: writes `to`, of the value's shape and type.
using Collect = std::function<void(dwell::Batch& batch, const TensorView& to, std::span<const TensorView> operands)>;

// One result. All members but type, shape and collector are guarded by the collector's lock; values are deleted under it, wherever the last
// reference goes.
struct Value : std::enable_shared_from_this<Value> {
  std::shared_ptr<Collector> collector;
  ElementType type = ElementType::f32;
  Dims shape;

  // As long as it is lazy.
  enum class Kind : unsigned char { operation, cast, collected };
  Kind kind = Kind::collected;
  TensorOp op = TensorOp::add;
  std::vector<Input> inputs;
  Collect collect;
  unsigned size = 0;  // operations that are computed with it, at most
  bool listed = false;
  Value* newer = nullptr;
  Value* older = nullptr;
  unsigned found = 0;  // uses by the value that is being collected

  // Once it is in memory, or will be when what has been collected has run.
  LeafPointer leaf;  // all of it
  std::shared_ptr<HeldMemory> memory;
  bool foreign = false;   // others may know it by another name: memory of others, or of a dwell.Buffer
  bool readonly = false;  // it may not be written to
  unsigned readers = 0;   // inputs of lazy values that are it

  bool lazy() const { return leaf == nullptr; }
};
inline bool Input::waits() const { return value != nullptr && leaf == nullptr && value->lazy(); }

// The shape that operands broadcast to. Throws errc::invalid_argument, naming `what`.
Dims broadcast(const char* what, std::span<const Dims> shapes);
// The type of a result of an operation, given types of operands and whether each is a number, or a tensor without dimensions. Throws
// errc::invalid_argument for types that it does not have. The caller holds the GIL.
struct Typed {
  enum class Weight : unsigned char { number, scalar, tensor };
  ElementType type = ElementType::f32;
  Weight weight = Weight::tensor;
};
Typed typed(const Input& input);
ElementType result_type(TensorOp op, std::span<const Typed> operands);

// Of a result of operands. Throws errc::invalid_argument, naming `name`.
struct Inferred {
  ElementType type;
  Dims shape;
};
Inferred infer(TensorOp op, const char* name, std::span<const Input> operands);

// Numbers beside arrays of 16 bits become numbers of that type, as NumPy has it; but for factors of activations, which PyTorch takes as
// f32. The caller holds the GIL.
void round_numbers(TensorOp op, std::span<Input> operands);

}  // namespace dwell::python
