#include "tensor/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/expect_error.hpp"

namespace dwell::tensor {
namespace {

using testing::ElementsAre;

TensorView view(const Dims& shape, const Dims& strides) { return {4096, ElementType::f32, shape, strides}; }

TEST(Layout, JoinsWhatEachTensorStepsThroughAsOne) {
  const Layout joined = joined_layout({view({2, 3, 4}, {12, 4, 1}), view({2, 3, 4}, {24, 8, 2})}, true);
  EXPECT_EQ(joined.sizes, (Dims{24}));
  EXPECT_THAT(joined.strides, ElementsAre(Dims{1}, Dims{2}));
  const Layout rows = joined_layout({view({2, 3, 4}, {12, 4, 1}), view({2, 3, 4}, {0, 4, 1})}, true);
  EXPECT_EQ(rows.sizes, (Dims{2, 12}));
  EXPECT_THAT(rows.strides, ElementsAre(Dims{12, 1}, Dims{0, 1}));
}

TEST(Layout, DropsDimensionsOfOneElement) {
  const Layout layout = joined_layout({view({1, 5, 1}, {99, 2, 7}), view({1, 5, 1}, {-3, 1, 0})}, false);
  EXPECT_EQ(layout.sizes, (Dims{5}));
  EXPECT_THAT(layout.strides, ElementsAre(Dims{2}, Dims{1}));
  EXPECT_EQ(joined_layout({view({}, {})}, true).sizes, (Dims{1}));
}

TEST(Layout, FollowsMemoryWhereTheOrderIsFree) {
  const std::vector<TensorView> columns = {view({3, 4}, {1, 3}), view({3, 4}, {1, 3})};
  EXPECT_EQ(joined_layout(columns, true).sizes, (Dims{12}));
  EXPECT_EQ(joined_layout(columns, false).sizes, (Dims{3, 4}));
}

}  // namespace
}  // namespace dwell::tensor
