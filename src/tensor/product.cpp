#include "tensor/product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <dwell/device/tensor_product.hpp>
#include <dwell/error.hpp>

#include "tensor/layout.hpp"

namespace dwell::tensor {

namespace {

static_assert(device::ProductWords::words(true, Dims::kMost - 2) <= 55, "the operator above takes as many");

// Multiplications of a group on a CPU, below which another one would not pay.
constexpr std::int64_t kWorkOfGroup = std::int64_t{1} << 18U;
constexpr std::int64_t kMostTileGroups = 256;

// The same matrices with rows and columns exchanged.
Product turned(const Product& product) {
  const auto turn = [](const TensorView& view) { return view.transpose(view.dims() - 2, view.dims() - 1); };
  Product other = product;
  other.to = turn(product.to);
  other.a = turn(product.b);
  other.b = turn(product.a);
  if (product.bias) other.bias = turn(*product.bias);
  return other;
}

// The tensor's dimensions ahead of the last two.
TensorView batch_of(const TensorView& view) {
  Dims shape = view.shape();
  Dims strides = view.strides();
  for (int i = 0; i < 2; ++i) {
    shape.erase(shape.size() - 1);
    strides.erase(strides.size() - 1);
  }
  return {view.address(), view.type(), shape, strides};
}

// A factor in the class of numbers that a type's products are computed in.
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

}  // namespace

const OwnSource kProduct{"dwell_product", R"(#include <dwell/device/tensor_matmul.hpp>

struct Words {
  dwell::u32 at[55];
};

DWELL_OPERATOR(dwell_product)(dwell::Group g, const Words& product) { dwell::device::run_product(g, product.at); }
)"};

void check_product_type(ElementType type) {
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
      throw Error(errc::unsupported,
                  "tensors of " + std::string(name_of(type)) + " have no products: use f16, bf16, f32, f64, i8, i16, i32, i64 or u8");
  }
}

Operation operation_of(Product product, bool on_cuda, std::uint32_t workers) {
  const std::size_t row = product.to.dims() - 2;
  const std::size_t column = row + 1;
  if (product.to.shape()[column] < product.to.shape()[row] && product.to.shape()[column] <= device::kThinRows) product = turned(product);
  const std::int64_t m = product.to.shape()[row];
  const std::int64_t n = product.to.shape()[column];
  const std::int64_t k = product.alpha == 0 ? 0 : product.a.shape()[column];  // as BLAS: factors of 0 read nothing

  std::vector<TensorView> tensors{product.to, product.a, product.b};
  if (product.bias && product.beta != 0) tensors.push_back(*product.bias);
  const bool has_bias = tensors.size() == 4;
  std::vector<TensorView> batches;
  for (const TensorView& tensor : tensors) {
    check_reach(tensor);
    batches.push_back(batch_of(tensor));
  }
  const Layout batch = joined_layout(batches, true);
  const bool single = batch.sizes.size() == 1 && batch.sizes[0] == 1;
  const std::uint32_t dims = single ? 0 : static_cast<std::uint32_t>(batch.sizes.size());
  std::int64_t matrices = 1;
  for (const std::int64_t size : batch.sizes) matrices *= size;

  const bool thin = on_cuda && m <= device::kThinRows;
  const auto log_columns =
      static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(std::min<std::int64_t>(n, device::kThinColumns) - 1)));
  const ElementType type = product.to.type();
  // A tile of a thin product has all of its rows.
  const std::int64_t tiles =
      thin ? divided(n, std::int64_t{1} << log_columns) * matrices : divided(m, device::kTile) * divided(n, device::kTile) * matrices;
  Operation operation;
  std::vector<std::uint32_t>& words = operation.words;
  const auto put = [&](auto value) { words.push_back(static_cast<std::uint32_t>(value)); };
  const auto put_factor = [&](double factor) {
    put(bits_of(factor, type));
    put(bits_of(factor, type) >> 32U);
  };
  words.reserve(device::ProductWords::words(has_bias, dims));
  put(device::ProductWords::head(type, dims, has_bias, thin, log_columns));
  put(m);
  put(n);
  put(k);
  put(tiles);
  put_factor(product.alpha);
  for (std::uint32_t dim = 0; dim < dims; ++dim) put(batch.sizes[dim]);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    put(tensor.address());
    put(tensor.address() >> 32U);
    put(tensor.shape()[row] == 1 ? 0 : tensor.strides()[row]);
    put(tensor.shape()[column] == 1 ? 0 : tensor.strides()[column]);
    for (std::uint32_t dim = 0; dim < dims; ++dim) put(batch.strides[i][dim]);
  }
  if (has_bias) put_factor(product.beta);

  // Threads of a GPU wait for memory more than they compute, so that a tile for each group is best.
  const std::int64_t wanted = on_cuda ? tiles
                                      : static_cast<std::int64_t>(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                                                                  static_cast<double>(matrices) / kWorkOfGroup);
  operation.groups = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(wanted, 1, std::min({tiles, kMostTileGroups, static_cast<std::int64_t>(workers)})));
  if (k == 0) tensors.erase(tensors.begin() + 1, tensors.begin() + 3);  // nothing is read of them
  operation.tensors = std::move(tensors);
  return operation;
}

}  // namespace dwell::tensor
