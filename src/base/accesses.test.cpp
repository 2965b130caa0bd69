#include "base/accesses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dwell {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AccessesTest : public testing::Test {
 protected:
  std::set<Accesses::Node> add(std::uint64_t begin, std::uint64_t end, bool writes) {
    std::vector<Accesses::Node> before;
    accesses_.add(next_++, begin, end, writes, before);
    return {before.begin(), before.end()};
  }
  std::set<Accesses::Node> read(std::uint64_t begin, std::uint64_t end) { return add(begin, end, false); }
  std::set<Accesses::Node> write(std::uint64_t begin, std::uint64_t end) { return add(begin, end, true); }

  Accesses accesses_;
  Accesses::Node next_ = 0;
};

TEST_F(AccessesTest, AReaderComesBehindTheLastWriter) {
  EXPECT_THAT(read(0, 8), IsEmpty());
  EXPECT_THAT(write(0, 8), ElementsAre(0U));
  EXPECT_THAT(write(0, 8), ElementsAre(1U));
  EXPECT_THAT(read(0, 8), ElementsAre(2U));
  EXPECT_THAT(read(0, 8), ElementsAre(2U));
}

TEST_F(AccessesTest, AWriterComesBehindAllReadersSinceTheLastWriter) {
  write(0, 8);
  read(0, 4);
  read(4, 8);
  EXPECT_THAT(write(2, 6), ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(write(0, 1), ElementsAre(0U, 1U));
}

TEST_F(AccessesTest, PiecesThatOnlyTouchAreApart) {
  write(0, 8);
  EXPECT_THAT(write(8, 16), IsEmpty());
  EXPECT_THAT(read(7, 9), ElementsAre(0U, 1U));
  EXPECT_THAT(read(16, 32), IsEmpty());
}

TEST_F(AccessesTest, GapsBelongToNobody) {
  write(10, 20);
  write(30, 40);
  EXPECT_THAT(write(0, 50), ElementsAre(0U, 1U));
  EXPECT_THAT(read(25, 26), ElementsAre(2U));
}

TEST_F(AccessesTest, EmptySpansAreNoAccess) {
  write(0, 8);
  EXPECT_THAT(write(4, 4), IsEmpty());
  EXPECT_THAT(read(0, 8), ElementsAre(0U));
}

TEST_F(AccessesTest, ANodeDoesNotWaitForItself) {
  std::vector<Accesses::Node> before;
  accesses_.add(0, 0, 8, false, before);
  accesses_.add(0, 4, 12, true, before);
  EXPECT_THAT(before, IsEmpty());
}

TEST_F(AccessesTest, MemoryThatOnlyOldNodesHaveNamedIsForgotten) {
  std::vector<Accesses::Node> before;
  constexpr Accesses::Node kMany = 100'000;
  accesses_.add(0, 8, 16, true, before);
  for (Accesses::Node node = 1; node < kMany; ++node) {
    accesses_.add(node, node * 16, node * 16 + 8, node % 2 == 0, before, node < 50 ? 0 : node - 50);
    if (node == kMany / 2) accesses_.add(node, 8, 12, false, before, 0);
  }
  EXPECT_LT(accesses_.pieces(), 4000U);
  // What is of interest is there.
  for (Accesses::Node node = kMany - 50; node < kMany; ++node) {
    before.clear();
    accesses_.add(kMany, node * 16, node * 16 + 8, true, before, kMany - 50);
    EXPECT_THAT(before, ElementsAre(node));
  }
}

}  // namespace
}  // namespace dwell
