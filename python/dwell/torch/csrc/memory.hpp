// Memory of tensors: where it is, and who may touch it while operations on it are collected.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <torch/version.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dwell::pytorch {

// Address of a storage's first byte; null without memory. Works on guarded storages, unlike StorageImpl::data.
inline void* memory_of(c10::StorageImpl& storage) { return storage._mutable_data_ptr_no_checks().get(); }
inline c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}
// Address of the first element.
inline std::uint64_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(memory_of(storage_of(tensor))) +
         static_cast<std::uint64_t>(tensor.storage_offset()) * tensor.itemsize();
}

// Dispatch keys of plain strided tensors: backend, autograd, autocast.
extern const std::uint64_t all_plain_keys;
// Whether a tensor is plain: sizes, strides and memory, without negation, conjugation, zero tensor, subclass, mode, transform, layout,
// names or quantization. Its memory may be null.
inline bool is_plain(const at::Tensor& tensor) { return (tensor.unsafeGetTensorImpl()->key_set().raw_repr() & ~all_plain_keys) == 0; }
// Returns whether PyTorch did not allocate the memory for this storage: another storage may refer to it.
bool is_foreign(c10::StorageImpl& storage);

// A guard makes PyTorch raise an error when it reads or writes a storage whose elements are not computed yet: some code of PyTorch's reads
// memory past the dispatcher. It sets two flags that StorageImpl checks before it hands out a pointer, and the text of the error. It writes
// StorageImpl's members, since its functions allocate the text each time; it does nothing in versions of PyTorch that it does not know.
class Guard {
 public:
  static constexpr bool kIs = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11 && TORCH_VERSION_MINOR <= 13;
  // Begins the text of the error.
  static constexpr const char* kText =
      "dwell.torch: the elements of this tensor are not computed yet, and are touched past PyTorch's dispatcher";

  // Does nothing if the storage is guarded, or PyTorch uses the flags itself.
  static void set(c10::StorageImpl& storage);
  // Does nothing if it is not guarded.
  static void lift(c10::StorageImpl& storage);
};

// Lifts the guard of a storage, if it has one, for a scope.
class UnguardedScope {
 public:
  explicit UnguardedScope(c10::StorageImpl& storage);
  ~UnguardedScope();
  UnguardedScope(const UnguardedScope&) = delete;
  UnguardedScope& operator=(const UnguardedScope&) = delete;

 private:
  c10::StorageImpl* storage_;
};

namespace detail {

// Gives access to a private member, which explicit instantiations may name.
template <class Tag, typename Tag::Type kMember>
struct Member {
  friend constexpr typename Tag::Type member(Tag) { return kMember; }
};
struct ThrowsWhenRead {
  using Type = bool c10::StorageImpl::*;
  friend constexpr Type member(ThrowsWhenRead);
};
struct ChecksWhenWritten {
  using Type = bool c10::StorageImpl::*;
  friend constexpr Type member(ChecksWhenWritten);
};
struct ExtraMeta {
  using Type = std::unique_ptr<c10::StorageExtraMeta> c10::StorageImpl::*;
  friend constexpr Type member(ExtraMeta);
};
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11 && TORCH_VERSION_MINOR <= 13
template struct Member<ThrowsWhenRead, &c10::StorageImpl::throw_on_immutable_data_ptr_>;
template struct Member<ChecksWhenWritten, &c10::StorageImpl::has_mutable_data_ptr_check_>;
template struct Member<ExtraMeta, &c10::StorageImpl::extra_meta_>;
#else
template struct Member<ThrowsWhenRead, nullptr>;
template struct Member<ChecksWhenWritten, nullptr>;
template struct Member<ExtraMeta, nullptr>;
#endif

// The text. Never deleted: storages own it only while they are guarded.
extern c10::StorageExtraMeta* const guard_text;

}  // namespace detail

inline void Guard::set(c10::StorageImpl& storage) {
  if constexpr (kIs) {
    auto& text = storage.*member(detail::ExtraMeta());
    bool& checks = storage.*member(detail::ChecksWhenWritten());
    if (checks || text != nullptr) return;
    text.reset(detail::guard_text);
    checks = true;
    storage.*member(detail::ThrowsWhenRead()) = true;
  }
}

inline void Guard::lift(c10::StorageImpl& storage) {
  if constexpr (kIs) {
    auto& text = storage.*member(detail::ExtraMeta());
    if (text.get() != detail::guard_text) return;
    static_cast<void>(text.release());
    storage.*member(detail::ChecksWhenWritten()) = false;
    storage.*member(detail::ThrowsWhenRead()) = false;
  }
}

inline bool is_guarded(c10::StorageImpl& storage) {
  if constexpr (Guard::kIs)
    return (storage.*member(detail::ExtraMeta())).get() == detail::guard_text;
  else
    return false;
}

}  // namespace dwell::pytorch
