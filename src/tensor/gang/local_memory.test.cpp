#include "tensor/gang/local_memory.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dwell::tensor::gang {
namespace {

TEST(LocalMemoryTest, LivesThatOverlapHaveMemoryApart) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Life> lives(1 + random() % 40);
    for (Life& life : lives) {
      life.first = random() % 30;
      life.last = life.first + random() % 10;
      life.bytes = 1 + random() % 300;
      life.shift = random() % 16;
    }
    const std::uint64_t all = place(lives, 16);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(lives[i].place % 16, lives[i].shift);
      EXPECT_LE(lives[i].place + lives[i].bytes, all);
      for (std::size_t j = 0; j < i; ++j) {
        const bool at_once = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool overlap = lives[i].place < lives[j].place + lives[j].bytes && lives[j].place < lives[i].place + lives[i].bytes;
        EXPECT_FALSE(at_once && overlap);
      }
    }
  }
}

TEST(LocalMemoryTest, LivesThatFollowEachOtherShareMemory) {
  std::vector<Life> lives;
  for (std::size_t i = 0; i < 100; ++i) lives.push_back({.first = i, .last = i + 1, .bytes = 64});
  EXPECT_EQ(place(lives, 16), 128U);
}

}  // namespace
}  // namespace dwell::tensor::gang
