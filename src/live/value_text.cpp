#include "live/value_text.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>
#include <dwell/device/operator.hpp>
#include <dwell/element_type.hpp>

namespace dwell::live {

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

}  // namespace

std::string text_of_value(const InspectedValue& value) {
  if (!value.text.empty()) return value.text;
  if (!value.array) return text_of_element(value, 0);
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(value.count, kShown); ++i) text += (i == 0 ? "" : ", ") + text_of_element(value, i);
  if (value.count > kShown) text += ", ... " + std::to_string(value.count) + " in all";
  return text + "]";
}

std::string text_of_arguments(const Signature& signature, std::span<const std::uint32_t> words) {
  std::size_t all = 0;
  for (const Parameter& parameter : signature.parameters()) all += device::words_of(parameter);
  if (all > device::kMaxRingWords) return {};
  std::string text = "(";
  for (const Parameter& parameter : signature.parameters()) {
    const std::size_t count = device::words_of(parameter);
    if (count > words.size()) return text + "...)";
    if (text.size() > 1) text += ", ";
    if (parameter.kind == Kind::span || parameter.kind == Kind::const_span) {
      const auto span = device::Wire<Span<char>>::read(words.data());
      char place[64];
      std::snprintf(place, sizeof(place), "%p[%llu]", static_cast<const void*>(span.data()), static_cast<unsigned long long>(span.size()));
      text += place;
    } else if (element_type_of(parameter)) {
      InspectedValue value{{}, parameter, 1, false, std::vector<std::byte>(parameter.bytes), {}};
      std::memcpy(value.bytes.data(), words.data(), parameter.bytes);
      text += text_of_value(value);
    } else {
      text += text_of(parameter);
    }
    words = words.subspan(count);
  }
  return text + ")";
}

}  // namespace dwell::live
