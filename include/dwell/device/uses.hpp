// Operators that a source names so that its own operators can make tasks of them.
#pragma once

#include <dwell/device/indices.hpp>
#include <dwell/device/signature.hpp>

namespace dwell {

// The handle that DWELL_USES declares: the `place`-th operator that the source uses, and the function type of its parameters after the
// group, void(u32, Span<float>). Empty, passed by value.
template <u32 place, class Function>
struct Use;
template <u32 place, class... Parameters>
struct Use<place, void(Parameters...)> {};

DWELL_CONSTANT u32 kMaxUses = 32;            // of one source
DWELL_CONSTANT u32 kMaxUseLength = 120;      // of a name, with its end
DWELL_CONSTANT u32 kUsesMagic = 0x55575744;  // "DWWU"

// One operator that a source uses: its name, and the parameters that the source declares.
struct UseRecord {
  char name[kMaxUseLength];
  SignatureRecord signature;
};
static_assert(sizeof(UseRecord) == 248, "host and device agree on the layout");

// The table that DWELL_EXPORT_USES emits: all operators that a source uses, by place.
template <u32 number>
struct UsesRecord {
  u32 magic;
  u32 count;
  UseRecord each[number];
};
template <>
struct UsesRecord<0> {
  u32 magic;
  u32 count;
};

namespace device {

// How many operators a source uses, as far as it has been read. Only the type of the result counts; DWELL_USES declares the others.
DWELL_HOST_DEVICE Place<0> dwell_uses_before(Rank<0>) { return {}; }

template <u32 length>
DWELL_HOST_DEVICE void copy_name(char (&to)[kMaxUseLength], const char (&from)[length]) {
  static_assert(length <= kMaxUseLength, "the name of an operator that is used has 119 characters at most");
  for (u32 i = 0; i < length; ++i) to[i] = from[i];
}

template <class Function>
struct ParametersOf;
template <class... Parameters>
struct ParametersOf<void(Parameters...)> {
  static DWELL_HOST_DEVICE SignatureRecord signature() { return signature_of<Parameters...>(); }
};

// The record of these, which are types that DWELL_USES has declared.
template <class... Each>
DWELL_HOST_DEVICE UsesRecord<sizeof...(Each)> record_of_uses() {
  return UsesRecord<sizeof...(Each)>{kUsesMagic, sizeof...(Each), {Each::record()...}};
}
template <>
DWELL_HOST_DEVICE UsesRecord<0> record_of_uses<>() {
  return UsesRecord<0>{kUsesMagic, 0};
}

}  // namespace device
}  // namespace dwell

// Names an operator that the source's own operators make tasks of, with the types of its parameters behind the group:
//   DWELL_USES(fib, dwell::u32, dwell::Span<dwell::u64>)
// Stands at the outermost scope of the source, before the operators that use the handle that it declares, `uses::fib`. Group::opcode
// returns its opcode. The used operator is defined before this one, or is this one. Each version binds to the used operator's current
// version, and is rebound when that changes (docs/operators.md). At most kMaxUses in a source. Defining the operator fails with
// errc::operator_not_found if no operator has the name, with errc::signature_mismatch if it takes other arguments.
#define DWELL_USES(operator_name, ...)                                                                                                 \
  struct dwell_use_##operator_name {                                                                                                   \
    static constexpr dwell::u32 place = decltype(dwell_uses_before(dwell::device::Rank<dwell::kMaxUses>()))::value;                    \
    static_assert(place < dwell::kMaxUses, "a source uses at most 32 operators");                                                      \
    using Function = void(__VA_ARGS__);                                                                                                \
    static DWELL_HOST_DEVICE dwell::UseRecord record() {                                                                               \
      dwell::UseRecord record{{}, dwell::device::ParametersOf<Function>::signature()};                                                 \
      dwell::device::copy_name(record.name, #operator_name);                                                                           \
      return record;                                                                                                                   \
    }                                                                                                                                  \
  };                                                                                                                                   \
  static_assert(sizeof(::dwell_use_##operator_name) != 0, "DWELL_USES stands outside of all namespaces");                              \
  __attribute__((unused)) dwell::device::Place<dwell_use_##operator_name::place + 1> dwell_uses_before(                                \
      dwell::device::Rank<dwell_use_##operator_name::place + 1>);                                                                      \
  __attribute__((unused)) dwell_use_##operator_name dwell_use_at(dwell::device::Place<dwell_use_##operator_name::place>);              \
  namespace uses {                                                                                                                     \
  __attribute__((unused)) constexpr dwell::Use<dwell_use_##operator_name::place, dwell_use_##operator_name::Function> operator_name{}; \
  }

// Emits what the source uses as `symbol`_uses. The compiler adds this line behind the user's source.
#define DWELL_EXPORT_USES(symbol) \
  DWELL_RECORD_OF_USES(symbol)    \
  DWELL_EXPORT_CONSTANT(DWELL_USES_RECORD, symbol##_uses) = symbol##_record_of_uses(DWELL_ALL_USES());
// A template, so it can name each place; after the source, so it finds all that DWELL_USES has declared.
#define DWELL_RECORD_OF_USES(symbol)                                                                                \
  template <dwell::u32... place>                                                                                    \
  DWELL_HOST_DEVICE dwell::UsesRecord<sizeof...(place)> symbol##_record_of_uses(dwell::device::Indices<place...>) { \
    return dwell::device::record_of_uses<decltype(dwell_use_at(dwell::device::Place<place>()))...>();               \
  }
#define DWELL_USES_COUNT decltype(dwell_uses_before(dwell::device::Rank<dwell::kMaxUses>()))::value
#define DWELL_USES_RECORD dwell::UsesRecord<DWELL_USES_COUNT>
#define DWELL_ALL_USES dwell::device::MakeIndices<DWELL_USES_COUNT>
