#include "runtime/observe/kept_trace.hpp"

#include <gtest/gtest.h>

namespace dwell::runtime {
namespace {

// A piece of `count` events and arrows, with ids from `first`.
Trace numbered_piece(std::uint64_t first, std::uint64_t count) {
  Trace made;
  made.device = "cpu";
  made.dropped = 1;
  for (std::uint64_t i = first; i < first + count; ++i) {
    made.events.emplace_back().id = i;
    made.arrows.push_back({i, i + 1});
  }
  return made;
}

TEST(KeptTrace, KeepsTheLastEventsAndArrows) {
  constexpr std::size_t kMost = 100;
  KeptTrace kept(kMost);
  kept.write(numbered_piece(0, kMost));
  kept.write(numbered_piece(kMost, 1));
  kept.write(numbered_piece(kMost + 1, 10));
  const Trace trace = kept.take();
  ASSERT_EQ(trace.events.size(), kMost / 2 + 10) << "half of them went at once, so that few are moved often";
  EXPECT_EQ(trace.events.front().id, kMost / 2 + 1);
  EXPECT_EQ(trace.events.back().id, kMost + 10);
  ASSERT_EQ(trace.arrows.size(), kMost / 2 + 10);
  EXPECT_EQ(trace.arrows.back().from, kMost + 10);
  EXPECT_EQ(trace.dropped, kMost / 2 + 1 + 3) << "those that went, and one of each piece";
  EXPECT_EQ(trace.device, "cpu");
}

TEST(KeptTrace, TooLargePieceLosesItsBegin) {
  KeptTrace kept(100);
  kept.write(numbered_piece(0, 1000));
  const Trace trace = kept.take();
  ASSERT_EQ(trace.events.size(), 50U);
  EXPECT_EQ(trace.events.front().id, 950U);
  EXPECT_EQ(trace.dropped, 951U);
  EXPECT_TRUE(kept.take().events.empty());
}

}  // namespace
}  // namespace dwell::runtime
