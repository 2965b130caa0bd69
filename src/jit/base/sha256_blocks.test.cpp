#include "jit/base/sha256_blocks.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dwell::jit {
namespace {

TEST(Sha256Blocks, HardwareAndPortableAgree) {
  const Sha256Blocks x86 = sha256_blocks_x86();
  if (x86 == nullptr) GTEST_SKIP() << "this processor has no SHA instructions";
  std::mt19937 random(1);
  for (std::size_t blocks = 0; blocks < 40; ++blocks) {
    // One byte more, so that the blocks are not aligned to 16.
    std::vector<std::byte> memory(blocks * 64 + 1);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    const auto bytes = std::span<const std::byte>(memory).subspan(1);
    Sha256State expected{};
    for (std::uint32_t& word : expected) word = static_cast<std::uint32_t>(random());
    Sha256State state = expected;
    sha256_blocks_portable(expected, bytes);
    x86(state, bytes);
    EXPECT_EQ(state, expected) << blocks << " blocks";
  }
}

TEST(Sha256Blocks, TakesTheFastest) {
  EXPECT_EQ(sha256_blocks(), sha256_blocks_x86() != nullptr ? sha256_blocks_x86() : &sha256_blocks_portable);
}

}  // namespace
}  // namespace dwell::jit
