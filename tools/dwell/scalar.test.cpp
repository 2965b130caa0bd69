#include "scalar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace dwell::tool {
namespace {

using testing::HasSubstr;

template <class T>
Scalar as(const Number& number) {
  return to_scalar(number, device::Describe<T>::value);
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

TEST(Scalar, TakesTheKindThatTheOperatorDeclares) {
  EXPECT_EQ(as<bool>(true), Scalar(true));
  EXPECT_EQ(as<signed char>(integer(-128)), Scalar(std::int8_t{-128}));
  EXPECT_EQ(as<unsigned char>(integer(255)), Scalar(std::uint8_t{255}));
  EXPECT_EQ(as<short>(integer(-3)), Scalar(std::int16_t{-3}));
  EXPECT_EQ(as<unsigned>(integer(4294967295)), Scalar(std::uint32_t{4294967295}));
  EXPECT_EQ(as<long long>(integer(std::numeric_limits<std::int64_t>::min())), Scalar(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(as<unsigned long>(integer(std::numeric_limits<std::int64_t>::max())), Scalar(std::uint64_t{0x7FFFFFFFFFFFFFFF}));
  EXPECT_EQ(as<int>(2.0), Scalar(std::int32_t{2}));
  EXPECT_EQ(as<float>(0.1), Scalar(0.1F));
  EXPECT_EQ(as<float>(integer(3)), Scalar(3.0F));
  EXPECT_EQ(as<double>(0.1), Scalar(0.1));
  EXPECT_EQ(as<float>(std::numeric_limits<double>::infinity()), Scalar(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(as<Half>(1.0), Scalar(Half{0x3C00}));
}

TEST(Scalar, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal<signed char>(integer(128)), HasSubstr("128 is out of the range of i8"));
  EXPECT_THAT(refusal<unsigned>(integer(-1)), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<unsigned long>(integer(-1)), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<long>(1e19), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<int>(2.5), HasSubstr("2.5 is no whole number"));
  EXPECT_THAT(refusal<int>(std::numeric_limits<double>::quiet_NaN()), HasSubstr("no whole number"));
  EXPECT_THAT(refusal<int>(true), HasSubstr("true is no number"));
  EXPECT_THAT(refusal<float>(true), HasSubstr("true is no number"));
  EXPECT_THAT(refusal<float>(1e39), HasSubstr("out of the range of float"));
  EXPECT_THAT(refusal<Half>(65505.0), HasSubstr("out of the range"));
  EXPECT_THAT(refusal<bool>(integer(1)), HasSubstr("neither true nor false"));
  EXPECT_THAT(refusal<Span<float>>(1.0), HasSubstr("is no array"));
  struct Pair {
    int a, b;
  };
  EXPECT_THAT(refusal<Pair>(1.0), HasSubstr("cannot be given"));
}

TEST(Half, RoundsToTheNearest) {
  EXPECT_EQ(to_half(0.0).bits, 0x0000);
  EXPECT_EQ(to_half(-0.0).bits, 0x8000);
  EXPECT_EQ(to_half(-2.0).bits, 0xC000);
  EXPECT_EQ(to_half(65504.0).bits, 0x7BFF);
  EXPECT_EQ(to_half(65519.9).bits, 0x7BFF);
  EXPECT_EQ(to_half(65520.0).bits, 0x7C00);
  EXPECT_EQ(to_half(1.0 + 0x1p-11).bits, 0x3C00);  // a tie, to even
  EXPECT_EQ(to_half(1.0 + 3 * 0x1p-11).bits, 0x3C02);
  EXPECT_EQ(to_half(2.0 - 0x1p-12).bits, 0x4000);  // carries into the exponent
  EXPECT_EQ(to_half(0x1p-14).bits, 0x0400);        // the smallest normal
  EXPECT_EQ(to_half(0x1p-24).bits, 0x0001);        // the smallest of all
  EXPECT_EQ(to_half(0x1p-25).bits, 0x0000);
  EXPECT_EQ(to_half(std::nan("")).bits, 0x7E00);
#if defined(__FLT16_MANT_DIG__)
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto value = static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits)));
    EXPECT_EQ(to_half(value).bits, bits);
    EXPECT_EQ(to_half(-value).bits, bits | 0x8000U);
  }
#endif
}

}  // namespace
}  // namespace dwell::tool
