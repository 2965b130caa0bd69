#include <dwell/batch.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/after.hpp>
#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>
#include <dwell/gang_program.hpp>

#include "tensor/collected.hpp"
#include "tensor/device/program.hpp"
#include "tensor/formula_code.hpp"
#include "tensor/formulas.hpp"
#include "tensor/layout.hpp"
#include "tensor/named_tensors.hpp"
#include "tensor/operation.hpp"
#include "tensor/operators.hpp"
#include "tensor/program_builder.hpp"
#include "tensor/write_apart.hpp"

namespace dwell {

namespace tensor {

namespace {

// Returns whether two views, broadcast to a shape, are the same elements at the same places.
bool are_same_in(const Dims& shape, const TensorView& a, const TensorView& b) {
  if (are_same(a, b)) return true;
  return a.address() == b.address() && a.type() == b.type() && a.expand(shape).strides() == b.expand(shape).strides();
}

// Returns whether a store to `to` may overwrite elements of a view that are read at other places.
bool is_replaced(const TensorView& view, const TensorView& to) {
  return view.extent().overlaps(to.extent()) && !are_same_in(to.shape(), view, to);
}
// Returns whether the one shape broadcasts to the other.
bool fits(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t dim = 0; dim < from.size(); ++dim)
    if (from[dim] != 1 && from[dim] != to[to.size() - from.size() + dim]) return false;
  return true;
}

// Returns whether elements of a tensor may be read while `to` is written, element by element.
bool is_read_apart(const TensorView& view, const TensorView& to) {
  return &view == &to || ((view.shape() == to.shape() || fits(view.shape(), to.shape())) && !is_replaced(view, to));
}
bool reads_replaced(const TensorView& to, const Expressed& from) {
  if (from.kind == Expressed::Kind::tensor) return is_replaced(from.view, to);
  return std::ranges::any_of(from.operand, [&](const Pointer& operand) { return operand != nullptr && reads_replaced(to, *operand); });
}

void check_fits(const Dims& from, const Dims& to) {
  if (!fits(from, to))
    throw Error(errc::invalid_argument, "an expression of shape " + to_string(from) + " does not fit a tensor of shape " + to_string(to));
}

// The tensors that an expression reads.
void collect_reads(const Expressed& from, std::vector<const TensorView*>& to) {
  if (from.kind == Expressed::Kind::tensor) to.push_back(&from.view);
  for (const Pointer& operand : from.operand)
    if (operand != nullptr) collect_reads(*operand, to);
}

// The overlap of an assignment's memory with a program's: none; only the same elements at the same places; or any other.
enum class Relation : unsigned char { none, same_elements, other };

// Returns whether each view of an assignment is contiguous, or has one element for all.
bool is_flat(const TensorView& to, std::span<const TensorView* const> reads) {
  return to.contiguous() && std::ranges::all_of(reads, [&](const TensorView* read) { return NamedTensors::is_flat(*read, to.elements()); });
}

Relation relation_of(const ProgramBuilder& program, const TensorView& to, std::span<const TensorView* const> reads, bool flat) {
  const NamedTensors& tensors = program.tensors();
  Relation relation = Relation::none;
  const auto compare = [&](const TensorView& view, bool reads_it) {
    const TensorView::Extent extent = view.extent();
    if (!(reads_it ? program.span_of_writes() : tensors.span()).overlaps(extent)) return;
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      if ((reads_it && !program.writes(at)) || !tensors.extent(at).overlaps(extent)) continue;
      if (!tensors.takes(to.shape(), to.elements(), flat) || !tensors.is_at(at, view))
        relation = Relation::other;
      else if (relation == Relation::none)
        relation = Relation::same_elements;
    }
  };
  compare(to, false);
  for (const TensorView* const read : reads) compare(*read, true);
  return relation;
}

// Returns the last program that overlaps an assignment, if it may take it: later programs are independent of it, and earlier ones run
// before that program.
ProgramBuilder* program_for(Collected& all, const TensorView& to, std::span<const TensorView* const> reads) {
  const bool flat = is_flat(to, reads);
  for (std::size_t at = all.programs.size(); at-- != 0;) {
    ProgramBuilder& program = all.programs[at];
    const Relation relation = relation_of(program, to, reads, flat);
    if (relation != Relation::none) return relation == Relation::same_elements ? &program : nullptr;
  }
  return nullptr;
}

// Returns the tensors, a bit each, that a program writes and nobody else reads.
std::uint32_t unseen_by(Collected& all, const ProgramBuilder& program) {
  std::uint32_t unseen = 0;
  if (!all.is_needed) return unseen;
  for (std::size_t place = 0; place < program.tensors().size(); ++place) {
    const TensorView::Extent extent = program.tensors().extent(place);
    if (!program.writes(place) || all.is_needed(extent)) continue;
    bool named = false;
    for (std::size_t at = 0; at < all.programs.size() && !named; ++at)
      named = &all.programs[at] != &program && all.programs[at].tensors().overlaps(extent);
    if (!named) unseen |= 1U << place;
  }
  return unseen;
}

// Calls `add`, which adds an assignment to a program, and makes room for it if there is too little. False when there is none.
template <class Add>
bool add_to(Collected& all, ProgramBuilder* program, const Add& add) {
  if (program == nullptr) return false;
  return add(*program) || (program->prune(unseen_by(all, *program)) && add(*program));
}

}  // namespace

}  // namespace tensor

