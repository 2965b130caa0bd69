#include "jit/object/occupancy.hpp"

#include <gtest/gtest.h>

namespace dwell::jit {
namespace {

constexpr std::uint32_t kThreads = 160;  // of a worker: four executing warps and a control warp
constexpr std::uint32_t kScratch = 8192;

Occupancy fit(std::uint32_t architecture, Resources resources, std::uint32_t scratch = kScratch) {
  if (resources.threads == 0) resources.threads = kThreads;
  const auto found = occupancy(architecture, resources, scratch);
  EXPECT_TRUE(found) << architecture;
  return found.value_or(Occupancy{});
}

TEST(Occupancy, RegistersAreAllocatedInFourParts) {
  // 16384 registers a part: eight warps of 64 x 32, five of 96 x 32, two of 255 x 32 rounded to 8192.
  EXPECT_EQ(fit(90, {.registers = 64}).workers, 6U) << "32 warps";
  EXPECT_EQ(fit(90, {.registers = 64}).bottleneck, Bottleneck::registers);
  EXPECT_EQ(fit(90, {.registers = 65}).workers, 5U) << "28 warps of 72 registers";
  EXPECT_EQ(fit(90, {.registers = 80}).workers, 4U) << "24 warps";
  EXPECT_EQ(fit(90, {.registers = 96}).workers, 4U) << "20 warps";
  EXPECT_EQ(fit(90, {.registers = 128}).workers, 3U) << "16 warps";
  EXPECT_EQ(fit(90, {.registers = 129}).workers, 2U) << "12 warps of 136 registers";
  EXPECT_EQ(fit(90, {.registers = 254}).workers, 1U) << "8 warps";
  EXPECT_EQ(fit(90, {.registers = 256}).workers, 0U) << "no thread has so many";
  EXPECT_EQ(fit(90, {.registers = 64, .threads = 1024}, 0).workers, 1U);
  EXPECT_EQ(fit(90, {.registers = 72, .threads = 1024}, 0).workers, 0U) << "28 of its 32 warps fit";
}

TEST(Occupancy, SharedMemoryIsRoundedAndPartlyReserved) {
  // 228 KB: each block has 40 KB of its own, 8 KB of scratch memory and 1 KB reserved by CUDA.
  EXPECT_EQ(fit(90, {.registers = 32, .shared_bytes = 40960}).workers, 4U);
  EXPECT_EQ(fit(90, {.registers = 32, .shared_bytes = 40960}).bottleneck, Bottleneck::shared_memory);
  // Three blocks of 76 KB: 74 KB of scratch memory fit, one byte more does not.
  EXPECT_EQ(fit(90, {.registers = 32, .shared_bytes = 1024}, 74 * 1024).workers, 3U);
  EXPECT_EQ(fit(90, {.registers = 32, .shared_bytes = 1025}, 74 * 1024).workers, 2U);
  // A block may have all shared memory of a multiprocessor except for the reserved part.
  EXPECT_EQ(fit(90, {.registers = 32}, 227 * 1024).workers, 1U);
  EXPECT_EQ(fit(90, {.registers = 32}, 227 * 1024 + 1).workers, 0U);
  EXPECT_EQ(fit(90, {.registers = 32, .shared_bytes = 0xFFFFFFFF}, 0xFFFFFFFF).workers, 0U);
  // Turing reserves nothing, and rounds to 256.
  EXPECT_EQ(fit(75, {.registers = 32}, 16384).workers, 4U);
  EXPECT_EQ(fit(75, {.registers = 32}, 16385).workers, 3U);
  EXPECT_EQ(fit(75, {.registers = 32}, 65536).workers, 1U);
}

TEST(Occupancy, BarriersCountFromHopperOn) {
  EXPECT_EQ(fit(90, {.registers = 32, .barriers = 3}).workers, 12U) << "64 warps";
  EXPECT_EQ(fit(90, {.registers = 32, .barriers = 16}).workers, 4U);
  EXPECT_EQ(fit(90, {.registers = 32, .barriers = 16}).bottleneck, Bottleneck::barriers);
  EXPECT_EQ(fit(80, {.registers = 32, .barriers = 16}).workers, 12U);
  EXPECT_EQ(fit(120, {.registers = 32, .barriers = 3}, 0).workers, 8U);
  EXPECT_EQ(fit(120, {.registers = 32, .barriers = 16}, 0).workers, 1U);
}

TEST(Occupancy, ThreadsAndBlocksAreLimits) {
  EXPECT_EQ(fit(75, {.registers = 16}, 0).workers, 6U) << "32 warps";
  EXPECT_EQ(fit(75, {.registers = 16}, 0).bottleneck, Bottleneck::threads);
  EXPECT_EQ(fit(86, {.registers = 16}, 0).workers, 9U) << "48 warps";
  EXPECT_EQ(fit(90, {.registers = 16, .threads = 32}, 0).workers, 32U);
  EXPECT_EQ(fit(90, {.registers = 16, .threads = 32}, 0).bottleneck, Bottleneck::blocks);
  EXPECT_EQ(fit(90, {.registers = 16, .threads = 1025}, 0).workers, 0U);
}

TEST(Occupancy, UnknownDevicesHaveNoOccupancy) {
  EXPECT_FALSE(occupancy(61, {.registers = 32, .threads = kThreads}, 0));
  EXPECT_FALSE(occupancy(0, {.registers = 32, .threads = kThreads}, 0));
  EXPECT_FALSE(occupancy(90, {.registers = 32}, 0));
}

TEST(Occupancy, ParsesTargets) {
  EXPECT_EQ(architecture_of("sm_90"), 90U);
  EXPECT_EQ(architecture_of("sm_120a"), 120U);
  for (const char* const other : {"host", "", "sm_", "sm_x", "sm_90ab", "90"}) EXPECT_EQ(architecture_of(other), 0U) << other;
}

}  // namespace
}  // namespace dwell::jit
