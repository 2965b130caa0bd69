#include "collector.hpp"

#include <algorithm>
#include <utility>

#include "collector_session.hpp"
#include "compiling.hpp"
#include "shape.hpp"

namespace dwell::python {

namespace {

// Most operations that a lazy value stands for. Larger ones are collected in parts, so that walks are short and most fit into a program.
constexpr unsigned kMostOperations = 40;
// Collected results, and bytes of retired memory, after which the collector submits by itself; most such submissions in flight.
constexpr unsigned kMostCollected = 1024;
constexpr std::size_t kMostRetiredBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostUnderWay = 2;

std::size_t bytes_of_value(const Value& value) {
  std::int64_t bytes = static_cast<std::int64_t>(bytes_of(value.type));
  for (const std::int64_t size : value.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      throw Error(errc::out_of_memory, "an array of shape " + to_string(value.shape) + " fits into no memory", {"memory", ""});
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::shared_ptr<Collector> Collector::known(const State& runtime) { return runtime->arrays().lock(); }

std::shared_ptr<Collector> Collector::of(const State& runtime) {
  if (auto there = known(runtime)) return there;
  auto made = std::make_shared<Collector>(runtime);
  // Another thread may have made one meanwhile.
  if (auto there = known(runtime)) return there;
  runtime->arrays() = made;
  return made;
}

Collector::Collector(State runtime) : runtime_(std::move(runtime)) {
  Runtime& opened = runtime_->get();
  const Compiling compiling(*runtime_, kOwnOperators);
  batch_.emplace(opened);
}

Collector& Collector::checked() {
  static_cast<void>(runtime_->get());
  if (captured() != nullptr)
    throw Error(errc::unsupported, "operations on a dwell.Array inside of Runtime.capture: a graph keeps no results, use Runtime.batch");
  return *this;
}

Collector::~Collector() {
  // Writes to memory of others must still run.
  try {
    static_cast<void>(runtime_->get());
    const Unlocked unlocked;
    static_cast<void>(batch_->flush());
  } catch (const std::exception&) {
    // Nobody is left to catch it.
  }
}

// ---- Making values ---------------------------------------------------------------------------------------------------------------

std::shared_ptr<Value> Collector::make(Value::Kind kind, ElementType type, const Dims& shape, std::vector<Input> inputs) {
  std::shared_ptr<Value> value(new Value, &Collector::delete_value);
  value->collector = shared_from_this();
  value->kind = kind;
  value->type = type;
  value->shape = shape;
  value->inputs = std::move(inputs);
  return value;
}

// Adds a value to the lazy ones. Collects its largest operands first while it stands for too many operations.
void Collector::enlist(Value& value) {
  for (;;) {
    value.size = 1;
    Input* largest = nullptr;
    for (Input& input : value.inputs) {
      if (!input.waits()) continue;
      value.size += input.value->size;
      if (largest == nullptr || input.value->size > largest->value->size) largest = &input;
    }
    if (value.size <= kMostOperations || largest == nullptr) break;
    const Unlocked unlocked;
    collect(*largest->value);
  }
  for (const Input& input : value.inputs) {
    if (input.value == nullptr) continue;
    ++input.value->readers;
    if (input.value->foreign) ++foreign_readers_;
  }
  value.older = newest_;
  if (newest_ != nullptr) newest_->newer = &value;
  newest_ = &value;
  value.listed = true;
}

void Collector::unlist(Value& value) {
  if (!std::exchange(value.listed, false)) return;
  for (const Input& input : value.inputs) {
    if (input.value == nullptr) continue;
    --input.value->readers;
    if (input.value->foreign) --foreign_readers_;
  }
  if (value.older != nullptr) value.older->newer = value.newer;
  (value.newer != nullptr ? value.newer->older : newest_) = value.older;
}

Tensor Collector::adopt(HeldTensor held, bool foreign) {
  const Session session(*this);
  auto value = make(Value::Kind::collected, held.view.type(), held.view.shape(), {});
  value->leaf = std::make_shared<const Leaf>(held.view);
  value->memory = std::move(held.memory);
  value->foreign = foreign;
  value->readonly = held.readonly;
  return {std::move(value), {}};
}

Tensor Collector::operation(TensorOp op, const char* name, std::span<const Input> operands) {
  const Inferred result = infer(op, name, operands);
  const Session session(*this);
  auto value = make(Value::Kind::operation, result.type, result.shape, {operands.begin(), operands.end()});
  value->op = op;
  round_numbers(op, value->inputs);
  enlist(*value);
  return {std::move(value), {}};
}

Tensor Collector::cast(const Input& operand, const Dims& shape, ElementType type) {
  const Session session(*this);
  auto value = make(Value::Kind::cast, type, shape, {operand});
  enlist(*value);
  return {std::move(value), {}};
}

Tensor Collector::collected(ElementType type, const Dims& shape, std::vector<Input> operands, Collect collect) {
  const Session session(*this);
  auto value = make(Value::Kind::collected, type, shape, std::move(operands));
  value->collect = std::move(collect);
  enlist(*value);
  return {std::move(value), {}};
}

// ---- Collecting ------------------------------------------------------------------------------------------------------------------

// Stores values that the root is computed from and that somebody else refers to, an array or another value, rather than computing them
// twice: they have more references than the walk finds.
void Collector::collect(Value& root) {
  if (!root.lazy()) return;
  struct Found {
    std::shared_ptr<Value>* value;
    bool apart;
  };
  std::vector<Found> order;  // operands first
  const auto visit = [&](const auto& self, Value& value) -> void {
    for (Input& input : value.inputs) {
      if (!input.waits() || input.value->found++ != 0) continue;
      self(self, *input.value);
      order.push_back({&input.value, false});
    }
  };
  visit(visit, root);
  for (Found& one : order) {
    Value& value = **one.value;
    one.apart = value.kind == Value::Kind::collected || std::cmp_greater(one.value->use_count(), value.found);
    value.found = 0;
  }
  for (const Found& one : order)
    if (one.apart) store(**one.value);
  store(root);
}

void Collector::store(Value& value) {
  const std::size_t bytes = bytes_of_value(value);
  forget_failures();
  ++collected_;  // before operands are released, so that their memory stays until the flush
  Allocated memory = allocate(bytes);
  const TensorView to(BufferView(memory->buffer.slice(0, bytes), value.type), value.shape);
  try {
    compute(value, to);
  } catch (const Error& error) {
    const bool has_lazy = std::ranges::any_of(value.inputs, [](const Input& input) { return input.waits(); });
    if (error.kind() != errc::resource_limit || !has_lazy) throw;
    for (const Input& input : value.inputs)
      if (input.waits()) collect(*input.value);
    compute(value, to);
  }
  unlist(value);
  value.leaf = std::make_shared<const Leaf>(to);
  value.memory = std::move(memory);
  value.inputs.clear();
  value.collect = nullptr;
  submit_when_many();
}

void Collector::compute(const Value& value, const TensorView& to) {
  if (value.kind == Value::Kind::collected) {
    std::vector<TensorView> operands;
    operands.reserve(value.inputs.size());
    for (const Input& input : value.inputs) operands.push_back(leaf_of(input)->view);
    return value.collect(*batch_, to, operands);
  }
  const bool simple = std::ranges::none_of(value.inputs, [](const Input& input) { return input.waits(); });
  if (simple && value.kind == Value::Kind::operation) {
    // Cheaper than an expression, and the most frequent case.
    std::vector<Operand> operands;
    operands.reserve(value.inputs.size());
    for (const Input& input : value.inputs) {
      if (input.value == nullptr)
        operands.emplace_back(input.number);
      else
        operands.emplace_back(leaf_of(input)->view);
    }
    return batch_->apply(value.op, to, operands);
  }
  Made made;
  batch_->assign(to, express(value, made));
}

Expression Collector::express(const Value& value, Made& made) const {
  const auto at = std::ranges::find(made, &value, &Made::value_type::first);
  if (at != made.end()) return at->second;
  const auto operand = [&](const Input& input) {
    if (input.value == nullptr) return Expression(input.number);
    if (input.waits()) return express(*input.value, made);
    return input.leaf != nullptr ? input.leaf->expression : input.value->leaf->expression;
  };
  const std::vector<Input>& inputs = value.inputs;
  Expression result = value.kind == Value::Kind::cast ? operand(inputs[0]).as(value.type)
                      : inputs.size() == 1            ? Expression::of(value.op, operand(inputs[0]))
                      : inputs.size() == 2            ? Expression::of(value.op, operand(inputs[0]), operand(inputs[1]))
                                           : Expression::of(value.op, operand(inputs[0]), operand(inputs[1]), operand(inputs[2]));
  made.emplace_back(&value, result);
  return result;
}

const LeafPointer& Collector::leaf_of(const Input& input) {
  if (input.leaf != nullptr) return input.leaf;
  collect(*input.value);
  return input.value->leaf;
}

LeafPointer Collector::leaf_of(const Tensor& tensor) {
  if (tensor.leaf != nullptr) return tensor.leaf;
  const std::shared_ptr<Value> value = tensor.value;  // the tensor may change while the GIL is released
  const Session session(*this);
  if (value->lazy()) {
    const Unlocked unlocked;
    collect(*value);
  }
  return value->leaf;
}

// ---- Running ---------------------------------------------------------------------------------------------------------------------

void Collector::collect_all() {
  std::vector<std::weak_ptr<Value>> all;
  for (Value* at = newest_; at != nullptr; at = at->older) all.push_back(at->weak_from_this());
  for (const auto& one : all)
    if (const auto alive = one.lock()) collect(*alive);
}

Ticket Collector::submit() {
  Ticket ticket = batch_->flush();
  collected_ = 0;
  recent_.add(ticket);
  freed_.insert(freed_.end(), std::make_move_iterator(retired_.begin()), std::make_move_iterator(retired_.end()));
  retired_.clear();
  retired_bytes_ = 0;
  return ticket;
}

void Collector::submit_when_many() {
  if (collected_ < kMostCollected && retired_bytes_ < kMostRetiredBytes) return;
  unasked_.add(submit());
  unasked_.wait_until(kMostUnderWay);  // the memory goes when they have run
  unasked_.drop_done();
}

// The batch cancels operations behind a failed task, as long as it knows that task. An operation that only uses its memory again must not
// be cancelled: once all tasks have run, a flush forgets the failed ones.
void Collector::forget_failures() {
  recent_.drop_done();
  if (!recent_.failed()) return;
  unasked_.add(submit());
  runtime_->get().wait_all();
  static_cast<void>(batch_->flush());
  recent_.clear();
}

Receipt Collector::flush(bool all) {
  const Session session(*this);
  const Unlocked unlocked;
  if (all) collect_all();
  Receipt receipt{submit()};
  unasked_.wait();
  return receipt;
}

void Collector::submit_collected() {
  const Session session(*this);
  const Unlocked unlocked;
  unasked_.add(submit());
}

Collector::Rows Collector::rows_of(const Tensor& tensor) {
  const std::shared_ptr<Value> value = tensor.value;
  LeafPointer leaf = tensor.leaf;
  const Session session(*this);
  const Unlocked unlocked;
  collect(*value);
  if (leaf == nullptr) leaf = value->leaf;
  Rows rows{leaf->view, value->memory, {}};
  if (!leaf->view.contiguous()) {
    const std::vector<std::size_t> shape(leaf->view.shape().begin(), leaf->view.shape().end());
    rows.memory = hold(runtime_, size_in_memory(shape, value->type).bytes, dwell::Memory::device);
    rows.view = TensorView(BufferView(rows.memory->buffer, value->type), leaf->view.shape());
    batch_->assign(rows.view, leaf->expression);
  }
  rows.receipt.ticket = submit();
  unasked_.wait();
  return rows;
}

bool Collector::is_lazy(const Tensor& tensor) {
  if (tensor.leaf != nullptr) return false;
  const Session session(*this);
  return tensor.value->lazy();
}

BatchStats Collector::stats() {
  const Session session(*this);
  return batch_->stats();
}

void Collector::renew() {
  const Session session(*this);
  const Unlocked unlocked;
  batch_.reset();
  batch_.emplace(runtime_->get());
  empty_pool();
  freed_.insert(freed_.end(), std::make_move_iterator(retired_.begin()), std::make_move_iterator(retired_.end()));
  retired_.clear();
  retired_bytes_ = 0;
  collected_ = 0;
  unasked_.clear();
  recent_.clear();
}

}  // namespace dwell::python
