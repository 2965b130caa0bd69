// An operator's parameters as data: written by the compiler that compiles the operator, read by the host from the compiled object.
// The layout is shared by host and device.
#pragma once

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/complex.hpp>
#include <dwell/device/half.hpp>
#include <dwell/device/span.hpp>

namespace dwell {

// The kind of a parameter. Floating point is IEEE 754's; `bfloat` is a kind of its own because a half has as many bytes. Spans
// are two kinds, because one may be written and the other may not; so are pointers. Those, and `opaque` (some value of a known size), occur
// only with ordinary kernels, never in a SignatureRecord. `exec` is a graph that the operator may launch (Exec), `ring` a ring of messages
// (Ring, ByteRing).
enum class Kind : u8 {
  structure,
  boolean,
  signed_integer,
  unsigned_integer,
  floating,
  bfloat,
  complex,
  span,
  const_span,
  pointer,
  const_pointer,
  opaque,
  exec,
  ring
};

// One parameter. For a span, a ring or a pointer, `element` and `bytes` describe its elements (`bytes` is 0 where their size is not known
// or differs, and the element of void* is opaque); for any other kind, `element` is Kind::structure (0) and `bytes` is the size of the
// value.
struct Parameter {
  Kind kind;
  Kind element;
  u16 bytes;

  DWELL_HOST_DEVICE bool operator==(const Parameter& other) const {
    return kind == other.kind && element == other.element && bytes == other.bytes;
  }
};
static_assert(sizeof(Parameter) == 4, "host and device agree on the layout");

DWELL_CONSTANT u32 kMaxParameters = 30;
DWELL_CONSTANT u32 kSignatureMagic = 0x53575744;  // "DWWS"

// The record that DWELL_EXPORT emits beside an operator's entry.
struct SignatureRecord {
  u32 magic;
  u32 count;
  Parameter parameters[kMaxParameters];
};
static_assert(sizeof(SignatureRecord) == 128, "host and device agree on the layout");

namespace device {

template <class T>
struct IsSpan {
  static constexpr bool value = false;
};
template <class T>
struct IsSpan<Span<T>> {
  static constexpr bool value = true;
};

template <class T, class... Others>
DWELL_CONSTANT bool kAnyOf = false;
template <class T, class First, class... Rest>
DWELL_CONSTANT bool kAnyOf<T, First, Rest...> = kSame<T, First> || kAnyOf<T, Rest...>;

template <class T>
DWELL_HOST_DEVICE Kind kind_of() {
  if (kAnyOf<T, bool>) return Kind::boolean;
  if (kAnyOf<T, char, signed char, short, int, long, long long>) return Kind::signed_integer;
  if (kAnyOf<T, unsigned char, unsigned short, unsigned, unsigned long, unsigned long long>) return Kind::unsigned_integer;
  if (kAnyOf<T, half, float, double>) return Kind::floating;
  if (kAnyOf<T, bfloat16>) return Kind::bfloat;
  if (kAnyOf<T, dwell::complex<float>, dwell::complex<double>>) return Kind::complex;
  return Kind::structure;
}

// Specialise this for a type that is one of these by another name (CUDA's __half).
template <class T>
struct ElementKind {
  static constexpr Kind value = kind_of<T>();
};

// The description of a parameter of type T.
template <class T>
struct Describe {
  static_assert(__is_trivially_copyable(T), "operator arguments are copied as bytes: use a Span, an arithmetic type or a plain struct");
  static_assert(sizeof(T) <= 0xFFFF, "an argument takes less than 64 KiB: use a Span");
  static constexpr Parameter value{ElementKind<T>::value, Kind::structure, static_cast<u16>(sizeof(T))};
};
template <class T>
struct Describe<Span<T>> {
  using Element = typename RemoveConst<T>::type;
  static constexpr Parameter value{RemoveConst<T>::was_const ? Kind::const_span : Kind::span, ElementKind<Element>::value,
                                   static_cast<u16>(sizeof(Element))};
};

template <class T>
struct Describe<const T&> : Describe<T> {};

// Argument words that a parameter takes in a task (operator.hpp, Wire).
DWELL_HOST_DEVICE u32 words_of(const Parameter& parameter) {
  const bool is_memory = parameter.kind == Kind::span || parameter.kind == Kind::const_span || parameter.kind == Kind::ring;
  return is_memory ? 3 : (parameter.bytes + 3U) / 4;
}

// The record of a parameter list.
template <class... Parameters>
DWELL_HOST_DEVICE SignatureRecord signature_of() {
  static_assert(sizeof...(Parameters) <= kMaxParameters, "an operator takes at most 30 arguments");
  SignatureRecord record{kSignatureMagic, sizeof...(Parameters), {}};
  const Parameter list[sizeof...(Parameters) + 1] = {Describe<Parameters>::value..., Parameter{}};
  for (u32 i = 0; i < sizeof...(Parameters); ++i) record.parameters[i] = list[i];
  return record;
}

}  // namespace device
}  // namespace dwell
