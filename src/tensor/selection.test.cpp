#include "tensor/selection.hpp"

#include <gtest/gtest.h>

namespace dwell::tensor {
namespace {

using device::SelectionKind;
using device::SelectionWords;

TensorView view(ElementType type, const Dims& shape, const Dims& strides, std::uint64_t address = 0x123456789000) {
  return {address, type, shape, strides};
}

// Selects table rows of `columns` elements, `stride` apart.
Selection rows(ElementType type, std::int64_t columns, std::int64_t stride, std::uint64_t address = 0x123456789000) {
  return {.kind = SelectionKind::gather,
          .to = view(type, {100, columns}, {columns, 1}),
          .from = view(type, {100, columns}, {0, 1}, address),
          .index = view(ElementType::i64, {100, columns}, {1, 0}),
          .size = 50,
          .step = stride};
}

TEST(SelectionTest, AdjacentElementsAreMerged) {
  const Operation operation = operation_of(rows(ElementType::f16, 64, 72), true, 100);
  const SelectionWords all(operation.words.data());
  EXPECT_EQ(all.log_bytes(), 4U);
  EXPECT_EQ(all.places(), 100U * 8U);
  EXPECT_EQ(all.step(), 9);
  EXPECT_EQ(all.limit(), 50U);
  ASSERT_EQ(all.dims(), 2U);
  EXPECT_EQ(all.size(1), 8U);
  EXPECT_EQ(all.stride(SelectionWords::to, 0), 8);
  EXPECT_EQ(all.stride(SelectionWords::to, 1), 1);
  EXPECT_EQ(all.stride(SelectionWords::index, 0), 1);
  EXPECT_TRUE(all.wide_index());
}

TEST(SelectionTest, MergesWhatAllRowsAllow) {
  const auto bytes = [](const Selection& selection) {
    return 1U << SelectionWords(operation_of(selection, true, 8).words.data()).log_bytes();
  };
  EXPECT_EQ(bytes(rows(ElementType::f16, 64, 68)), 8U) << "rows begin at multiples of 4 elements";
  EXPECT_EQ(bytes(rows(ElementType::f16, 64, 65)), 2U);
  EXPECT_EQ(bytes(rows(ElementType::f16, 62, 64)), 4U);
  EXPECT_EQ(bytes(rows(ElementType::f32, 64, 64, 0x123456789008)), 8U) << "the table does";
  EXPECT_EQ(bytes(rows(ElementType::u8, 7, 16)), 1U);
  Selection apart = rows(ElementType::f16, 64, 64);
  apart.to = view(ElementType::f16, {100, 64}, {66, 1});
  EXPECT_EQ(bytes(apart), 4U) << "rows of the result begin at multiples of 2 elements";
  Selection columns = rows(ElementType::f32, 64, 64);
  columns.index = view(ElementType::i32, {100, 64}, {0, 1});
  EXPECT_EQ(bytes(columns), 4U) << "each has an index of its own";
}

TEST(SelectionTest, CollidingPlacesAreInTheLastDimension) {
  const Selection selection{.kind = SelectionKind::scatter_add,
                            .to = view(ElementType::f16, {30, 40}, {0, 1}),
                            .from = view(ElementType::f16, {30, 40}, {40, 1}),
                            .index = view(ElementType::i32, {30, 40}, {1, 0}),
                            .dim = 0,
                            .size = 7,
                            .step = 40};
  const Operation operation = operation_of(selection, true, 100);
  const SelectionWords all(operation.words.data());
  ASSERT_EQ(all.dims(), 2U);
  EXPECT_EQ(all.size(0), 40U);
  EXPECT_EQ(all.size(1), 30U);
  EXPECT_EQ(all.stride(SelectionWords::from, 1), 40);
  EXPECT_EQ(all.log_bytes(), 1U);
  EXPECT_FALSE(all.atomic()) << "no device adds halves";
  Selection floats = selection;
  for (TensorView* const each : {&floats.to, &floats.from}) *each = view(ElementType::f32, each->shape(), each->strides());
  EXPECT_TRUE(SelectionWords(operation_of(floats, true, 8).words.data()).atomic());
  EXPECT_FALSE(SelectionWords(operation_of(floats, false, 8).words.data()).atomic());
}

TEST(SelectionTest, RowsAndColumnsAreTheLastDimensions) {
  const TensorView all = view(ElementType::f32, {2, 3, 4, 1}, {12, 4, 1, 1});
  const Operation operation = operation_of({.kind = SelectionKind::upper, .to = all, .from = all, .index = all, .size = -3}, true, 8);
  const SelectionWords words(operation.words.data());
  ASSERT_EQ(words.dims(), 3U) << "the first two are one, and one column is one";
  EXPECT_EQ(words.size(0), 6U);
  EXPECT_EQ(words.size(2), 1U);
  EXPECT_EQ(words.diagonal(), -3);
}

}  // namespace
}  // namespace dwell::tensor
