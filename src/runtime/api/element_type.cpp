#include <dwell/element_type.hpp>

namespace dwell {

namespace {

struct Description {
  std::string_view name;
  Kind kind;
};

// In the order of ElementType.
constexpr std::array<Description, kElementTypes.size()> kDescriptions = {{
    {"f16", Kind::floating},
    {"bf16", Kind::bfloat},
    {"f32", Kind::floating},
    {"f64", Kind::floating},
    {"i8", Kind::signed_integer},
    {"i16", Kind::signed_integer},
    {"i32", Kind::signed_integer},
    {"i64", Kind::signed_integer},
    {"u8", Kind::unsigned_integer},
    {"u16", Kind::unsigned_integer},
    {"u32", Kind::unsigned_integer},
    {"u64", Kind::unsigned_integer},
    {"bool", Kind::boolean},
    {"complex64", Kind::complex},
    {"complex128", Kind::complex},
}};

const Description& description_of(ElementType type) { return kDescriptions.at(static_cast<std::size_t>(type)); }

bool has_elements(Kind kind) {
  return kind == Kind::span || kind == Kind::const_span || kind == Kind::pointer || kind == Kind::const_pointer;
}

}  // namespace

std::string_view name_of(ElementType type) { return description_of(type).name; }
Kind kind_of(ElementType type) { return description_of(type).kind; }

std::optional<ElementType> element_type_named(std::string_view name) {
  for (const ElementType type : kElementTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

std::string element_type_names() {
  std::string list;
  for (const ElementType type : kElementTypes) list += (list.empty() ? "" : ", ") + std::string(name_of(type));
  return list;
}

std::optional<ElementType> element_type_of(const Parameter& parameter) {
  const Kind kind = has_elements(parameter.kind) ? parameter.element : parameter.kind;
  for (const ElementType type : kElementTypes) {
    if (kind_of(type) == kind && bytes_of(type) == parameter.bytes) return type;
  }
  return std::nullopt;
}

Parameter value_of(ElementType type) { return {kind_of(type), Kind::structure, static_cast<std::uint16_t>(bytes_of(type))}; }
Parameter span_of(ElementType type) { return {Kind::span, kind_of(type), static_cast<std::uint16_t>(bytes_of(type))}; }
Parameter const_span_of(ElementType type) { return {Kind::const_span, kind_of(type), static_cast<std::uint16_t>(bytes_of(type))}; }

}  // namespace dwell
