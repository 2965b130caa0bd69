#include <dwell/tensor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/expect_error.hpp"

namespace dwell {
namespace {

using testing::HasSubstr;

TensorView view(const Dims& shape, const Dims& strides) { return {4096, ElementType::f32, shape, strides}; }
TensorView rows(const Dims& shape) { return {4096, ElementType::f32, shape}; }

TEST(TensorView, KnowsItsElements) {
  EXPECT_EQ(rows({2, 3, 4}).elements(), 24);
  EXPECT_EQ(rows({}).elements(), 1);
  EXPECT_EQ(rows({2, 0, 4}).elements(), 0);
  EXPECT_EQ(TensorView().elements(), 0);
  EXPECT_EQ(rows({2, 3, 4}).strides(), (Dims{12, 4, 1}));
  EXPECT_TRUE(rows({2, 3, 4}).contiguous());
  EXPECT_TRUE(view({1, 3, 1}, {77, 1, -5}).contiguous());  // strides of single elements do not matter
  EXPECT_FALSE(view({2, 3}, {1, 2}).contiguous());
  EXPECT_FALSE(view({4}, {0}).contiguous());
}

TEST(TensorView, KnowsTheBytesThatItLiesIn) {
  EXPECT_EQ(rows({2, 3}).extent().first, 4096U);
  EXPECT_EQ(rows({2, 3}).extent().end, 4096U + 24);
  const TensorView backwards = view({3, 2}, {-10, 1});
  EXPECT_EQ(backwards.extent().first, 4096U - 80);
  EXPECT_EQ(backwards.extent().end, 4096U + 8);
  EXPECT_EQ(view({5}, {0}).extent().end, 4096U + 4);
  EXPECT_FALSE(rows({0}).extent().overlaps(rows({4}).extent()));
  EXPECT_FALSE(rows({4}).extent().overlaps(TensorView(4112, ElementType::f32, {4}).extent()));
  EXPECT_TRUE(rows({5}).extent().overlaps(TensorView(4112, ElementType::f32, {4}).extent()));
}

TEST(TensorView, IsSeenInOtherWays) {
  const TensorView all = rows({2, 3, 4});
  EXPECT_EQ(all.permute({2, 0, 1}).shape(), (Dims{4, 2, 3}));
  EXPECT_EQ(all.permute({2, 0, 1}).strides(), (Dims{1, 12, 4}));
  EXPECT_EQ(all.transpose(0, 2).strides(), (Dims{1, 4, 12}));
  const TensorView part = all.slice(1, 2, 2, -1);
  EXPECT_EQ(part.address(), 4096U + 32);
  EXPECT_EQ(part.strides(), (Dims{12, -4, 1}));
  EXPECT_EQ(all.select(1, 1).shape(), (Dims{2, 4}));
  EXPECT_EQ(all.select(1, 1).address(), 4096U + 16);
  EXPECT_EQ(rows({3, 1}).expand({2, -1, 5}).strides(), (Dims{0, 1, 0}));
  EXPECT_EQ(rows({}).expand({2, 2}).strides(), (Dims{0, 0}));
}

TEST(TensorView, IsMadeOfElementsOfATypeAsData) {
  const BufferView memory(4096, 6, ElementType::f32);
  EXPECT_EQ(TensorView(memory, {2, 3}).strides(), (Dims{3, 1}));
  const TensorView backwards(memory, {3}, {-2}, 5);
  EXPECT_EQ(backwards.address(), 4096U + 20);
  EXPECT_EQ(backwards.extent().first, 4096U + 4);
  DWELL_EXPECT_ERROR(TensorView(memory, {2, 2}), errc::invalid_argument, HasSubstr("has 4 elements, the buffer 6"));
  DWELL_EXPECT_ERROR(TensorView(memory, {3}, {1}, 4), errc::invalid_argument, HasSubstr("from element 4 on are none of the 6"));
  DWELL_EXPECT_ERROR(TensorView(memory, {3}, {-2}, 3), errc::invalid_argument, HasSubstr("none of the 6"));
}

TEST(TensorView, IsReshapedWhereStridesSayThat) {
  EXPECT_EQ(rows({4, 6}).reshape({2, 2, 3, 2}).strides(), (Dims{12, 6, 2, 1}));
  EXPECT_EQ(view({4, 6}, {12, 2}).reshape({24}).strides(), (Dims{2}));
  EXPECT_EQ(view({4, 6}, {100, 1}).reshape({2, 2, 6}).strides(), (Dims{200, 100, 1}));
  EXPECT_EQ(view({4, 6}, {100, 1}).reshape({4, 1, 3, 2}).strides()[0], 100);
  EXPECT_EQ(view({2, 3}, {0, 0}).reshape({6}).strides(), (Dims{0}));
  DWELL_EXPECT_ERROR(view({4, 6}, {1, 4}).reshape({24}), errc::invalid_argument, HasSubstr("copy it"));
  DWELL_EXPECT_ERROR(rows({4, 6}).reshape({5, 5}), errc::invalid_argument, HasSubstr("(5, 5)"));
}

TEST(TensorView, RefusesWhatIsNotThere) {
  const TensorView all = rows({2, 3});
  DWELL_EXPECT_ERROR(all.permute({0, 0}), errc::invalid_argument, HasSubstr("(0, 0) is no order"));
  DWELL_EXPECT_ERROR(all.permute({0}), errc::invalid_argument, HasSubstr("no order"));
  DWELL_EXPECT_ERROR(all.transpose(0, 2), errc::invalid_argument, HasSubstr("no dimension 2"));
  DWELL_EXPECT_ERROR(all.slice(1, 1, 3), errc::invalid_argument, HasSubstr("dimension 1"));
  DWELL_EXPECT_ERROR(all.slice(1, 0, 2, -1), errc::invalid_argument, HasSubstr("dimension 1"));
  DWELL_EXPECT_ERROR(all.select(0, -1), errc::invalid_argument, HasSubstr("dimension 0"));
  DWELL_EXPECT_ERROR(all.expand({3, 3}), errc::invalid_argument, HasSubstr("(3, 3)"));
  DWELL_EXPECT_ERROR(all.expand({3}), errc::invalid_argument, HasSubstr("(3,)"));
  DWELL_EXPECT_ERROR(rows({-1}), errc::invalid_argument, HasSubstr("(-1,)"));
  DWELL_EXPECT_ERROR(rows({std::int64_t{1} << 40U, std::int64_t{1} << 40U}), errc::invalid_argument, HasSubstr("shape"));
  DWELL_EXPECT_ERROR(view({2}, {1, 1}), errc::invalid_argument, HasSubstr("one for each dimension"));
  DWELL_EXPECT_ERROR(TensorView(4098, ElementType::f32, {1}), errc::invalid_argument, HasSubstr("aligned"));
  DWELL_EXPECT_ERROR(TensorView(std::uint64_t{1} << 50U, ElementType::f32, {1}), errc::invalid_argument, HasSubstr("48 bits"));
  DWELL_EXPECT_ERROR(Dims({1, 1, 1, 1, 1, 1, 1, 1, 1}), errc::invalid_argument, HasSubstr("up to 8"));
}

}  // namespace
}  // namespace dwell
