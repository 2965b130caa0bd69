#include "fallback.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include <dwell/error.hpp>

#include "collector.hpp"
#include "dispatch_key.hpp"
#include "memory.hpp"
#include "operation_kernel.hpp"
#include "recorded_constants.hpp"

namespace dwell::pytorch {

namespace {

thread_local Taking taking = Taking::as_the_key;
std::atomic<bool> takes_none{false};
std::atomic<bool> forked{false};

// Counters by name of the operation; references to them stay valid.
struct AllFallbacks {
  std::mutex mutex;
  std::map<std::string, Fallbacks> of;
};
AllFallbacks& fallbacks() {
  static auto* const all = new AllFallbacks;
  return *all;
}

bool is_anything_collected() { return Collector::any_pending() || Recording::mine() != nullptr; }

void flush_if_named(c10::StorageImpl* storage, const char* operation) {
  Recording* const recording = Recording::mine();
  const bool recorded = recording != nullptr && recording->names(storage);
  if (recorded && std::string_view(operation) == "aten::_local_scalar_dense")
    throw Error(
        errc::unsupported,
        "item() of a tensor that was recorded: it has no number until it is replayed, and each replay would go on with that of now. "
        "Compute with the tensor itself, as optimizers do with capturable=True, or leave it out of the recording");
  if (recorded)
    throw Error(errc::unsupported, std::string(operation) +
                                       " cannot be recorded: dwell does not do it with these arguments, and it reads or writes what was "
                                       "recorded: leave it out of the recording, and call it between replays");
  Collector* const collector = Collector::known(storage->device());
  if (collector != nullptr && collector->names(storage)) collector->flush(FlushReason::fallback, false);
}

// A tensor whose elements lie in other tensors, as those of sparse ones.
void flush_device(const c10::Device& device) {
  Collector* const collector = device.is_cpu() || device.is_cuda() ? Collector::known(device) : nullptr;
  if (collector != nullptr) collector->flush(FlushReason::fallback, false);
}

void flush_for_value(const c10::IValue& value, const char* operation) {
  if (value.isTensor())
    flush_for(value.toTensor(), operation);
  else if (value.isStorage())
    flush_for(value.toStorage(), operation);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) flush_for_value(item, operation);
}

void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  thread_local std::unordered_map<const c10::FunctionSchema*, Fallbacks*> counters;
  Fallbacks*& counter = counters[&schema];
  if (counter == nullptr) counter = &fallbacks_of(schema.name().c_str(), schema.overload_name().c_str());
  counter->count(FallbackReason::operation);
  const bool any = is_anything_collected();
  if (any) {
    const std::size_t arguments = schema.arguments().size();
    for (auto value = stack->end() - static_cast<std::ptrdiff_t>(arguments); value != stack->end(); ++value)
      flush_for_value(*value, schema.name().c_str());
  }
  const CountedFallback counted;
  const ExcludeDwell excluded;
  if (!any) return op.redispatchBoxed(below(keys), stack);
  if (Recording::mine() == nullptr) return redispatch_behind(op, below(keys), stack);
  UnrecordedCall call = UnrecordedCall::of(op);
  const auto last = [&](std::size_t count) { return std::span(*stack).last(count); };
  for (const c10::IValue& value : last(schema.arguments().size())) call.argument(value);
  redispatch_behind(op, below(keys), stack);
  for (const c10::IValue& value : last(schema.returns().size())) call.add(value);
  call.ran();
}

// Sum of the version counters of the arguments that an operation may write.
std::uint64_t versions_of(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (tensor.defined() && !tensor.is_inference()) sum += static_cast<std::uint64_t>(tensor._version());
  }
  return sum;
}

bool is_of_guard(const c10::Error& error) { return error.msg().find(Guard::kText) != std::string::npos; }

// Operations that have hit a guard in this thread.
std::unordered_set<const c10::FunctionSchema*>& known_readers() {
  thread_local std::unordered_set<const c10::FunctionSchema*> all;
  return all;
}

// Flushes all collectors and runs a call, taking nothing meanwhile.
void redispatch_alone(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  for (Collector* const collector : Collector::all()) collector->flush(FlushReason::fallback, false);
  const struct Set {
    Taking before = taking;
    Set() { taking = Taking::no; }
    ~Set() { taking = before; }
  } set;
  op.redispatchBoxed(keys, stack);
}

}  // namespace

