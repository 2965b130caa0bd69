// How a product of matrices is computed: in which way, and by how many groups.
#pragma once

#include <cstddef>
#include <cstdint>

#include <dwell/tensor.hpp>

#include "tensor/device/product.hpp"

namespace dwell::tensor {

struct ProductSizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t matrices;
};

struct ChosenWay {
  device::ProductWay way = device::ProductWay::tiles;
  std::uint32_t log_lanes = 0;  // of ways that have lanes
  std::int64_t tiles = 0;       // as ProductWords has them
  std::uint32_t groups = 1;
};

ChosenWay cpu_way(const ProductSizes& sizes, std::uint32_t workers);

// `b`: the second factor, whose dimensions `row` and `column` have k and n elements. All but `groups`, and so the order of sums, follows
// from shapes, strides and types; whether b is read as a stream also from its address, which does not change that order.
ChosenWay cuda_way(const ProductSizes& sizes, const TensorView& b, std::size_t row, std::size_t column, std::uint32_t workers);

}  // namespace dwell::tensor
