#include "tensor/product.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tensor/device/product.hpp"

namespace dwell::tensor {
namespace {

using device::ProductWay;
using device::ProductWords;

TensorView view(const Dims& shape, std::uint64_t address = 0x123456789000, ElementType type = ElementType::f32) {
  return {address, type, shape};
}

TEST(ProductTest, WordsEncodeTheProduct) {
  const TensorView to = view({2, 3, 40, 50}, 0xA00000001000);
  const TensorView b = view({3, 50, 60}, 0xB00000002000).transpose(1, 2).expand({2, 3, 60, 50});
  const TensorView bias = view({50}, 0xC00000003000).expand({2, 3, 40, 50});
  const Operation operation =
      operation_of({.to = to, .a = view({2, 3, 40, 60}), .b = b, .bias = &bias, .beta = 0.5, .alpha = -2}, true, 100);
  const ProductWords all(operation.words.data());
  EXPECT_EQ(all.type(), ElementType::f32);
  EXPECT_TRUE(all.has_bias());
  EXPECT_EQ(all.way(), ProductWay::tiles);
  EXPECT_EQ(all.m(), 40U);
  EXPECT_EQ(all.n(), 50U);
  EXPECT_EQ(all.k(), 60U);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(all.alpha())), -2.0F);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(all.beta())), 0.5F);
  ASSERT_EQ(all.dims(), 2U) << "b repeats along the first, so that they cannot be joined";
  EXPECT_EQ(all.tiles(), 2U * 3U * 2U * 2U);
  EXPECT_EQ(operation.words.size(), ProductWords::words(true, 2));
  EXPECT_EQ(ProductWords::address(all.tensor(ProductWords::to)), 0xA00000001000U);
  EXPECT_EQ(ProductWords::address(all.tensor(ProductWords::bias)), 0xC00000003000U);
  const std::uint32_t* const of_b = all.tensor(ProductWords::b);
  EXPECT_EQ(ProductWords::address(of_b), 0xB00000002000U);
  EXPECT_EQ(ProductWords::row_stride(of_b), 1);
  EXPECT_EQ(ProductWords::column_stride(of_b), 60);
  EXPECT_EQ(ProductWords::batch_stride(of_b, 0), 0);
  EXPECT_EQ(ProductWords::batch_stride(of_b, 1), 3000);
  EXPECT_EQ(ProductWords::row_stride(all.tensor(ProductWords::bias)), 0);
  EXPECT_EQ(operation.groups, 24U) << "one a tile";
  EXPECT_EQ(operation.tensors.size(), 4U);
}

TEST(ProductTest, BatchesAreJoined) {
  const TensorView all_of = view({2, 3, 4, 40, 40});
  const Operation operation = operation_of({.to = all_of, .a = all_of, .b = all_of}, true, 8);
  const ProductWords all(operation.words.data());
  ASSERT_EQ(all.dims(), 1U);
  EXPECT_EQ(all.size(0), 24U);
  EXPECT_EQ(operation.groups, 8U) << "no more than workers";
}

TEST(ProductTest, FewColumnsTransposeTheProduct) {
  const TensorView a = view({100, 30}, 0xA00000000000);
  const TensorView x = view({30, 2}, 0xB00000000000);
  const Operation operation = operation_of({.to = view({100, 2}), .a = a, .b = x}, true, 100);
  const ProductWords all(operation.words.data());
  EXPECT_EQ(all.way(), ProductWay::thin);
  EXPECT_EQ(all.m(), 2U);
  EXPECT_EQ(all.n(), 100U);
  EXPECT_EQ(ProductWords::address(all.tensor(ProductWords::a)), 0xB00000000000U);
  EXPECT_EQ(ProductWords::row_stride(all.tensor(ProductWords::a)), 1);
  EXPECT_EQ(ProductWords::address(all.tensor(ProductWords::b)), 0xA00000000000U);
  EXPECT_EQ(ProductWords::row_stride(all.tensor(ProductWords::b)), 1);
  EXPECT_EQ(ProductWords::column_stride(all.tensor(ProductWords::b)), 30);
  EXPECT_EQ(all.log_lanes(), 4U);
  EXPECT_EQ(all.tiles(), 7U);
  EXPECT_EQ(ProductWords(operation_of({.to = view({100, 2}), .a = a, .b = x}, false, 100).words.data()).way(), ProductWay::tiles);
}

// Returns the operation of a product on CUDA, of b as its rows lie or with `columns` as its columns do.
Operation operation(const Dims& sizes, bool columns = false, ElementType type = ElementType::f32, std::uint64_t of_b = 0xB00000000000) {
  const std::int64_t m = sizes[0];
  const std::int64_t n = sizes[1];
  const std::int64_t k = sizes[2];
  const TensorView b = columns ? view({n, k}, of_b, type).transpose(0, 1) : view({k, n}, of_b, type);
  return operation_of({.to = view({m, n}, 4096, type), .a = view({m, k}, 4096, type), .b = b}, true, 100);
}
ProductWords words_of(const Operation& operation) { return ProductWords(operation.words.data()); }

