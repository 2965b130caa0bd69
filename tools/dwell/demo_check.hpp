// Checks the tiles of the demonstration against the sequential computation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "demo_reference.hpp"
#include "image.hpp"

namespace dwell::tool {

// The life of the tone operator: version 1, version 2 after redefine, version 1 again after rollback.
inline constexpr std::size_t kDemoPhases = 3;

// The host's knowledge of a tile from around its submission: the phase that had been reached for certain before, and the one that could
// have been reached after. They differ only while redefine or rollback is under way in another thread.
struct DemoDemand {
  std::uint8_t least = 0;
  std::uint8_t most = 0;
};

// Tiles are counted row by row. A picture's width need not be a multiple of a tile's.
std::uint32_t demo_tiles(const Image& image);

// Which versions would give the tiles of `result` (pixels laid out as in the reference): bit 0 for version 1, bit 1 for version 2.
std::vector<std::uint8_t> demo_matches(const DemoReference& reference, std::span<const std::uint8_t> result);

// Follows the tiles in the order of submission. The tickets demand that the version changes at one tile for each change, and that this tile
// lies where the change was made; so there is one right answer for every tile but those that look the same in both versions.
class DemoJudge {
 public:
  // Takes the next tile. Returns whether it is right.
  bool take(DemoDemand demand, std::uint8_t matches);

  std::uint64_t wrong() const { return wrong_; }
  // Right tiles by phase.
  const std::array<std::uint64_t, kDemoPhases>& by_phase() const { return by_phase_; }

 private:
  std::uint8_t phase_ = 0;
  std::uint64_t wrong_ = 0;
  std::array<std::uint64_t, kDemoPhases> by_phase_{};
};

}  // namespace dwell::tool
