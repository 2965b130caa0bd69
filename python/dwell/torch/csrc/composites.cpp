#include "composites.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <optional>
#include <set>
#include <string>

#include "collector.hpp"
#include "dispatch_key.hpp"
#include "fallback.hpp"
#include "operation_kernel.hpp"

namespace dwell::pytorch {

namespace {

// PyTorch's own kernel, which watch_numbers replaces.
std::optional<c10::SafeKernelFunction>& number_kernel() {
  static auto* const kernel = new std::optional<c10::SafeKernelFunction>;
  return *kernel;
}

void read_number(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  flush_for(stack->back().toTensor(), "aten::_local_scalar_dense");
  number_kernel()->callBoxed(op, keys, stack);
}

void call_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  redispatch_behind(op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, the_key.above), stack);
}

int tensors_of(const c10::FunctionSchema& schema) {
  int tensors = 0;
  for (const c10::Argument& argument : schema.arguments()) tensors += argument.type()->str().find("Tensor") != std::string::npos ? 1 : 0;
  return tensors;
}

// Whether a composite operation's code above our key may read elements. Views of one tensor do not, nor do those listed, which are called
// often: they only call other operations.
bool may_read(const c10::OperatorHandle& op) {
  static const std::set<std::string> only_call = {"aten::linear",     "aten::matmul",   "aten::softmax", "aten::log_softmax",
                                                  "aten::layer_norm", "aten::rms_norm", "aten::dropout", "aten::cross_entropy_loss",
                                                  "aten::square",     "aten::item",     "aten::_to_copy"};
  const c10::FunctionSchema& schema = op.schema();
  const int tensors = tensors_of(schema);
  return tensors != 0 && !(only_views(schema) && tensors == 1) && only_call.count(schema.name()) == 0 &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

}  // namespace

void watch_numbers(torch::Library& backend) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_local_scalar_dense", "");
  number_kernel().emplace(op.getComputedKernelForDispatchKey(takes_from_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA));
  struct Silent : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silent;  // no warning that there is a kernel already
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  backend.impl("_local_scalar_dense", torch::CppFunction::makeFromBoxedFunction<&read_number>());
}

void watch_composites(torch::Library& aten, torch::Library& any) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && name.getNamespace() == "aten" && may_read(*op))
      aten.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&call_composite>());
  }
  any.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace dwell::pytorch
