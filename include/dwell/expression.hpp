// Elementwise expressions over tensors.
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

// An expression over the elements of tensors, broadcast against each other. Lazy: `Batch::assign` computes it. Types are promoted as in
// PyTorch: operands of different types become a common one, numbers of the program do not widen tensors of their kind, and tensors without
// dimensions do not widen those with some. A handle: copies name the same expression, and a shared subexpression is computed once.
//   batch.assign(y, relu(a * x + 1.0));
class Expression {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  // The elements of a tensor. u16, u32, u64 and complex types have no operations and no conversions (errc::unsupported); Batch::assign
  // copies them.
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
  // A tensor or a number. Throws as those constructors.
  explicit Expression(const Operand& operand);

  // Applies an operation. Throws errc::invalid_argument for a wrong number of operands, shapes that do not broadcast, and types that the
  // operation lacks; errc::unsupported for u16, u32, u64 and complex types.
  static Expression of(TensorOp op, const Expression& x);
  static Expression of(TensorOp op, const Expression& x, const Expression& y);
  static Expression of(TensorOp op, const Expression& x, const Expression& y, const Expression& z);
  // Converts the elements to another type; from floating point to integers as docs/tensors.md says. Throws errc::unsupported for u16, u32,
  // u64 and complex types.
  Expression as(ElementType type) const;
  // 0, 1, 2 ... in row-major order of the shape it is broadcast to.
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
