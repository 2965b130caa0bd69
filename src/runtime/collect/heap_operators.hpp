// The operators by which the host works on the heap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dwell::runtime {

enum class HeapOperator : std::uint8_t { allocate, free, make, hold, hold_field, store };
inline constexpr std::size_t kHeapOperators = 6;

// The host's own allocations and frees are tasks of these operators.
inline constexpr const char* kHeapAllocate = R"(
DWELL_OPERATOR(dwell_heap_allocate)(dwell::Group g, dwell::u64 bytes, dwell::u32 alignment, dwell::Span<dwell::u32> units) {
  for (auto i : g.range(units.size())) units[i] = g.try_allocate(bytes, alignment).unit();
}
)";
inline constexpr const char* kHeapFree = R"(
DWELL_OPERATOR(dwell_heap_free)(dwell::Group g, dwell::Span<const dwell::u32> units) {
  for (auto i : g.range(units.size())) g.free(dwell::Ref<void>::at(units[i]));
}
)";

// Makes an object of the type whose record comes first in `data`, then its members, and holds it.
inline constexpr const char* kHeapMake = R"(
DWELL_OPERATOR(dwell_heap_make)(dwell::Group g, dwell::u32 bytes, dwell::u32 handle, dwell::Span<const dwell::u64> data,
                                dwell::Span<dwell::u32> made) {
  if (g.rank() != 0) return;
  dwell::device::Context* const context = dwell::device::HeapCalls::context(g);
  const dwell::device::TypeRecord record = *reinterpret_cast<const dwell::device::TypeRecord*>(data.data());
  dwell::u32 type = dwell::device::HeapCalls::find_type(context, record.key);
  if (type == 0) type = dwell::device::HeapCalls::declare_type(context, &record);
  const dwell::u32 unit = type == 0 ? 0 : dwell::device::HeapCalls::make_object(context, record.bytes, type);
  made[0] = unit;
  if (unit == 0) return;
  dwell::u8* const to = g.at(dwell::Ref<dwell::u8>::at(unit)) + (record.bytes - bytes);
  const dwell::u8* const from = reinterpret_cast<const dwell::u8*>(data.data()) + sizeof(record);
  for (dwell::u32 i = 0; i < bytes; ++i) to[i] = from[i];
  // The host may have read its references before they were overwritten.
  for (dwell::u32 i = 0; i < record.count; ++i)
    dwell::device::HeapCalls::before_store(context, *reinterpret_cast<const dwell::u32*>(to + bytes - record.bytes + record.at[i]));
  // The collector's verb `hold`.
  const dwell::device::Collect hold{5, 0, 1, 0, handle, handle + 1, made.data(), 1, nullptr};
  dwell::device::HeapCalls::collect(context, hold);
}
)";
inline constexpr const char* kHeapHold = R"(
DWELL_OPERATOR(dwell_heap_hold)(dwell::Group g, dwell::u32 handle, dwell::Span<const dwell::u32> unit) {
  const dwell::device::Collect hold{5, 0, 1, 0, handle, handle + 1, unit.data(), 1, nullptr};
  if (g.rank() == 0) dwell::device::HeapCalls::before_store(dwell::device::HeapCalls::context(g), unit[0]);
  g.sync();
  dwell::device::HeapCalls::collect(dwell::device::HeapCalls::context(g), hold);
}
)";
// Holds what a reference in an object names, and tells where that is.
inline constexpr const char* kHeapHoldField = R"(
DWELL_OPERATOR(dwell_heap_hold_field)(dwell::Group g, dwell::u32 object, dwell::u32 offset, dwell::u32 handle, dwell::Span<dwell::u32> unit) {
  dwell::device::Context* const context = dwell::device::HeapCalls::context(g);
  if (g.rank() == 0) {
    const dwell::u32 stored = dwell::device::load<dwell::device::Order::acquire, dwell::device::Scope::device>(
        reinterpret_cast<const dwell::u32*>(g.at(dwell::Ref<dwell::u8>::at(object)) + offset));
    unit[0] = dwell::device::Loaded<true>::unit(context, stored);
    dwell::device::HeapCalls::before_store(context, unit[0]);
  }
  g.sync();
  const dwell::device::Collect hold{5, 0, 1, 0, handle, handle + 1, unit.data(), 1, nullptr};
  dwell::device::HeapCalls::collect(context, hold);
}
)";
// Overwrites a reference in an object.
inline constexpr const char* kHeapStore = R"(
DWELL_OPERATOR(dwell_heap_store)(dwell::Group g, dwell::u32 object, dwell::u32 offset, dwell::u32 unit) {
  if (g.rank() != 0) return;
  reinterpret_cast<dwell::Field<dwell::u8>*>(g.at(dwell::Ref<dwell::u8>::at(object)) + offset)->publish(g, dwell::Ref<dwell::u8>::at(unit));
}
)";

// By HeapOperator.
struct HeapText {
  const char* name;
  const char* text;
};
inline constexpr HeapText kHeapTexts[kHeapOperators] = {{"dwell_heap_allocate", kHeapAllocate},
                                                        {"dwell_heap_free", kHeapFree},
                                                        {"dwell_heap_make", kHeapMake},
                                                        {"dwell_heap_hold", kHeapHold},
                                                        {"dwell_heap_hold_field", kHeapHoldField},
                                                        {"dwell_heap_store", kHeapStore}};

}  // namespace dwell::runtime
