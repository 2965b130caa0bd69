#include "tensor/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/unit/expect_error.hpp"

namespace dwell::tensor {
namespace {

struct Joined {
  Dims sizes;
  std::vector<Dims> strides;
};
Joined joined(Joined dims, bool any_order) {
  join_dims(dims.sizes, dims.strides, any_order);
  return dims;
}

using testing::ElementsAre;

TEST(Layout, JoinsContiguousDimensions) {
  const Joined all = joined({{2, 3, 4}, {{12, 4, 1}, {24, 8, 2}}}, true);
  EXPECT_EQ(all.sizes, (Dims{24}));
  EXPECT_THAT(all.strides, ElementsAre(Dims{1}, Dims{2}));
  const Joined rows = joined({{2, 3, 4}, {{12, 4, 1}, {0, 4, 1}}}, true);
  EXPECT_EQ(rows.sizes, (Dims{2, 12}));
  EXPECT_THAT(rows.strides, ElementsAre(Dims{12, 1}, Dims{0, 1}));
}

TEST(Layout, DropsDimensionsOfOneElement) {
  const Joined dims = joined({{1, 5, 1}, {{99, 2, 7}, {-3, 1, 0}}}, false);
  EXPECT_EQ(dims.sizes, (Dims{5}));
  EXPECT_THAT(dims.strides, ElementsAre(Dims{2}, Dims{1}));
  EXPECT_EQ(joined({{}, {{}}}, true).sizes, (Dims{1}));
}

TEST(Layout, FollowsMemoryWhereTheOrderIsFree) {
  EXPECT_EQ(joined({{3, 4}, {{1, 3}, {1, 3}}}, true).sizes, (Dims{12}));
  EXPECT_EQ(joined({{3, 4}, {{1, 3}, {1, 3}}}, false).sizes, (Dims{3, 4}));
  const Joined turned = joined({{2, 3, 4, 5}, {{1, 2, -100, 6}, {1, 50, 20, 10}}}, true);
  EXPECT_EQ(turned.sizes, (Dims{4, 5, 3, 2}));
  EXPECT_THAT(turned.strides, ElementsAre(Dims{-100, 6, 2, 1}, Dims{20, 10, 50, 1}));
}

TEST(Layout, ResultsMayNotShareMemory) {
  const auto view = [](const Dims& shape, const Dims& strides) { return TensorView(4096, ElementType::f32, shape, strides); };
  EXPECT_NO_THROW(check_result(view({3, 4}, {4, 1})));
  EXPECT_NO_THROW(check_result(view({3, 4}, {1, 3})));
  EXPECT_NO_THROW(check_result(view({3, 4}, {-1, 5})));
  EXPECT_NO_THROW(check_result(view({3, 0}, {0, 0})));
  DWELL_EXPECT_ERROR(check_result(view({3, 4}, {1, 2})), errc::invalid_argument, testing::HasSubstr("may share memory"));
  DWELL_EXPECT_ERROR(check_result(view({3, 4}, {0, 1})), errc::invalid_argument, testing::HasSubstr("may share memory"));
}

// Tensors without elements have arbitrary strides.
TEST(Layout, ExtremeStridesDoNotOverflow) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(joined({{2, 0, 4}, {{kLeast, kMost, kLeast / 4}}}, true).sizes, (Dims{2, 0, 4})) << "no product wraps around to a stride";
  EXPECT_EQ(joined({{4, 4}, {{0, std::int64_t{1} << 62U}}}, false).sizes, (Dims{4, 4}));
  EXPECT_EQ(joined({{3, 0}, {{kLeast, kLeast}}}, true).sizes, (Dims{3, 0}));
  EXPECT_NO_THROW(check_result(TensorView(4096, ElementType::f32, {3, 0}, {kLeast, kMost})));
}

}  // namespace
}  // namespace dwell::tensor
