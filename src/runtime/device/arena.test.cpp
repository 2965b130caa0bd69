// Pieces of the arena: they do not overlap, freed memory is reused, and contents survive growth and moves.
#include "runtime/device/arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::runtime {
namespace {

class ArenaTest : public testing::Test {
 protected:
  void fill(const Arena::Piece& piece, std::uint8_t with) {
    arena_.at_rest([&](const backend::Allocation& memory) {
      EXPECT_EQ(piece.device(), memory.device() + piece.offset());
      EXPECT_LE(piece.offset() + piece.bytes(), memory.bytes());
      std::memset(piece.host(), with, piece.bytes());
    });
  }
  static bool holds(const Arena::Piece& piece, std::uint8_t what) {
    const auto* const bytes = static_cast<const std::uint8_t*>(piece.host());
    return std::all_of(bytes, bytes + piece.bytes(), [&](std::uint8_t byte) { return byte == what; });
  }

  std::unique_ptr<backend::Backend> backend_ = backend::open_cpu();
  Arena arena_{*backend_, device::layout_arena(7, 2), 0};
};

TEST_F(ArenaTest, BeginsWithItsHeaderAndControl) {
  arena_.at_rest([&](const backend::Allocation& memory) {
    device::ArenaHeader header{};
    std::memcpy(&header, memory.host(), sizeof(header));
    EXPECT_EQ(header.magic, device::kArenaMagic);
    EXPECT_EQ(header.bytes, arena_.layout().bytes);
  });
}

TEST_F(ArenaTest, FreedMemoryIsReusedAndMerged) {
  auto a = arena_.take(300);
  auto b = arena_.take(300);
  auto c = arena_.take(300);
  const auto d = arena_.take(1);
  EXPECT_EQ(b->offset(), a->offset() + 512) << "aligned to 256 bytes";
  const std::uint64_t first = a->offset();
  a.reset();
  c.reset();
  EXPECT_GT(arena_.take(600)->offset(), d->offset()) << "no hole is large enough";
  b.reset();
  const auto all = arena_.take(3 * 512);
  EXPECT_EQ(all->offset(), first);
  EXPECT_GT(arena_.take(1)->offset(), d->offset());
}

TEST_F(ArenaTest, PiecesKeepTheirContentsWhenItGrowsAndMoves) {
  std::mt19937 random(1);
  std::vector<std::pair<std::unique_ptr<Arena::Piece>, std::uint8_t>> pieces;
  for (int round = 0; round < 2000; ++round) {
    if (!pieces.empty() && random() % 2 == 0) {
      const auto which = pieces.begin() + static_cast<std::ptrdiff_t>(random() % pieces.size());
      ASSERT_TRUE(holds(*which->first, which->second));
      pieces.erase(which);
    } else {
      const auto with = static_cast<std::uint8_t>(1 + round % 255);
      pieces.emplace_back(round % 5 == 0 ? arena_.take_cleared(random() % 20000) : arena_.take(random() % 20000), with);
      ASSERT_TRUE(round % 5 != 0 || holds(*pieces.back().first, 0));
      fill(*pieces.back().first, with);
    }
    if (round % 100 != 99) continue;
    std::uint64_t former = 0;
    arena_.at_rest([&](const backend::Allocation& memory) { former = memory.device(); });
    arena_.move([&](const backend::Allocation& memory) { EXPECT_NE(memory.device(), former); });
    for (const auto& [piece, with] : pieces) ASSERT_TRUE(holds(*piece, with));
  }
}

TEST_F(ArenaTest, MoveUpdatesTheLease) {
  const auto table = arena_.take_cleared(64);
  std::uint32_t elsewhere = 0;
  device::Lease lease{};
  arena_.at_rest([&](const backend::Allocation& memory) { device::point_into_arena(&lease, arena_.layout(), memory.device()); });
  lease.calls = reinterpret_cast<u64*>(lease.arena + table->offset());
  lease.timeline_counts = &elsewhere;
  arena_.move([&](const backend::Allocation& memory) {
    device::move_lease(&lease, memory.bytes(), memory.device());
    EXPECT_EQ(lease.arena, memory.device());
  });
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(lease.seats), lease.arena + arena_.layout().seats);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(lease.calls), table->device());
  EXPECT_EQ(lease.timeline_counts, &elsewhere);
  EXPECT_EQ(lease.failures, nullptr);
}

TEST_F(ArenaTest, TooManyBytesAreRefused) {
  const auto piece = arena_.take(100);
  DWELL_EXPECT_ERROR(arena_.take(std::size_t{1} << 46U), errc::out_of_memory, testing::HasSubstr("arena"));
  EXPECT_EQ(arena_.take(100)->offset(), piece->offset() + 256) << "nothing is lost";
}

}  // namespace
}  // namespace dwell::runtime
