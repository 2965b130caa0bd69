#include "tensor/program_builder.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/device/number.hpp"
#include "tensor/device/program.hpp"
#include "tensor/live_code.hpp"

namespace dwell::tensor {

namespace {

using device::Instruction;
using device::NumberClass;
using device::OperandKind;
using device::Step;
using Kind = Expressed::Kind;

// Returns the type that does not round numbers of a class.
ElementType widest(NumberClass number) {
  return number == NumberClass::f32 ? ElementType::f32 : number == NumberClass::f64 ? ElementType::f64 : ElementType::i64;
}

[[noreturn]] void refuse_size(const char* what, std::uint32_t most) {
  throw Error(errc::resource_limit,
              "an expression needs more than " + std::to_string(most) + " " + what + ": assign a part of it to a tensor");
}

Instruction keeping(NumberClass number, unsigned temporary) { return {Step::keep, number, widest(number), OperandKind::none, temporary}; }

bool is_commutative(TensorOp op) {
  switch (op) {
    case TensorOp::add:
    case TensorOp::mul:
    case TensorOp::eq:
    case TensorOp::ne:
    case TensorOp::logical_and:
    case TensorOp::logical_or:
    case TensorOp::logical_xor:
    case TensorOp::bitwise_and:
    case TensorOp::bitwise_or:
    case TensorOp::bitwise_xor: return true;
    default: return false;
  }
}

// Returns how plain a program is: as its least plain instruction.
device::Plain plain_of(std::span<const std::uint32_t> code) {
  device::Plain plain = device::Plain::light;
  for (const std::uint32_t word : code) plain = std::max(plain, device::plain_of(Instruction(word)));
  return plain;
}

// A subset of a program's tensors or numbers, renumbered.
class Named {
 public:
  void add(std::uint32_t place) { bits_ |= 1U << place; }
  bool has(std::uint32_t place) const { return (bits_ >> place & 1U) != 0; }
  std::uint32_t place_of(std::uint32_t before) const { return static_cast<std::uint32_t>(std::popcount(bits_ & ((1U << before) - 1))); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(std::popcount(bits_)); }
  std::uint32_t bits() const { return bits_; }

