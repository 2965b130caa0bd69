// Memory that operators allocate.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/ref.hpp>

#if DWELL_LINKED_OPERATORS
// Linked with an image whose operators call them. Called by any lanes of a warp.
extern "C" __device__ dwell::u32 dwell_allocate(dwell::device::Context* context, dwell::u64 bytes);
extern "C" __device__ dwell::i32 dwell_free(dwell::device::Context* context, dwell::u32 unit);
#endif

namespace dwell {

namespace device {

#if !DWELL_LINKED_OPERATORS
// Exported by an object whose operators use the heap: that is how the runtime sees that they do.
template <class Unused>
__attribute__((visibility("default"), noinline)) void uses_the_heap() {}
#endif

DWELL_DEVICE u32 ask_for_memory(Context* context, u64 bytes) {
#if DWELL_LINKED_OPERATORS
  return dwell_allocate(context, bytes);
#else
  asm volatile("" ::"r"(&uses_the_heap<void>));
  return context->allocate(context, bytes);
#endif
}
DWELL_DEVICE i32 give_memory_back(Context* context, u32 unit) {
#if DWELL_LINKED_OPERATORS
  return dwell_free(context, unit);
#else
  asm volatile("" ::"r"(&uses_the_heap<void>));
  return context->free(context, unit);
#endif
}

}  // namespace device

DWELL_DEVICE Ref<void> Group::try_allocate(u64 bytes, u32 alignment) const {
  const u64 whole = alignment <= kHeapUnit ? bytes : (bytes + alignment - 1) / alignment * alignment;
  return Ref<void>::at(device::ask_for_memory(context_, whole == 0 ? 1 : whole));
}
DWELL_DEVICE Ref<void> Group::allocate(u64 bytes, u32 alignment) const {
  const Ref<void> ref = try_allocate(bytes, alignment);
  if (!ref) fail(status::out_of_memory);
  return ref;
}

template <class T>
DWELL_DEVICE void Group::free(Ref<T> ref) const {
  const i32 status = device::give_memory_back(context_, ref.unit());
  if (status != status::ok) fail(status);
}

template <class T>
DWELL_DEVICE T* Group::at(Ref<T> ref) const {
  return device::pointer_to_global<T>(context_->heap + static_cast<u64>(ref.unit()) * kHeapUnit);
}

template <class T, class... Values>
DWELL_DEVICE Ref<T> Group::try_make(Values... values) const {
  static_assert(__is_trivially_copyable(T), "objects of the heap are moved as bytes: T is trivially copyable");
  static_assert(alignof(T) <= kMostHeapAlignment, "the heap aligns to 4096 bytes at most");
  const Ref<T> ref = try_allocate(sizeof(T), alignof(T)).template as<T>();
  if (ref) *at(ref) = T{values...};
  return ref;
}
template <class T, class... Values>
DWELL_DEVICE Ref<T> Group::make(Values... values) const {
  const Ref<T> ref = try_make<T>(values...);
  if (!ref) fail(status::out_of_memory);
  return ref;
}

}  // namespace dwell