using tensor::Collected;
using tensor::Operation;

Batch::Batch(Runtime& runtime) : state_(new Collected{&runtime, tensor::Operators(runtime), tensor::CompiledPrograms::of(runtime)}) {
  state_->operators.get(tensor::kElementwise);
  state_->workers = runtime.info().workers;  // set once there is an image, which the first operator makes
}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

// ---- Assignments -------------------------------------------------------------------------------------------------------------------

void Batch::assign(const TensorView& to, const Expression& from) { assign_for("assign", to, from); }

void Batch::assign_for(std::string_view call, const TensorView& to, const Expression& from) {
  tensor::check_result(to);
  tensor::check_fits(from.shape(), to.shape());
  const tensor::Expressed& node = *from.state_;
  tensor::require_convertible(call, node.type, to.type());
  if (to.elements() == 0) return;
  if (!tensor::is_computable(to.type())) return copy(to, node.view);
  const Expression result = from.as(to.type());  // a program stores numbers of this type
  write_apart(to, tensor::reads_replaced(to, *result.state_), [&](const TensorView& apart) { add(apart, result); });
}

void Batch::copy(const TensorView& to, const TensorView& from) {
  if (tensor::is_computable(to.type())) return add(to, from);
  const TensorView all = from.expand(to.shape());
  write_apart(to, all.extent().overlaps(to.extent()) && !tensor::are_same(all, to), [&](const TensorView& where) {
    const tensor::Bits to_bits = tensor::bits_of(where, all);
    const tensor::Bits from_bits = tensor::bits_of(all, where);
    for (std::size_t i = 0; i < to_bits.size(); ++i) add(to_bits[i], from_bits[i]);
  });
}

void Batch::apply(TensorOp op, const TensorView& to, std::span<const Operand> operands) {
  if (!apply_directly(op, to, operands)) assign_for(tensor::name_of(op), to, expressed(op, operands));
}

Expression Batch::expressed(TensorOp op, std::span<const Operand> operands) {
  switch (operands.size()) {
    case 1: return Expression::of(op, Expression(operands[0]));
    case 2: return Expression::of(op, Expression(operands[0]), Expression(operands[1]));
    case 3: return Expression::of(op, Expression(operands[0]), Expression(operands[1]), Expression(operands[2]));
    default:
      throw Error(errc::invalid_argument, std::string(tensor::name_of(op)) + " takes " + std::to_string(tensor::operands_of(op)) +
                                              " operands, not " + std::to_string(operands.size()));
  }
}