 private:
  std::uint32_t bits_ = 0;
};
static_assert(device::kMaxTensors <= 32 && device::kMaxConstants <= 32, "a bit each");

// Returns whether the node is a tensor that a program reads, converted or not.
bool reads_tensor(const Expressed& node) {
  return node.kind == Kind::tensor || (node.kind == Kind::cast && node.operand[0]->kind == Kind::tensor);
}

}  // namespace

bool ProgramBuilder::add(const TensorView& to, const Pointer& from) {
  const Pointer root = cast(from, to.type());
  const bool fresh = instructions_ == 0;
  const Mark before = mark();
  nodes_.clear();
  needs_wide_ = false;
  survey(*root);
  if (root->kind == Kind::number && !is_exact_float(root->number.integer())) note(to.type());
  if (fresh) wide_ = needs_wide_;
  try {
    if (needs_wide_ && !wide_) throw Error(errc::resource_limit, "a program of 32-bit numbers has no room for others");
    tensors_.take_shape(to.shape());
    const unsigned target = tensor(to);
    compute(*root);
    store(target, number_of(root->type));
    return true;
  } catch (const Error& error) {
    if (fresh || error.kind() != errc::resource_limit) throw;
    undo(before);
    return false;
  }
}

bool ProgramBuilder::add(TensorOp op, ElementType computed, const TensorView& to, std::span<const Operand> operands) {
  // Three for the operands, the operation, a conversion and the store.
  constexpr std::uint32_t kMost = 7;
  const ElementType type = result_of(op, computed);
  const auto is_wide = [](ElementType of) { return of != ElementType::boolean && device::class_of(of) != NumberClass::f32; };
  const bool needs_wide = is_wide(computed) || is_wide(to.type());
  if (instructions_ == 0) wide_ = needs_wide;
  if ((needs_wide && !wide_) || instructions_ + kMost > device::kMaxInstructions || constants_ + 3 > device::kMaxConstants ||
      tensors_.size() + 4 > device::kMaxTensors)
    return false;
  const NumberClass number = number_of(computed);
  tensors_.take_shape(to.shape());
  const unsigned target = tensor(to);
  std::array<Location, 3> at{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (const TensorView* const view = operands[i].tensor())
      at[i] = {OperandKind::tensor, view == &to ? target : tensor(*view)};
    else
      at[i] = {OperandKind::constant, constant(operands[i].number(), number)};
  }
  if (operands.size() == 3 && at[2].kind == OperandKind::tensor) {
    const NumberClass third = number_of(operands[2].tensor()->type());
    emit(Instruction(Step::load, third, widest(third), OperandKind::tensor, at[2].index));
    at[2] = {OperandKind::temporary, keep(third)};
    kept_ = 0;
  }
  const auto is_accumulated = [&](const Location& operand) {
    return operand.kind == OperandKind::tensor && accumulated_ && operand.index == *accumulated_;
  };
  const bool swapped = operands.size() > 1 && is_accumulated(at[1]) && !is_accumulated(at[0]);
  if (swapped) std::swap(at[0], at[1]);
  // Stores repeated in-place changes once.
  bool changes = false;
  if (!is_accumulated(at[0])) {
    emit(Instruction(Step::load, number, widest(number), at[0].kind, at[0].index));
  } else if (at[0].index == target && (at[1].kind != OperandKind::tensor || at[1].index != target)) {
    --instructions_;
    changes = true;
  }
  Instruction instruction(op, number, rounding_of(type, computed), at[1].kind, at[1].index, swapped && !is_commutative(op));
  if (operands.size() == 3) instruction = instruction.with_third(at[2].kind, at[2].index);
  emit(instruction);
  if (type != to.type()) emit(Instruction(Step::cast, number_of(type), to.type()));
  store(target, number_of(to.type()), changes);
  return true;
}

bool ProgramBuilder::add(const FormulaCode& formula, const TensorView& to, std::span<const Operand> operands) {
  if (instructions_ == 0) wide_ = formula.wide;
  if (instructions_ + formula.code.size() > device::kMaxInstructions || constants_ + formula.constants.size() > device::kMaxConstants ||
      tensors_.size() + operands.size() + 1 > device::kMaxTensors)
    return false;
  tensors_.take_shape(to.shape());
  std::array<unsigned, FormulaCode::kMostOperands + 1> tensors{};
  const unsigned target = tensors[operands.size()] = tensor(to);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const TensorView* const view = operands[i].tensor()) tensors[i] = view == &to ? target : tensor(*view);
  std::array<unsigned, device::kMaxConstants> constants;
  for (std::size_t i = 0; i < formula.constants.size(); ++i) {
    const FormulaCode::Constant& one = formula.constants[i];
    constants[i] = constant(one.operand ? bits_of(operands[*one.operand].number(), one.number) : one.bits);
  }
  std::span<const std::uint32_t> code = formula.code;
  if (formula.begins_with_elements && accumulated_ == tensors[Instruction(code.front()).operand()]) code = code.subspan(1);
  for (const std::uint32_t word : code) {
    Instruction in(word);
    if (in.kind() == OperandKind::tensor) in = in.with_operand(tensors[in.operand()]);
    if (in.kind() == OperandKind::constant) in = in.with_operand(constants[in.operand()]);
    if (in.has_third() && in.third_is_constant()) in = in.with_third(OperandKind::constant, constants[in.third()]);
    code_[instructions_++] = in.bits();
  }
  note_store(target);
  return true;
}

void ProgramBuilder::store(unsigned target, NumberClass number, bool changes) {
  emit(Instruction(Step::store, number, widest(number), OperandKind::tensor, target));
  note_store(target, changes);
}

void ProgramBuilder::note_store(unsigned target, bool changes) {
  overwritten_ = overwritten_ || (writes(target) && !changes);
  written_ |= 1U << target;
  NamedTensors::widen(span_of_writes_, tensors_.extent(target));
  accumulated_ = target;
}

