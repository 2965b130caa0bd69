// Conditional nodes on workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::graph_branches_test {
namespace {

using test::GraphPlan;
using testing::ElementsAre;

class BranchesTest : public GraphOnWorkersTest {
 protected:
  using Kind = detail::BranchKind;

  // Adds a node that records `number`.
  static u32 noting(GraphPlan& to, u32 number, u32 opcode = kNote) { return to.add(opcode, {number}); }
  void edge(const detail::GraphData::Branch& before, u32 behind) { plan_.edge(before.end, behind); }
  // Decrements the value at each node that has this number.
  void count(u32 number) {
    during = [this, number](u32 which) {
      if (which == number) --value;
    };
  }

  u32 value = 0;
};

TEST_F(BranchesTest, TheValueChoosesTheBody) {
  GraphPlan first, second;
  noting(first, 10);
  noting(second, 20);
  const auto choice = plan_.branch(Kind::choose, value, {&first, &second});
  edge(choice, noting(plan_, 30));
  make();
  const std::vector<std::vector<u32>> expected{{10, 30}, {20, 30}, {30}, {30}};
  for (value = 0; value < 4; ++value) {
    ran.clear();
    launch(0, {}, kLaunch + value);
    EXPECT_EQ(ran, expected[value]);
    EXPECT_TRUE(bench_.complete(kLaunch + value));
    expect_clean();
  }
}

TEST_F(BranchesTest, ALoopRunsAllOfItsBodyEachTime) {
  GraphPlan body;
  const u32 a = noting(body, 1), b = noting(body, 2), c = noting(body, 3);
  body.edge(a, c);
  body.edge(b, c);
  const auto loop = plan_.branch(Kind::repeat_while, value, {&body});
  edge(loop, noting(plan_, 4));
  make();
  count(3);
  for (const u32 rounds : {3U, 0U, 100U}) {
    ran.clear();
    value = rounds;
    launch(0, {}, kLaunch + rounds);
    run_ready();
    EXPECT_TRUE(bench_.complete(kLaunch + rounds));
    ASSERT_EQ(ran.size(), 3 * rounds + 1);
    for (u32 i = 0; i < rounds; ++i) EXPECT_EQ(ran[3 * i + 2], 3U) << "behind both";
    EXPECT_EQ(ran.back(), 4U);
    expect_clean();
  }
}

TEST_F(BranchesTest, AFailureInALoopEndsIt) {
  GraphPlan body;
  body.edge(noting(body, 1, kFail), noting(body, 2));
  noting(body, 3);
  const auto loop = plan_.branch(Kind::repeat_while, value, {&body});
  edge(loop, noting(plan_, 4));
  noting(plan_, 5);
  make();
  value = 10;
  launch();
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_EQ(bench_.status(kLaunch), 41);
  EXPECT_THAT(ran, testing::UnorderedElementsAre(1U, 3U, 5U));
  expect_clean();
}

TEST_F(BranchesTest, BranchBehindAFailureDoesNotReadItsValue) {
  GraphPlan body;
  noting(body, 1);
  const u32 bad = noting(plan_, 0, kFail);
  const auto loop = plan_.branch(Kind::repeat_while, value, {&body});
  plan_.edge(bad, loop.node);
  edge(loop, noting(plan_, 2));
  make();
  value = 1;
  launch();
  EXPECT_TRUE(complete());
  EXPECT_THAT(ran, ElementsAre(0U));
  expect_clean();
}

TEST_F(BranchesTest, LeavingWorkerReturnsALoop) {
  GraphPlan body;
  noting(body, 1);
  plan_.branch(Kind::repeat_while, value, {&body});
  make();
  value = 10;
  during = [&](u32) {
    if (--value == 5) worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_EQ(ran.size(), 5U);
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_EQ(ran.size(), 10U);
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(BranchesTest, AWorkerInsideALoopSeesTheEndOfItsLease) {
  plan_.branch(Kind::repeat_while, value, {&plan_});  // an empty body
  make();
  value = 1;
  bench_.lease.lease_ticks = 0;
  launch();
  EXPECT_EQ(queued(), 1U);
  EXPECT_EQ(bench_.control().crew.over, bench_.lease.number) << "the others hear of it";
  value = 0;
  run_ready();
  EXPECT_TRUE(complete());
}

TEST_F(BranchesTest, LoopWithManyNodesRunsBesideAFullQueue) {
  GraphPlan body;
  for (u32 i = 0; i < 100; ++i) body.edge(noting(body, 0), noting(body, 1, i % 2 == 0 ? kNote : kTakeScratch));
  noting(body, 2);
  const auto loop = plan_.branch(Kind::repeat_while, value, {&body});
  edge(loop, noting(plan_, 3));
  make();
  fill_queue();
  count(2);
  for (u32 i = 1; i <= 3; ++i) {
    ran.clear();
    value = 5;
    launch(0, {}, kLaunch + i);
    EXPECT_TRUE(bench_.complete(kLaunch + i));
    EXPECT_EQ(ran.size(), 5U * 201 + 1);
    EXPECT_EQ(ran.back(), 3U);
    expect_clean();
  }
}

TEST_F(BranchesTest, ANodeWithManySuccessorsRunsAgainAtOnce) {
  // If they were shared out, shares of one round would still be in use in the next.
  GraphPlan body;
  const u32 root = noting(body, 1);
  for (u32 i = 0; i < 100; ++i) body.edge(root, noting(body, 0));
  plan_.branch(Kind::repeat_while, value, {&body});
  make();
  value = 5;
  count(1);
  launch();
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_EQ(ran.size(), 5U * 101);
  expect_clean();
}

TEST_F(BranchesTest, WideNodesInALoop) {
  GraphPlan body;
  const u32 wide = body.add(kNoteGroup, {10}, 5);
  body.edge(wide, noting(body, 1));
  plan_.branch(Kind::repeat_while, value, {&body});
  make();
  value = 7;
  during = [this](u32 which) {
    if (which == 1) --value;
    if (which == 11) run_ready(1);
  };
  launch();
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_EQ(ran.size(), 7U * 6);
  expect_clean();
}

}  // namespace
}  // namespace dwell::device::graph_branches_test
