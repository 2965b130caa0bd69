#include "graph/uses.hpp"

#include <gtest/gtest.h>

namespace dwell::graph {
namespace {

// Returns whether the memory at `address` is in use.
bool names(const Uses& uses, std::uint64_t address) { return uses.names(address, address + 16); }

TEST(Uses, OriginalBuffersAreInUse) {
  const Uses uses({{nullptr, 100, 0}, {nullptr, 200, 1}});
  EXPECT_TRUE(names(uses, 100));
  EXPECT_TRUE(names(uses, 200));
  EXPECT_TRUE(uses.names(90, 101));
  EXPECT_FALSE(uses.names(90, 100));
  EXPECT_FALSE(uses.names(101, 200));
}

TEST(Uses, ArgumentIsInUseUntilItsLastLaunchEnds) {
  Uses uses;
  uses.set(3, 2, 100, 0);
  EXPECT_TRUE(names(uses, 100));
  uses.launched(7);
  uses.launched(9);
  uses.set(3, 2, 200, 7);
  EXPECT_TRUE(names(uses, 100)) << "the launch at 9 is in flight";
  EXPECT_TRUE(names(uses, 200));
  uses.set(3, 5, 300, 9);
  EXPECT_TRUE(names(uses, 100)) << "launches before 9 have ended";
  uses.set(3, 5, 300, 10);
  EXPECT_FALSE(names(uses, 100));
  EXPECT_TRUE(names(uses, 200)) << "another argument was set";
}

TEST(Uses, ArgumentsWithoutLaunchesAreForgottenAtOnce) {
  Uses uses;
  uses.set(0, 0, 100, 0);
  uses.set(0, 0, 200, 0);
  EXPECT_FALSE(names(uses, 100));
  uses.set_all({{nullptr, 300, 0}}, 0);
  EXPECT_FALSE(names(uses, 200));
  uses.set_all({{nullptr, 400, 0}}, 0);
  EXPECT_FALSE(names(uses, 300));
  EXPECT_TRUE(names(uses, 400));
}

TEST(Uses, ReplacedArgumentsAreInUseUntilTheirLaunchEnds) {
  Uses uses({{nullptr, 100, 0}});
  uses.set(1, 0, 200, 0);
  uses.launched(5);
  uses.set_all({{nullptr, 300, 0}}, 0);
  for (const std::uint64_t address : {100U, 200U, 300U}) EXPECT_TRUE(names(uses, address)) << address;
  uses.launched(6);
  uses.set_all({{nullptr, 400, 0}}, 6);
  for (const std::uint64_t address : {100U, 200U}) EXPECT_FALSE(names(uses, address)) << address;
  for (const std::uint64_t address : {300U, 400U}) EXPECT_TRUE(names(uses, address)) << address;
}

TEST(Uses, ListsTheArgumentsOfTheNextLaunch) {
  Uses uses({{nullptr, 100, 0}});
  uses.set(4, 0, 200, 0);
  uses.launched(1);
  uses.set(4, 0, 300, 0);
  const std::vector<Uses::Use> next = uses.next();
  ASSERT_EQ(next.size(), 2U);
  EXPECT_EQ(next[0].address, 100U);
  EXPECT_EQ(next[1].address, 300U);
  EXPECT_EQ(next[1].node, 4U);
}

TEST(Uses, MemoryIsBoundedByLaunchesInFlight) {
  Uses uses;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    uses.set(0, 0, 1000 + i * 16, i < 4 ? 0 : i - 4);
    uses.launched(i);
    EXPECT_LE(uses.size(), 6U);
  }
}

}  // namespace
}  // namespace dwell::graph