// The fast path of most operations: operands of one type, without conversions. Returns false, and does nothing, for others.
bool Batch::apply_directly(TensorOp op, const TensorView& to, std::span<const Operand> operands) {
  if (std::cmp_not_equal(operands.size(), tensor::operands_of(op))) return false;
  tensor::CommonType common;
  std::array<Operand, 3> given;
  std::array<const TensorView*, 3> reads{};
  std::size_t tensors = 0;
  bool any_tensor = false;
  bool floats = !tensor::is_bitwise(op);  // then no type must be determined
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    given[i] = operand;
    const bool is_condition = op == TensorOp::where && i == 2;
    if (operand.tensor() == nullptr) {
      if (is_condition) return false;
      common.add(operand.number().type(), tensor::Weight::number);
      continue;
    }
    const TensorView& view = *operand.tensor();
    if (&view != &to) reads[tensors++] = &view;  // avoids a second comparison with the others
    any_tensor = true;
    floats = floats && view.type() == ElementType::f32;
    if (!tensor::is_computable(view.type()) || (is_condition && view.type() != ElementType::boolean)) return false;
    if (!is_condition) common.add(view.type(), view.dims() == 0 ? tensor::Weight::scalar : tensor::Weight::tensor);
    if (!tensor::is_read_apart(view, to)) return false;
  }
  if (!to.contiguous()) tensor::check_result(to);
  if (to.elements() == 0 || !tensor::is_computable(to.type())) return false;
  floats = floats && any_tensor;
  const ElementType computed = floats ? ElementType::f32 : tensor::computed_in(op, common.type());
  op = tensor::performed_in(op, computed);
  for (std::size_t i = 0; i < operands.size() && !floats; ++i) {
    const TensorView* const view = given[i].tensor();
    if (view != nullptr && view->type() != computed && !(op == TensorOp::where && view->type() == ElementType::boolean)) return false;
    if (view == nullptr && tensor::is_short(computed) && tensor::rounds_numbers(op)) given[i] = rounded(given[i].number(), computed);
  }

  const std::span<const Operand> all(given.data(), operands.size());
  return add_to_program(to, std::span(reads).first(tensors),
                        [&](tensor::ProgramBuilder& program) { return program.add(op, computed, to, all); });
}

template <class Add>
bool Batch::add_to_program(const TensorView& to, std::span<const TensorView* const> reads, const Add& add) {
  check(to);
  for (const TensorView* const read : reads) check(*read);
  tensor::ProgramBuilder* const known = tensor::program_for(*state_, to, reads);
  ++state_->stats.operations;
  return tensor::add_to(*state_, known, add) || add(begin_program(to.shape()));
}

void Batch::apply(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands) {
  if (operands.size() <= tensor::FormulaCode::kMostOperands && apply_directly(formula, computed, to, operands)) return;
  tensor::require_computable("apply", to.type());
  assign_for("apply", to, tensor::Formulas::of(formula, computed, operands));
}

// As above, for a formula. Returns false, and does nothing, if it is not cached.
bool Batch::apply_directly(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands) {
  InplaceVector<const TensorView*, tensor::FormulaCode::kMostOperands> reads;
  for (const Operand& operand : operands) {
    const TensorView* const view = operand.tensor();
    if (view == nullptr) continue;
    if (!tensor::is_computable(view->type()) || !tensor::is_read_apart(*view, to)) return false;
    if (view != &to) reads.push_back(view);
  }
  if (!to.contiguous()) tensor::check_result(to);
  if (to.elements() == 0 || !tensor::is_computable(to.type())) return false;
  const tensor::FormulaCode* const code = state_->formulas.find(formula, computed, to.type(), operands);
  if (code == nullptr) return false;
  // Whether a number fits a tensor of integers, but is not exact in a program of floats.
  const auto is_large = [](const Operand& operand) {
    return operand.tensor() == nullptr && !tensor::is_exact_float(operand.number().integer());
  };
  if (!code->wide && !tensor::is_floating(to.type()) && std::ranges::any_of(operands, is_large)) return false;
  return add_to_program(to, reads, [&](tensor::ProgramBuilder& program) {
    if (program.empty() || program.is_wide() == code->wide) return program.add(*code, to, operands);
    return program.add(to, tensor::Formulas::of(formula, computed, operands).state_);
  });
}

void Batch::add(const TensorView& to, const Expression& from) {
  std::vector<const TensorView*> reads;
  tensor::collect_reads(*from.state_, reads);
  check(to);
  for (const TensorView* const read : reads) check(*read);
  ++state_->stats.operations;
  tensor::ProgramBuilder* const known = tensor::program_for(*state_, to, reads);
  if (tensor::add_to(*state_, known, [&](tensor::ProgramBuilder& program) { return program.add(to, from.state_); })) return;
  try {
    begin_program(to.shape()).add(to, from.state_);
  } catch (...) {
    state_->programs.drop_last();
    throw;
  }
}

