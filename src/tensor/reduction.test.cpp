#include "tensor/reduction.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/expect_error.hpp"

namespace dwell::tensor {
namespace {

using device::RowPhase;
using device::RowResult;
using device::RowsWords;

Rows rows_of(const Dims& shape, const Dims& axes, bool on_cuda, RowResult result = RowResult::number) {
  RowsPlan plan;
  plan.result = result;
  const TensorView x(4096, ElementType::f32, shape);
  Dims strides = x.strides();
  if (result < RowResult::softmax)
    for (const std::int64_t axis : axes) strides[static_cast<std::size_t>(axis)] = 0;
  const TensorView to(1U << 20U, ElementType::f32, shape, strides);
  return {plan, axes_of(shape, axes), false, on_cuda, x, to, nullptr, nullptr};
}

struct Cut {
  std::uint32_t shift;
  bool rows_first;
  std::uint32_t parts;
};
Cut cut_of(const Dims& shape, const Dims& axes, bool on_cuda, RowResult result = RowResult::number) {
  const Rows rows = rows_of(shape, axes, on_cuda, result);
  const auto words = rows.words(RowPhase::whole, 0);
  return {RowsWords(words.data()).shift(), RowsWords(words.data()).rows_first(), rows.parts()};
}

TEST(ReductionTest, LongRowsHaveGroupsAndShortOnesShareThem) {
  EXPECT_EQ(cut_of({5, 1000}, {1}, true).shift, 0U);
  EXPECT_EQ(cut_of({5, 100}, {1}, true).shift, 3U);  // sixteen threads a row
  EXPECT_EQ(cut_of({500, 8}, {1}, true).shift, 7U);  // one thread a row
  // Neighbouring threads load neighbouring elements.
  const Cut columns = cut_of({64, 256}, {0}, true);
  EXPECT_EQ(columns.shift, 5U);
  EXPECT_TRUE(columns.rows_first);
  EXPECT_TRUE(cut_of({64, 256}, {0}, false).rows_first);
  EXPECT_FALSE(cut_of({64, 256}, {1}, false).rows_first);
}

TEST(ReductionTest, FewRowsAreSplit) {
  EXPECT_EQ(cut_of({1, 1'000'000}, {1}, true).parts, 64U);
  EXPECT_EQ(cut_of({1, 10'000}, {1}, true).parts, 1U);
  EXPECT_EQ(cut_of({1, 65'000}, {1}, true).parts, 1U);
  EXPECT_GT(cut_of({1, 66'000}, {1}, true).parts, 1U);
  EXPECT_EQ(cut_of({100, 100'000}, {1}, true).parts, 1U);
  EXPECT_GT(cut_of({100'000, 32}, {0}, false).parts, 1U);
}

TEST(ReductionTest, ShortRowsUseOneCudaWorker) {
  const auto groups = [](const Dims& shape, RowResult result = RowResult::number) {
    return rows_of(shape, {1}, true, result).groups(RowPhase::whole);
  };
  EXPECT_EQ(groups({64, 256}), 1U);
  EXPECT_EQ(groups({64, 1024}), 16U);
  EXPECT_EQ(groups({64, 255}, RowResult::softmax), 1U) << "two passes";
  EXPECT_GT(groups({64, 256}, RowResult::softmax), 1U);
}

// Invariants that the machine relies on.
TEST(ReductionTest, PartsHoldAllColumns) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const auto rows = static_cast<std::int64_t>(1 + random() % (round % 3 == 0 ? 4 : 3000));
    const auto columns = static_cast<std::int64_t>(1 + random() % (round % 2 == 0 ? 300 : 300'000));
    const bool turned = random() % 2 == 0;
    const RowResult result = random() % 3 == 0 ? RowResult::running : random() % 2 == 0 ? RowResult::softmax : RowResult::mean;
    const Rows all =
        turned ? rows_of({columns, rows}, {0}, random() % 2 == 0, result) : rows_of({rows, columns}, {1}, random() % 2 == 0, result);
    const auto task = all.words(RowPhase::parts, 0);
    const RowsWords words(task.data());
    ASSERT_EQ(words.rows(), rows);
    ASSERT_EQ(words.columns(), columns);
    ASSERT_LE(words.parts(), device::kMaxParts);
    ASSERT_LT(std::int64_t{words.parts() - 1} * words.part_columns(), columns) << "the last part is empty";
    ASSERT_GE(std::int64_t{words.parts()} * words.part_columns(), columns);
    // Threads of a row are part of a warp, a whole warp, or the whole group.
    const std::uint32_t shift = words.shift();
    ASSERT_TRUE(!words.rows_first() || shift == 0 || shift == 5 || shift == 7) << shift;
    ASSERT_TRUE(shift == 0 || (shift >= 2 && shift <= 7)) << shift;
    ASSERT_TRUE(result != RowResult::running || shift == 0 || shift == 7) << shift;
    ASSERT_TRUE(result != RowResult::running || shift == 0 || words.parts() == 1);
    for (const RowPhase phase : {RowPhase::whole, RowPhase::parts, RowPhase::rest}) {
      ASSERT_GE(all.groups(phase), 1U);
      ASSERT_LE(all.groups(phase), 64U);
    }
  }
}

TEST(ReductionTest, ContiguousDimensionsAreJoined) {
  const auto task = rows_of({4, 5, 6, 7}, {2, 3}, true).words(RowPhase::whole, 0);
  const RowsWords words(task.data());
  EXPECT_EQ(words.row_dims(), 1U);
  EXPECT_EQ(words.column_dims(), 1U);
  EXPECT_EQ(words.row_stride(words.tensor(RowsWords::kInput)), 42);
  EXPECT_EQ(words.row_offset(words.tensor(RowsWords::kResult), 3), 126);
  EXPECT_EQ(words.column_offset(words.tensor(RowsWords::kResult), 3), 0);
}

TEST(ReductionTest, ShapesOfResults) {
  EXPECT_EQ(reduced_shape({2, 3, 4}, {-1}, true), (Dims{2, 3, 1}));
  EXPECT_EQ(reduced_shape({2, 3, 4}, {0, 2}, false), (Dims{3}));
  EXPECT_EQ(reduced_shape({2, 3, 4}, {}, false), Dims{});
  EXPECT_EQ(reduced_shape({}, {0}, true), Dims{});
  DWELL_EXPECT_ERROR(reduced_shape({2, 3}, {-3}, true), errc::invalid_argument, testing::HasSubstr("dimension -3 does not exist"));
}

}  // namespace
}  // namespace dwell::tensor
