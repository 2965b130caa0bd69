// The element types of arrays, by all the names they go by: in jobs ("f32"), in NumPy's files ("<f4"), and in operators' signatures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/device/signature.hpp>

namespace dwell::tool {

enum class ElementType : std::uint8_t { f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 };

inline constexpr std::array kElementTypes = {ElementType::f16, ElementType::f32, ElementType::f64, ElementType::i8,
                                             ElementType::i16, ElementType::i32, ElementType::i64, ElementType::u8,
                                             ElementType::u16, ElementType::u32, ElementType::u64};

std::string_view name_of(ElementType type);
std::size_t bytes_of(ElementType type);
Kind kind_of(ElementType type);
// "<f4", "|u1": always little-endian.
std::string_view numpy_name_of(ElementType type);

// Empty for names that mean none of the types above.
std::optional<ElementType> element_type_named(std::string_view name);
std::optional<ElementType> element_type_of_numpy(std::string_view descr);

// "f16, f32, ..."
std::string element_type_names();

// Whether an array of `type` can stand for a span with elements as `parameter` declares them. No type of C++20 is half precision, so
// operators see an f16 array as whatever holds its two bytes: a half type of their own, or unsigned 16-bit integers.
bool fits(ElementType type, const Parameter& parameter);

}  // namespace dwell::tool
