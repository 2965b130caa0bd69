#include "runtime/observe/node_arrows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class NodeArrowsTest : public testing::Test {
 protected:
  // Adds a call of a node with the successors next_[key]. Returns the begins of the calls from which arrows lead to it.
  std::vector<std::int64_t> call(std::uint64_t key, std::int64_t begin, std::int64_t end) {
    TraceEvent event;
    event.kind = TraceEvent::Kind::node;
    event.begin_ns = begin;
    event.took_ns = end - begin;
    std::vector<TraceArrow> arrows;
    arrows_.add(event, {key, next_[key]}, arrows);
    EXPECT_GT(event.number, 0U);
    EXPECT_TRUE(calls_.emplace(event.number, event).second) << "two calls with one number";
    std::vector<std::int64_t> begins;
    for (const TraceArrow& arrow : arrows) {
      EXPECT_TRUE(arrow.of_nodes);
      EXPECT_EQ(arrow.to, event.number);
      // The call that owns this number.
      const TraceEvent& from = std::prev(calls_.upper_bound(arrow.from))->second;
      EXPECT_LT(arrow.from, from.number + from.arrows);
      EXPECT_LE(from.begin_ns + from.took_ns, event.begin_ns + most_before_);
      begins.push_back(from.begin_ns);
    }
    return begins;
  }

  std::map<std::uint64_t, std::vector<std::uint64_t>> next_;
  std::map<std::uint64_t, TraceEvent> calls_;
  NodeArrows arrows_;
  std::int64_t most_before_ = 0;
};

TEST_F(NodeArrowsTest, LeadFromANodeToAllSuccessors) {
  next_ = {{1, {2, 3}}, {2, {4}}, {3, {4}}};
  for (std::int64_t launch = 0; launch < 3; ++launch) {
    const std::int64_t at = launch * 1000;
    EXPECT_THAT(call(1, at, at + 10), IsEmpty());
    EXPECT_THAT(call(3, at + 10, at + 20), ElementsAre(at));
    EXPECT_THAT(call(2, at + 11, at + 30), ElementsAre(at));
    EXPECT_THAT(call(4, at + 30, at + 40), UnorderedElementsAre(at + 10, at + 11));
  }
}

TEST_F(NodeArrowsTest, LeadFromTheLastUnskippedCall) {
  next_ = {{1, {3}}, {2, {3}}};
  // In the first launch node 2 fails, and node 3 is cancelled.
  call(1, 0, 10);
  EXPECT_THAT(call(2, 100, 110), IsEmpty());
  EXPECT_THAT(call(1, 101, 120), IsEmpty());
  EXPECT_THAT(call(3, 120, 130), UnorderedElementsAre(100, 101));
  EXPECT_THAT(call(3, 140, 150), IsEmpty()) << "what it waited for is missing";
}

TEST_F(NodeArrowsTest, NoneLeadsToAnEarlierCall) {
  next_ = {{1, {2}}};
  call(1, 0, 10);
  EXPECT_THAT(call(2, 9, 30), IsEmpty());
}

TEST_F(NodeArrowsTest, TolerateTheClockError) {
  next_ = {{1, {2}}};
  arrows_.set_error(100);
  most_before_ = 100;
  call(1, 0, 1000);
  EXPECT_THAT(call(2, 900, 1100), ElementsAre(0));
  call(1, 5000, 6000);
  EXPECT_THAT(call(2, 5899, 6100), IsEmpty());
}

TEST_F(NodeArrowsTest, NoneLeadsAcrossDroppedEvents) {
  next_ = {{1, {2}}};
  call(1, 0, 10);
  arrows_.miss(20, 50);  // calls of 2 and 1 were dropped
  EXPECT_THAT(call(2, 100, 110), IsEmpty());
  call(1, 200, 210);
  EXPECT_THAT(call(2, 220, 230), ElementsAre(200));
  arrows_.miss(400, std::numeric_limits<std::int64_t>::max());
  call(1, 300, 310);
  EXPECT_THAT(call(2, 401, 410), IsEmpty());
}

