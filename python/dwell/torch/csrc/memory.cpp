#include "memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/DispatchKeySet.h>

#include <atomic>
#include <string>

namespace dwell::pytorch {

const std::uint64_t all_plain_keys = [] {
  c10::DispatchKeySet keys({c10::DispatchKey::CPU, c10::DispatchKey::CUDA});
  for (const c10::BackendComponent backend : {c10::BackendComponent::CPUBit, c10::BackendComponent::CUDABit})
    keys = keys | c10::getAutogradRelatedKeySetFromBackend(backend) | c10::getAutocastRelatedKeySetFromBackend(backend);
  return keys.raw_repr();
}();

namespace detail {

c10::StorageExtraMeta* const guard_text = [] {
  auto* const text = new c10::StorageExtraMeta;
  text->custom_data_ptr_error_msg_ =
      std::string(Guard::kText) + ": call dwell.torch.flush(sync=True) before what touches them, or do it outside of the context";
  return text;
}();

}  // namespace detail

bool is_foreign(c10::StorageImpl& storage) {
  static std::atomic<c10::DeleterFnPtr> own{nullptr};  // of PyTorch's allocator that was asked last
  const c10::DeleterFnPtr deleter = storage._mutable_data_ptr_no_checks().get_deleter();
  if (deleter != nullptr && deleter == own.load(std::memory_order_relaxed)) return false;
  if (memory_of(storage) == nullptr) return false;
  // Not the storage's allocator, which may be gone.
  const c10::DeviceType type = storage.device_type();
  if (deleter == nullptr || (type != c10::kCPU && type != c10::kCUDA) || c10::GetAllocator(type)->raw_deleter() != deleter) return true;
  own.store(deleter, std::memory_order_relaxed);
  return false;
}

UnguardedScope::UnguardedScope(c10::StorageImpl& storage) : storage_(is_guarded(storage) ? &storage : nullptr) {
  if (storage_ != nullptr) Guard::lift(*storage_);
}
UnguardedScope::~UnguardedScope() {
  if (storage_ != nullptr) Guard::set(*storage_);
}

}  // namespace dwell::pytorch
