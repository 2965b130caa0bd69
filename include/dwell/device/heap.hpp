// Memory that operators allocate.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/object.hpp>
#include <dwell/device/operator.hpp>
#include <dwell/device/ref.hpp>

// The heap's functions: linked with an image whose operators call them. All are called by any lanes of a warp, but for the last, which a
// group calls together.
// clang-format off
#define DWELL_HEAP_FUNCTIONS(function) \
  function(dwell::u32, allocate, (dwell::device::Context * context, dwell::u64 bytes), (context, bytes)) \
  function(dwell::i32, free, (dwell::device::Context * context, dwell::u32 unit), (context, unit)) \
  function(dwell::u32, find_type, (dwell::device::Context * context, dwell::u64 key), (context, key)) \
  function(dwell::u32, declare_type, (dwell::device::Context * context, const dwell::device::TypeRecord* type), (context, type)) \
  function(dwell::u32, make_object, (dwell::device::Context * context, dwell::u64 bytes, dwell::u32 type), (context, bytes, type)) \
  function(void, before_store, (dwell::device::Context * context, dwell::u32 unit), (context, unit)) \
  function(dwell::u32, resolve, (dwell::device::Context * context, dwell::u32 unit), (context, unit)) \
  function(void, collect, (dwell::device::Context * context, const dwell::device::Collect& what), (context, what))
// clang-format on

namespace dwell {

namespace device {

// A part of a collection (src/device/heap_collect.hpp), by a group of a task of the runtime's own.
struct Collect {
  u32 verb;
  u32 group;  // of `groups`
  u32 groups;
  u32 ticks;  // how long it may take, about
  u64 first;  // pages, or handles: [first, end)
  u64 end;
  const u32* units;  // references
  u64 unit_count;
  u64* result;
};

}  // namespace device
}  // namespace dwell

#if DWELL_LINKED_OPERATORS
#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) extern "C" __device__ result dwell_heap_##name parameters;
DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION
#endif

namespace dwell {

namespace device {

#if !DWELL_LINKED_OPERATORS
struct HeapFunctions {
#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) result(*name) parameters;
  DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION
};

// Exported by an object whose operators use the heap: that is how the runtime sees that they do.
template <class Unused>
__attribute__((visibility("default"), noinline)) void uses_the_heap() {}
#endif

struct HeapCalls {
  static DWELL_DEVICE Context* context(const Group& g) { return g.context_; }

#if DWELL_LINKED_OPERATORS
#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) \
  static DWELL_DEVICE result name parameters { return dwell_heap_##name arguments; }
#else
#define DWELL_HEAP_FUNCTION(result, name, parameters, arguments) \
  static DWELL_DEVICE result name parameters {                   \
    asm volatile("" ::"r"(&uses_the_heap<void>));                \
    return context->heap_functions->name arguments;              \
  }
#endif
  DWELL_HEAP_FUNCTIONS(DWELL_HEAP_FUNCTION)
#undef DWELL_HEAP_FUNCTION
};

// Returns the number of a type in the heap; 0: it has no room for another.
template <class T>
DWELL_DEVICE_COLD u32 declare_type(Context* context) {
  const TypeRecord record = ObjectOf<T>::record();
  return HeapCalls::declare_type(context, &record);
}
template <class T>
DWELL_DEVICE u32 type_of(Context* context) {
  constexpr u64 key = ObjectOf<T>::record().key;
  const u32 number = HeapCalls::find_type(context, key);
  return number != 0 ? number : declare_type<T>(context);
}

// For the construction of a T where a T will be.
struct Here {};

template <class T, bool is_object = ObjectOf<T>::is>
struct Maker {
  static DWELL_DEVICE u32 allocate(Context* context, u64 bytes, u32 alignment) {
    const u64 whole = alignment <= kHeapUnit ? bytes : (bytes + alignment - 1) / alignment * alignment;
    return HeapCalls::allocate(context, whole == 0 ? 1 : whole);
  }
};
template <class T>
struct Maker<T, true> {
  static DWELL_DEVICE u32 allocate(Context* context, u64 bytes, u32) {
    const u32 type = type_of<T>(context);
    return type == 0 ? 0 : HeapCalls::make_object(context, kBeforeMembers<T> + bytes, type);
  }
};

// A reference that a worker has loaded, while objects may move: where the object is, which stays there from now on. One test otherwise.
template <bool moves>
struct Loaded {
  static DWELL_DEVICE u32 unit(Context*, u32 unit) { return unit; }
};
template <>
struct Loaded<true> {
  static DWELL_DEVICE u32 unit(Context* context, u32 unit) {
    // Also of a worker that does not know the phase yet: 0.
    return context->heap_state - kHeapAtRest < kHeapMoves - kHeapAtRest ? unit : HeapCalls::resolve(context, unit);
  }
};

// While a collection runs, the objects that a task was given stay.
template <class T>
struct KeepArgument<Ref<T>> {
  static DWELL_DEVICE void note(Context* context, const u32* word) {
    Note<ObjectOf<T>::is, void>::argument(context, *word);
    Loaded<MovesOf<T>::value>::unit(context, *word);
  }

