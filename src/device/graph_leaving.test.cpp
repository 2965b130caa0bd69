// Workers that are asked to leave in the middle of a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::graph_leaving_test {
namespace {

using testing::ElementsAre;

TEST_F(GraphOnWorkersTest, LeavingWorkerReturnsItsNodes) {
  const u32 root = add();
  for (u32 i = 0; i < 4; ++i) behind({behind({root})});
  make();
  during = [&](u32 which) {
    if (which == root) worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_THAT(ran, ElementsAre(root));
  EXPECT_EQ(queued(), 4U);
  EXPECT_EQ(worker_[0].context.yield, 0U);
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(9);
}

TEST_F(GraphOnWorkersTest, LeavingWorkerReturnsTheRestOfAChain) {
  u32 last = add();
  for (u32 i = 1; i < 10; ++i) last = behind({last});
  make();
  during = [&](u32 which) {
    if (which == 4) worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_EQ(ran.size(), 5U);
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  expect_each_once(10);
}

TEST_F(GraphOnWorkersTest, LeavingWorkerReturnsAllNodesThatItDraws) {
  const u32 root = add();
  u32 all = 1;
  u32 middle = 0;
  for (u32 i = 0; i < 40; ++i, ++all) {
    middle = behind({root});
    for (u32 j = 0; j < 40; ++j, ++all) behind({middle});
  }
  make();
  u32 seen = 0;
  during = [&](u32) {
    if (++seen == 10) worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_EQ(ran.size(), 10U);
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(all);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, LeavingWorkerContinuesWhileTheReadyQueueIsFull) {
  const u32 root = add();
  for (u32 i = 0; i < 20; ++i) behind({behind({root})});
  make();
  fill_queue();
  during = [&](u32) { worker_[0].context.yield = 1; };
  launch();
  EXPECT_TRUE(complete()) << "nobody else would find what lies on the overflow";
  expect_each_once(41);
}

TEST_F(GraphOnWorkersTest, LeavingWorkerReturnsTheOverflow) {
  const u32 root = add();
  for (u32 i = 0; i < 20; ++i) behind({behind({root})});
  make();
  fill_queue();
  during = [&](u32 which) {
    if (which == root) return;
    if (worker_[0].context.yield == 0) empty_queue();
    worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_EQ(ran.size(), 2U);
  EXPECT_EQ(queued(), 20U);
  EXPECT_EQ(overflow_top(), 0U);
  during = nullptr;
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(41);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, AWorkerInsideAGraphSeesTheEndOfItsLease) {
  // Nodes with two slots and several predecessors form no chains.
  u32 before = add();
  for (u32 i = 0; i < 200; ++i) before = behind({before, behind({before})});
  make();
  bench_.lease.lease_ticks = 0;
  launch();
  EXPECT_LT(ran.size(), 200U);
  EXPECT_EQ(bench_.control().crew.over, bench_.lease.number) << "the others hear of it";
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(401);
}

}  // namespace
}  // namespace dwell::device::graph_leaving_test
