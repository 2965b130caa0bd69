#include <dwell/detail/checked.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace dwell::detail {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): pedantic compilers take no other form

void expect_same(Checked got, Wide wanted) {
  EXPECT_EQ(got.fits(), wanted >= kLeast && wanted <= kMost);
  if (got.fits()) {
    EXPECT_EQ(Wide{got.value()}, wanted);
  }
}

TEST(Checked, FitsWhereItFitsInto64Bits) {
  std::mt19937_64 random(5);
  const std::vector<std::int64_t> edges = {
      0, 1, -1, 2, 3, kMost, kLeast, kMost / 2, kLeast / 2, std::int64_t{1} << 32U, -(std::int64_t{1} << 31U)};
  const auto number = [&] {
    return random() % 2 == 0 ? edges[random() % edges.size()] : static_cast<std::int64_t>(random()) >> random() % 64;
  };
  for (int turn = 0; turn < 10'000 && !testing::Test::HasFailure(); ++turn) {
    const std::int64_t a = number();
    const std::int64_t b = number();
    expect_same(Checked(a) + b, Wide{a} + b);
    expect_same(Checked(a) - b, Wide{a} - b);
    expect_same(Checked(a) * b, Wide{a} * b);
  }
}

TEST(Checked, WhatDoesNotFitStaysSo) {
  const Checked lost = Checked(kMost) + 1;
  EXPECT_FALSE((lost - 1).fits());
  EXPECT_FALSE((lost * 0).fits());
  EXPECT_FALSE((0 * lost).fits());
  EXPECT_FALSE(lost == lost);
  EXPECT_FALSE(lost.is_in(kLeast, kMost));
  EXPECT_FALSE(Checked(~std::uint64_t{0}).fits()) << "an unsigned number of 64 bits";
  EXPECT_TRUE(Checked(7) == 7);
  EXPECT_TRUE(Checked(7).is_in(7, 7));
}

TEST(Checked, ProductsOfSizesLeaveOutNone) {
  EXPECT_EQ(product_of(std::vector<std::int64_t>{}).value(), 1);
  EXPECT_EQ(product_of(std::vector<std::int64_t>{2, 0, 3}).value(), 0);
  EXPECT_TRUE(product_of(std::vector<std::int64_t>{2, 0, 3}).fits());
  EXPECT_FALSE(product_of(std::vector<std::int64_t>{0, kMost, 2}).fits()) << "the order of sizes does not matter";
  EXPECT_FALSE(product_of(std::vector<std::int64_t>{kMost, 2, 0}).fits());
}

TEST(Checked, MagnitudeOfTheLeastNumber) {
  EXPECT_EQ(magnitude(kLeast), std::uint64_t{1} << 63U);
  EXPECT_EQ(magnitude(-3), 3U);
  EXPECT_EQ(magnitude(kMost), static_cast<std::uint64_t>(kMost));
}

}  // namespace
}  // namespace dwell::detail
