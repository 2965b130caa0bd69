#include "tensor/promotion.hpp"

#include <array>
#include <string>

#include <dwell/error.hpp>

namespace dwell::tensor {

namespace {

enum class Category : unsigned char { boolean, integer, floating };

Category category_of(ElementType type) {
  switch (type) {
    case ElementType::boolean: return Category::boolean;
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::f32:
    case ElementType::f64: return Category::floating;
    default: return Category::integer;
  }
}

enum class Rule : unsigned char { any, floating, comparison, bitwise };

struct Description {
  std::string_view name;
  int operands;
  Rule rule;
};

constexpr std::array kDescriptions = {
#define DWELL_ANY(name, operands, ...) Description{#name, operands, Rule::any},
#define DWELL_FLOATING(name, operands, ...) Description{#name, operands, Rule::floating},
#define DWELL_COMPARISON(name, operands, ...) Description{#name, operands, Rule::comparison},
#define DWELL_BITWISE(name, operands, ...) Description{#name, operands, Rule::bitwise},
    // In the order of DWELL_TENSOR_OPS.
    DWELL_LIGHT_OPS(DWELL_ANY)             //
    DWELL_HEAVY_OPS(DWELL_ANY)             //
    DWELL_COMPARISONS(DWELL_COMPARISON)    //
    DWELL_LOGICAL_OPS(DWELL_COMPARISON)    //
    DWELL_LIGHT_FLOAT_OPS(DWELL_FLOATING)  //
    DWELL_FLOAT_OPS(DWELL_FLOATING)        //
    DWELL_BITWISE_OPS(DWELL_BITWISE)       //
    DWELL_ANY(where, 3)
#undef DWELL_BITWISE
#undef DWELL_COMPARISON
#undef DWELL_FLOATING
#undef DWELL_ANY
};
static_assert(kDescriptions.size() == static_cast<std::size_t>(TensorOp::where) + 1);
static_assert(kDescriptions[static_cast<std::size_t>(TensorOp::div)].name == "div");
static_assert(kDescriptions[static_cast<std::size_t>(TensorOp::bitwise_and)].name == "bitwise_and");

const Description& description(TensorOp op) { return kDescriptions.at(static_cast<std::size_t>(op)); }

}  // namespace

void require_computable(std::string_view what, ElementType type) {
  if (is_computable(type)) return;
  std::string fix;
  switch (type) {
    case ElementType::u16: fix = "see them as i16 (a view of the buffer) where they are below 2^15"; break;
    case ElementType::u32: fix = "see them as i32 (a view of the buffer) where they are below 2^31"; break;
    case ElementType::u64: fix = "see them as i64 (a view of the buffer) where they are below 2^63"; break;
    case ElementType::complex64: fix = "see each as two f32 (a view of the buffer)"; break;
    default: fix = "see each as two f64 (a view of the buffer)"; break;
  }
  std::string usable;
  for (const ElementType other : kElementTypes)
    if (is_computable(other)) usable += (usable.empty() ? "" : ", ") + std::string(dwell::name_of(other));
  throw Error(errc::unsupported, std::string(what) + ": tensors of " + std::string(dwell::name_of(type)) +
                                     " have no operations and are not converted, they are only copied: use one of " + usable + ", or " +
                                     fix);
}

void require_convertible(std::string_view what, ElementType from, ElementType to) {
  if (from == to) return;
  require_computable(what, from);
  require_computable(what, to);
}

int operands_of(TensorOp op) { return description(op).operands; }
std::string_view name_of(TensorOp op) { return description(op).name; }

ElementType promoted(ElementType a, ElementType b) {
  if (a == b) return a;
  if (category_of(a) != category_of(b)) return category_of(a) > category_of(b) ? a : b;
  if (category_of(a) == Category::floating) {
    if (bytes_of(a) != bytes_of(b)) return bytes_of(a) > bytes_of(b) ? a : b;
    return ElementType::f32;  // f16 and bf16
  }
  // u8 holds numbers that i8 does not.
  if (bytes_of(a) == bytes_of(b)) return ElementType::i16;
  return bytes_of(a) > bytes_of(b) ? a : b;
}

ElementType CommonType::type() const {
  ElementType type = ElementType::boolean;
  bool any = false;
  for (std::size_t at = 0; at < 3; ++at) {  // the lighter ones first
    if (!has_[at]) continue;
    if (!any || category_of(types_[at]) >= category_of(type)) type = types_[at];
    any = true;
  }
  return type;
}

ElementType computed_in(TensorOp op, ElementType common) {
  const Description& it = description(op);
  const auto refuse = [&](const char* fix) {
    throw Error(errc::invalid_argument, std::string(it.name) + " is not defined for " + std::string(dwell::name_of(common)) + ": " + fix);
  };
  if (it.rule == Rule::bitwise && category_of(common) == Category::floating) refuse("convert the operands to integers");
  if (common == ElementType::boolean && (op == TensorOp::left_shift || op == TensorOp::right_shift))
    refuse("convert the operands to integers");
  if (common == ElementType::boolean && (op == TensorOp::sub || op == TensorOp::neg))
    refuse(op == TensorOp::sub ? "use logical_xor" : "use logical_not");
  return it.rule == Rule::floating && category_of(common) != Category::floating ? ElementType::f32 : common;
}

TensorOp performed_in(TensorOp op, ElementType computed) {
  if (computed != ElementType::boolean) return op;
  switch (op) {
    case TensorOp::bitwise_and: return TensorOp::logical_and;
    case TensorOp::bitwise_or: return TensorOp::logical_or;
    case TensorOp::bitwise_xor: return TensorOp::logical_xor;
    case TensorOp::bitwise_not: return TensorOp::logical_not;
    default: return op;
  }
}

ElementType result_of(TensorOp op, ElementType computed) {
  return description(op).rule == Rule::comparison ? ElementType::boolean : computed;
}

}  // namespace dwell::tensor
