// Variables of a source that the host reads while operators write them: DWELL_INSPECT(residual), Runtime::inspect("residual").
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/indices.hpp>
#include <dwell/device/seqlock.hpp>
#include <dwell/device/signature.hpp>

namespace dwell {

DWELL_CONSTANT u32 kMaxInspects = 64;            // values of one source
DWELL_CONSTANT u32 kMaxInspectLength = 40;       // of a name, with its end
DWELL_CONSTANT u32 kInspectsMagic = 0x49575744;  // "DWWI"

// One value that the host may read: a variable, or a member of one. The layout is shared by host and device.
struct InspectRecord {
  char name[kMaxInspectLength];  // "residual", "progress.step"
  Parameter type;                // of an element
  u32 count;                     // elements of an array; 0: a value alone
  const volatile void* address;
  const volatile void* sequence;  // the count of the Seqlock that holds it; null: a variable that may be read half written
};
static_assert(sizeof(InspectRecord) == 64, "host and device agree on the layout");

// The table that DWELL_EXPORT_INSPECTS emits: all values that a source shows, by place.
template <u32 number>
struct InspectsRecord {
  u32 magic;
  u32 count;
  InspectRecord each[number];
};
template <>
struct InspectsRecord<0> {
  u32 magic;
  u32 count;
};

namespace device {

// How many values a source shows, as far as it has been read. Only the type of the result counts; DWELL_INSPECT declares the others.
DWELL_HOST_DEVICE Place<0> dwell_inspects_before(Rank<0>) { return {}; }

template <class T, bool is_enum = __is_enum(T)>
struct InspectedKind {
  static constexpr Kind value = ElementKind<T>::value;
};
template <class T>
struct InspectedKind<T, true> {
  static constexpr Kind value = ElementKind<__underlying_type(T)>::value;
};

// A variable's type: of one element, and how many there are.
template <class T>
struct Inspected {
  static_assert(__is_trivially_copyable(T), "DWELL_INSPECT shows numbers, plain structs, arrays of them, and what a dwell::Seqlock holds");
  static constexpr Parameter type{InspectedKind<T>::value, Kind::structure, static_cast<u16>(sizeof(T))};
  static constexpr u32 count = 0;
  static_assert(sizeof(T) <= 0xFFFF, "DWELL_INSPECT: an element takes less than 64 KiB");
};
template <class T>
struct Inspected<const T> : Inspected<T> {};
template <class T>
struct Inspected<volatile T> : Inspected<T> {};
template <class T, decltype(sizeof(0)) number>
struct Inspected<T[number]> {
  static constexpr Parameter type = Inspected<T>::type;
  static constexpr u32 count = static_cast<u32>(number) * (Inspected<T>::count == 0 ? 1 : Inspected<T>::count);
};

// The record of `value`, which is a variable, or a member of one.
template <u32 length, class T>
DWELL_HOST_DEVICE InspectRecord inspect_record(const char (&name)[length], const T& value, const volatile void* sequence) {
  static_assert(length <= kMaxInspectLength, "what DWELL_INSPECT shows has a name of 39 characters at most, with the member's");
  InspectRecord record{{}, Inspected<T>::type, Inspected<T>::count, &value, sequence};
  for (u32 i = 0; i < length; ++i) record.name[i] = name[i];
  return record;
}

// Access to a variable's value, and the count that guards it.
struct InspectAccess {
  template <class T>
  static DWELL_HOST_DEVICE const T& value(const T& variable) {
    return variable;
  }
  template <class T>
  static DWELL_HOST_DEVICE const volatile void* sequence(const T&) {
    return nullptr;
  }
  template <class T>
  static DWELL_HOST_DEVICE const T& value(const Seqlock<T>& variable) {
    return variable.value_;
  }
  template <class T>
  static DWELL_HOST_DEVICE const volatile void* sequence(const Seqlock<T>& variable) {
    return &variable.sequence_;
  }
};

// The record of these, which are types that DWELL_INSPECT has declared.
template <class... Each>
DWELL_HOST_DEVICE InspectsRecord<sizeof...(Each)> record_of_inspects() {
  return InspectsRecord<sizeof...(Each)>{kInspectsMagic, sizeof...(Each), {Each::record()...}};
}
template <>
DWELL_HOST_DEVICE InspectsRecord<0> record_of_inspects<>() {
  return InspectsRecord<0>{kInspectsMagic, 0};
}

}  // namespace device
}  // namespace dwell

