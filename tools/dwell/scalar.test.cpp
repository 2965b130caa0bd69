#include "scalar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace dwell::tool {
namespace {

using testing::HasSubstr;

template <class T>
T as(const Number& number) {
  const std::vector<std::byte> bytes = to_scalar(number, device::Describe<T>::value);
  T value{};
  EXPECT_EQ(bytes.size(), sizeof(T));
  std::memcpy(static_cast<void*>(&value), bytes.data(), std::min(bytes.size(), sizeof(T)));
  return value;
}
template <class T>
std::string refusal(const Number& number) {
  try {
    as<T>(number);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "none";
}
constexpr Number integer(std::int64_t value) { return value; }

TEST(Scalar, ConvertsToTheDeclaredKind) {
  EXPECT_EQ(as<bool>(true), true);
  EXPECT_EQ(as<signed char>(integer(-128)), -128);
  EXPECT_EQ(as<unsigned char>(integer(255)), 255);
  EXPECT_EQ(as<short>(integer(-3)), -3);
  EXPECT_EQ(as<unsigned>(integer(4294967295)), 4294967295U);
  EXPECT_EQ(as<long long>(integer(std::numeric_limits<std::int64_t>::min())), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(as<unsigned long>(integer(std::numeric_limits<std::int64_t>::max())), 0x7FFFFFFFFFFFFFFFU);
  EXPECT_EQ(as<int>(2.0), 2);
  EXPECT_EQ(as<float>(0.1), 0.1F);
  EXPECT_EQ(as<float>(integer(3)), 3.0F);
  EXPECT_EQ(as<double>(0.1), 0.1);
  EXPECT_EQ(as<float>(std::numeric_limits<double>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(as<half>(1.0).bits(), 0x3C00);
  EXPECT_EQ(as<bfloat16>(integer(3)).bits(), bfloat16(3.0F).bits());
  EXPECT_EQ(as<complex<float>>(2.5), complex<float>(2.5F, 0));
  EXPECT_EQ(as<complex<double>>(std::complex<double>(1, -0.1)), complex<double>(1, -0.1));
}

TEST(Scalar, RefusesNumbersOfTheWrongKindOrRange) {
  EXPECT_THAT(refusal<signed char>(integer(128)), HasSubstr("128 is out of the range of i8"));
  EXPECT_THAT(refusal<unsigned>(integer(-1)), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<unsigned long>(integer(-1)), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<long>(1e19), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<int>(2.5), HasSubstr("2.5 is no whole number"));
  EXPECT_THAT(refusal<int>(std::numeric_limits<double>::quiet_NaN()), HasSubstr("no whole number"));
  EXPECT_THAT(refusal<int>(true), HasSubstr("true is no number"));
  EXPECT_THAT(refusal<float>(true), HasSubstr("true is no number"));
  EXPECT_THAT(refusal<float>(1e39), HasSubstr("out of the range of float"));
  EXPECT_THAT(refusal<half>(65505.0), HasSubstr("out of the range of half"));
  EXPECT_THAT(refusal<bfloat16>(3.4e38), HasSubstr("out of the range of bfloat16"));
  EXPECT_THAT(refusal<complex<float>>(std::complex<double>(0, 1e39)), HasSubstr("out of the range of complex<float>"));
  EXPECT_THAT(refusal<float>(std::complex<double>(2, 1)), HasSubstr("[2, 1] is no number"));
  EXPECT_THAT(refusal<bool>(integer(1)), HasSubstr("neither true nor false"));
  EXPECT_THAT(refusal<Span<float>>(1.0), HasSubstr("is no array"));
  struct Pair {
    int a, b;
  };
  EXPECT_THAT(refusal<Pair>(1.0), HasSubstr("cannot be given"));
}

TEST(Scalar, ShortFloatsAreTheNearestToTheNumberAsItWasWritten) {
  const auto bits = [](double value) { return as<half>(value).bits(); };
  EXPECT_EQ(bits(65504.0), 0x7BFF);
  EXPECT_EQ(bits(1.0 + 0x1p-11), 0x3C00);  // a tie, to even
  EXPECT_EQ(bits(1.0 + 3 * 0x1p-11), 0x3C02);
  // No ties, though the nearest float is one.
  EXPECT_EQ(bits(1.0 + 0x1p-11 + 0x1p-40), 0x3C01);
  EXPECT_EQ(bits(1.0 + 3 * 0x1p-11 - 0x1p-40), 0x3C01);
  EXPECT_EQ(bits(-(1.0 + 0x1p-11 + 0x1p-40)), 0xBC01);
  EXPECT_EQ(as<bfloat16>(1.0 + 0x1p-8 + 0x1p-40).bits(), 0x3F81);
}

}  // namespace
}  // namespace dwell::tool