 private:
  template <bool is_object, class Unused>
  struct Note {
    static DWELL_DEVICE void argument(Context*, u32) {}
  };
  template <class Unused>
  struct Note<true, Unused> {
    static DWELL_DEVICE void argument(Context* context, u32 unit) {
      if (context->heap_state != kHeapAtRest && thread_rank() == 0) HeapCalls::before_store(context, unit);
    }
  };
};
template <class T>
struct KeepArgument<const T&> : KeepArgument<T> {};

}  // namespace device
}  // namespace dwell

DWELL_DEVICE void* operator new(decltype(sizeof(0)), dwell::device::Here, void* at) noexcept { return at; }
// Never called: constructors do not throw.
DWELL_DEVICE void operator delete(void*, dwell::device::Here, void*) noexcept {}

namespace dwell {

namespace device {
// Before a reference to an object replaces another. One test while no collection runs. Both are marked: the old one, as nothing else may
// lead to it any more; the new one, as the object that gets it may have been made since marking began, and is not visited.
DWELL_DEVICE void guard(const Group& g, u32 before, u32 after) {
  Context* const context = HeapCalls::context(g);
  if (context->heap_state == kHeapAtRest) return;
  HeapCalls::before_store(context, before);
  HeapCalls::before_store(context, after);
}

// The same for a value that a new object begins with.
template <class T>
DWELL_DEVICE void guard_value(Context*, const T&) {}
template <class T>
DWELL_DEVICE void guard_value(Context* context, const Ref<T>& ref) {
  if (context->heap_state != kHeapAtRest) HeapCalls::before_store(context, ref.unit());
}

// The values that a new T begins with.
template <class T, bool is_object = ObjectOf<T>::is>
struct Initial {
  template <class... Values>
  static DWELL_DEVICE void guard(Context*, const Values&...) {}
};
template <class T>
struct Initial<T, true> {
  template <class... Values>
  static DWELL_DEVICE void guard(Context* context, const Values&... values) {
    const int guarded[] = {0, (guard_value(context, values), 0)...};
    static_cast<void>(guarded);
  }
};
}  // namespace device

template <class T>
DWELL_DEVICE Ref<T> Field<T>::get(Group g) const {
  return Ref<T>::at(device::Loaded<device::MovesOf<T>::value>::unit(device::HeapCalls::context(g), stored().unit()));
}
template <class T>
DWELL_DEVICE Ref<T> Field<T>::acquire(Group g) const {
  const u32 unit = device::load<device::Order::acquire, device::Scope::device>(&unit_);
  return Ref<T>::at(device::Loaded<device::MovesOf<T>::value>::unit(device::HeapCalls::context(g), unit));
}
template <class T>
DWELL_DEVICE void Field<T>::set(Group g, Ref<T> ref) {
  device::guard(g, stored().unit(), ref.unit());
  device::store<device::Order::relaxed, device::Scope::device>(&unit_, ref.unit());
}
template <class T>
DWELL_DEVICE void Field<T>::publish(Group g, Ref<T> ref) {
  device::guard(g, stored().unit(), ref.unit());
  device::store<device::Order::release, device::Scope::device>(&unit_, ref.unit());
}
template <class T>
DWELL_DEVICE Ref<T> Field<T>::compare_exchange(Group g, Ref<T> expected, Ref<T> desired) {
  // Before the exchange, whether or not that succeeds.
  device::guard(g, expected.unit(), desired.unit());
  u32 before = expected.unit();
  for (;;) {
    const u32 seen = device::compare_exchange<device::Order::acq_rel>(&unit_, before, desired.unit());
    if (seen == before) return expected;
    const u32 now = device::Loaded<device::MovesOf<T>::value>::unit(device::HeapCalls::context(g), seen);
    // The field may still name the place that the expected object has left.
    if (now == seen || now != expected.unit()) return Ref<T>::at(now);
    before = seen;
  }
}

DWELL_DEVICE Ref<void> Group::try_allocate(u64 bytes, u32 alignment) const {
  return Ref<void>::at(device::Maker<u32, false>::allocate(context_, bytes, alignment));
}
DWELL_DEVICE Ref<void> Group::allocate(u64 bytes, u32 alignment) const {
  const Ref<void> ref = try_allocate(bytes, alignment);
  if (!ref) fail(status::out_of_memory);
  return ref;
}

template <class T>
DWELL_DEVICE void Group::free(Ref<T> ref) const {
  const i32 status = device::HeapCalls::free(context_, ref.unit());
  if (status != status::ok) fail(status);
}

template <class T>
DWELL_DEVICE T* Group::at(Ref<T> ref) const {
  return device::pointer_to_global<T>(context_->heap + static_cast<u64>(ref.unit()) * kHeapUnit + device::Before<T>::bytes);
}

template <class T, class... Values>
DWELL_DEVICE Ref<T> Group::try_make(Values... values) const {
  static_assert(__is_trivially_copyable(T), "objects of the heap are moved as bytes: T is trivially copyable");
  static_assert(alignof(T) <= kMostHeapAlignment, "the heap aligns to 4096 bytes at most");
  const Ref<T> ref = Ref<T>::at(device::Maker<T>::allocate(context_, sizeof(T), alignof(T)));
  if (!ref) return ref;
  device::Initial<T>::guard(context_, values...);
  new (device::Here{}, at(ref)) T{values...};
  return ref;
}
template <class T, class... Values>
DWELL_DEVICE Ref<T> Group::make(Values... values) const {
  const Ref<T> ref = try_make<T>(values...);
  if (!ref) fail(status::out_of_memory);
  return ref;
}

template <class T>
DWELL_DEVICE Ref<Array<T>> Group::try_make_array(u32 size) const {
  const u64 bytes = sizeof(Array<T>) + static_cast<u64>(size) * sizeof(Field<T>);
  const auto ref = Ref<Array<T>>::at(device::Maker<Array<T>>::allocate(context_, bytes, alignof(Array<T>)));
  if (!ref) return ref;
  Array<T>* const array = at(ref);
  for (u32 i = 0; i < size; ++i) new (device::Here{}, &(*array)[i]) Field<T>(Ref<T>{});
  array->size_ = size;
  return ref;
}
template <class T>
DWELL_DEVICE Ref<Array<T>> Group::make_array(u32 size) const {
  const Ref<Array<T>> ref = try_make_array<T>(size);
  if (!ref) fail(status::out_of_memory);
  return ref;
}

}  // namespace dwell