TensorView Batch::made_like(const TensorView& view) {
  const detail::Checked bytes = detail::Checked(view.elements()) * bytes_of(view.type());
  if (!bytes.fits())
    throw Error(errc::resource_limit, "a copy of the tensor of shape " + to_string(view.shape()) +
                                          ", which is read where the result is written, " + "fits into no memory: give a result elsewhere");
  Buffer<std::byte> memory = state_->runtime->allocate<std::byte>(static_cast<std::size_t>(bytes.value()));
  const TensorView made(reinterpret_cast<std::uint64_t>(memory.data()), view.type(), view.shape());
  state_->copies.push_back(std::move(memory));
  return made;
}

void Batch::check(const TensorView& tensor) const {
  const detail::Shell* const shell = tensor::ViewMemory::shell(tensor);
  if (tensor::ViewMemory::use(tensor) != nullptr && shell != state_->runtime->shell_)
    detail::throw_unusable_buffer(tensor::ViewMemory::use(tensor), state_->runtime->shell_);
}

tensor::ProgramBuilder& Batch::begin_program(const Dims& shape) {
  if (state_->programs.full()) submit_first_program();
  return state_->programs.begin(shape);
}

// ---- Submission --------------------------------------------------------------------------------------------------------------------

// Submits the oldest program, which takes no more assignments. `counts`: counts for its compilation.
void Batch::submit_first_program(bool counts) {
  Collected& all = *state_;
  const struct Dropped {
    tensor::Programs& programs;
    ~Dropped() { programs.drop_first(); }
  } dropped{all.programs};
  tensor::ProgramBuilder& program = all.programs.first();
  const std::uint32_t unseen = tensor::unseen_by(all, program);
  if (unseen != 0 || program.has_overwritten()) program.prune(unseen);
  if (program.empty()) return;
  const tensor::NamedTensors& tensors = program.tensors();
  program.write_to(all.words);
  const Accesses::Node number = all.number_next();
  all.before.clear();
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    const TensorView::Extent extent = tensors.extent(at);
    all.accesses.add(number, extent.first, extent.end, program.writes(at), all.before, all.first);
  }
  const auto most = std::min(tensor::kMostGroups, static_cast<std::int64_t>(all.workers));
  const auto groups_of = [&](std::int64_t each) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>((tensors.elements() + each / 2) / each, 1, most));
  };
  ++all.stats.programs;
  if (all.noted != nullptr) all.noted->add(tensor::NotedOperation::Kind::program, all.words);
  const bool is_long = program.instructions() >= tensor::kLongProgram;
  // A captured node always runs the operator of its capture, possibly often.
  const bool at_once = is_long && all.runtime->captures();
  if (const Operator<>* const compiled =
          at_once ? all.compiled->get(*all.runtime, all.words) : all.compiled->find(*all.runtime, all.words, counts)) {
    ++all.stats.compiled;
    return submit_next(*compiled, all.words, tensors.flags(),
                       groups_of(is_long ? tensor::kLeastElementsOfGroup : tensor::kElementsOfGroup));
  }
  const std::size_t instance = all.words.size() <= detail::kMaxWords ? tensor::kInRing : tensor::kBesideRing;
  const bool plain = device::ProgramWords(all.words.data()).plain();
  const std::int64_t each = !is_long ? tensor::kElementsOfGroup
                            : plain  ? tensor::kLeastElementsOfPlainGroup
                                     : tensor::kLeastElementsOfGroup;
  submit_next(all.operators.get(tensor::kElementwise, instance), all.words, tensors.flags(), groups_of(each));
}

void Batch::add(const Operation& operation) {
  Collected& all = *state_;
  for (const TensorView* const tensor : operation.tensors) check(*tensor);
  ++all.stats.operations;
  while (!all.programs.empty()) submit_first_program();
  const Accesses::Node number = all.number_next();
  std::uint32_t flags = 0;
  all.before.clear();
  for (std::size_t place = 0; place < operation.tensors.size(); ++place) {
    const TensorView& tensor = *operation.tensors[place];
    const TensorView::Extent extent = tensor.extent();
    all.accesses.add(number, extent.first, extent.end, place < operation.written, all.before, all.first);
    flags |= tensor::ViewMemory::flags(tensor);
  }
  if (all.noted != nullptr) all.noted->add(operation.kind, operation.words);
  submit_next(*operation.op, operation.words, flags, operation.groups);
}

