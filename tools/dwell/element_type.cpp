#include "element_type.hpp"

namespace dwell::tool {

namespace {

struct Names {
  std::string_view name;
  std::string_view numpy;
  std::size_t bytes;
  Kind kind;
};

// In the order of ElementType.
constexpr std::array<Names, kElementTypes.size()> kNames = {{
    {"f16", "<f2", 2, Kind::floating},
    {"f32", "<f4", 4, Kind::floating},
    {"f64", "<f8", 8, Kind::floating},
    {"i8", "|i1", 1, Kind::signed_integer},
    {"i16", "<i2", 2, Kind::signed_integer},
    {"i32", "<i4", 4, Kind::signed_integer},
    {"i64", "<i8", 8, Kind::signed_integer},
    {"u8", "|u1", 1, Kind::unsigned_integer},
    {"u16", "<u2", 2, Kind::unsigned_integer},
    {"u32", "<u4", 4, Kind::unsigned_integer},
    {"u64", "<u8", 8, Kind::unsigned_integer},
}};

const Names& names_of(ElementType type) { return kNames[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view name_of(ElementType type) { return names_of(type).name; }
std::size_t bytes_of(ElementType type) { return names_of(type).bytes; }
Kind kind_of(ElementType type) { return names_of(type).kind; }
std::string_view numpy_name_of(ElementType type) { return names_of(type).numpy; }

std::optional<ElementType> element_type_named(std::string_view name) {
  for (const ElementType type : kElementTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

std::optional<ElementType> element_type_of_numpy(std::string_view descr) {
  if (descr.size() < 2) return std::nullopt;
  const char order = descr.front();
  for (const ElementType type : kElementTypes) {
    if (numpy_name_of(type).substr(1) != descr.substr(1)) continue;
    // '=' is the writer's own order, which NumPy never stores; one byte has no order.
    if (order == '<' || (bytes_of(type) == 1 && (order == '|' || order == '>' || order == '='))) return type;
  }
  return std::nullopt;
}

std::string element_type_names() {
  std::string list;
  for (const ElementType type : kElementTypes) list += (list.empty() ? "" : ", ") + std::string(name_of(type));
  return list;
}

bool fits(ElementType type, const Parameter& parameter) {
  if (parameter.kind != Kind::span && parameter.kind != Kind::const_span) return false;
  if (parameter.bytes != bytes_of(type)) return false;
  if (parameter.element == kind_of(type)) return true;
  return type == ElementType::f16 && (parameter.element == Kind::unsigned_integer || parameter.element == Kind::structure);
}

}  // namespace dwell::tool
