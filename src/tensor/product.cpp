#include "tensor/product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/device/product.hpp"
#include "tensor/layout.hpp"

namespace dwell::tensor {

namespace {

static_assert(device::ProductWords::words(true, Dims::kMost - 2) <= 55 && 55 <= kMostOwnWords, "the operator below takes as many");

// The fewest multiplications that make another group worthwhile on a CPU.
constexpr std::int64_t kWorkOfGroup = std::int64_t{1} << 18U;
constexpr std::int64_t kMostTileGroups = 256;
// Results of at most so many columns are computed transposed on a CPU.
constexpr std::int64_t kFewColumns = 4;

using Tensors = InplaceVector<const TensorView*, 4>;

// The dimensions before the last two; none for a single matrix.
struct Front {
  Dims sizes;
  InplaceVector<std::int64_t, 4 * Dims::kMost> strides;  // of all tensors, one after the other
};
Front front_of(const Tensors& tensors) {
  Front front;
  const Dims& shape = tensors[0]->shape();
  if (shape.size() == 2) return front;
  std::array<Dims, 4> strides;
  for (std::size_t dim = 0; dim + 2 < shape.size(); ++dim) {
    front.sizes.push_back(shape[dim]);
    for (std::size_t i = 0; i < tensors.size(); ++i) strides[i].push_back(tensors[i]->strides()[dim]);
  }
  join_dims(front.sizes, std::span(strides).first(tensors.size()), true);
  if (front.sizes.size() == 1 && front.sizes[0] == 1) return {};
  for (std::size_t i = 0; i < tensors.size(); ++i) front.strides.append(strides[i]);
  return front;
}

// Returns a factor in the number class in which a type's products are computed.
std::uint64_t bits_of(double factor, ElementType type) {
  switch (type) {
    case ElementType::f64: return std::bit_cast<std::uint64_t>(factor);
    case ElementType::f32:
    case ElementType::f16:
    case ElementType::bf16: return std::bit_cast<std::uint32_t>(static_cast<float>(factor));
    default: return static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
  }
}

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t matrices;
};
std::int64_t square_tiles(const Sizes& sizes) {
  return divided(sizes.m, device::kTile) * divided(sizes.n, device::kTile) * sizes.matrices;
}

std::uint32_t cpu_groups(double multiplications, std::int64_t tiles, std::uint32_t workers) {
  const auto wanted = static_cast<std::int64_t>(multiplications / static_cast<double>(kWorkOfGroup));
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(wanted, 1, std::min({tiles, kMostTileGroups, static_cast<std::int64_t>(workers)})));
}

// ---- On CUDA -----------------------------------------------------------------------------------------------------------------------

// Nanoseconds on an H200 and bytes a nanosecond there, estimates. A task of several groups crosses to other workers and back.
constexpr std::int64_t kWideCost = 8000;
constexpr std::int64_t kTileCost = 300;      // of a tile: to its first load's arrival, and for its results
constexpr std::int64_t kTileStepCost = 230;  // of 64 bytes of each of a tile's lines
constexpr std::int64_t kLoadCost = 200;      // of the loads that a thread has pending at once
constexpr std::int64_t kStreamRate = 75;     // of one group with 16 KiB pending
// A stream's share of a group is worth a group of its own from so many bytes on.
constexpr std::int64_t kStreamOfGroup = 65536;

// The largest product with a thread for each result.
constexpr std::int64_t kMostSingle = 128;
constexpr std::int64_t kMostSingleDepth = 32;
constexpr std::int64_t kMostResults = std::int64_t{1} << 30U;  // that are counted in one word

struct Way {
  device::ProductWay way = device::ProductWay::tiles;
  std::uint32_t log_lanes = 0;
  std::int64_t tiles = 0;
  std::int64_t most_groups = 1;
  std::int64_t cost = 0;  // of all tiles in one group

  // Tasks of one group, unless that takes longer than the way to other workers.
  std::uint32_t groups(std::uint32_t workers) const {
    if (cost <= kWideCost) return 1;
    return static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(most_groups, 1, std::min(kMostTileGroups, static_cast<std::int64_t>(workers))));
  }
};

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
Way thin_way(ElementType type, const Sizes& sizes, const TensorView& b, std::size_t row, std::size_t column) {
  const std::int64_t passes = divided(sizes.m, device::kThinRowsAtOnce);
  Way way{.way = device::ProductWay::thin};
  if (!is_float(type)) {
    way.log_lanes = log2_ceiling(std::min<std::int64_t>(sizes.n, 16));
    way.tiles = way.most_groups = divided(sizes.n, std::int64_t{1} << way.log_lanes) * sizes.matrices;
    way.cost = kWideCost + 1;
    return way;
  }
  const std::int64_t width = device::thin_width(static_cast<std::uint32_t>(sizes.m));
  // As if of floats: loads take long, not bytes.
  const std::int64_t stream_bytes = sizes.n * sizes.k * sizes.matrices * std::int64_t{sizeof(float)};
  const std::int64_t cost = passes * stream_bytes / kStreamRate;
  const auto tiles = [&](std::int64_t columns) { return divided(sizes.n, columns << way.log_lanes) * sizes.matrices; };
  way.log_lanes = std::min(device::kMostLogThinLanes, log2_ceiling(divided(sizes.n, width)));
  const std::uint32_t least = std::abs(b.strides()[column]) < std::abs(b.strides()[row]) ? 2 : 0;
  while (cost > kWideCost && way.log_lanes > least && tiles(width) < stream_bytes / kStreamOfGroup) --way.log_lanes;
  if (has_packs(b, row, column)) {
    way.way = device::ProductWay::stream;
    way.tiles = tiles(width);
    way.most_groups = std::min(way.tiles, stream_bytes / kStreamOfGroup);
    way.cost = cost;
  } else {
    way.tiles = way.most_groups = tiles(1);
    way.cost = way.tiles * (kTileCost + passes * kLoadCost * divided(sizes.k, std::int64_t{8} * 128 >> way.log_lanes));
  }
  return way;
}

