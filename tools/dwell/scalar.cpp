#include "scalar.hpp"

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

#include <dwell/signature.hpp>

namespace dwell::tool {

namespace {

[[noreturn]] void refuse(const Number& number, const Parameter& parameter, const char* why) {
  throw std::invalid_argument(text_of(number) + " " + why + " " + text_of(parameter));
}

// Returns the integer; throws if it is outside the parameter's range.
std::int64_t to_integer(const Number& number, const Parameter& parameter) {
  const auto* integer = std::get_if<std::int64_t>(&number);
  std::int64_t whole = 0;
  if (const auto* const floating = std::get_if<double>(&number)) {
    if (std::trunc(*floating) != *floating) refuse(number, parameter, "is no whole number, as is needed for");
    if (*floating < -0x1p63 || *floating >= 0x1p63) refuse(number, parameter, "is out of the range of");
    whole = static_cast<std::int64_t>(*floating);
    integer = &whole;
  }
  if (integer == nullptr) refuse(number, parameter, "is no number, as is needed for");
  const bool is_signed = parameter.kind == Kind::signed_integer;
  const int bits = parameter.bytes * 8 - (is_signed ? 1 : 0);
  const std::int64_t highest = bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  const std::int64_t lowest = is_signed ? -highest - 1 : 0;
  if (*integer < lowest || *integer > highest) refuse(number, parameter, "is out of the range of");
  return *integer;
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

// Returns the nearest `Short`, ties to even. Its conversion starts from a float, which is rounded to odd here, so that the two roundings do
// not add up.
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

// Returns the first bytes of a value: all, or the low ones of an integer.
template <class T>
std::vector<std::byte> bytes_of_value(const T& value, std::size_t bytes = sizeof(T)) {
  static_assert(std::endian::native == std::endian::little);
  const auto all = std::as_bytes(std::span(&value, 1));
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes)};
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

std::vector<std::byte> to_scalar(const Number& number, const Parameter& parameter) {
  switch (parameter.kind) {
    case Kind::boolean:
      if (const bool* const value = std::get_if<bool>(&number)) return bytes_of_value(*value);
      refuse(number, parameter, "is neither true nor false, as is needed for");
    case Kind::signed_integer:
    case Kind::unsigned_integer: return bytes_of_value(to_integer(number, parameter), parameter.bytes);
    case Kind::floating:
      if (parameter.bytes == sizeof(half)) return bytes_of_value(nearest<half>(to_floating(number, parameter, half::max())));
      if (parameter.bytes == sizeof(float))
        return bytes_of_value(static_cast<float>(to_floating(number, parameter, std::numeric_limits<float>::max())));
      return bytes_of_value(to_floating(number, parameter, std::numeric_limits<double>::max()));
    case Kind::bfloat: return bytes_of_value(nearest<bfloat16>(to_floating(number, parameter, bfloat16::max())));
    case Kind::complex:
      if (parameter.bytes == sizeof(complex<float>)) return bytes_of_value(to_complex<float>(number, parameter));
      return bytes_of_value(to_complex<double>(number, parameter));
    case Kind::span:
    case Kind::const_span: refuse(number, parameter, "is no array, as is needed for");
    default: refuse(number, parameter, "cannot be given for");
  }
}

}  // namespace dwell::tool