bool ProgramBuilder::prune(std::uint32_t unseen) {
  const std::span<std::uint32_t> code = std::span(code_).first(instructions_);
  const std::uint32_t last = code.empty() ? 0 : code.back();
  const std::uint32_t left = keep_live_code(code, unseen);
  overwritten_ = false;
  if (left == instructions_) return false;
  instructions_ = left;
  if (left == 0 || code_[left - 1] != last) accumulated_.reset();

  // The remaining code uses a subset of the tensors and numbers, renumbered.
  Named tensors;
  Named numbers;
  for (const std::uint32_t word : std::span(code_).first(instructions_)) {
    const Instruction in(word);
    if (in.kind() == OperandKind::tensor) tensors.add(in.operand());
    if (in.kind() == OperandKind::constant) numbers.add(in.operand());
    if (in.has_third() && in.third_is_constant()) numbers.add(in.third());
  }
  written_ = 0;
  for (std::uint32_t& word : std::span(code_).first(instructions_)) {
    Instruction in(word);
    if (in.kind() == OperandKind::tensor) in = in.with_operand(tensors.place_of(in.operand()));
    if (in.kind() == OperandKind::constant) in = in.with_operand(numbers.place_of(in.operand()));
    if (in.has_third() && in.third_is_constant()) in = in.with_third(OperandKind::constant, numbers.place_of(in.third()));
    if (in.code() == static_cast<std::uint32_t>(Step::store)) written_ |= 1U << in.operand();
    word = in.bits();
  }
  if (accumulated_) accumulated_ = tensors.place_of(*accumulated_);
  for (std::uint32_t from = 0; from < constants_; ++from)
    if (numbers.has(from)) constant_[numbers.place_of(from)] = constant_[from];
  constants_ = numbers.count();
  tensors_.keep_only(tensors.bits());
  span_of_writes_ = NamedTensors::kNoSpan;
  for (std::size_t at = 0; at < tensors_.size(); ++at)
    if (writes(at)) NamedTensors::widen(span_of_writes_, tensors_.extent(at));
  return true;
}

void ProgramBuilder::undo(const Mark& mark) {
  tensors_.shrink(mark.tensors);
  instructions_ = mark.instructions;
  constants_ = mark.constants;
  accumulated_ = mark.accumulated;
  uses_index_ = mark.uses_index;
  kept_ = 0;
}

// Returns the type to which a result is rounded. 0 and 1, the values of bool, need no rounding in the same class.
ElementType ProgramBuilder::rounding_of(ElementType type, ElementType computed) const {
  const bool is_truth = type == ElementType::boolean && computed != ElementType::boolean;
  return is_truth && !wide_ ? ElementType::f32 : type;
}

// Counts uses, and finds whether the accumulator needs 64 bits.
void ProgramBuilder::survey(const Expressed& node) {
  if (nodes_[&node].uses++ != 0) return;
  if (node.kind == Kind::index) uses_index_ = true;
  if (node.kind == Kind::cast && node.operand[0]->is_leaf()) {
    if (node.operand[0]->kind == Kind::index) uses_index_ = true;
    note(node.type);
    return;
  }
  if (node.kind != Kind::number) note(node.type);
  if (node.kind == Kind::operation) note(node.computed);
  for (const Pointer& operand : node.operand)
    if (operand != nullptr) survey(*operand);
}

void ProgramBuilder::note(ElementType type) {
  if (type != ElementType::boolean && device::class_of(type) != NumberClass::f32) needs_wide_ = true;
}

void ProgramBuilder::emit(Instruction instruction) {
  if (instructions_ == device::kMaxInstructions) refuse_size("instructions", device::kMaxInstructions);
  code_[instructions_++] = instruction.bits();
  if (instruction.code() != static_cast<std::uint32_t>(Step::keep)) accumulated_.reset();
}

unsigned ProgramBuilder::tensor(const TensorView& view) {
  const std::optional<unsigned> place = tensors_.place(view);
  if (!place) refuse_size("tensors", device::kMaxTensors);
  return *place;
}

std::uint64_t ProgramBuilder::bits_of(const Number& value, NumberClass number) {
  if (number == NumberClass::f32) return std::bit_cast<std::uint32_t>(value.as_float());
  if (number == NumberClass::f64) return std::bit_cast<std::uint64_t>(value.real());
  return static_cast<std::uint64_t>(value.is_real() ? std::int64_t{device::truncated<dwell::i64>(value.real())} : value.integer());
}