Way cuda_way(ElementType type, const Sizes& sizes, const TensorView& b, std::size_t row, std::size_t column) {
  const bool integers = !is_float(type) && type != ElementType::f64;
  if (!integers && sizes.m * sizes.n <= kMostSingle && sizes.k <= kMostSingleDepth && sizes.m * sizes.n * sizes.matrices <= kMostResults) {
    const std::int64_t results = sizes.m * sizes.n * sizes.matrices;
    const std::int64_t rounds = divided(results, kMostSingle);
    return {.way = device::ProductWay::single,
            .tiles = results,
            .most_groups = rounds,
            .cost = rounds * (kTileCost + kLoadCost * divided(sizes.k, 8))};
  }
  if (sizes.m <= (is_float(type) ? device::kThinRows : device::kThinRowsAtOnce)) return thin_way(type, sizes, b, row, column);
  const std::int64_t tiles = square_tiles(sizes);
  const std::int64_t steps = divided(sizes.k * static_cast<std::int64_t>(integers ? 8 : bytes_of(type)), 64);
  return {.way = device::ProductWay::tiles,
          .tiles = tiles,
          .most_groups = tiles,
          .cost = integers ? kWideCost + 1 : tiles * (kTileCost + kTileStepCost * steps)};
}

}  // namespace

const OwnSource kProduct{"dwell_product", R"(#include "tensor/device/matmul.hpp"

struct Words {
  dwell::u32 at[55];
};

DWELL_OPERATOR(dwell_product)(dwell::Group g, const Words& product) { dwell::device::run_product(g, product.at); }
)"};

void check_product_type(const char* function, ElementType type) {
  switch (type) {
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::f32:
    case ElementType::f64:
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::u8: return;
    default:
      throw Error(errc::unsupported, std::string(function) + ": tensors of " + std::string(name_of(type)) +
                                         " have no products: use f16, bf16, f32, f64, i8, i16, i32, i64 or u8");
  }
}

Operation operation_of(const Product& product, bool on_cuda, std::uint32_t workers) {
  const Dims& shape = product.to.shape();
  std::size_t row = shape.size() - 2;
  std::size_t column = row + 1;
  Tensors tensors{&product.to, &product.a, &product.b};
  const bool has_bias = product.bias != nullptr && product.beta != 0;
  if (has_bias) tensors.push_back(product.bias);
  if (shape[column] < shape[row] && shape[column] <= (on_cuda ? std::int64_t{device::kThinRows} : kFewColumns)) {
    // The same matrices with rows and columns exchanged.
    std::swap(row, column);
    std::swap(tensors[1], tensors[2]);
  }
  const std::int64_t m = shape[row];
  const std::int64_t n = shape[column];
  const std::int64_t k = product.alpha == 0 ? 0 : tensors[1]->shape()[column];  // as BLAS: factors of 0 read nothing

  for (const TensorView* const tensor : tensors) check_reach(*tensor);
  const Front front = front_of(tensors);
  const auto dims = static_cast<std::uint32_t>(front.sizes.size());
  std::int64_t matrices = 1;
  for (const std::int64_t size : front.sizes) matrices *= size;

  const ElementType type = product.to.type();
  const Sizes sizes{.m = m, .n = n, .k = k, .matrices = matrices};
  const Way way = on_cuda ? cuda_way(type, sizes, *tensors[2], row, column) : Way{.tiles = square_tiles(sizes)};
  Operation operation;
  const auto put = [&](auto value) { operation.words.push_back(static_cast<std::uint32_t>(value)); };
  const auto put_factor = [&](double factor) {
    put(bits_of(factor, type));
    put(bits_of(factor, type) >> 32U);
  };
  put(device::ProductWords::head(type, dims, has_bias, way.way, way.log_lanes));
  put(m);
  put(n);
  put(k);
  put(way.tiles);
  put_factor(product.alpha);
  for (std::uint32_t dim = 0; dim < dims; ++dim) put(front.sizes[dim]);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = *tensors[i];
    put(tensor.address());
    put(tensor.address() >> 32U);
    put(tensor.shape()[row] == 1 ? 0 : tensor.strides()[row]);
    put(tensor.shape()[column] == 1 ? 0 : tensor.strides()[column]);
    for (std::uint32_t dim = 0; dim < dims; ++dim) put(front.strides[i * dims + dim]);
  }
  if (has_bias) put_factor(product.beta);

  operation.groups = on_cuda ? way.groups(workers)
                             : cpu_groups(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                                              static_cast<double>(matrices),
                                          way.tiles, workers);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (k != 0 || i == 0 || i == 3) operation.tensors.push_back(tensors[i]);  // with k = 0 factors are not read
  return operation;
}

}  // namespace dwell::tensor