TEST_F(NodeArrowsTest, GapsMayOverlap) {
  next_ = {{1, {2}}};
  arrows_.miss(100, 200);
  arrows_.miss(300, 400);
  arrows_.miss(500, 600);
  arrows_.miss(350, 520);  // joins two of them
  arrows_.miss(120, 150);
  arrows_.miss(540, 560);
  const auto leads = [&](std::int64_t end, std::int64_t begin) {
    call(1, end - 5, end);
    return !call(2, begin, begin + 5).empty();
  };
  EXPECT_TRUE(leads(50, 100));
  EXPECT_FALSE(leads(50, 101));
  EXPECT_FALSE(leads(199, 250));
  EXPECT_TRUE(leads(200, 300));
  EXPECT_FALSE(leads(410, 490));
  EXPECT_FALSE(leads(525, 535));
  EXPECT_FALSE(leads(590, 650));
  EXPECT_TRUE(leads(600, 650));
  // So many gaps that some are merged.
  constexpr auto kMost = static_cast<std::int64_t>(NodeArrows::kMostGaps);
  for (std::int64_t i = 0; i < 2 * kMost; ++i) arrows_.miss(1000 + 10 * i, 1003 + 10 * i);
  EXPECT_FALSE(leads(610, 650)) << "one with the first";
  constexpr std::int64_t kLast = 1000 + 20 * kMost - 10;
  EXPECT_TRUE(leads(kLast - 7, kLast));
  EXPECT_FALSE(leads(kLast - 7, kLast + 1));
}

TEST_F(NodeArrowsTest, FirstEndingGroupHasTheArrows) {
  next_ = {{1, {2}}};
  call(1, 0, 10);
  call(1, 1, 20);  // another group
  EXPECT_THAT(call(2, 30, 40), ElementsAre(1)) << "the last one";
  EXPECT_THAT(call(2, 31, 50), IsEmpty());
}

TEST_F(NodeArrowsTest, LastPredecessorsCount) {
  constexpr std::int64_t kMany = 3 * NodeArrows::kEach;
  for (std::uint64_t i = 1; i <= kMany; ++i) next_[i] = {1000};
  for (std::uint64_t i = 1; i <= kMany; ++i) call(i, 0, static_cast<std::int64_t>(i));
  EXPECT_EQ(call(1000, 500, 510).size(), NodeArrows::kEach);
  call(7, 600, 610);
  EXPECT_THAT(call(1000, 700, 710), ElementsAre(600)) << "nothing stays behind";
}

TEST_F(NodeArrowsTest, FirstSuccessorsCount) {
  for (std::uint64_t i = 0; i < 2 * NodeArrows::kEach; ++i) next_[1].push_back(2 + i);
  call(1, 0, 10);
  EXPECT_EQ(calls_.rbegin()->second.arrows, NodeArrows::kEach);
  EXPECT_THAT(call(2, 20, 30), ElementsAre(0));
  EXPECT_THAT(call(2 + NodeArrows::kEach, 20, 30), IsEmpty());
}

TEST_F(NodeArrowsTest, UnknownNodeHasNone) {
  next_ = {{0, {0}}};
  call(0, 0, 10);
  EXPECT_THAT(call(0, 20, 30), IsEmpty());
}

// Nodes with successors that never run, for example cancelled ones.
TEST_F(NodeArrowsTest, UnfinishedNodesAreForgotten) {
  constexpr std::uint64_t kFirst = 1'000'000;
  std::vector<TraceArrow> arrows;
  const auto add = [&](std::uint64_t key, std::int64_t begin, std::vector<std::uint64_t> next) {
    TraceEvent event;
    event.begin_ns = begin;
    arrows_.add(event, {key, std::move(next)}, arrows);
  };
  for (std::uint64_t i = 0; i <= NodeArrows::kMostWaiting / NodeArrows::kEach; ++i) {
    std::vector<std::uint64_t> next;
    for (std::uint64_t j = 0; j < NodeArrows::kEach; ++j) next.push_back(kFirst + NodeArrows::kEach * i + j);
    add(i + 1, 0, std::move(next));
  }
  add(kFirst, 10, {});
  EXPECT_THAT(arrows, IsEmpty());
  add(1, 20, {kFirst});
  add(kFirst, 30, {});
  EXPECT_THAT(arrows, testing::SizeIs(1)) << "later ones are not";
}

}  // namespace
}  // namespace dwell::runtime