unsigned ProgramBuilder::constant(std::uint64_t bits) {
  for (unsigned at = 0; at < constants_; ++at)
    if (constant_[at] == bits) return at;
  if (constants_ == device::kMaxConstants) refuse_size("numbers", device::kMaxConstants);
  constant_[constants_] = bits;
  return constants_++;
}

unsigned ProgramBuilder::keep(NumberClass number) {
  const auto temporary = static_cast<unsigned>(std::countr_one(kept_));
  if (temporary >= device::kMaxTemporaries) refuse_size("intermediate results at once", device::kMaxTemporaries);
  kept_ |= 1U << temporary;
  emit(keeping(number, temporary));
  return temporary;
}
// Records that one use of a node has been emitted.
void ProgramBuilder::used(const Expressed& node) {
  Node& at = nodes_.at(&node);
  if (--at.uses == 0 && at.kept_in) drop(*at.kept_in);
}

// Returns whether the accumulator holds the value of the previous assignment, and the node is that value.
bool ProgramBuilder::is_accumulated(const Expressed& node) {
  return node.kind == Kind::tensor && accumulated_ && tensor(node.view) == *accumulated_;
}

// Returns the node as an operand of an instruction of a class, if it need not be computed first.
std::optional<ProgramBuilder::Location> ProgramBuilder::location_of(const Expressed& node, NumberClass number) {
  if (node.kind == Kind::number) return Location{OperandKind::constant, constant(node.number, number)};
  if (const auto& kept = nodes_.at(&node).kept_in) return Location{OperandKind::temporary, *kept};
  if (node.kind == Kind::tensor) return Location{OperandKind::tensor, tensor(node.view)};
  if (reads_tensor(node) && node.type == widest(number)) return Location{OperandKind::tensor, tensor(node.operand[0]->view)};
  return std::nullopt;
}

// Computes the node's value in the accumulator. Counts as one use of it.
void ProgramBuilder::compute(const Expressed& node) {
  const NumberClass number = number_of(node.type);
  Node& at = nodes_.at(&node);
  if (at.kept_in) {
    // Right after its keep the accumulator still has the value.
    if (code_[instructions_ - 1] != keeping(number, *at.kept_in).bits())
      emit(Instruction(Step::load, number, widest(number), OperandKind::temporary, *at.kept_in));
    used(node);
    return;
  }
  switch (node.kind) {
    case Kind::tensor:
      if (!is_accumulated(node)) emit(Instruction(Step::load, number, widest(number), OperandKind::tensor, tensor(node.view)));
      break;
    case Kind::number: emit(Instruction(Step::load, number, widest(number), OperandKind::constant, constant(node.number, number))); break;
    case Kind::index: emit(Instruction(Step::index, number, widest(number))); break;
    case Kind::cast: compute_cast(node, number); break;
    case Kind::operation: compute_operation(node); break;
  }
  if (at.uses > 1 && !location_of(node, number)) at.kept_in = keep(number);
  used(node);
}

void ProgramBuilder::compute_cast(const Expressed& node, NumberClass number) {
  const Expressed& from = *node.operand[0];
  const bool truncates = is_floating(from.type) && number == NumberClass::i64;
  switch (from.kind) {
    // The target type defines the conversion of out-of-range floats to integers.
    case Kind::tensor:
      emit(Instruction(Step::load, truncates ? number_of(from.type) : number, node.type, OperandKind::tensor, tensor(from.view)));
      break;
    case Kind::number: {
      const NumberClass read = truncates ? NumberClass::f64 : number;
      emit(Instruction(Step::load, read, node.type, OperandKind::constant, constant(from.number, read)));
      break;
    }
    case Kind::index: emit(Instruction(Step::index, number, node.type)); break;
    default: compute(from); emit(Instruction(Step::cast, number_of(from.type), node.type));
  }
}

