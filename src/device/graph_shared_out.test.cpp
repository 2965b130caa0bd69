// More ready nodes than one worker runs, or than the ready queue holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::graph_shared_out_test {
namespace {

using testing::ElementsAre;

// ---- The overflow ----------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, OverflowReturnsItsNodes) {
  for (u32 i = 0; i < 3; ++i) add();
  make();
  const u32 states = exec_->head().states;
  graph::push_overflow(exec_->address(), states, cell(0));
  graph::push_overflow(exec_->address(), states, cell(1) | kPoisoned);
  const u64 with_two = exec_->head().overflow;
  EXPECT_EQ(static_cast<u32>(with_two), 2U) << "each change counts";
  EXPECT_EQ(graph::pop_overflow(exec_->address()), cell(1) | kPoisoned);
  graph::push_overflow(exec_->address(), states, cell(1));
  EXPECT_NE(exec_->head().overflow, with_two) << "two visits of one node can be told apart";
  EXPECT_EQ(graph::pop_overflow(exec_->address()), cell(1));
  EXPECT_EQ(graph::pop_overflow(exec_->address()), cell(0));
  EXPECT_EQ(graph::pop_overflow(exec_->address()), 0U);
}

TEST_F(GraphOnWorkersTest, NodesRunThoughTheReadyQueueIsFull) {
  const u32 root = add();
  for (u32 i = 0; i < 20; ++i) behind({behind({root}, i == 7 ? kFail : kNote)});
  make();
  fill_queue();
  during = [&](u32 which) { EXPECT_TRUE(which == root || exec_->head().pending > 0); };
  launch();
  EXPECT_TRUE(complete());
  EXPECT_EQ(ran.size(), 40U) << "the one behind the failure is cancelled";
  EXPECT_EQ(queued(), kMostQueuedNodes);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, PusherToTheOverflowHoldsTheLaunchOpen) {
  const u32 root = add();
  for (u32 i = 0; i < 3; ++i) behind({root});
  make();
  fill_queue();
  u32 at_most = 0;
  during = [&](u32 which) {
    if (which != root) at_most = std::max(at_most, static_cast<u32>(exec_->head().pending));
  };
  launch();
  EXPECT_EQ(at_most, 3U + 1);
  EXPECT_TRUE(complete());
}

TEST_F(GraphOnWorkersTest, OverflowIsUntouchedWithoutHoldingTheLaunchOpen) {
  // The last arrival may end the launch: the overflow then belongs to the next launch, or the memory to another exec.
  const u32 a = add(), b = add();
  const u32 join = behind({a, b});
  make();
  during = [&](u32) { graph::push_overflow(exec_->address(), exec_->head().states, cell(join)); };
  launch();
  during = nullptr;
  ASSERT_EQ(ran.size(), 1U);
  EXPECT_EQ(overflow_top(), cell(join));
  EXPECT_EQ(graph::pop_overflow(exec_->address()), cell(join));
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(3);
}

// ---- Many successors -------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, ManySuccessorsAreSharedOut) {
  const u32 root = add();
  for (u32 i = 0; i < 100; ++i) behind({root});
  make();
  launch();
  EXPECT_EQ(queued(), 1U) << "a share for the other worker";
  EXPECT_FALSE(complete()) << "which counts";
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(101);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, DrawingHoldsTheLaunchOpen) {
  const u32 root = add();
  for (u32 i = 0; i < 100; ++i) behind({root});
  make();
  u32 pending = 0;
  during = [&](u32 which) {
    if (which != root && pending == 0) pending = static_cast<u32>(exec_->head().pending);
  };
  launch();
  EXPECT_EQ(pending, 100U + 1 + 1) << "the sinks, the share in the ready queue, and its own";
  run_ready();
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(GraphOnWorkersTest, ManySuccessorsBehindEachOfMany) {
  const u32 root = add();
  u32 all = 1;
  for (u32 i = 0; i < 40; ++i, ++all) {
    const u32 middle = behind({root});
    for (u32 j = 0; j < 40; ++j, ++all) behind({middle});
  }
  make();
  for (u32 round = 0; round < 2; ++round) {
    ran.clear();
    bench_.completions[kLaunch] = {};
    launch();
    run_ready();
    EXPECT_TRUE(complete());
    expect_each_once(all);
    expect_clean();
  }
}

TEST_F(GraphOnWorkersTest, ManySuccessorsOfAFailureAreCancelled) {
  const u32 bad = add(kFail);
  for (u32 i = 0; i < 100; ++i) behind({behind({bad})});
  make();
  launch();
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_THAT(ran, ElementsAre(bad));
  expect_clean();
}

}  // namespace
}  // namespace dwell::device::graph_shared_out_test
