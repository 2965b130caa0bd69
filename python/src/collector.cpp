#include "collector.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace dwell::python {

namespace {

// Operations that a lazy value may stand for: more are collected in parts, so that no walk is long and most fit into a program.
constexpr unsigned kMostOperations = 40;
// Results that are collected before they are submitted without being asked for.
constexpr unsigned kMostCollected = 1024;
constexpr std::size_t kMostPooledBytes = std::size_t{64} << 20U;

bool waits(const Input& input) { return input.value != nullptr && input.leaf == nullptr && input.value->lazy(); }

std::size_t bytes_of_value(const Value& value) {
  std::int64_t bytes = static_cast<std::int64_t>(bytes_of(value.type));
  for (const std::int64_t size : value.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      throw Error(errc::out_of_memory, "an array of shape " + to_string(value.shape) + " fits into no memory", {"memory", ""});
  return static_cast<std::size_t>(bytes);
}

}  // namespace

// Holds the lock. Memory that is let go of goes when the lock has.
class Collector::Session {
 public:
  explicit Session(Collector& of) : collector_(of.shared_from_this()), guard_(of.checked().mutex_) {
    of.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~Session() {
    trash_.swap(collector_->trash_);
    collector_->owner_.store({}, std::memory_order_relaxed);
    guard_.reset();
    collector_->drain();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::shared_ptr<Collector> collector_;
  std::vector<Allocated> trash_;
  std::optional<Guard> guard_;
};

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
  const Unlocked unlocked;
  batch_.emplace(opened);
}

Collector::~Collector() {
  // What has been written to memory of others is still to be done.
  try {
    static_cast<void>(runtime_->get());
    const Unlocked unlocked;
    static_cast<void>(batch_->flush());
  } catch (const std::exception&) {
    // There is nobody left to tell.
  }
}

// ---- The end of values -----------------------------------------------------------------------------------------------------------

void Collector::bury(Value* value) {
  const std::shared_ptr<Collector> collector = value->collector;
  if (collector->owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return collector->dispose(value);
  {
    const std::lock_guard lock(collector->buried_mutex_);
    collector->buried_.push_back(value);
  }
  collector->drain();
}

// Whoever has the lock comes here when it has let go of it, so that one that was buried meanwhile does not stay.
void Collector::drain() {
  for (;;) {
    std::vector<Value*> buried;
    std::vector<Allocated> trash;
    {
      const std::lock_guard lock(buried_mutex_);
      if (buried_.empty()) return;
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    {
      const std::lock_guard list(buried_mutex_);
      buried.swap(buried_);
    }
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    for (Value* const value : buried) dispose(value);
    trash.swap(trash_);
    owner_.store({}, std::memory_order_relaxed);
  }
}

void Collector::dispose(Value* value) {
  if (value->lazy()) unlist(*value);
  if (value->memory != nullptr) release(std::move(value->memory), value->foreign);
  delete value;
}

// ---- Making values ---------------------------------------------------------------------------------------------------------------

std::shared_ptr<Value> Collector::make(Value::Kind kind, ElementType type, const Dims& shape, std::vector<Input> inputs) {
  const std::shared_ptr<Value> value(new Value, &Collector::bury);
  value->collector = shared_from_this();
  value->kind = kind;
  value->type = type;
  value->shape = shape;
  value->inputs = std::move(inputs);
  return value;
}

// Makes it one of the lazy values, once it has grown no larger than they may be.
void Collector::enlist(Value& value) {
  for (;;) {
    value.size = 1;
    Input* largest = nullptr;
    for (Input& input : value.inputs) {
      if (!waits(input)) continue;
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

namespace {

struct Inferred {
  ElementType type;
  Dims shape;
};

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

}  // namespace

Tensor Collector::operation(TensorOp op, const char* name, std::span<const Input> operands) {
  const Inferred result = infer(op, name, operands);
  const Session session(*this);
  auto value = make(Value::Kind::operation, result.type, result.shape, {operands.begin(), operands.end()});
  value->op = op;
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

// What somebody else sees of the way to the root is stored as well, rather than computed again: all references but those found on the way
// are of arrays, or of other values.
void Collector::collect(Value& root) {
  if (!root.lazy()) return;
  struct Found {
    std::shared_ptr<Value>* value;
    bool apart;
  };
  std::vector<Found> order;  // operands first
  const auto visit = [&](const auto& self, Value& value) -> void {
    for (Input& input : value.inputs) {
      if (!waits(input) || input.value->found++ != 0) continue;
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
  ++collected_;  // before operands are let go of: they stay until the flush then
  Allocated memory = allocate(bytes);
  const TensorView to(BufferView(memory->buffer.slice(0, bytes), value.type), value.shape);
  try {
    compute(value, to);
  } catch (const Error& error) {
    const bool has_lazy = std::ranges::any_of(value.inputs, [](const Input& input) { return waits(input); });
    if (error.kind() != errc::resource_limit || !has_lazy) throw;
    for (const Input& input : value.inputs)
      if (waits(input)) collect(*input.value);
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
  const bool simple = std::ranges::none_of(value.inputs, [](const Input& input) { return waits(input); });
  if (simple && value.kind == Value::Kind::operation) {
    // As most operations with a result of their own: cheaper than an expression.
    std::vector<Operand> operands;
    operands.reserve(value.inputs.size());
    for (const Input& input : value.inputs) {
      if (input.value == nullptr)
        operands.push_back(input.number.operand());
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
    if (input.value == nullptr) return input.number.expression();
    if (waits(input)) return express(*input.value, made);
    return input.leaf != nullptr ? input.leaf->expression : input.value->leaf->expression;
  };
  const std::vector<Input>& inputs = value.inputs;
  const Expression result = value.kind == Value::Kind::cast ? operand(inputs[0]).as(value.type)
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
  const std::shared_ptr<Value> value = tensor.value;  // the tensor may become another without the GIL
  const Session session(*this);
  if (value->lazy()) {
    const Unlocked unlocked;
    collect(*value);
  }
  return value->leaf;
}

// ---- Writing ---------------------------------------------------------------------------------------------------------------------

// The newest first: those before that are their operands are computed with them then.
void Collector::collect_readers(const Value& value, const TensorView::Extent& extent) {
  if (value.readers == 0 && !(value.foreign && foreign_readers_ != 0)) return;
  std::vector<std::weak_ptr<Value>> readers;
  for (Value* at = newest_; at != nullptr; at = at->older) {
    const auto reads = [&](const Input& input) {
      if (input.value == nullptr || waits(input)) return false;
      const Leaf& leaf = input.leaf != nullptr ? *input.leaf : *input.value->leaf;
      return leaf.view.extent().overlaps(extent);
    };
    if (std::ranges::any_of(at->inputs, reads)) readers.push_back(at->weak_from_this());
  }
  for (const auto& reader : readers)
    if (const auto alive = reader.lock()) collect(*alive);
}

void Collector::write(const Value& value, const TensorView& to, const Expression& from) {
  collect_readers(value, to.extent());
  forget_failures();
  ++collected_;
  batch_->assign(to, from);
  submit_when_many();
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
  write(*value, view, from.value == nullptr ? from.number.expression() : leaf_of(from)->expression);
}

void Collector::update(Tensor& x, TensorOp op, const char* name, const Input& operand) {
  check_writable(*x.value);
  const std::array<Input, 2> operands = {Input{x.value, x.leaf, {}}, operand};
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
  if (waits(operands[0])) {
    // Nobody else sees it: a view would have made it memory.
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
  const Expression other = operand.value == nullptr ? operand.number.expression() : leaf_of(operand)->expression;
  write(*value, leaf->view, Expression::of(op, leaf->expression, other));
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
  recent_.push_back(ticket);
  trash_.insert(trash_.end(), std::make_move_iterator(retired_.begin()), std::make_move_iterator(retired_.end()));
  retired_.clear();
  return ticket;
}

void Collector::submit_when_many() {
  if (collected_ >= kMostCollected) earlier_.push_back(submit());
}

// The batch has what comes behind a failed task cancelled, as long as it knows of that. What uses its memory again has nothing to do with
// it: once all have run, a flush forgets them.
void Collector::forget_failures() {
  bool failed = false;
  while (!recent_.empty() && recent_.front().done()) {
    failed = failed || recent_.front().status() != 0;
    recent_.pop_front();
  }
  if (!failed) return;
  earlier_.push_back(submit());
  runtime_->get().wait_all();
  static_cast<void>(batch_->flush());
  recent_.clear();
}

Receipt Collector::flush(bool all) {
  const Session session(*this);
  const Unlocked unlocked;
  if (all) collect_all();
  Receipt receipt{submit()};
  for (const Ticket& ticket : std::exchange(earlier_, {})) ticket.wait();
  return receipt;
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
    const std::size_t bytes = static_cast<std::size_t>(leaf->view.elements()) * bytes_of(value->type);
    rows.memory = hold(runtime_, bytes, dwell::Memory::device);
    rows.view = TensorView(BufferView(rows.memory->buffer, value->type), leaf->view.shape());
    batch_->assign(rows.view, leaf->expression);
  }
  rows.receipt.ticket = submit();
  for (const Ticket& ticket : std::exchange(earlier_, {})) ticket.wait();
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
  for (auto& blocks : pool_) trash_.insert(trash_.end(), std::make_move_iterator(blocks.begin()), std::make_move_iterator(blocks.end()));
  for (auto& blocks : pool_) blocks.clear();
  trash_.insert(trash_.end(), std::make_move_iterator(retired_.begin()), std::make_move_iterator(retired_.end()));
  retired_.clear();
  pooled_ = 0;
  collected_ = 0;
  earlier_.clear();
  recent_.clear();
}

// ---- Memory ----------------------------------------------------------------------------------------------------------------------

Collector::Allocated Collector::allocate(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max<std::size_t>(bytes, 64));
  const auto at = static_cast<std::size_t>(std::countr_zero(rounded));
  if (at >= kClasses) return hold(runtime_, bytes, dwell::Memory::device);
  auto& blocks = pool_.at(at);
  if (blocks.empty()) return hold(runtime_, rounded, dwell::Memory::device);
  Allocated memory = std::move(blocks.back());
  blocks.pop_back();
  pooled_ -= rounded;
  return memory;
}

void Collector::release(Allocated memory, bool foreign) {
  const std::size_t bytes = memory->buffer.bytes();
  const auto at = static_cast<std::size_t>(std::countr_zero(std::max<std::size_t>(bytes, 1)));
  // What somebody shares, by DLPack, is not ours to use again.
  const bool again = !foreign && bytes >= 64 && std::has_single_bit(bytes) && at < kClasses && memory.use_count() == 1 &&
                     pooled_ + bytes <= kMostPooledBytes;
  if (again) {
    pooled_ += bytes;
    pool_.at(at).push_back(std::move(memory));
  } else {
    (collected_ == 0 ? trash_ : retired_).push_back(std::move(memory));
  }
}

}  // namespace dwell::python
