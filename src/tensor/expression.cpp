#include <dwell/expression.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/device/program.hpp"
#include "tensor/expressed.hpp"

namespace dwell {

namespace tensor {

namespace {

Pointer operation(TensorOp op, std::span<const Pointer> operands);
Pointer number(const Number& value);

}  // namespace

Pointer cast(const Pointer& from, ElementType type) {
  if (from->type == type) return from;
  require_convertible("a conversion of " + std::string(dwell::name_of(from->type)) + " to " + std::string(dwell::name_of(type)), from->type,
                      type);
  // A program of wide numbers reads bool as integers, where a fraction becomes 0. One of narrow numbers rounds the smallest f64 to 0,
  // although they are true.
  if (type == ElementType::boolean && is_floating(from->type)) {
    const Pointer operands[] = {from, number(0.0)};
    return operation(TensorOp::ne, operands);
  }
  auto node = std::make_shared<Expressed>();
  node->kind = Expressed::Kind::cast;
  node->type = type;
  node->weight = from->weight;
  node->depth = from->depth + 1;
  node->shape = from->shape;
  node->operand[0] = from;
  return node;
}

namespace {

Pointer number(const Number& value) {
  auto node = std::make_shared<Expressed>();
  node->type = value.type();
  node->weight = Weight::number;
  node->number = value;
  return node;
}

// Returns the shape that two shapes broadcast to.
Dims broadcast(const Dims& a, const Dims& b) {
  Dims shape = a.size() >= b.size() ? a : b;
  const Dims& other = a.size() >= b.size() ? b : a;
  const std::size_t more = shape.size() - other.size();
  for (std::size_t dim = 0; dim < other.size(); ++dim) {
    std::int64_t& size = shape[more + dim];
    if (size == 1)
      size = other[dim];
    else if (other[dim] != 1 && other[dim] != size)
      throw Error(errc::invalid_argument, "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
  }
  return shape;
}

Pointer operation(TensorOp op, std::span<const Pointer> operands) {
  const std::string name(name_of(op));
  if (std::cmp_not_equal(operands.size(), operands_of(op)))
    throw Error(errc::invalid_argument,
                name + " takes " + std::to_string(operands_of(op)) + " operands, not " + std::to_string(operands.size()));
  auto node = std::make_shared<Expressed>();
  node->kind = Expressed::Kind::operation;
  CommonType common;
  node->weight = Weight::number;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Expressed& operand = *operands[i];
    require_computable(name, operand.type);
    const bool is_condition = op == TensorOp::where && i == 2;
    if (is_condition && operand.type != ElementType::boolean)
      throw Error(errc::invalid_argument, "the condition of where is " + std::string(dwell::name_of(operand.type)) + ": compare it with 0");
    if (!is_condition) common.add(operand.type, operand.weight);
    node->shape = i == 0 ? operand.shape : broadcast(node->shape, operand.shape);
    node->depth = std::max(node->depth, operand.depth + 1);
    node->weight = std::max(node->weight, operand.weight);
  }
  if (node->depth > device::kMaxInstructions)
    throw Error(errc::resource_limit, "an expression is more than " + std::to_string(device::kMaxInstructions) +
                                          " operations deep: assign a part of it to a tensor");
  node->computed = computed_in(op, common.type());
  node->op = performed_in(op, node->computed);
  node->type = result_of(op, node->computed);
  const bool rounds = is_short(node->computed) && rounds_numbers(op);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Pointer& operand = operands[i];
    if (op == TensorOp::where && i == 2)
      node->operand[i] = operand;
    else if (operand->kind != Expressed::Kind::number)
      node->operand[i] = cast(operand, node->computed);
    else
      node->operand[i] = rounds ? number(rounded(operand->number, node->computed)) : operand;
  }
  return node;
}

}  // namespace

}  // namespace tensor

Expression::Expression(const TensorView& view) {
  auto node = std::make_shared<tensor::Expressed>();
  node->kind = tensor::Expressed::Kind::tensor;
  node->type = view.type();
  node->weight = view.dims() == 0 ? tensor::Weight::scalar : tensor::Weight::tensor;
  node->shape = view.shape();
  node->view = view;
  state_ = std::move(node);
}
Expression::Expression(const Number& number) : state_(tensor::number(number)) {}
Expression::Expression(const Operand& operand)
    : Expression(operand.tensor() != nullptr ? Expression(*operand.tensor()) : Expression(operand.number())) {}

Expression Expression::of(TensorOp op, const Expression& x) {
  const tensor::Pointer operands[] = {x.state_};
  return Expression(tensor::operation(op, operands));
}
Expression Expression::of(TensorOp op, const Expression& x, const Expression& y) {
  const tensor::Pointer operands[] = {x.state_, y.state_};
  return Expression(tensor::operation(op, operands));
}
Expression Expression::of(TensorOp op, const Expression& x, const Expression& y, const Expression& z) {
  const tensor::Pointer operands[] = {x.state_, y.state_, z.state_};
  return Expression(tensor::operation(op, operands));
}

Expression Expression::as(ElementType type) const { return Expression(tensor::cast(state_, type)); }

Expression Expression::index() {
  auto node = std::make_shared<tensor::Expressed>();
  node->kind = tensor::Expressed::Kind::index;
  node->type = ElementType::i64;
  return Expression(std::move(node));
}

ElementType Expression::type() const noexcept { return state_->type; }
const Dims& Expression::shape() const noexcept { return state_->shape; }

}  // namespace dwell
