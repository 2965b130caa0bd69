// What is to be computed from tensors, element by element.
#pragma once

#include <memory>
#include <type_traits>

#include <dwell/device/tensor_op.hpp>
#include <dwell/operand.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

namespace tensor {
struct Expressed;
class Formulas;
}  // namespace tensor

// An expression over the elements of tensors, broadcast against each other: what `Batch::assign` computes. Nothing is computed before.
// Types are PyTorch's: operands of different types become a common one, numbers of the program do not widen the type of tensors of their
// kind, and tensors without dimensions do not widen that of tensors with some. A handle: copies name the same expression, and one that is
// used twice is computed once.
//   batch.assign(y, relu(a * x + 1.0));
class Expression {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  // The elements of a tensor. Those of u16, u32, u64 and complex types have no operations and no conversions, which throw errc::unsupported
  // for them: Batch::assign copies them.
  Expression(const TensorView& view);
  template <class T>
  Expression(const Buffer<T>& buffer) : Expression(TensorView(buffer)) {}
  template <class T>
  Expression(const Slice<T>& slice) : Expression(TensorView(slice)) {}
  // One number for all elements.
  Expression(const Number& number);
  template <class T>
  requires std::is_arithmetic_v<T> Expression(T value) : Expression(Number(value)) {}
  // NOLINTEND(google-explicit-constructor)
  // Either of them. Throws as they do.
  explicit Expression(const Operand& operand);

  // An operation. Throws errc::invalid_argument when it takes another number of operands, for shapes that do not broadcast, and for types
  // that the operation does not have; errc::unsupported for u16, u32, u64 and complex types.
  static Expression of(TensorOp op, const Expression& x);
  static Expression of(TensorOp op, const Expression& x, const Expression& y);
  static Expression of(TensorOp op, const Expression& x, const Expression& y, const Expression& z);
  // The same elements as another type; from floating point to integers as docs/tensors.md says. Throws errc::unsupported for u16, u32, u64
  // and complex types.
  Expression as(ElementType type) const;
  // 0, 1, 2 ... in the order of rows of the shape it is broadcast to.
  static Expression index();

  ElementType type() const noexcept;
  const Dims& shape() const noexcept;

 private:
  friend class Batch;
  friend class tensor::Formulas;
  explicit Expression(std::shared_ptr<const tensor::Expressed> state) : state_(std::move(state)) {}

  std::shared_ptr<const tensor::Expressed> state_;
};

#define DWELL_PARAMETERS_1 const Expression& x
#define DWELL_PARAMETERS_2 const Expression &x, const Expression &y
#define DWELL_PARAMETERS_3 const Expression &x, const Expression &y, const Expression &z
#define DWELL_GIVEN_1 x
#define DWELL_GIVEN_2 x, y
#define DWELL_GIVEN_3 x, y, z
// The operations as functions: exp(x), maximum(x, y), clamp(x, y, z), as tensor_op.hpp names them.
namespace ops {
#define DWELL_FUNCTION(name, operands, ...) \
  inline Expression name(DWELL_PARAMETERS_##operands) { return Expression::of(TensorOp::name, DWELL_GIVEN_##operands); }
DWELL_TENSOR_OPS(DWELL_FUNCTION)
#undef DWELL_FUNCTION
}  // namespace ops
#undef DWELL_GIVEN_3
#undef DWELL_GIVEN_2
#undef DWELL_GIVEN_1
#undef DWELL_PARAMETERS_3
#undef DWELL_PARAMETERS_2
#undef DWELL_PARAMETERS_1

inline Expression operator+(const Expression& x, const Expression& y) { return ops::add(x, y); }
inline Expression operator-(const Expression& x, const Expression& y) { return ops::sub(x, y); }
inline Expression operator*(const Expression& x, const Expression& y) { return ops::mul(x, y); }
inline Expression operator/(const Expression& x, const Expression& y) { return ops::div(x, y); }
inline Expression operator-(const Expression& x) { return ops::neg(x); }

}  // namespace dwell
