#include "dwell/device/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dwell::device {
namespace {

u32 by_bits(const std::vector<u32>& words) {
  u32 crc = kCrcStart;
  for (const u32 word : words) {
    crc ^= word;
    for (int bit = 0; bit < 32; ++bit) crc = (crc & 1U) != 0 ? crc >> 1U ^ 0x82F63B78U : crc >> 1U;
  }
  return ~crc;
}

u32 by_table(const std::vector<u32>& words) {
  u32 crc = kCrcStart;
  for (const u32 word : words) crc = crc32c_step(crc, word);
  return ~crc;
}

TEST(Crc32cTest, KnownChecksums) {
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and ascending.
  EXPECT_EQ(by_table(std::vector<u32>(8, 0)), 0x8A9136AAU);
  EXPECT_EQ(by_table(std::vector<u32>(8, ~0U)), 0x62A8AB43U);
  std::vector<u32> ascending;
  for (u32 i = 0; i < 32; i += 4) ascending.push_back(i | (i + 1) << 8U | (i + 2) << 16U | (i + 3) << 24U);
  EXPECT_EQ(by_table(ascending), 0x46DD794EU);
}

TEST(Crc32cTest, AllWaysAgree) {
  std::mt19937 random(1);
  for (u32 count = 0; count < 40; ++count) {
    std::vector<u32> words(count);
    for (u32& word : words) word = static_cast<u32>(random());
    const u32 expected = by_bits(words);
    EXPECT_EQ(by_table(words), expected);
    EXPECT_EQ(~crc32c(kCrcStart, words.data(), count), expected);
  }
}

}  // namespace
}  // namespace dwell::device
