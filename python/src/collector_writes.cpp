// Writes of a collector to memory that arrays share.
#include <algorithm>
#include <array>

#include "collector_session.hpp"

namespace dwell::python {

// ---- Writing ---------------------------------------------------------------------------------------------------------------------

// Collects lazy values that read the memory, the newest first: older ones that are their operands are computed with them.
void Collector::collect_readers(const Value& value, const TensorView::Extent& extent) {
  if (value.readers == 0 && (!value.foreign || foreign_readers_ == 0)) return;
  std::vector<std::weak_ptr<Value>> readers;
  for (Value* at = newest_; at != nullptr; at = at->older) {
    const auto reads = [&](const Input& input) {
      if (input.value == nullptr || input.waits()) return false;
      const Leaf& leaf = input.leaf != nullptr ? *input.leaf : *input.value->leaf;
      return leaf.view.extent().overlaps(extent);
    };
    if (std::ranges::any_of(at->inputs, reads)) readers.push_back(at->weak_from_this());
  }
  for (const auto& reader : readers)
    if (const auto alive = reader.lock()) collect(*alive);
}

// Call before elements are written.
void Collector::begin_write(const Value& value, const TensorView& to) {
  collect_readers(value, to.extent());
  forget_failures();
  ++collected_;
}

namespace {

void check_writable(const Value& value) {
  if (value.readonly)
    throw Error(errc::invalid_argument, "the array shares read-only memory of others: write to a copy", {"argument", "x"});
}

int category_of(ElementType type) {
  switch (kind_of(type)) {
    case Kind::boolean: return 0;
    case Kind::floating:
    case Kind::bfloat: return 2;
    default: return 1;
  }
}

}  // namespace

void Collector::assign(const Tensor& to, const Input& from) {
  const std::shared_ptr<Value> value = to.value;
  check_writable(*value);
  const Dims shape = from.value == nullptr ? Dims() : from.leaf != nullptr ? from.leaf->view.shape() : from.value->shape;
  const std::array shapes = {to.shape(), shape};
  if (!(broadcast("assignment", shapes) == to.shape()))
    throw Error(errc::invalid_argument, "assignment: shape " + to_string(shape) + " does not fit into " + to_string(to.shape()),
                {"argument", "value"});
  const LeafPointer leaf = to.leaf;
  const Session session(*this);
  const Unlocked unlocked;
  collect(*value);
  const TensorView& view = leaf != nullptr ? leaf->view : value->leaf->view;
  // `x[...] += y` ends with an assignment of x to itself.
  if (from.leaf != nullptr && from.value == value && from.leaf->view.address() == view.address() &&
      from.leaf->view.shape() == view.shape() && from.leaf->view.strides() == view.strides())
    return;
  const Expression elements = from.value == nullptr ? Expression(from.number) : leaf_of(from)->expression;
  begin_write(*value, view);
  batch_->assign(view, elements);
  submit_when_many();
}

void Collector::update(Tensor& x, TensorOp op, const char* name, const Input& operand) {
  check_writable(*x.value);
  std::array<Input, 2> operands = {Input{x.value, x.leaf, {}}, operand};
  round_numbers(op, operands);
  const Inferred result = infer(op, name, operands);
  const ElementType type = x.type();
  if (!(result.shape == x.shape()))
    throw Error(errc::invalid_argument,
                std::string(name) + " in place: an array of shape " + to_string(x.shape()) + " cannot hold a result of shape " +
                    to_string(result.shape),
                {"argument", name});
  if (category_of(result.type) > category_of(type))
    throw Error(errc::invalid_argument,
                std::string(name) + " in place: an array of " + numpy_name(type) + " cannot hold a result of " + numpy_name(result.type) +
                    ": use x = x op y",
                {"argument", name});
  const Session session(*this);
  if (operands[0].waits()) {
    // Nobody shares it: a view would have had it collected.
    auto value = make(Value::Kind::operation, result.type, result.shape, {operands.begin(), operands.end()});
    value->op = op;
    enlist(*value);
    if (result.type != type) {
      auto same = make(Value::Kind::cast, type, result.shape, {Input{value, {}, {}}});
      enlist(*same);
      value = std::move(same);
    }
    x.value = std::move(value);
    return;
  }
  const std::shared_ptr<Value> value = x.value;
  const LeafPointer leaf = x.leaf != nullptr ? x.leaf : value->leaf;
  const Unlocked unlocked;
  const LeafPointer other = operand.value == nullptr ? nullptr : leaf_of(operand);
  begin_write(*value, leaf->view);
  const std::array<Operand, 2> given = {leaf->view, other == nullptr ? Operand(operands[1].number) : Operand(other->view)};
  batch_->apply(op, leaf->view, given);
  submit_when_many();
}

}  // namespace dwell::python
