// Memory of tensors: where it is, and who may touch it while operations on it are collected.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <torch/version.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dwell::pytorch {

// Of the first byte of a storage; null where it has no memory. Unlike StorageImpl::data, also where that raises an error.
inline void* memory_of(c10::StorageImpl& storage) { return storage._mutable_data_ptr_no_checks().get(); }
inline c10::StorageImpl& storage_of(const at::Tensor& tensor) {
  return *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}
// Of the first element.
inline std::uint64_t address_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(memory_of(storage_of(tensor))) +
         static_cast<std::uint64_t>(tensor.storage_offset()) * tensor.itemsize();
}

// Bits of dispatch keys that say nothing but where the memory of a tensor is, and that autograd and autocast may have a part in it.
extern const std::uint64_t all_plain_keys;
// Whether a tensor is nothing but sizes, strides and memory, which the dispatcher's keys of it say: no bit makes it negative, conjugated or
// zero, no class of Python's, mode, transform, layout, name or quantization has a part in it. Its memory may be null.
inline bool is_plain(const at::Tensor& tensor) { return (tensor.unsafeGetTensorImpl()->key_set().raw_repr() & ~all_plain_keys) == 0; }
// Whether memory was not allocated by PyTorch, for this storage alone: others may know it by another storage.
bool is_foreign(c10::StorageImpl& storage);

// PyTorch raises an error when it touches the elements of a guarded storage: its own code reads results at times without a call of an
// operation that the dispatcher sees. Guards are two flags that StorageImpl checks before it hands out a pointer, and the error's text.
// StorageImpl's own functions allocate the text each time, so this writes its members, and is nothing in versions that it does not know.
class Guard {
 public:
  static constexpr bool kIs = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11 && TORCH_VERSION_MINOR <= 13;
  // Begins the text of the error.
  static constexpr const char* kText =
      "dwell.torch: the elements of this tensor are not computed yet, and are touched past PyTorch's dispatcher";

  // Nothing where the storage is guarded, or checks something of PyTorch's own.
  static void set(c10::StorageImpl& storage);
  // Nothing where it is not guarded.
  static void lift(c10::StorageImpl& storage);
};

// Storages that may be touched by this thread as long as it exists, if they are guarded.
class Lifted {
 public:
  explicit Lifted(c10::StorageImpl& storage);
  ~Lifted();
  Lifted(const Lifted&) = delete;
  Lifted& operator=(const Lifted&) = delete;

 private:
  c10::StorageImpl* storage_;
};

namespace detail {

// Names a private member: explicit instantiations may.
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
