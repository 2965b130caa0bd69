// Checks the tiles of the demonstration against the sequential computation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "demo_reference.hpp"
#include "image.hpp"

namespace dwell::tool {

// The phases of the tone operator: version 1, version 2 after redefine, version 1 again after rollback.
inline constexpr std::size_t kDemoPhases = 3;

// The possible phases of a tile: from the phase reached for certain before its submission, to the last one possible after it. They differ
// only while redefine or rollback runs in another thread.
struct DemoDemand {
  std::uint8_t least = 0;
  std::uint8_t most = 0;
};

// Tiles are numbered row by row. A picture's width need not be a multiple of a tile's.
std::uint32_t demo_tiles(const Image& image);

// Returns for each tile of `result` (pixels as in the reference) which versions give it: bit 0 for version 1, bit 1 for version 2.
std::vector<std::uint8_t> demo_matches(const DemoReference& reference, std::span<const std::uint8_t> result);

// Checks tiles in the order of submission. Each change of version must happen at one tile, and this tile must lie where the change was
// made. So each tile has one right version, unless it looks the same in both.
class DemoJudge {
 public:
  // Checks the next tile. Returns whether it is right.
  bool take(DemoDemand demand, std::uint8_t matches);

  std::uint64_t wrong() const { return wrong_; }
  // Returns the number of right tiles by phase.
  const std::array<std::uint64_t, kDemoPhases>& by_phase() const { return by_phase_; }

 private:
  std::uint8_t phase_ = 0;
  std::uint64_t wrong_ = 0;
  std::array<std::uint64_t, kDemoPhases> by_phase_{};
};

}  // namespace dwell::tool