// Submits the operation with the last number, after those in `before`.
void Batch::submit_next(const Operator<>& op, std::span<const std::uint32_t> words, std::uint32_t flags, std::uint32_t groups) {
  Collected& all = *state_;
  std::ranges::sort(all.before);
  const auto end = std::unique(all.before.begin(), all.before.end());
  all.awaited.clear();
  for (auto earlier = all.before.begin(); earlier != end; ++earlier) {
    all.awaited.push_back(all.tickets[*earlier - all.first]);
    if (*earlier >= all.flushed) all.followed[*earlier - all.flushed] = true;
  }
  join(all.awaited, detail::kMostTickets);
  all.tickets.back() = submit_task(op, words, flags, groups, all.awaited);
}

Ticket Batch::submit_task(const Operator<>& op, std::span<const std::uint32_t> words, std::uint32_t flags, std::uint32_t groups,
                          std::span<const Ticket> before) {
  ++state_->stats.tasks;
  if (groups > 1) flags |= detail::kWide;
  detail::Waits waits;
  if (!before.empty()) {
    waits.add(before, false, state_->runtime->shell_);
    flags |= detail::kAfter;
  }
  return state_->runtime->submit_packed(op, detail::task_of(words.data(), static_cast<std::uint32_t>(words.size()), flags, groups, &waits));
}

// Joins the tickets by as few tasks as possible: one for at most 16.
void Batch::join(std::vector<Ticket>& tickets, std::size_t most) {
  constexpr std::array<std::uint32_t, 2> kNothing = {device::ProgramWords::head(false, 1, 0, 0, 0), 0};
  while (tickets.size() > most) {
    std::size_t joins = 0;
    for (std::size_t i = 0; i < tickets.size(); i += detail::kMostTickets) {
      const std::size_t count = std::min<std::size_t>(detail::kMostTickets, tickets.size() - i);
      tickets[joins++] = submit_task(state_->operators.get(tensor::kElementwise), kNothing, 0, 1, std::span(tickets).subspan(i, count));
    }
    tickets.resize(joins);
  }
}

void Batch::note_in(const OperationList& list) { state_->noted = list.state_; }

BatchStats Batch::stats() const { return state_->stats; }

void Batch::store_only(std::function<bool(const TensorView::Extent&)> needed) { state_->is_needed = std::move(needed); }

Ticket Batch::flush() {
  Collected& all = *state_;
  submit_programs();
  all.awaited.clear();  // operations without a successor
  for (std::size_t i = 0; i < all.followed.size(); ++i)
    if (!all.followed[i]) all.awaited.push_back(all.tickets[all.flushed - all.first + i]);
  join(all.awaited, 1);
  end_flush();
  return all.awaited.empty() ? Ticket() : all.awaited.front();
}

std::vector<Ticket> Batch::submit(bool cut_short) {
  Collected& all = *state_;
  submit_programs(!cut_short);
  std::vector<Ticket> tickets(all.tickets.end() - static_cast<std::ptrdiff_t>(all.followed.size()), all.tickets.end());
  end_flush();
  return tickets;
}

void Batch::forget() {
  Collected& all = *state_;
  all.first += all.tickets.size();
  all.flushed = all.first;
  all.followed.clear();
  all.tickets.clear();
}

void Batch::submit_programs(bool counts) {
  Collected& all = *state_;
  // All but the last program are complete, and count.
  while (!all.programs.empty()) submit_first_program(counts || all.programs.size() > 1);
  if (all.noted == nullptr && !all.copies.empty() && !all.tickets.empty() && all.tickets.back().captured())
    throw Error(errc::unsupported,
                "capture: a result that is written where it is read, or a long reduction, takes memory in between, which a graph does not "
                "keep: note the operations in a list, which keeps it (Batch::note_in)");
  if (all.noted != nullptr)
    for (Buffer<std::byte>& copy : all.copies) all.noted->copies.push_back(std::move(copy));
  all.copies.clear();
}

void Batch::end_flush() {
  Collected& all = *state_;
  all.runtime->count_batch(all.stats.operations - all.counted.operations, all.stats.tasks - all.counted.tasks);
  all.counted = all.stats;
  all.flushed += all.followed.size();
  all.followed.clear();
  while (!all.tickets.empty() && !all.tickets.front().captured() && all.tickets.front().done()) {
    all.tickets.pop_front();
    ++all.first;
  }
}

}  // namespace dwell