void ProgramBuilder::compute_operation(const Expressed& node) {
  const NumberClass number = number_of(node.computed);
  const ElementType result = rounding_of(node.type, node.computed);
  // The third is a temporary or a number.
  std::optional<Location> third;
  bool third_is_own = false;  // in a temporary without other uses
  if (const Expressed* const c = node.operand[2].get()) {
    third = location_of(*c, number);
    if (third && third->kind == OperandKind::tensor) third.reset();
    if (!third) {
      compute(*c);
      if (const auto& kept = nodes_.at(c).kept_in; kept && nodes_.at(c).uses != 0) {
        third = Location{OperandKind::temporary, *kept};
        ++nodes_.at(c).uses;  // while it is needed here
      } else {
        third = Location{OperandKind::temporary, keep(number_of(c->type))};
        third_is_own = true;
      }
    }
  }

  const Expressed& a = *node.operand[0];
  if (node.operand[1] == nullptr) {
    compute_as(a, number);
    emit(Instruction(node.op, number, result));
    return;
  }
  const Expressed& b = *node.operand[1];
  std::optional<Location> second;
  bool swapped = false;
  bool second_is_own = false;
  const Expressed* second_node = nullptr;
  const auto simple = [&](const Expressed& it) { return location_of(it, number).has_value(); };
  if (simple(a) && is_accumulated(b)) {
    compute(b);
    second = location_of(a, number);
    second_node = &a;
    swapped = true;
  } else if (simple(b) || (&a == &b && !simple(a))) {
    compute_as(a, number);
    second = location_of(b, number);
    second_node = &b;
  } else if (simple(a)) {
    compute_as(b, number);
    second = location_of(a, number);
    second_node = &a;
    swapped = true;
  } else {
    // Compute the deeper one first: it needs more temporaries, and may leave one for the other.
    const bool a_first = a.depth >= b.depth;
    const Expressed& first = a_first ? a : b;
    const Expressed& other = a_first ? b : a;
    compute(first);
    if (simple(other)) {
      second = location_of(other, number);
      second_node = &other;
      swapped = !a_first;
    } else {
      if (const auto& kept = nodes_.at(&first).kept_in; kept && nodes_.at(&first).uses != 0) {
        second = Location{OperandKind::temporary, *kept};
        second_node = &first;
        ++nodes_.at(&first).uses;  // while it is needed here
      } else {
        second = Location{OperandKind::temporary, keep(number)};
        second_is_own = true;
      }
      compute(other);
      swapped = a_first;
    }
  }
  Instruction instruction(node.op, number, result, second->kind, second->index, swapped && !is_commutative(node.op));
  if (third) instruction = instruction.with_third(third->kind, third->index);
  emit(instruction);
  if (second_is_own) drop(second->index);
  if (second_node != nullptr) used(*second_node);
  if (third_is_own) drop(third->index);
  if (third && !third_is_own) used(*node.operand[2]);
}

// Computes a node in a number class; a number has no class of its own.
void ProgramBuilder::compute_as(const Expressed& node, NumberClass number) {
  if (node.kind != Kind::number) return compute(node);
  emit(Instruction(Step::load, number, widest(number), OperandKind::constant, constant(node.number, number)));
  used(node);
}

void ProgramBuilder::write_to(std::vector<std::uint32_t>& words) const {
  words.resize(1);
  const std::uint32_t dims = tensors_.append_to(words, !uses_index_);
  words[0] = device::ProgramWords::head(wide_, dims, static_cast<std::uint32_t>(tensors_.size()), instructions_, constants_);
  if (!wide_ && tensors_.are_plain()) {
    const device::Plain plain = plain_of(std::span(code_).first(instructions_));
    if (plain != device::Plain::no) words[0] |= device::ProgramWords::kPlain | (tensors_.are_packed() ? device::ProgramWords::kPacked : 0);
    if (plain == device::Plain::light) words[0] |= device::ProgramWords::kLight;
  }
  words.insert(words.end(), code_.begin(), code_.begin() + instructions_);
  for (std::uint32_t i = 0; i < constants_; ++i) {
    words.push_back(static_cast<std::uint32_t>(constant_[i]));
    if (wide_) words.push_back(static_cast<std::uint32_t>(constant_[i] >> 32U));
  }
}

}  // namespace dwell::tensor
