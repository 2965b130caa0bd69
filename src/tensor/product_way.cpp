#include "tensor/product_way.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace dwell::tensor {

namespace {

using device::ProductWay;

constexpr std::int64_t kMostTileGroups = 256;

// The fewest multiplications that make another group worthwhile on a CPU.
constexpr std::int64_t kWorkOfGroup = std::int64_t{1} << 18U;

// On CUDA, nanoseconds on an H200, from chains of products (`dwell bench chains`). A task of several groups crosses to other workers and
// back.
constexpr std::int64_t kWideCost = 12000;
constexpr std::int64_t kTileCost = 3000;     // of a tile: to its first load's arrival, and for its results
constexpr std::int64_t kTileStepCost = 500;  // of 64 bytes of each of a tile's lines
constexpr std::int64_t kSingleCost = 1500;   // of a round of results that are one thread's each
constexpr std::int64_t kLoadCost = 400;      // of the loads that a thread has pending at once
// Bytes a nanosecond that one group streams, for one row and for several at once.
constexpr std::int64_t kStreamRate = 17;
constexpr std::int64_t kStreamRateOfRows = 8;
// A stream's share of a group is worth a group of its own from so many bytes on.
constexpr std::int64_t kStreamOfGroup = 32768;

// The largest product with a thread for each result.
constexpr std::int64_t kMostSingle = 128;
constexpr std::int64_t kMostSingleDepth = 32;
constexpr std::int64_t kMostResults = std::int64_t{1} << 30U;  // that are counted in one word

std::uint32_t bounded_groups(std::int64_t wanted, std::int64_t tiles, std::uint32_t workers) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(wanted, 1, std::min({tiles, kMostTileGroups, static_cast<std::int64_t>(workers)})));
}
// Returns the groups of a task that takes `cost` in one group: one, unless that takes longer than the way to other workers.
std::uint32_t cuda_groups(std::int64_t cost, std::int64_t wanted, std::int64_t tiles, std::uint32_t workers) {
  return cost <= kWideCost ? 1 : bounded_groups(wanted, tiles, workers);
}

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }
std::uint32_t log2_ceiling(std::int64_t count) { return static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(count - 1))); }

// Returns whether the type's products are computed in floats.
bool is_float(ElementType type) { return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16; }

// Returns whether a product's b consists of whole, aligned packs.
bool has_packs(const TensorView& b, std::size_t row, std::size_t column) {
  constexpr std::int64_t pack = device::kThinPack<float>;
  if (b.shape()[row] % pack != 0 || b.shape()[column] % pack != 0) return false;
  if (b.strides()[row] != 1 && b.strides()[column] != 1) return false;
  const std::size_t along = b.strides()[column] == 1 ? column : row;
  for (std::size_t dim = 0; dim < b.dims(); ++dim)
    if (dim != along && b.strides()[dim] % pack != 0) return false;
  return b.address() % (static_cast<std::uint64_t>(pack) * bytes_of(b.type())) == 0;
}

// The way of a product of few rows. The lanes, which determine the order of sums, follow from shapes and strides alone.
ChosenWay thin_way(const ProductSizes& sizes, const TensorView& b, std::size_t row, std::size_t column, std::uint32_t workers) {
  const std::int64_t passes = divided(sizes.m, device::kThinRowsAtOnce);
  ChosenWay chosen{.way = ProductWay::thin};
  if (!is_float(b.type())) {
    chosen.log_lanes = log2_ceiling(std::min<std::int64_t>(sizes.n, 16));
    chosen.tiles = divided(sizes.n, std::int64_t{1} << chosen.log_lanes) * sizes.matrices;
    chosen.groups = bounded_groups(chosen.tiles, chosen.tiles, workers);
    return chosen;
  }
  const std::int64_t width = device::thin_width(static_cast<std::uint32_t>(sizes.m));
  // As if of floats: loads take long, not bytes.
  const std::int64_t stream_bytes = sizes.n * sizes.k * sizes.matrices * std::int64_t{sizeof(float)};
  const std::int64_t cost = passes * stream_bytes / (sizes.m == 1 ? kStreamRate : kStreamRateOfRows);
  const auto tiles = [&](std::int64_t columns) { return divided(sizes.n, columns << chosen.log_lanes) * sizes.matrices; };
  chosen.log_lanes = std::min(device::kMostLogThinLanes, log2_ceiling(divided(sizes.n, width)));
  const std::uint32_t least = std::abs(b.strides()[column]) < std::abs(b.strides()[row]) ? 2 : 0;
  while (cost > kWideCost && chosen.log_lanes > least && tiles(width) < stream_bytes / kStreamOfGroup) --chosen.log_lanes;
  if (has_packs(b, row, column)) {
    chosen.way = ProductWay::stream;
    chosen.tiles = tiles(width);
    chosen.groups = cuda_groups(cost, stream_bytes / kStreamOfGroup, chosen.tiles, workers);
  } else {
    chosen.tiles = tiles(1);
    const std::int64_t loads = divided(sizes.k, std::int64_t{8} * 128 >> chosen.log_lanes);  // of a thread, one after the other
    chosen.groups = cuda_groups(chosen.tiles * (kTileCost + passes * kLoadCost * loads), chosen.tiles, chosen.tiles, workers);
  }
  return chosen;
}

std::int64_t square_tiles(const ProductSizes& sizes) {
  return divided(sizes.m, device::kTile) * divided(sizes.n, device::kTile) * sizes.matrices;
}

}  // namespace

ChosenWay cpu_way(const ProductSizes& sizes, std::uint32_t workers) {
  const double multiplications =
      static_cast<double>(sizes.m) * static_cast<double>(sizes.n) * static_cast<double>(sizes.k) * static_cast<double>(sizes.matrices);
  const std::int64_t tiles = square_tiles(sizes);
  return {.tiles = tiles, .groups = bounded_groups(static_cast<std::int64_t>(multiplications / kWorkOfGroup), tiles, workers)};
}

ChosenWay cuda_way(const ProductSizes& sizes, const TensorView& b, std::size_t row, std::size_t column, std::uint32_t workers) {
  const ElementType type = b.type();
  const bool integers = !is_float(type) && type != ElementType::f64;
  if (const std::int64_t results = sizes.m * sizes.n * sizes.matrices;
      !integers && sizes.m * sizes.n <= kMostSingle && sizes.k <= kMostSingleDepth && results <= kMostResults) {
    const std::int64_t rounds = divided(results, kMostSingle);
    return {.way = ProductWay::single,
            .tiles = results,
            .groups = cuda_groups(rounds * (kSingleCost + kLoadCost * divided(sizes.k, 8)), rounds, rounds, workers)};
  }
  if (sizes.m <= (is_float(type) ? device::kThinRows : device::kThinRowsAtOnce)) return thin_way(sizes, b, row, column, workers);
  const std::int64_t tiles = square_tiles(sizes);
  const std::int64_t steps = divided(sizes.k * static_cast<std::int64_t>(bytes_of(type)), 64);
  // Each integer is loaded by a call.
  const std::int64_t cost = tiles * (kTileCost + kTileStepCost * steps);
  return {.tiles = tiles, .groups = integers ? bounded_groups(tiles, tiles, workers) : cuda_groups(cost, tiles, tiles, workers)};
}

}  // namespace dwell::tensor
