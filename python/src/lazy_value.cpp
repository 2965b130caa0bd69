#include "lazy_value.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace dwell::python {

Dims broadcast(const char* what, std::span<const Dims> shapes) {
  Dims shape = shapes.front();
  for (const Dims& other : shapes.subspan(1)) {
    if (shape == other) continue;
    while (shape.size() < other.size()) shape.insert_front(1);
    const std::size_t more = shape.size() - other.size();
    for (std::size_t dim = 0; dim < other.size(); ++dim) {
      std::int64_t& size = shape[more + dim];
      if (size == 1) {
        size = other[dim];
      } else if (other[dim] != 1 && other[dim] != size) {
        std::string text;
        for (const Dims& one : shapes) text += (text.empty() ? "" : ", ") + to_string(one);
        throw Error(errc::invalid_argument, std::string(what) + ": shapes " + text + " do not broadcast", {"argument", what});
      }
    }
  }
  return shape;
}

Typed typed(const Input& input) {
  if (input.value == nullptr) return {input.number.type(), Typed::Weight::number};
  const Dims& shape = input.leaf != nullptr ? input.leaf->view.shape() : input.value->shape;
  return {input.value->type, shape.size() == 0 ? Typed::Weight::scalar : Typed::Weight::tensor};
}

ElementType result_type(TensorOp op, std::span<const Typed> operands) {
  // A cache, since each operation asks. It holds some thousand entries at most.
  static std::unordered_map<std::uint32_t, ElementType> known;
  constexpr unsigned kBits = 6;  // of an operand, of up to three
  auto key = static_cast<std::uint32_t>(op) << 2U | static_cast<std::uint32_t>(operands.size());
  for (std::size_t i = 0; i < 3; ++i) {
    key <<= kBits;
    if (i < operands.size()) key |= static_cast<std::uint32_t>(operands[i].type) << 2U | static_cast<std::uint32_t>(operands[i].weight);
  }
  if (const auto at = known.find(key); at != known.end()) return at->second;
  const auto expression = [](const Typed& one) -> Expression {
    if (one.weight == Typed::Weight::number)
      return one.type == ElementType::f32 ? Number(0.0) : one.type == ElementType::i64 ? Number(0) : Number(false);
    return TensorView(0, one.type, one.weight == Typed::Weight::scalar ? Dims{} : Dims{1});
  };
  const Expression result = operands.size() == 1 ? Expression::of(op, expression(operands[0]))
                            : operands.size() == 2
                                ? Expression::of(op, expression(operands[0]), expression(operands[1]))
                                : Expression::of(op, expression(operands[0]), expression(operands[1]), expression(operands[2]));
  return known[key] = result.type();
}

Inferred infer(TensorOp op, const char* name, std::span<const Input> operands) {
  std::array<Typed, 3> types;
  std::array<Dims, 3> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.at(i) = typed(operands[i]);
    if (operands[i].value != nullptr)
      shapes.at(i) = operands[i].leaf != nullptr ? operands[i].leaf->view.shape() : operands[i].value->shape;
  }
  return {result_type(op, std::span(types).first(operands.size())), broadcast(name, std::span(shapes).first(operands.size()))};
}

void round_numbers(TensorOp op, std::span<Input> operands) {
  switch (op) {
    case TensorOp::elu:
    case TensorOp::leaky_relu:
    case TensorOp::lerp:
    case TensorOp::softplus: return;
    case TensorOp::where: operands = operands.first(2); break;  // the condition is neither
    default: break;
  }
  const auto is_short = [](ElementType type) { return type == ElementType::f16 || type == ElementType::bf16; };
  if (std::ranges::none_of(operands, [&](const Input& input) { return input.value != nullptr && is_short(input.value->type); })) return;
  std::array<Typed, 3> types;
  std::ranges::transform(operands, types.begin(), typed);
  // Of any operation whose result has the common type.
  const ElementType common = operands.size() == 3   ? result_type(TensorOp::clamp, types)
                             : operands.size() == 2 ? result_type(TensorOp::add, std::span(types).first(2))
                                                    : types[0].type;
  if (!is_short(common)) return;
  for (Input& input : operands) {
    if (input.value == nullptr) input.number = rounded(input.number, common);
  }
}

}  // namespace dwell::python
