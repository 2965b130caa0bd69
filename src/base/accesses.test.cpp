#include "base/accesses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
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

TEST_F(AccessesTest, ReadersFollowTheLastWriter) {
  EXPECT_THAT(read(0, 8), IsEmpty());
  EXPECT_THAT(write(0, 8), ElementsAre(0U));
  EXPECT_THAT(write(0, 8), ElementsAre(1U));
  EXPECT_THAT(read(0, 8), ElementsAre(2U));
  EXPECT_THAT(read(0, 8), ElementsAre(2U));
}

TEST_F(AccessesTest, WritersFollowAllReadersSinceTheLastWriter) {
  write(0, 8);
  read(0, 4);
  read(4, 8);
  EXPECT_THAT(write(2, 6), ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(write(0, 1), ElementsAre(0U, 1U));
}

TEST_F(AccessesTest, AdjacentPiecesAreIndependent) {
  write(0, 8);
  EXPECT_THAT(write(8, 16), IsEmpty());
  EXPECT_THAT(read(7, 9), ElementsAre(0U, 1U));
  EXPECT_THAT(read(16, 32), IsEmpty());
}

TEST_F(AccessesTest, GapsHaveNoAccesses) {
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

TEST_F(AccessesTest, MemoryOfOldNodesIsForgotten) {
  std::vector<Accesses::Node> before;
  constexpr Accesses::Node kMany = 100'000;
  accesses_.add(0, 8, 16, true, before);
  for (Accesses::Node node = 1; node < kMany; ++node) {
    accesses_.add(node, node * 16, node * 16 + 8, node % 2 == 0, before, node < 50 ? 0 : node - 50);
    if (node == kMany / 2) accesses_.add(node, 8, 12, false, before, 0);
  }
  EXPECT_LT(accesses_.pieces(), 4000U);
  // The recent pieces are kept.
  for (Accesses::Node node = kMany - 50; node < kMany; ++node) {
    before.clear();
    accesses_.add(kMany, node * 16, node * 16 + 8, true, before, kMany - 50);
    EXPECT_THAT(before, ElementsAre(node));
  }
}

TEST_F(AccessesTest, ReusedMemoryIsMerged) {
  std::vector<Accesses::Node> before;
  for (std::uint64_t at = 0; at < 8; ++at) accesses_.add(at, at * 8, at * 8 + 8, true, before, 0);
  accesses_.add(8, 60, 100, false, before, 8);
  EXPECT_THAT(before, IsEmpty());
  EXPECT_EQ(accesses_.pieces(), 8U);
  accesses_.add(9, 0, 56, true, before, 8);
  EXPECT_EQ(accesses_.pieces(), 2U);
  accesses_.add(10, 0, 128, true, before, 8);
  EXPECT_THAT(std::set<Accesses::Node>(before.begin(), before.end()), ElementsAre(8U, 9U));
}

TEST_F(AccessesTest, AgreesWithABytewiseModel) {
  struct Byte {
    std::set<Accesses::Node> writer;
    std::set<Accesses::Node> readers;
  };
  std::vector<Byte> bytes(96);
  std::mt19937 random(1);
  Accesses::Node oldest = 0;
  for (Accesses::Node node = 0; node < 30'000; ++node) {
    if (random() % 4 == 0) oldest += random() % (node - oldest + 1);
    // Half of the spans are blocks that other nodes name too.
    const std::uint64_t step = random() % 2 == 0 ? 16 : 1;
    const std::uint64_t begin = random() % (bytes.size() / step) * step;
    const std::uint64_t end = std::min<std::uint64_t>(begin + step * (1 + random() % 4), bytes.size());
    const bool writes = random() % 2 == 0;
    std::set<Accesses::Node> wanted;
    for (std::uint64_t at = begin; at < end; ++at) {
      Byte& byte = bytes[at];
      wanted.insert(byte.writer.begin(), byte.writer.end());
      if (writes) {
        wanted.insert(byte.readers.begin(), byte.readers.end());
        byte = {{node}, {}};
      } else {
        byte.readers.insert(node);
      }
    }
    std::erase_if(wanted, [&](Accesses::Node other) { return other < oldest; });
    std::vector<Accesses::Node> before;
    accesses_.add(node, begin, end, writes, before, oldest);
    ASSERT_EQ(std::set<Accesses::Node>(before.begin(), before.end()), wanted) << node;
  }
}

}  // namespace
}  // namespace dwell
