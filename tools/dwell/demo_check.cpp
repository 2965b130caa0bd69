#include "demo_check.hpp"

#include <algorithm>

#include "demo_operators.hpp"

namespace dwell::tool {

namespace {

std::uint32_t columns_of(const Image& image) { return (image.width + kDemoTile - 1) / kDemoTile; }

bool same_tile(const Image& expected, std::span<const std::uint8_t> result, std::uint32_t tile) {
  const std::uint32_t left = tile % columns_of(expected) * kDemoTile;
  const std::uint32_t top = tile / columns_of(expected) * kDemoTile;
  const std::uint32_t width = std::min(kDemoTile, expected.width - left);
  const std::uint32_t bottom = std::min(top + kDemoTile, expected.height);
  for (std::uint32_t y = top; y < bottom; ++y) {
    const auto from = expected.pixels.begin() + static_cast<std::ptrdiff_t>(expected.at(left, y));
    if (!std::equal(from, from + std::ptrdiff_t{3} * width, result.begin() + static_cast<std::ptrdiff_t>(expected.at(left, y))))
      return false;
  }
  return true;
}

}  // namespace

std::uint32_t demo_tiles(const Image& image) { return columns_of(image) * ((image.height + kDemoTile - 1) / kDemoTile); }

std::vector<std::uint8_t> demo_matches(const DemoReference& reference, std::span<const std::uint8_t> result) {
  std::vector<std::uint8_t> matches(demo_tiles(reference.plain));
  for (std::uint32_t tile = 0; tile < matches.size(); ++tile) {
    const unsigned plain = same_tile(reference.plain, result, tile) ? 1 : 0;
    const unsigned print = same_tile(reference.print, result, tile) ? 2 : 0;
    matches[tile] = static_cast<std::uint8_t>(plain | print);
  }
  return matches;
}

bool DemoJudge::take(DemoDemand demand, std::uint8_t matches) {
  constexpr std::array<std::uint8_t, kDemoPhases> kVersionBit = {1, 2, 1};
  for (std::uint8_t phase = std::max(phase_, demand.least); phase <= demand.most; ++phase) {
    if ((matches & kVersionBit[phase]) == 0) continue;
    phase_ = phase;
    ++by_phase_[phase];
    return true;
  }
  ++wrong_;
  return false;
}

}  // namespace dwell::tool