TEST(ProductTest, OneColumnTakesAllThreads) {
  const auto log_lanes = [](std::int64_t n) { return words_of(operation({1, n, 99})).log_lanes(); };
  EXPECT_EQ(log_lanes(1), 0U);
  EXPECT_EQ(log_lanes(8), 0U);
  EXPECT_EQ(log_lanes(9), 1U);
  EXPECT_EQ(log_lanes(33), 3U);
  EXPECT_EQ(log_lanes(200), 4U);
}

TEST(ProductTest, AlignedFactorsAreStreams) {
  const auto way = [](const Operation& operation) { return words_of(operation).way(); };
  for (const bool columns : {false, true}) {
    EXPECT_EQ(way(operation({1, 256, 256}, columns)), ProductWay::stream);
    EXPECT_EQ(way(operation({8, 256, 256}, columns)), ProductWay::stream);
    EXPECT_EQ(way(operation({9, 256, 256}, columns)), ProductWay::tiles);
    EXPECT_EQ(way(operation({1, 256, 255}, columns)), ProductWay::thin);
    EXPECT_EQ(way(operation({1, 255, 256}, columns)), ProductWay::thin);
    EXPECT_EQ(way(operation({1, 256, 256}, columns, ElementType::f32, 0xB00000000004)), ProductWay::thin);
    EXPECT_EQ(way(operation({1, 256, 256}, columns, ElementType::bf16, 0xB00000000008)), ProductWay::stream);
    EXPECT_EQ(way(operation({1, 256, 256}, columns, ElementType::f64)), ProductWay::thin);
    EXPECT_EQ(way(operation({1, 256, 256}, columns, ElementType::i32)), ProductWay::thin);
  }
  EXPECT_EQ(way(operation({8, 8, 8})), ProductWay::single);
  EXPECT_EQ(way(operation({4, 8, 8}, false, ElementType::f64)), ProductWay::single);
  EXPECT_EQ(way(operation({4, 8, 8}, false, ElementType::i64)), ProductWay::thin);
  EXPECT_EQ(way(operation({8, 8, 33})), ProductWay::thin);
}

// Crossing to other workers takes as long as one needs to read 200 KB.
TEST(ProductTest, SmallProductsUseOneCudaWorker) {
  EXPECT_EQ(operation({1, 64, 256}).groups, 1U);
  EXPECT_EQ(operation({4, 64, 256}, true).groups, 1U);
  EXPECT_EQ(operation({32, 32, 32}).groups, 1U);
  EXPECT_EQ(operation({1, 256, 256}).groups, 8U);
  EXPECT_EQ(operation({8, 256, 256}, true).groups, 8U);
  EXPECT_EQ(operation({64, 64, 64}).groups, 4U);
  EXPECT_EQ(operation({64, 256, 256}).groups, 16U);
  EXPECT_EQ(operation({1, 1024, 1024}).groups, 32U);
}

TEST(ProductTest, NothingIsReadWithoutSteps) {
  const TensorView bias = view({8, 8});
  const Operation operation =
      operation_of({.to = view({8, 8}), .a = view({8, 5}), .b = view({5, 8}), .bias = &bias, .beta = 2, .alpha = 0}, true, 100);
  EXPECT_EQ(ProductWords(operation.words.data()).k(), 0U);
  EXPECT_EQ(operation.tensors.size(), 2U) << "the result and the bias";
}

TEST(ProductTest, SmallProductsUseOneCpuWorker) {
  const auto groups = [](std::int64_t size) {
    return operation_of({.to = view({size, size}), .a = view({size, size}), .b = view({size, size})}, false, 8).groups;
  };
  EXPECT_EQ(groups(33), 1U);
  EXPECT_EQ(groups(100), 3U);
  EXPECT_EQ(groups(256), 8U);
}

TEST(ProductTest, NumbersAreEncodedByClass) {
  const auto alpha = [](ElementType type) {
    const TensorView all = view({2, 2}, 4096, type);
    return ProductWords(operation_of({.to = all, .a = all, .b = all, .alpha = -3}, true, 8).words.data()).alpha();
  };
  EXPECT_EQ(alpha(ElementType::f64), std::bit_cast<std::uint64_t>(-3.0));
  EXPECT_EQ(alpha(ElementType::bf16), std::bit_cast<std::uint32_t>(-3.0F));
  EXPECT_EQ(alpha(ElementType::i8), ~std::uint64_t{2});
}

}  // namespace
}  // namespace dwell::tensor
