#include "graph/changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dwell::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kBytes = 64;

TEST(ChangesTest, LastValueOfAWordCounts) {
  Changes changes;
  changes.prepare(kBytes, 2);
  EXPECT_TRUE(changes.change(8, 5));
  EXPECT_TRUE(changes.change(0, 6));
  EXPECT_FALSE(changes.change(8, 7));
  EXPECT_EQ(changes.count(), 2U);
  EXPECT_THAT(changes.words(), ElementsAre(2, 7, 0, 6));
}

TEST(ChangesTest, ClearedWordsAreAddedAgain) {
  Changes changes;
  changes.prepare(kBytes, 1, 1);
  changes.change(kBytes - 4, 1);
  changes.note(3);
  changes.clear();
  EXPECT_EQ(changes.count(), 0U);
  EXPECT_THAT(changes.nodes(), IsEmpty());
  EXPECT_TRUE(changes.change(kBytes - 4, 2));
  EXPECT_THAT(changes.words(), ElementsAre(15, 2));
}

TEST(ChangesTest, ConsecutiveChangesNameANodeOnce) {
  Changes changes;
  changes.prepare(kBytes, 0, 4);
  for (const std::uint32_t node : {1U, 1U, 2U, 1U}) changes.note(node);
  EXPECT_THAT(changes.nodes(), ElementsAre(1, 2, 1));
}

TEST(ChangesTest, PreparedChangesTakeNoMemory) {
  Changes changes;
  changes.prepare(kBytes, 3);
  const std::uint32_t* const before = changes.words().data();
  for (std::uint32_t word = 0; word < 3; ++word) changes.change(word * 4, word);
  EXPECT_EQ(changes.words().data(), before);
  EXPECT_EQ(changes.count(), 3U);
}

}  // namespace
}  // namespace dwell::graph