void redispatch_behind(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  if (!known_readers().empty() && known_readers().count(&schema) != 0) return redispatch_alone(op, keys, stack);
  const std::size_t below = stack->size() - schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(below), stack->end());
  const std::uint64_t versions = schema.is_mutable() ? versions_of(schema, arguments) : 0;
  try {
    return op.redispatchBoxed(keys, stack);
  } catch (const c10::Error& error) {
    if (!is_of_guard(error) || (schema.is_mutable() && versions_of(schema, arguments) != versions)) throw;
  }
  known_readers().insert(&schema);
  stack->resize(below);
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  redispatch_alone(op, keys, stack);
}

bool only_views(const c10::FunctionSchema& schema) {
  if (schema.is_mutable() || schema.returns().empty()) return false;
  for (const c10::Argument& value : schema.returns())
    if (value.alias_info() == nullptr) return false;
  return true;
}

namespace {

bool is_aten(const c10::FunctionSchema& schema) { return schema.name().rfind("aten::", 0) == 0 && schema.overload_name() != "out"; }
// Returns whether an operation accesses no elements: it returns views, of which some schemas say nothing, or allocates.
bool touches_nothing(const c10::FunctionSchema& schema) {
  static const std::set<std::string> unsaid = {"aten::empty",        "aten::empty_strided",
                                               "aten::new_empty",    "aten::new_empty_strided",
                                               "aten::unsafe_split", "aten::unsafe_split_with_sizes"};
  return is_aten(schema) && (only_views(schema) || unsaid.count(schema.name()) != 0);
}
// Whether an operation calls other operations, which come to the dispatcher themselves. Some return a view if nothing has to be copied.
bool is_made_of_others(const c10::OperatorHandle& op) {
  static const std::set<std::string> all = {
      "aten::empty_like",   "aten::_to_copy",      "aten::clone",    "aten::zeros",        "aten::zeros_like",   "aten::new_zeros",
      "aten::ones",         "aten::ones_like",     "aten::new_ones", "aten::full",         "aten::full_like",    "aten::new_full",
      "aten::_unsafe_view", "aten::sum",           "aten::mean",     "aten::is_same_size", "aten::add",          "aten::sub",
      "aten::mul",          "aten::div",           "aten::add_",     "aten::sub_",         "aten::mul_",         "aten::div_",
      "aten::remainder",    "aten::remainder_",    "aten::fmod",     "aten::fmod_",        "aten::floor_divide", "aten::softmax",
      "aten::log_softmax",  "aten::floor_divide_",
  };
  if (touches_nothing(op.schema())) return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return is_aten(op.schema()) && all.count(op.schema().name()) != 0 &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

}  // namespace

bool takes() { return taking != Taking::no && !takes_none.load(std::memory_order_relaxed); }
bool takes_here() { return taking == Taking::yes && !takes_none.load(std::memory_order_relaxed); }
void take_none() { takes_none = true; }
void begin_forked() {
  forked = true;
  take_none();
  Collector::forget_pending();
  Recording::forget_started();
}
bool is_forked() { return forked.load(std::memory_order_relaxed); }
void set_taking(Taking now) { taking = now; }
Taking taking_now() { return taking; }

CountedFallback::~CountedFallback() {
  if (limits().resident.load(std::memory_order_relaxed)) counts().fallbacks.fetch_add(1, std::memory_order_relaxed);
}

void flush_for(const at::Tensor& tensor, const char* operation) {
  if (!is_anything_collected() || !tensor.defined()) return;
  if (const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage())
    flush_if_named(storage.unsafeGetStorageImpl(), operation);
  else
    flush_device(tensor.device());
}
void flush_for(const c10::Storage& storage, const char* operation) {
  if (is_anything_collected() && storage) flush_if_named(storage.unsafeGetStorageImpl(), operation);
}
void flush_for(const std::optional<at::Tensor>& tensor, const char* operation) {
  if (tensor) flush_for(*tensor, operation);
}
void flush_for(at::TensorList tensors, const char* operation) {
  for (const at::Tensor& tensor : tensors) flush_for(tensor, operation);
}
void flush_for(const at::ITensorListRef& tensors, const char* operation) {
  for (const at::Tensor& tensor : tensors) flush_for(tensor, operation);
}

Fallbacks& fallbacks_of(const char* name, const char* overload) {
  AllFallbacks& all = fallbacks();
  std::string text = name;
  if (*overload != '\0') text.append(".").append(overload);
  const std::lock_guard lock(all.mutex);
  return all.of[text];
}

std::vector<FallenBack> fallen_back() {
  AllFallbacks& all = fallbacks();
  const std::lock_guard lock(all.mutex);
  std::vector<FallenBack> list;
  for (const auto& [name, by_reason] : all.of)
    for (std::size_t why = 0; why < by_reason.calls.size(); ++why)
      if (const std::int64_t calls = by_reason.calls[why].load(); calls != 0)
        list.push_back({name, static_cast<FallbackReason>(why), calls});
  return list;
}

const char* name_of(FallbackReason why) {
  switch (why) {
    case FallbackReason::operation: return "operation";
    case FallbackReason::arguments: return "arguments";
    case FallbackReason::elements: return "elements";
    case FallbackReason::size: return "size";
    case FallbackReason::type: return "type";
    case FallbackReason::layout: return "layout";
    case FallbackReason::device: return "device";
    case FallbackReason::mode: return "mode";
    case FallbackReason::thread: return "thread";
    case FallbackReason::kReasons: break;
  }
  return "";
}

FallbackReason reason_not_taken(c10::DispatchKeySet keys) {
  switch (c10::toFunctionalityKey(keys.highestPriorityTypeId())) {
    case c10::DispatchKey::Sparse:
    case c10::DispatchKey::SparseCsr:
    case c10::DispatchKey::NestedTensor:
    case c10::DispatchKey::Quantized:
    case c10::DispatchKey::MkldnnCPU: return FallbackReason::layout;
    case c10::DispatchKey::Dense: return FallbackReason::device;
    case c10::DispatchKey::Undefined: return FallbackReason::arguments;  // no tensor
    default: return FallbackReason::mode;
  }
}

Passed passed() {
  Passed all;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || op->hasKernelForDispatchKey(the_key.key)) continue;
    if (is_made_of_others(*op))
      all.made_of_others.push_back(c10::toString(name));
    else if (touches_nothing(op->schema()))
      all.touch_nothing.push_back(c10::toString(name));
  }
  return all;
}

