#include "dispatch_key.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <optional>

namespace dwell::pytorch {

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// Candidates: PyTorch reserves them for fake tensors in C++ and for deferred initialisation, and uses neither.
constexpr const char* kLikely = "Fake";
constexpr const char* kLikelyAbove = "DeferredInit";

constexpr std::array kAbove{DispatchKey::FuncTorchDynamicLayerBackMode,
                            DispatchKey::Functionalize,
                            DispatchKey::Conjugate,
                            DispatchKey::Negative,
                            DispatchKey::ZeroTensor,
                            DispatchKey::ADInplaceOrView,
                            DispatchKey::AutogradOther,
                            DispatchKey::AutogradFunctionality,
                            DispatchKey::AutocastCPU,
                            DispatchKey::AutocastCUDA,
                            DispatchKey::FuncTorchBatched,
                            DispatchKey::FuncTorchGradWrapper};
constexpr std::array kBelow{DispatchKey::Dense,  DispatchKey::Quantized, DispatchKey::MkldnnCPU,
                            DispatchKey::Sparse, DispatchKey::SparseCsr, DispatchKey::NestedTensor};

bool is_above(DispatchKey key, DispatchKey other) { return DispatchKeySet(DispatchKeySet::FULL_AFTER, key).has(other); }

// Returns who uses a key; empty if nobody does.
std::string why_not_ours(DispatchKey key) {
  const std::string name = c10::toString(key);
  if (c10::impl::tls_is_dispatch_key_included(key)) return name + " is in use";
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(key)) return name + " has a fallback of somebody else's";
  for (const c10::OperatorName& op : dispatcher.getAllOpNames()) {
    const auto handle = dispatcher.findSchema(op);
    if (handle && handle->hasKernelForDispatchKey(key)) return name + " has a kernel of somebody else's for " + c10::toString(op);
  }
  return {};
}

// Returns why operations cannot be taken at a key; empty if they can.
std::string why_not(DispatchKey key) {
  const std::string name = c10::toString(key);
  for (const DispatchKey above : kAbove)
    if (!is_above(above, key)) return name + " is not below " + c10::toString(above);
  for (const DispatchKey below : kBelow)
    if (!is_above(key, below)) return name + " is not above " + c10::toString(below);
  return why_not_ours(key);
}

std::optional<DispatchKey> key_of(const std::string& name) {
  try {
    const DispatchKey key = c10::parseDispatchKey(name);
    // Others are aliases, or stand for one key a backend.
    const bool is_one = key > DispatchKey::Undefined && key < DispatchKey::EndOfFunctionalityKeys;
    return is_one && !c10::isPerBackendFunctionalityKey(key) ? std::optional(key) : std::nullopt;
  } catch (const c10::Error&) {  // this PyTorch has none of that name
    return {};
  }
}

DispatchKey choose_above() {
  const std::optional<DispatchKey> key = key_of(kLikelyAbove);
  if (!key || !why_not_ours(*key).empty()) return DispatchKey::Undefined;
  for (const DispatchKey below : kAbove)
    if (!is_above(*key, below)) return DispatchKey::Undefined;
  return *key;
}

void set(DispatchKey key, bool is_of_mode) {
  the_key = {key, DispatchKeySet(DispatchKeySet::FULL_AFTER, key), is_of_mode, is_of_mode ? DispatchKey::Undefined : choose_above()};
}

}  // namespace

std::string choose_key(const std::string& wanted) {
  const std::string first = wanted.empty() ? kLikely : wanted;
  const std::optional<DispatchKey> likely = key_of(first);
  const std::string why = likely ? why_not(*likely) : first + " is no dispatcher key of this PyTorch";
  if (why.empty()) {
    set(*likely, false);
    return {};
  }
  const auto end = static_cast<std::uint16_t>(DispatchKey::EndOfFunctionalityKeys);
  for (std::uint16_t number = 1; wanted.empty() && number < end; ++number) {
    const auto other = static_cast<DispatchKey>(number);
    if (c10::isPerBackendFunctionalityKey(other) || !why_not(other).empty()) continue;
    set(other, false);
    return {};
  }
  set(DispatchKey::Python, true);
  return why;
}

bool takes_from_cpu() {
  static const bool alone = !at::detail::getCUDAHooks().hasCUDA();
  return alone;
}

}  // namespace dwell::pytorch
