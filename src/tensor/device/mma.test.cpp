#include "tensor/device/mma.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "tests/unit/mma_layout.hpp"

namespace dwell::device::mma_test {
namespace {

using test::a_element;
using test::b_element;
using test::c_element;

// Multiplies as a warp does with its lanes' words.
using Words = std::array<std::array<u32, 4>, 32>;
using Sums = std::array<std::array<float, 4>, 32>;
void multiply_add(Sums& sums, const Words& a, const Words& b) {
  float left[16][16];
  float right[16][8];
  const auto half_of = [](u32 word, u32 i) { return static_cast<float>(half::from_bits(static_cast<u16>(word >> (i % 2 * 16)))); };
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 i = 0; i < 8; ++i) left[a_element(lane, i).first][a_element(lane, i).second] = half_of(a[lane][i / 2], i);
    for (u32 i = 0; i < 4; ++i) right[b_element(lane, i).first][b_element(lane, i).second] = half_of(b[lane][i / 2], i);
  }
  for (u32 lane = 0; lane < 32; ++lane)
    for (u32 i = 0; i < 4; ++i) {
      const auto [row, column] = c_element(lane, i);
      for (u32 k = 0; k < 16; ++k) sums[lane][i] += left[row][k] * right[k][column];
    }
}

TEST(MmaLayoutTest, LanesPassTheExpectedWords) {
  half a[16][16];
  half b[16][8];
  for (u32 i = 0; i < 16; ++i)
    for (u32 j = 0; j < 16; ++j) {
      a[i][j] = static_cast<float>(i * 7 % 11) - static_cast<float>(j * 5 % 13);
      if (j < 8) b[i][j] = static_cast<float>(i * 3 % 7) - static_cast<float>(j);
    }
  Words of_a{};
  Words of_b{};
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 word = 0; word < 4; ++word) {
      const u32 row = MmaLayout::a_row(lane, word);
      const u32 k = MmaLayout::a_depth(lane, word);
      of_a[lane][word] = a[row][k].bits() | static_cast<u32>(a[row][k + 1].bits()) << 16U;
    }
    for (u32 word = 0; word < 2; ++word) {
      const u32 k = MmaLayout::b_depth(lane, word);
      of_b[lane][word] = b[k][MmaLayout::b_column(lane)].bits() | static_cast<u32>(b[k + 1][MmaLayout::b_column(lane)].bits()) << 16U;
    }
  }
  Sums sums{};
  multiply_add(sums, of_a, of_b);
  std::set<std::pair<u32, u32>> seen;
  for (u32 lane = 0; lane < 32; ++lane)
    for (u32 i = 0; i < 4; ++i) {
      const u32 row = MmaLayout::sum_row(lane, i);
      const u32 column = MmaLayout::sum_column(lane, i);
      seen.emplace(row, column);
      float expected = 0;
      for (u32 k = 0; k < 16; ++k) expected += static_cast<float>(a[row][k]) * static_cast<float>(b[k][column]);
      ASSERT_EQ(sums[lane][i], expected) << "lane " << lane << ", sum " << i;
    }
  EXPECT_EQ(seen.size(), 16U * 8U);
}

}  // namespace
}  // namespace dwell::device::mma_test
