// The state behind an Expression.
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
  unsigned depth = 1;  // nodes on the longest path to a leaf
  Dims shape;
  TensorView view;  // of a tensor
  Number number;    // of a number
  TensorOp op = TensorOp::add;
  ElementType computed = ElementType::f32;                  // the type of an operation's computation and of its operands, except numbers
  std::array<std::shared_ptr<const Expressed>, 3> operand;  // a cast has only the first

  bool is_leaf() const { return kind == Kind::tensor || kind == Kind::number || kind == Kind::index; }
};

using Pointer = std::shared_ptr<const Expressed>;

// Converts the elements to another type; returns the node itself if it has that type.
Pointer cast(const Pointer& from, ElementType type);

}  // namespace dwell::tensor