// Shows a variable of the source to the host, behind whose declaration it stands, at the outermost scope:
//   float residual = 0;
//   DWELL_INSPECT(residual)
// A number, an enumeration, a plain struct (shown as its bytes), an array of those, or a dwell::Seqlock of one. The host may read a
// variable of more than 8 bytes half written, and several at different moments: put values that belong together into a Seqlock. Each
// version of an operator has its own variables; on CUDA each image resets them. At most kMaxInspects values in a source.
#define DWELL_INSPECT(variable)                                                                        \
  struct dwell_inspect_##variable {                                                                    \
    DWELL_INSPECT_PLACE                                                                                \
    static DWELL_HOST_DEVICE dwell::InspectRecord record() {                                           \
      return dwell::device::inspect_record(#variable, dwell::device::InspectAccess::value(::variable), \
                                           dwell::device::InspectAccess::sequence(::variable));        \
    }                                                                                                  \
  };                                                                                                   \
  DWELL_INSPECT_PLACED(dwell_inspect_##variable)

// The same for members of a struct, or of the struct that a dwell::Seqlock holds: DWELL_INSPECT_MEMBERS(progress, step, residual) shows
// "progress.step" and "progress.residual". One to eight of them, once for a variable.
#define DWELL_INSPECT_MEMBERS(variable, ...) DWELL_INSPECT_CHOICE(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, )(variable, __VA_ARGS__)

#define DWELL_INSPECT_MEMBER(variable, member)                                                                            \
  struct dwell_inspect_##variable##_##member {                                                                            \
    DWELL_INSPECT_PLACE                                                                                                   \
    static DWELL_HOST_DEVICE dwell::InspectRecord record() {                                                              \
      return dwell::device::inspect_record(#variable "." #member, dwell::device::InspectAccess::value(::variable).member, \
                                           dwell::device::InspectAccess::sequence(::variable));                           \
    }                                                                                                                     \
  };                                                                                                                      \
  DWELL_INSPECT_PLACED(dwell_inspect_##variable##_##member)
#define DWELL_INSPECT_CHOICE(a, b, c, d, e, f, g, h, count, ...) DWELL_INSPECT_MEMBERS_##count
#define DWELL_INSPECT_MEMBERS_1(variable, first) DWELL_INSPECT_MEMBER(variable, first)
#define DWELL_INSPECT_MEMBERS_2(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_1(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_3(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_2(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_4(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_3(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_5(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_4(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_6(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_5(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_7(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_6(variable, __VA_ARGS__)
#define DWELL_INSPECT_MEMBERS_8(variable, first, ...) DWELL_INSPECT_MEMBER(variable, first) DWELL_INSPECT_MEMBERS_7(variable, __VA_ARGS__)

#define DWELL_INSPECT_PLACE                                                                                               \
  static constexpr dwell::u32 place = decltype(dwell_inspects_before(dwell::device::Rank<dwell::kMaxInspects>()))::value; \
  static_assert(place < dwell::kMaxInspects, "a source shows at most 64 values");
#define DWELL_INSPECT_PLACED(type)                                                                                           \
  static_assert(sizeof(::type) != 0, "DWELL_INSPECT stands outside of all namespaces");                                      \
  __attribute__((unused)) dwell::device::Place<type::place + 1> dwell_inspects_before(dwell::device::Rank<type::place + 1>); \
  __attribute__((unused)) type dwell_inspect_at(dwell::device::Place<type::place>);

// Emits what the source shows as `symbol`_inspects. The compiler adds this line behind the user's source.
#define DWELL_EXPORT_INSPECTS(symbol) \
  DWELL_RECORD_OF_INSPECTS(symbol)    \
  DWELL_EXPORT_CONSTANT(DWELL_INSPECTS_RECORD, symbol##_inspects) = symbol##_record_of_inspects(DWELL_ALL_INSPECTS());
#define DWELL_RECORD_OF_INSPECTS(symbol)                                                                                    \
  template <dwell::u32... place>                                                                                            \
  DWELL_HOST_DEVICE dwell::InspectsRecord<sizeof...(place)> symbol##_record_of_inspects(dwell::device::Indices<place...>) { \
    return dwell::device::record_of_inspects<decltype(dwell_inspect_at(dwell::device::Place<place>()))...>();               \
  }
#define DWELL_INSPECTS_COUNT decltype(dwell_inspects_before(dwell::device::Rank<dwell::kMaxInspects>()))::value
#define DWELL_INSPECTS_RECORD dwell::InspectsRecord<DWELL_INSPECTS_COUNT>
#define DWELL_ALL_INSPECTS dwell::device::MakeIndices<DWELL_INSPECTS_COUNT>
