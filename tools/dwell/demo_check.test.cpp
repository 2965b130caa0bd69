#include "demo_check.hpp"

#include <gtest/gtest.h>

#include "demo_operators.hpp"

namespace dwell::tool {
namespace {

constexpr std::uint8_t kFirst = 1;
constexpr std::uint8_t kSecond = 2;

Image photograph(std::uint32_t width, std::uint32_t height) {
  Image image{width, height, std::vector<std::uint8_t>(std::size_t{3} * width * height)};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(60 + (i * i * 31 + i * 7) % 140);
  return image;
}

TEST(DemoReference, LeavesAnEvenPictureEvenAndRaisesContrast) {
  Image even{10, 9, std::vector<std::uint8_t>(270, 200)};
  const DemoReference reference = demo_reference(even);
  for (const std::uint8_t value : reference.plain.pixels) EXPECT_EQ(value, reference.plain.pixels[0]);
  EXPECT_GT(reference.plain.pixels[0], 200);
  even.pixels.assign(270, 50);
  EXPECT_LT(demo_reference(even).plain.pixels[0], 50);
  even.pixels.assign(270, 0);
  EXPECT_EQ(demo_reference(even).plain.pixels, even.pixels);
  even.pixels.assign(270, 255);
  EXPECT_EQ(demo_reference(even).plain.pixels, even.pixels);
}

TEST(DemoReference, PrintsOnWarmPaper) {
  const DemoReference reference = demo_reference(photograph(16, 16));
  for (std::size_t i = 0; i < reference.print.pixels.size(); i += 3) EXPECT_GT(reference.print.pixels[i], reference.print.pixels[i + 2]);
}

TEST(DemoCheck, TellsTheVersionsApartTileByTile) {
  const Image source = photograph(3 * kDemoTile - 3, kDemoTile + 1);
  EXPECT_EQ(demo_tiles(source), 6U);
  const DemoReference reference = demo_reference(source);
  std::vector<std::uint8_t> result = reference.plain.pixels;
  // The last tile of the first row by version 2, the first of the second by neither.
  for (std::uint32_t y = 0; y < kDemoTile; ++y) {
    for (std::size_t i = source.at(2 * kDemoTile, y); i < source.at(0, y + 1); ++i) result[i] = reference.print.pixels[i];
  }
  result[source.at(0, kDemoTile)] ^= 1U;
  EXPECT_EQ(demo_matches(reference, result), (std::vector<std::uint8_t>{kFirst, kFirst, kSecond, 0, kFirst, kFirst}));
}

TEST(DemoJudge, DemandsOneChangeWhereItWasMade) {
  DemoJudge judge;
  EXPECT_TRUE(judge.take({0, 0}, kFirst));
  EXPECT_FALSE(judge.take({0, 0}, kSecond));  // before redefine began
  EXPECT_TRUE(judge.take({0, 1}, kFirst));    // while it goes on
  EXPECT_TRUE(judge.take({0, 1}, kFirst | kSecond));
  EXPECT_TRUE(judge.take({0, 1}, kSecond));
  EXPECT_FALSE(judge.take({0, 1}, kFirst));  // back to the old one
  EXPECT_FALSE(judge.take({1, 1}, kFirst));  // after it has returned
  EXPECT_TRUE(judge.take({1, 1}, kSecond));
  EXPECT_FALSE(judge.take({1, 1}, 0));
  EXPECT_TRUE(judge.take({1, 2}, kSecond));
  EXPECT_TRUE(judge.take({1, 2}, kFirst));  // rolled back
  EXPECT_TRUE(judge.take({2, 2}, kFirst));
  EXPECT_FALSE(judge.take({2, 2}, kSecond));
  EXPECT_EQ(judge.wrong(), 5U);
  EXPECT_EQ(judge.by_phase(), (std::array<std::uint64_t, 3>{3, 3, 2}));
}

}  // namespace
}  // namespace dwell::tool
