#include <dwell/device/overlap.hpp>

#include <gtest/gtest.h>

namespace dwell::device::overlap_test {
namespace {

// Returns whether computing the elements in this order never reads one that has been overwritten.
bool is_safe(u64 to, u32 to_width, u64 from, u32 from_width, u64 count, bool ascending) {
  for (u64 written = 0; written < count; ++written)
    for (u64 read = 0; read < count; ++read) {
      const bool later = ascending ? read > written : read < written;
      const bool touches =
          to + written * to_width < from + (read + 1) * from_width && from + read * from_width < to + (written + 1) * to_width;
      if (later && touches) return false;
    }
  return true;
}

TEST(Overlap, FindsOrdersThatReadBeforeOverwriting) {
  constexpr u64 kTo = 1000;
  for (const u32 to_width : {1U, 2U, 4U, 12U})
    for (const u32 from_width : {1U, 4U, 8U})
      for (const u64 count : {0U, 1U, 2U, 3U, 7U})
        for (u64 from = 880; from < 1120; ++from) {
          Overlap overlap(kTo, to_width, count);
          overlap.add(from, from_width);
          const bool ascending = is_safe(kTo, to_width, from, from_width, count, true);
          const bool descending = is_safe(kTo, to_width, from, from_width, count, false);
          const auto what = [&] {
            return testing::Message() << count << " of " << to_width << " bytes from " << from_width << " bytes " << from;
          };
          // May report a safe order as unsafe if only a byte or two of the ends touch; never the reverse.
          ASSERT_TRUE(!overlap.ascending() || ascending) << what();
          ASSERT_TRUE(!overlap.descending() || descending) << what();
          ASSERT_TRUE(overlap.partial() || (ascending && descending)) << what();
          if (to_width == from_width) {
            ASSERT_TRUE(overlap.ascending() || overlap.descending()) << what();
          }
        }
}

TEST(Overlap, EqualAndDisjointSpansDoNotOverlap) {
  for (const u64 from : {u64{1000}, u64{600}, u64{1400}, u64{0}}) {
    Overlap overlap(1000, 4, 100);
    overlap.add(from, 4);
    EXPECT_FALSE(overlap.partial()) << from;
  }
  EXPECT_TRUE(Overlap(1000, 4, 100).is_partial(1000, 2));
  EXPECT_TRUE(Overlap(1000, 4, 100).is_partial(1001, 4));
  EXPECT_FALSE(Overlap(1000, 4, 0).is_partial(1001, 4));
}

TEST(Overlap, InputsOnBothSidesLeaveNoOrder) {
  Overlap overlap(1000, 4, 100);
  overlap.add(996, 4);
  EXPECT_TRUE(overlap.descending() && !overlap.ascending());
  overlap.add(1004, 4);
  EXPECT_FALSE(overlap.descending() || overlap.ascending());
}

}  // namespace
}  // namespace dwell::device::overlap_test
