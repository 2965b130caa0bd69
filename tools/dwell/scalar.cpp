#include "scalar.hpp"

#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <dwell/signature.hpp>

namespace dwell::tool {

namespace {

[[noreturn]] void refuse(const Number& number, const Parameter& parameter, const char* why) {
  throw std::invalid_argument(text_of(number) + " " + why + " " + text_of(parameter));
}

template <class T>
T to_integer(const Number& number, const Parameter& parameter) {
  const auto* integer = std::get_if<std::int64_t>(&number);
  std::int64_t whole = 0;
  if (const auto* const floating = std::get_if<double>(&number)) {
    if (std::trunc(*floating) != *floating) refuse(number, parameter, "is no whole number, as is needed for");
    if (*floating < -0x1p63 || *floating >= 0x1p63) refuse(number, parameter, "is out of the range of");
    whole = static_cast<std::int64_t>(*floating);
    integer = &whole;
  }
  if (integer == nullptr) refuse(number, parameter, "is no number, as is needed for");
  bool fits = false;
  if constexpr (std::is_signed_v<T>) {
    fits = *integer >= std::numeric_limits<T>::min() && *integer <= std::numeric_limits<T>::max();
  } else {
    fits = *integer >= 0 && static_cast<std::uint64_t>(*integer) <= std::numeric_limits<T>::max();
  }
  if (!fits) refuse(number, parameter, "is out of the range of");
  return static_cast<T>(*integer);
}

double to_floating(const Number& number, const Parameter& parameter, double largest) {
  double value = 0;
  if (const auto* const integer = std::get_if<std::int64_t>(&number)) {
    value = static_cast<double>(*integer);
  } else if (const auto* const floating = std::get_if<double>(&number)) {
    value = *floating;
  } else {
    refuse(number, parameter, "is no number, as is needed for");
  }
  if (std::isfinite(value) && std::fabs(value) > largest) refuse(number, parameter, "is out of the range of");
  return value;
}

// The nearest `Short`, ties to even. Its own conversion starts at a float; one whose last digit tells that digits are missing does not let
// the two roundings add up.
template <class Short>
Short nearest(double value) {
  auto rounded = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::isfinite(rounded) && rounded != value && (bits & 1U) == 0) {
    bits += std::fabs(rounded) < std::fabs(value) ? 1U : ~0U;
    rounded = std::bit_cast<float>(bits);
  }
  return Short(rounded);
}

template <class T>
complex<T> to_complex(const Number& number, const Parameter& parameter) {
  const auto* const both = std::get_if<std::complex<double>>(&number);
  const auto part = [&](const Number& value) { return static_cast<T>(to_floating(value, parameter, std::numeric_limits<T>::max())); };
  return both != nullptr ? complex<T>(part(both->real()), part(both->imag())) : complex<T>(part(number));
}

}  // namespace

std::string text_of(const Number& number) {
  std::ostringstream text;
  text.precision(17);
  text << std::boolalpha;
  if (const auto* const both = std::get_if<std::complex<double>>(&number)) {
    text << '[' << both->real() << ", " << both->imag() << ']';
  } else {
    std::visit([&](auto value) { text << value; }, number);
  }
  return text.str();
}

Scalar to_scalar(const Number& number, const Parameter& parameter) {
  switch (parameter.kind) {
    case Kind::boolean:
      if (const bool* const value = std::get_if<bool>(&number)) return *value;
      refuse(number, parameter, "is neither true nor false, as is needed for");
    case Kind::signed_integer:
      switch (parameter.bytes) {
        case 1: return to_integer<std::int8_t>(number, parameter);
        case 2: return to_integer<std::int16_t>(number, parameter);
        case 4: return to_integer<std::int32_t>(number, parameter);
        case 8: return to_integer<std::int64_t>(number, parameter);
        default: break;
      }
      break;
    case Kind::unsigned_integer:
      switch (parameter.bytes) {
        case 1: return to_integer<std::uint8_t>(number, parameter);
        case 2: return to_integer<std::uint16_t>(number, parameter);
        case 4: return to_integer<std::uint32_t>(number, parameter);
        case 8: return to_integer<std::uint64_t>(number, parameter);
        default: break;
      }
      break;
    case Kind::floating:
      switch (parameter.bytes) {
        case 2: return nearest<half>(to_floating(number, parameter, half::max()));
        case 4: return static_cast<float>(to_floating(number, parameter, std::numeric_limits<float>::max()));
        case 8: return to_floating(number, parameter, std::numeric_limits<double>::max());
        default: break;
      }
      break;
    case Kind::bfloat: return nearest<bfloat16>(to_floating(number, parameter, bfloat16::max()));
    case Kind::complex:
      if (parameter.bytes == sizeof(complex<float>)) return to_complex<float>(number, parameter);
      return to_complex<double>(number, parameter);
    case Kind::span:
    case Kind::const_span: refuse(number, parameter, "is no array, as is needed for");
    case Kind::structure:
    case Kind::pointer:
    case Kind::const_pointer:
    case Kind::opaque: break;
  }
  refuse(number, parameter, "cannot be given for");
}

}  // namespace dwell::tool
