#include "element_type.hpp"

#include <array>

namespace dwell::tool {

namespace {

// In the order of ElementType.
constexpr std::array<std::string_view, kElementTypes.size()> kNumpyNames = {"<f2", "<V2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8",
                                                                            "|u1", "<u2", "<u4", "<u8", "|b1", "<c8", "<c16"};

bool is_beyond_cpp(ElementType type) { return type == ElementType::f16 || kind_of(type) == Kind::bfloat || kind_of(type) == Kind::complex; }

}  // namespace

std::string_view numpy_name_of(ElementType type) { return kNumpyNames.at(static_cast<std::size_t>(type)); }

std::optional<ElementType> element_type_of_numpy(std::string_view descr) {
  if (descr.size() < 2) return std::nullopt;
  const char order = descr.front();
  for (const ElementType type : kElementTypes) {
    if (numpy_name_of(type).substr(1) != descr.substr(1)) continue;
    // '=' is the writer's byte order, which NumPy never stores. One byte has no order, and neither do NumPy's two raw bytes.
    if (order == '<' || (bytes_of(type) == 1 && (order == '|' || order == '>' || order == '='))) return type;
    if (type == ElementType::bf16 && order == '|') return type;
  }
  return std::nullopt;
}

bool fits(ElementType type, const Parameter& parameter) {
  if (parameter.kind != Kind::span && parameter.kind != Kind::const_span) return false;
  if (parameter.bytes != bytes_of(type)) return false;
  if (parameter.element == kind_of(type)) return true;
  if (!is_beyond_cpp(type)) return false;
  return parameter.element == Kind::structure || (parameter.bytes == 2 && parameter.element == Kind::unsigned_integer);
}

}  // namespace dwell::tool
