// What an Expression refers to.
#pragma once

#include <array>
#include <memory>

#include <dwell/device/tensor_op.hpp>
#include <dwell/operand.hpp>
#include <dwell/tensor.hpp>

#include "tensor/promotion.hpp"

namespace dwell::tensor {

// A node of an expression; immutable. Nodes are shared by those that use them.
struct Expressed {
  enum class Kind : unsigned char { tensor, number, index, cast, operation };

  Kind kind = Kind::number;
  ElementType type = ElementType::f32;  // of the result
  Weight weight = Weight::scalar;
  unsigned depth = 1;  // nodes on the longest way to a leaf
  Dims shape;
  TensorView view;  // of a tensor
  Number number;    // of a number
  TensorOp op = TensorOp::add;
  ElementType computed = ElementType::f32;                  // what an operation computes in: its operands are of that type, but for numbers
  std::array<std::shared_ptr<const Expressed>, 3> operand;  // of a cast the first

  bool is_leaf() const { return kind == Kind::tensor || kind == Kind::number || kind == Kind::index; }
};

using Pointer = std::shared_ptr<const Expressed>;

// The same elements as another type: the node itself where that is its type.
Pointer cast(const Pointer& from, ElementType type);

}  // namespace dwell::tensor
