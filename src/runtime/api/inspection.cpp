#include <algorithm>
#include <array>
#include <complex>
#include <cstdio>
#include <optional>
#include <utility>

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>
#include <dwell/element_type.hpp>
#include <dwell/inspect.hpp>
#include <dwell/signature.hpp>

namespace dwell {

namespace {

constexpr std::size_t kShown = 64;  // elements of an array, in a text

template <class T>
T element(const InspectedValue& value, std::size_t index) {
  T one;
  std::memcpy(&one, value.bytes.data() + index * sizeof(T), sizeof(T));
  return one;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::string text_of_element(const InspectedValue& value, std::size_t index) {
  const std::optional<ElementType> type = element_type_of(value.type);
  if (!type) {
    std::string text;
    for (std::size_t i = 0; i < value.type.bytes; ++i) {
      char digits[4];
      std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<unsigned>(value.bytes[index * value.type.bytes + i]));
      text += digits;
    }
    return text;
  }
  switch (*type) {
    case ElementType::f16: return number(static_cast<float>(element<half>(value, index)));
    case ElementType::bf16: return number(static_cast<float>(element<bfloat16>(value, index)));
    case ElementType::f32: return number(element<float>(value, index));
    case ElementType::f64: return number(element<double>(value, index));
    case ElementType::i8: return std::to_string(element<std::int8_t>(value, index));
    case ElementType::i16: return std::to_string(element<std::int16_t>(value, index));
    case ElementType::i32: return std::to_string(element<std::int32_t>(value, index));
    case ElementType::i64: return std::to_string(element<std::int64_t>(value, index));
    case ElementType::u8: return std::to_string(element<std::uint8_t>(value, index));
    case ElementType::u16: return std::to_string(element<std::uint16_t>(value, index));
    case ElementType::u32: return std::to_string(element<std::uint32_t>(value, index));
    case ElementType::u64: return std::to_string(element<std::uint64_t>(value, index));
    case ElementType::boolean: return element<std::uint8_t>(value, index) != 0 ? "true" : "false";
    case ElementType::complex64: {
      const auto z = element<std::complex<float>>(value, index);
      return number(z.real()) + "+" + number(z.imag()) + "i";
    }
    case ElementType::complex128: {
      const auto z = element<std::complex<double>>(value, index);
      return number(z.real()) + "+" + number(z.imag()) + "i";
    }
  }
  return {};
}

std::string text_of_value(const InspectedValue& value) {
  if (!value.array) return text_of_element(value, 0);
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(value.count, kShown); ++i) text += (i == 0 ? "" : ", ") + text_of_element(value, i);
  if (value.count > kShown) text += ", ... " + std::to_string(value.count) + " in all";
  return text + "]";
}

std::pair<std::string_view, std::string_view> parts_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::pair(std::string_view(), name) : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

}  // namespace

void InspectedValue::check(const Parameter& asked) const {
  const bool plain = asked.kind == Kind::structure && type.kind == Kind::structure;
  if (plain ? asked.bytes == type.bytes : asked == type) return;
  throw Error(errc::signature_mismatch, "'" + name + "' is " + text_of(type) + ", not " + text_of(asked), {"name", name});
}

void InspectedValue::refuse_array() const {
  throw Error(errc::signature_mismatch, "'" + name + "' is an array of " + std::to_string(count) + ": use elements<T>()", {"name", name});
}

const InspectedValue& Inspection::at(std::string_view field) const {
  for (const InspectedValue& one : values)
    if (one.name == field || parts_of(one.name).second == field) return one;
  std::string list;
  for (const InspectedValue& one : values) list += (list.empty() ? "" : ", ") + one.name;
  throw Error(errc::operator_not_found, "'" + name + "' has no '" + std::string(field) + "': there are " + list,
              {"name", std::string(field)});
}

const InspectedValue& Inspection::value() const {
  if (values.size() == 1) return values.front();
  throw Error(errc::invalid_argument, "'" + name + "' has " + std::to_string(values.size()) + " values: name one", {"name", name});
}

std::string to_string(const Inspection& inspection) {
  std::string text;
  std::string_view group;
  for (const InspectedValue& value : inspection.values) {
    const auto [before, last] = parts_of(value.name);
    const bool goes_on = !before.empty() && before == group && !text.empty();
    if (goes_on) {
      text.back() = ',';
      text += ' ';
    } else if (!before.empty()) {
      text += std::string(before) + ": ";
    }
    text += std::string(last) + (before.empty() ? ": " : " ") + text_of_value(value) + "\n";
    group = before;
  }
  // Said of variables that could have been guarded.
  if (!inspection.op.empty() && !inspection.whole) text += "(perhaps not of one moment: a dwell::Seqlock would guard it)\n";
  return text;
}

}  // namespace dwell
