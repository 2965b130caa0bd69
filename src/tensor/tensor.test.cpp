#include <dwell/tensor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

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

TEST(TensorView, KnowsItsExtent) {
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

TEST(TensorView, HasViews) {
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

TEST(TensorView, IsMadeFromTypedData) {
  const BufferView memory(4096, 6, ElementType::f32);
  EXPECT_EQ(TensorView(memory, {2, 3}).strides(), (Dims{3, 1}));
  const TensorView backwards(memory, {3}, {-2}, 5);
  EXPECT_EQ(backwards.address(), 4096U + 20);
  EXPECT_EQ(backwards.extent().first, 4096U + 4);
  DWELL_EXPECT_ERROR(TensorView(memory, {2, 2}), errc::invalid_argument, HasSubstr("has 4 elements, the buffer 6"));
  DWELL_EXPECT_ERROR(TensorView(memory, {3}, {1}, 4), errc::invalid_argument, HasSubstr("from element 4 on are none of the 6"));
  DWELL_EXPECT_ERROR(TensorView(memory, {3}, {-2}, 3), errc::invalid_argument, HasSubstr("none of the 6"));
}

TEST(TensorView, IsReshapedIfStridesAllow) {
  EXPECT_EQ(rows({4, 6}).reshape({2, 2, 3, 2}).strides(), (Dims{12, 6, 2, 1}));
  EXPECT_EQ(view({4, 6}, {12, 2}).reshape({24}).strides(), (Dims{2}));
  EXPECT_EQ(view({4, 6}, {100, 1}).reshape({2, 2, 6}).strides(), (Dims{200, 100, 1}));
  EXPECT_EQ(view({4, 6}, {100, 1}).reshape({4, 1, 3, 2}).strides()[0], 100);
  EXPECT_EQ(view({2, 3}, {0, 0}).reshape({6}).strides(), (Dims{0}));
  DWELL_EXPECT_ERROR(view({4, 6}, {1, 4}).reshape({24}), errc::invalid_argument, HasSubstr("copy it"));
  DWELL_EXPECT_ERROR(rows({4, 6}).reshape({5, 5}), errc::invalid_argument, HasSubstr("(5, 5)"));
}

TEST(TensorView, RefusesInvalidArguments) {
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

// ---- Compared with 128-bit arithmetic --------------------------------------------------------------------------------------------------

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): pedantic compilers take no other form
constexpr std::int64_t kMostNumber = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeastNumber = std::numeric_limits<std::int64_t>::min();

constexpr Wide kFar = Wide{1} << 100;  // beyond all memory; its products with element sizes do not overflow

struct Reach {
  bool exists = true;  // the shape
  bool any = true;     // elements
  Wide elements = 1;
  Wide low = 0;  // the lowest offset of an element from the first one
  Wide high = 0;
};
Reach reach_of(const Dims& shape, const Dims& strides) {
  Reach reach;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    reach.exists = reach.exists && shape[dim] >= 0;
    reach.any = reach.any && shape[dim] != 0;
    if (shape[dim] > 0 && reach.elements <= kMostNumber) reach.elements *= shape[dim];
    if (shape[dim] <= 0) continue;
    Wide& sum = strides[dim] < 0 ? reach.low : reach.high;
    sum = std::clamp(sum + Wide{shape[dim] - 1} * strides[dim], -kFar, kFar);
  }
  reach.exists = reach.exists && reach.elements <= kMostNumber;
  return reach;
}

// Random numbers of all sizes: common ones and limits.
class Numbers {
 public:
  std::int64_t any() {
    switch (random_() % 8) {
      case 0: return static_cast<std::int64_t>(random_());
      case 1: return random_() % 2 == 0 ? kMostNumber : kLeastNumber;
      case 2:
      case 3: return near_power(62);
      default: return small();
    }
  }
  std::int64_t near_power(unsigned most) {
    const std::int64_t power = std::int64_t{1} << (random_() % (most + 1));
    const std::int64_t delta = static_cast<std::int64_t>(random_() % 7) - 3;
    return random_() % 2 == 0 ? power + delta : -power + delta;
  }
  std::int64_t small() { return static_cast<std::int64_t>(random_() % 9) - 3; }
  std::int64_t size() { return random_() % 4 != 0 ? static_cast<std::int64_t>(random_() % 5) : any(); }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

 private:
  std::mt19937_64 random_{7};
};

struct Candidate {
  ElementType type = ElementType::f32;
  Dims shape;
  Dims strides;
};
Candidate candidate(Numbers& numbers) {
  Candidate made;
  made.type = kElementTypes[numbers.below(kElementTypes.size())];
  const std::size_t dims = numbers.below(5);
  for (std::size_t dim = 0; dim < dims; ++dim) {
    made.shape.push_back(numbers.size());
    made.strides.push_back(numbers.any());
  }
  if (dims < 2 || numbers.below(2) == 0) return made;
  // Places the last element beside the first one if sums wrap around, to catch checks that overflow.
  std::uint64_t others = 0;
  for (std::size_t dim = 0; dim + 1 < dims; ++dim)
    others += (static_cast<std::uint64_t>(made.shape[dim]) - 1) * static_cast<std::uint64_t>(made.strides[dim]);
  const std::uint64_t wrap = numbers.below(2) == 0 ? 0 : ~std::uint64_t{0} / bytes_of(made.type) + 1;
  made.shape[dims - 1] = 2;
  made.strides[dims - 1] = static_cast<std::int64_t>(wrap - others + static_cast<std::uint64_t>(numbers.small()));
  return made;
}

// Checks a view made by a call on another view.
void expect_whole(const TensorView& view, const std::function<std::string()>& of) {
  const Reach reach = reach_of(view.shape(), view.strides());
  ASSERT_TRUE(reach.exists) << of();
  EXPECT_EQ(Wide{view.elements()}, reach.any ? reach.elements : 0) << of();
  const Wide bytes = bytes_of(view.type());
  if (!reach.any) return;
  EXPECT_EQ(Wide{view.extent().first}, Wide{view.address()} + reach.low * bytes) << of();
  EXPECT_EQ(Wide{view.extent().end}, Wide{view.address()} + (reach.high + 1) * bytes) << of();
}

TEST(TensorView, StaysInItsBufferWithAnyStrides) {
  Numbers numbers;
  int accepted = 0;
  int refused = 0;
  for (int turn = 0; turn < 30'000; ++turn) {
    const Candidate of = candidate(numbers);
    const std::size_t count = numbers.below(40);
    const std::size_t first = numbers.below(3) == 0 ? static_cast<std::size_t>(numbers.any()) : numbers.below(40);
    const BufferView memory(std::uint64_t{1} << 20U, count, of.type);
    const auto text = [&] {
      return to_string(of.shape) + " " + to_string(of.strides) + " from " + std::to_string(first) + " of " + std::to_string(count) + " " +
             std::string(name_of(of.type));
    };
    const Reach reach = reach_of(of.shape, of.strides);
    const bool fits = reach.exists && (!reach.any || (Wide{first} + reach.low >= 0 && Wide{first} + reach.high < Wide{count}));
    try {
      const TensorView view(memory, of.shape, of.strides, first);
      ASSERT_TRUE(fits) << text();
      expect_whole(view, text);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_FALSE(fits) << text() << ": " << error.what();
      EXPECT_EQ(error.kind(), errc::invalid_argument);
      EXPECT_THAT(error.message(), HasSubstr(to_string(of.shape)));
      ++refused;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(TensorView, RefusesAddressesOutOfRange) {
  Numbers numbers;
  for (int turn = 0; turn < 30'000; ++turn) {
    const Candidate of = candidate(numbers);
    const std::uint64_t bytes = bytes_of(of.type);
    const std::uint64_t address =
        (numbers.below(2) == 0 ? std::uint64_t{1} << 47U : static_cast<std::uint64_t>(numbers.near_power(49))) / bytes * bytes;
    const Reach reach = reach_of(of.shape, of.strides);
    const Wide low = Wide{address} + reach.low * Wide{bytes};
    const Wide end = Wide{address} + (reach.high + 1) * Wide{bytes};
    const bool fits = reach.exists && address >> 48U == 0 && (!reach.any || (low >= 0 && end <= Wide{1} << 48));
    const Error error = error_of([&] { expect_whole(TensorView(address, of.type, of.shape, of.strides), [] { return "a view"; }); });
    ASSERT_EQ(error.kind(), fits ? errc::ok : errc::invalid_argument)
        << address << " " << to_string(of.shape) << " " << to_string(of.strides) << ": " << error.what();
  }
}

// A random slice of a view, refused if an element does not exist.
TensorView any_slice(Numbers& numbers, const TensorView& view, std::size_t dim) {
  const std::int64_t first = numbers.any();
  const std::int64_t count = numbers.any();
  const std::int64_t by = numbers.any();
  const std::int64_t size = dim < view.dims() ? view.shape()[dim] : 0;
  const Wide last = Wide{first} + (Wide{count} - 1) * by;
  const bool exists = dim < view.dims() && count >= 0 && (count == 0 || (first >= 0 && first < size && last >= 0 && last < size));
  TensorView sliced;
  const Error error = error_of([&] { sliced = view.slice(dim, first, count, by); });
  // A step of 0 repeats an element, possibly more often than can be counted.
  EXPECT_TRUE(error.kind() == (exists ? errc::ok : errc::invalid_argument) || by == 0)
      << to_string(view.shape()) << " " << first << " " << count << " " << by << ": " << error.what();
  if (error.kind() != errc::ok) throw Error(error);
  return sliced;
}

TensorView any_view(Numbers& numbers, const TensorView& view) {
  const std::size_t dim = numbers.below(view.dims() + 1);
  Dims shape = view.shape();
  switch (numbers.below(5)) {
    case 0: return any_slice(numbers, view, dim);
    case 1: return view.select(dim, numbers.any());
    case 2: return view.transpose(dim, numbers.below(view.dims() + 1));
    case 3:
      for (std::size_t each = 0; each < shape.size(); ++each)
        if (numbers.below(2) == 0) shape[each] = shape[each] == 1 ? numbers.any() : -1;
      if (numbers.below(2) == 0) shape.insert_front(numbers.size());
      return view.expand(shape);
    default:
      shape = {numbers.size(), numbers.size()};
      if (numbers.below(2) == 0 && shape[0] > 0) shape[1] = view.elements() / shape[0];
      return view.reshape(shape);
  }
}

TEST(TensorView, ViewsStayInsideIt) {
  Numbers numbers;
  int made = 0;
  for (int turn = 0; turn < 10'000; ++turn) {
    const Candidate of = candidate(numbers);
    TensorView view;
    if (error_of([&] { view = TensorView(std::uint64_t{1} << 40U, of.type, of.shape, of.strides); }).kind() != errc::ok) continue;
    for (int step = 0; step < 4 && !testing::Test::HasFailure(); ++step) {
      const TensorView before = view;
      const auto text = [&] {
        return to_string(before.shape()) + " " + to_string(before.strides()) + " became " + to_string(view.shape()) + " " +
               to_string(view.strides());
      };
      const Error error = error_of([&] { view = any_view(numbers, before); });
      EXPECT_TRUE(error.kind() == errc::ok || error.kind() == errc::invalid_argument) << text() << error.what();
      expect_whole(view, text);
      if (view.elements() != 0) {
        EXPECT_GE(view.extent().first, before.extent().first) << text();
        EXPECT_LE(view.extent().end, before.extent().end) << text();
      }
      made += error.kind() == errc::ok ? 1 : 0;
    }
  }
  EXPECT_GT(made, 1000);
}

TEST(TensorView, RefusesOverflowHiddenBySizeZero) {
  const Dims shape{0, std::int64_t{1} << 40U, std::int64_t{1} << 40U};
  DWELL_EXPECT_ERROR(rows(shape), errc::invalid_argument, HasSubstr("those of its sizes that are not 0"));
  EXPECT_EQ(rows({0, std::int64_t{1} << 40U}).elements(), 0);
}

TEST(TensorView, ContiguousElementsAreRefusedAlike) {
  const auto of = [](std::int64_t count, std::uint64_t address, ElementType type = ElementType::f64) {
    return error_of([&] { expect_whole(TensorView(TensorView::Elements{count}, address, type), [] { return "elements"; }); }).kind();
  };
  EXPECT_EQ(of(3, 4096), errc::ok);
  EXPECT_EQ(of(0, 4096), errc::ok);
  EXPECT_EQ(of(1, (std::uint64_t{1} << 48U) - 8), errc::ok);
  EXPECT_EQ(of(2, (std::uint64_t{1} << 48U) - 8), errc::invalid_argument);
  EXPECT_EQ(of(-1, 4096), errc::invalid_argument);
  EXPECT_EQ(of(std::int64_t{1} << 61U, 4096), errc::invalid_argument) << "2^64 bytes are none";
  EXPECT_EQ(of((std::int64_t{1} << 61U) + 1, 4096), errc::invalid_argument);
  EXPECT_EQ(of(kMostNumber, 4096), errc::invalid_argument);
  EXPECT_EQ(of(1, std::uint64_t{0} - 8), errc::invalid_argument);
}

}  // namespace
}  // namespace dwell
