#include "base/inplace_vector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>

namespace dwell {
namespace {

TEST(InplaceVectorTest, IsARangeOfItsElements) {
  InplaceVector<int, 4> numbers;
  EXPECT_TRUE(numbers.empty());
  numbers.push_back(3);
  numbers.append(InplaceVector<int, 2>{7, 5});
  ASSERT_EQ(numbers.size(), 3U);
  std::ranges::sort(numbers, std::greater());
  EXPECT_EQ(numbers[0], 7);
  const std::span<const int> rest = std::span<const int>(numbers).subspan(1);
  EXPECT_TRUE(std::ranges::equal(rest, InplaceVector<int, 2>{5, 3}));
}

}  // namespace
}  // namespace dwell
