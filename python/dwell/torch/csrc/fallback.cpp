// Operations that are not taken: PyTorch runs them, behind those that were collected and have to do with their tensors.
#include "fallback.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include <dwell/error.hpp>

#include "collector.hpp"
#include "dispatch_key.hpp"
#include "taken.hpp"

namespace dwell::pytorch {

namespace {

thread_local Taking taking = Taking::as_the_key;
std::atomic<bool> takes_none{false};
std::atomic<bool> forked{false};

// By name. Counters stay where they are.
struct AllFallbacks {
  std::mutex mutex;
  std::map<std::string, Fallbacks> of;
};
AllFallbacks& fallbacks() {
  static auto* const all = new AllFallbacks;
  return *all;
}

void flush_if_named(const at::Tensor& tensor, const char* operation) {
  const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (Recording* const recording = Recording::mine(); recording != nullptr && recording->names(storage))
    throw Error(errc::unsupported, std::string(operation) +
                                       " cannot be recorded: dwell does not do it with these arguments, and it reads or writes what was "
                                       "recorded: leave it out of the recording, and call it between replays");
  Collector* const collector = Collector::known(storage->device());
  if (collector != nullptr && collector->names(storage)) collector->flush(Reason::fallback, false);
}

void flush_for_value(const c10::IValue& value, const char* operation) {
  if (value.isTensor())
    flush_for(value.toTensor(), operation);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef()) flush_for_value(item, operation);
}

void fall_back(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  thread_local std::unordered_map<const c10::FunctionSchema*, Fallbacks*> counters;
  Fallbacks*& counter = counters[&schema];
  if (counter == nullptr) counter = &fallbacks_of(schema.name().c_str(), schema.overload_name().c_str());
  counter->count(Why::operation);
  if (Collector::any_pending() || Recording::mine() != nullptr) {
    const std::size_t arguments = schema.arguments().size();
    for (auto value = stack->end() - static_cast<std::ptrdiff_t>(arguments); value != stack->end(); ++value)
      flush_for_value(*value, schema.name().c_str());
  }
  const Elsewhere elsewhere;
  const Aside aside;
  op.redispatchBoxed(below(keys), stack);
}

// Operations that touch no element: what they return is a view of an argument.
bool only_views(const c10::FunctionSchema& schema) {
  if (schema.is_mutable() || schema.returns().empty()) return false;
  for (const c10::Argument& value : schema.returns())
    if (value.alias_info() == nullptr) return false;
  return true;
}

bool is_aten(const c10::FunctionSchema& schema) { return schema.name().rfind("aten::", 0) == 0 && schema.overload_name() != "out"; }
// Operations that touch no element: views, and such that allocate.
bool touches_nothing(const c10::FunctionSchema& schema) {
  static const std::set<std::string> allocate = {"aten::empty", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"};
  return is_aten(schema) && (only_views(schema) || allocate.count(schema.name()) != 0);
}
// Operations that are made of others, with which the same is done as with any. Some only give views when nothing has to be copied.
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

Elsewhere::~Elsewhere() {
  if (limits().resident.load(std::memory_order_relaxed)) counts().elsewhere.fetch_add(1, std::memory_order_relaxed);
}

void flush_for(const at::Tensor& tensor, const char* operation) {
  if ((Collector::any_pending() || Recording::mine() != nullptr) && tensor.defined() && tensor.has_storage())
    flush_if_named(tensor, operation);
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
      if (const std::int64_t calls = by_reason.calls[why].load(); calls != 0) list.push_back({name, static_cast<Why>(why), calls});
  return list;
}

const char* name_of(Why why) {
  switch (why) {
    case Why::operation: return "operation";
    case Why::arguments: return "arguments";
    case Why::elements: return "elements";
    case Why::size: return "size";
    case Why::type: return "type";
    case Why::layout: return "layout";
    case Why::device: return "device";
    case Why::mode: return "mode";
    case Why::thread: return "thread";
    case Why::kWhys: break;
  }
  return "";
}

Why why_not_taken(c10::DispatchKeySet keys) {
  switch (c10::toFunctionalityKey(keys.highestPriorityTypeId())) {
    case c10::DispatchKey::Sparse:
    case c10::DispatchKey::SparseCsr:
    case c10::DispatchKey::NestedTensor:
    case c10::DispatchKey::Quantized:
    case c10::DispatchKey::MkldnnCPU: return Why::layout;
    case c10::DispatchKey::Dense: return Why::device;
    case c10::DispatchKey::Undefined: return Why::arguments;  // no tensor
    default: return Why::mode;
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

void before_fallback(const std::string& operation, at::TensorList tensors, bool is_mode) {
  fallbacks_of(operation.c_str(), "").count(is_mode ? Why::mode : Why::operation);
  flush_for(tensors, operation.c_str());
}
void after_fallback() { const Elsewhere elsewhere; }

}  // namespace dwell::pytorch