void pass_or_fall_back(torch::Library& aten, torch::Library& any) {
  const Passed all = passed();
  for (const auto* const names : {&all.touch_nothing, &all.made_of_others})
    for (const std::string& name : *names) aten.impl(name.c_str(), torch::CppFunction::makeFallthrough());
  any.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

namespace {

// Calls between before_fallback and after_fallback, the innermost last. Nothing for those outside of a recording.
thread_local std::vector<std::optional<UnrecordedCall>> open_calls;

}  // namespace

void before_fallback(const std::string& operation, at::TensorList tensors, const std::vector<std::int64_t>& places, bool is_mode) {
  fallbacks_of(operation.c_str(), "").count(is_mode ? FallbackReason::mode : FallbackReason::operation);
  const std::string name = operation.substr(0, operation.find('.'));
  flush_for(tensors, name.c_str());
  std::optional<UnrecordedCall> call;
  const auto op =
      c10::Dispatcher::singleton().findSchema({name, operation.size() == name.size() ? std::string() : operation.substr(name.size() + 1)});
  if (Recording::mine() != nullptr && op) {
    call.emplace(UnrecordedCall::of(*op));
    for (std::size_t i = 0; i < tensors.size(); ++i) call->argument(tensors[i], static_cast<std::size_t>(places[i]));
  }
  open_calls.push_back(std::move(call));
}
void after_fallback(at::TensorList results) {
  const CountedFallback counted;
  if (open_calls.empty()) return;
  std::optional<UnrecordedCall> call = std::move(open_calls.back());
  open_calls.pop_back();
  if (!call) return;
  for (const at::Tensor& result : results) call->add(result);
  call->ran();
}

}  // namespace dwell::pytorch
