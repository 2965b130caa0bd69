// half and bfloat16 on the CPU.
#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

namespace dwell::short_float_test {
namespace {

static_assert(std::is_trivially_copyable_v<half> && std::is_trivially_default_constructible_v<half>);
static_assert(std::is_convertible_v<half, float> && !std::is_convertible_v<float, half>, "what rounds is spelled out");
static_assert(!std::is_same_v<half, bfloat16> && !std::is_convertible_v<half, bfloat16>);

// Decodes a format with `digits` bits of significand and this bias, by the definition.
double value_of(std::uint32_t bits, int digits, int bias) {
  const std::uint32_t exponent = (bits & 0x7FFFU) >> digits;
  const std::uint32_t significand = bits & ((1U << digits) - 1);
  const std::uint32_t all_ones = 0x7FFFU >> digits;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == all_ones) return significand == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(significand, 1 - bias - digits);
  return sign * std::ldexp(significand + (1U << digits), static_cast<int>(exponent) - bias - digits);
}

template <class T>
struct Format;
template <>
struct Format<half> {
  static constexpr int digits = 10;
  static constexpr int bias = 15;
};
template <>
struct Format<bfloat16> {
  static constexpr int digits = 7;
  static constexpr int bias = 127;
};
template <class T>
double expected_value(std::uint32_t bits) {
  return value_of(bits, Format<T>::digits, Format<T>::bias);
}

template <class T>
class ShortFloatTest : public testing::Test {};
using Types = testing::Types<half, bfloat16>;
TYPED_TEST_SUITE(ShortFloatTest, Types);

TYPED_TEST(ShortFloatTest, EveryValueRoundTripsThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto number = TypeParam::from_bits(static_cast<u16>(bits));
    const double expected = expected_value<TypeParam>(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(number))) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(static_cast<float>(number))))) << bits;
    } else {
      ASSERT_EQ(static_cast<float>(number), expected) << bits;
      ASSERT_EQ(std::signbit(static_cast<float>(number)), std::signbit(expected)) << bits;
      ASSERT_EQ(TypeParam(static_cast<float>(number)).bits(), bits);
    }
  }
}

TYPED_TEST(ShortFloatTest, RoundsToTheNearestAndTiesToEven) {
  const auto check = [](float value) {
    const std::uint32_t bits = TypeParam(value).bits() & 0x7FFFU;
    ASSERT_EQ(TypeParam(value).bits() >> 15U, std::bit_cast<std::uint32_t>(value) >> 31U) << value;
    const double magnitude = std::fabs(static_cast<double>(value));
    const std::uint32_t infinity = TypeParam::infinity().bits();
    ASSERT_LE(bits, infinity) << value;
    // The step beyond the largest number leads to the value that the bits of infinity would have as a number.
    const auto at = [&](std::uint32_t of) {
      return of < infinity ? expected_value<TypeParam>(of)
                           : 2 * expected_value<TypeParam>(infinity - 1) - expected_value<TypeParam>(infinity - 2);
    };
    const double error = std::fabs(at(bits) - magnitude);
    if (bits == infinity) {
      ASSERT_GE(magnitude, (at(infinity - 1) + at(infinity)) / 2) << value;
      return;
    }
    for (const std::uint32_t other : {bits + 1, bits - 1}) {
      if (other > infinity) continue;
      const double others = std::fabs(at(other) - magnitude);
      ASSERT_TRUE(error < others || (error == others && bits % 2 == 0)) << value << " became " << at(bits) << ", not " << at(other);
    }
  };
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) check(value);
  }
  // Every number, the midpoint to the next one, and the floats beside the midpoint.
  for (std::uint32_t bits = 0; bits < TypeParam::infinity().bits(); ++bits) {
    const auto low = static_cast<float>(TypeParam::from_bits(static_cast<u16>(bits)));
    const auto half_step = static_cast<float>((expected_value<TypeParam>(bits + 1) - expected_value<TypeParam>(bits)) / 2);
    if (!std::isfinite(half_step)) continue;
    const float middle = low + half_step;
    for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, std::numeric_limits<float>::infinity())}) {
      if (std::isfinite(value)) check(-value);
    }
  }
}

TYPED_TEST(ShortFloatTest, OverflowIsInfinityAndNanStaysNan) {
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::infinity()).bits(), TypeParam::infinity().bits());
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits(), TypeParam::infinity().bits());
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::max()).bits(), TypeParam::infinity().bits() | 0x8000U);
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7F800001U))))) << "whose upper half alone is infinity";
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam::quiet_nan())));
}

TYPED_TEST(ShortFloatTest, LimitsMatchTheFormat) {
  EXPECT_EQ(static_cast<float>(TypeParam::max()), expected_value<TypeParam>(TypeParam::infinity().bits() - 1U));
  EXPECT_EQ(static_cast<float>(TypeParam::lowest()), -static_cast<float>(TypeParam::max()));
  EXPECT_EQ(static_cast<float>(TypeParam::min()), std::ldexp(1.0, 1 - Format<TypeParam>::bias));
  EXPECT_EQ(static_cast<float>(TypeParam::denorm_min()), expected_value<TypeParam>(1));
  EXPECT_EQ(static_cast<float>(TypeParam::epsilon()), std::ldexp(1.0, -Format<TypeParam>::digits));
  EXPECT_EQ(static_cast<float>(TypeParam(1.0F + static_cast<float>(TypeParam::epsilon()))),
            1.0F + static_cast<float>(TypeParam::epsilon()));
}

TYPED_TEST(ShortFloatTest, ArithmeticIsInFloatAndRoundedOnAssignment) {
  const TypeParam one(1.0F);
  const auto epsilon = TypeParam::epsilon();
  static_assert(std::is_same_v<decltype(one + one), float>);
  TypeParam sum;
  sum = one + epsilon / 4 + epsilon / 4 + epsilon / 4;  // each alone would be lost
  EXPECT_EQ(static_cast<float>(sum), 1.0F + static_cast<float>(epsilon));
  sum += 2;
  sum *= 0.5F;
  sum -= one;
  sum /= 2;
  EXPECT_NEAR(static_cast<float>(sum), 0.25F, static_cast<float>(epsilon));
  EXPECT_TRUE(one < TypeParam(2.0F) && -one < epsilon && one == 1.0F);
}

}  // namespace
}  // namespace dwell::short_float_test
