#include "tensor/product.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/device/product.hpp"
#include "tensor/layout.hpp"
#include "tensor/product_way.hpp"

namespace dwell::tensor {

namespace {

static_assert(device::ProductWords::words(true, Dims::kMost - 2) <= 55 && 55 <= kMostOwnWords, "the operators below take as many");

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

}  // namespace

const OwnSource kProduct{"dwell_product", R"(#include "tensor/device/matmul.hpp"

struct Words {
  dwell::u32 at[55];
};

DWELL_OPERATOR(dwell_product)(dwell::Group g, const Words& product) { dwell::device::run_product(g, product.at); }
)"};
const OwnSource kSmallProduct{"dwell_small_product", R"(#include "tensor/device/small_product.hpp"

struct Words {
  dwell::u32 at[55];
};

DWELL_OPERATOR(dwell_small_product)(dwell::Group g, const Words& product) { dwell::device::run_small_product(g, product.at); }
)"};
const OwnSource& source_of(const Operation& product) {
  return device::ProductWords(product.words.data()).way() == device::ProductWay::tiles ? kProduct : kSmallProduct;
}

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
  const ProductSizes sizes{.m = m, .n = n, .k = k, .matrices = matrices};
  const ChosenWay chosen = on_cuda ? cuda_way(sizes, *tensors[2], row, column, workers) : cpu_way(sizes, workers);
  Operation operation;
  const auto put = [&](auto value) { operation.words.push_back(static_cast<std::uint32_t>(value)); };
  const auto put_factor = [&](double factor) {
    put(bits_of(factor, type));
    put(bits_of(factor, type) >> 32U);
  };
  put(device::ProductWords::head(type, dims, has_bias, chosen.way, chosen.log_lanes));
  put(m);
  put(n);
  put(k);
  put(chosen.tiles);
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

  operation.groups = chosen.groups;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (k != 0 || i == 0 || i == 3) operation.tensors.push_back(tensors[i]);  // with k = 0 factors are not read
  return operation;
}

}  // namespace dwell::tensor
