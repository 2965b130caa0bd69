// Element types of arrays as run-time values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/device/element_type.hpp>
#include <dwell/device/signature.hpp>

namespace dwell {

inline constexpr std::array kElementTypes = {ElementType::f16,     ElementType::bf16,      ElementType::f32,       ElementType::f64,
                                             ElementType::i8,      ElementType::i16,       ElementType::i32,       ElementType::i64,
                                             ElementType::u8,      ElementType::u16,       ElementType::u32,       ElementType::u64,
                                             ElementType::boolean, ElementType::complex64, ElementType::complex128};

// "f16", "bf16", "f32", ..., "bool", "complex64", "complex128".
std::string_view name_of(ElementType type);
// Returns nothing for an unknown name.
std::optional<ElementType> element_type_named(std::string_view name);
// "f16, bf16, f32, ..."
std::string element_type_names();

// The size of one element.
constexpr std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean: return 1;
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::i16:
    case ElementType::u16: return 2;
    case ElementType::f32:
    case ElementType::i32:
    case ElementType::u32: return 4;
    case ElementType::f64:
    case ElementType::i64:
    case ElementType::u64:
    case ElementType::complex64: return 8;
    case ElementType::complex128: return 16;
  }
  return 0;
}
Kind kind_of(ElementType type);

// Returns the type of `parameter`, or of the elements of a span or a pointer; nothing for structs and opaque values.
std::optional<ElementType> element_type_of(const Parameter& parameter);
// Returns the element type of T; nothing if it has none.
template <class T>
std::optional<ElementType> element_type_of() {
  return element_type_of(device::Describe<T>::value);
}

// Parameters of an operator: a value of `type`, a writable span, and a read-only one.
Parameter value_of(ElementType type);
Parameter span_of(ElementType type);
Parameter const_span_of(ElementType type);

}  // namespace dwell
