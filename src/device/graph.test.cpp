#include "device/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "graph/times.hpp"
#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::graph_test {
namespace {

using testing::ElementsAre;

// ---- Arrivals --------------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, TheLastArrivalMakesANodeReadyAndArmsIt) {
  const u32 a = add(), b = add(), c = add();
  const u32 join = behind({a, b, c});
  make();
  const u32 states = exec_->head().states;
  for (u32 launch = 0; launch < 3; ++launch) {
    u32 node = 0;
    EXPECT_FALSE(graph::arrive(exec_->address(), states, cell(join), false, &node));
    EXPECT_FALSE(graph::arrive(exec_->address(), states, cell(join), false, &node));
    EXPECT_TRUE(graph::arrive(exec_->address(), states, cell(join), false, &node));
    EXPECT_EQ(node, cell(join));
    EXPECT_EQ(exec_->state(cell(join)).arrivals, arrivals(3));
  }
}

TEST_F(GraphOnWorkersTest, AFailureAmongTheArrivalsPoisonsForOneLaunch) {
  const u32 a = add(), b = add();
  const u32 join = behind({a, b});
  make();
  const u32 states = exec_->head().states;
  for (const u32 failing : {0U, 1U, 2U, 3U}) {
    u32 node = 0;
    EXPECT_FALSE(graph::arrive(exec_->address(), states, cell(join), (failing & 1U) != 0, &node));
    EXPECT_TRUE(graph::arrive(exec_->address(), states, cell(join), (failing & 2U) != 0, &node));
    EXPECT_EQ(node, cell(join) | (failing != 0 ? kPoisoned : 0U));
  }
}

TEST_F(GraphOnWorkersTest, SinglePredecessorNeedsNoCounter) {
  const u32 a = add();
  const u32 b = behind({a});
  make();
  u32 node = 0;
  EXPECT_TRUE(graph::arrive(exec_->address(), exec_->head().states, cell(b) | kOnly, true, &node));
  EXPECT_EQ(node, cell(b) | kPoisoned);
  EXPECT_EQ(exec_->state(cell(b)).arrivals, 0U);
}

// ---- Launches --------------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, ALaunchRunsEachNodeBehindItsPredecessorsAndCompletes) {
  const u32 a = add();
  const u32 b = behind({a}), c = behind({a});
  const u32 d = behind({b, c});
  behind({d});
  make();
  for (u32 i = 1; i <= 3; ++i) {
    ran.clear();
    const u32 position = kLaunch + i;
    launch(0, {}, position);
    EXPECT_FALSE(bench_.complete(position)) << "one side of the diamond is in the ready queue";
    run_ready();
    EXPECT_THAT(ran, testing::AnyOf(ElementsAre(0U, 1U, 2U, 3U, 4U), ElementsAre(0U, 2U, 1U, 3U, 4U)));
    EXPECT_TRUE(bench_.complete(position));
    EXPECT_EQ(bench_.status(position), 0);
    EXPECT_EQ(bench_.control().completed.value, i);
    expect_clean();
  }
}

TEST_F(GraphOnWorkersTest, AnEmptyGraphCompletes) {
  make();
  launch();
  EXPECT_TRUE(complete());
}

TEST_F(GraphOnWorkersTest, ChangesApplyBeforeTheFirstNode) {
  add();
  make();
  launch(0, {static_cast<u32>(exec_->layout.word_at(plan_.data, 0, 0) / 4), 77});
  EXPECT_THAT(ran, ElementsAre(77U));
}

TEST_F(GraphOnWorkersTest, ACancelledLaunchChangesTheExecAndRunsNothing) {
  add();
  make();
  const u32 word = static_cast<u32>(exec_->layout.word_at(plan_.data, 0, 0) / 4);
  bench_.lease.wide[kLaunch] = Wide{0, 1, status::cancelled, 0, 0, 0, 0, 0};
  launch(0, {word, 77}, kLaunch, 0);
  EXPECT_TRUE(complete());
  EXPECT_EQ(bench_.status(kLaunch), status::cancelled);
  EXPECT_THAT(ran, testing::IsEmpty());
  launch(0, {}, kLaunch + 1);
  EXPECT_THAT(ran, ElementsAre(77U));
}

TEST_F(GraphOnWorkersTest, AChainStaysOnItsWorker) {
  u32 last = add();
  for (u32 i = 1; i < 20; ++i) last = behind({last}, i % 4 == 0 ? kTakeScratch : kNote);
  make();
  launch();
  EXPECT_TRUE(complete());
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(ran.size(), 20U);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST_F(GraphOnWorkersTest, FailureCancelsSuccessorsAndIsRecorded) {
  const u32 a = add();
  const u32 bad = behind({a}, kFail);
  const u32 c = behind({bad});
  const u32 apart = add();
  behind({apart, c});
  behind({apart});
  make();
  launch();
  run_ready();
  EXPECT_THAT(ran, testing::UnorderedElementsAre(a, bad, apart, 5U));
  EXPECT_EQ(bench_.status(kLaunch), 41);
  EXPECT_EQ(bench_.failed_nodes[kLaunch], static_cast<u64>(cell(bad)) << 32U | 41U);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, LaunchHasItsFirstFailure) {
  make();
  graph::note_failure(exec_->address(), 7, 41);
  graph::note_failure(exec_->address(), 9, 42);
  EXPECT_EQ(exec_->head().failure, 7ULL << 32U | 41U);
}

TEST_F(GraphOnWorkersTest, GroupsOfAWideNodeRunOnceEach) {
  const u32 wide = plan_.add(kNoteGroup, {0}, 5);
  plan_.add(kNote, {5});
  plan_.edge(wide, 1);
  make();
  // The other worker joins while the first group runs.
  during = [this](u32 which) {
    if (which == 0) run_ready(1);
  };
  launch();
  EXPECT_TRUE(complete());
  expect_each_once(6);
  EXPECT_EQ(ran.back(), 5U);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, OnlyTheLastShareTouchesTheNode) {
  // The launch may have ended with the last share; the memory may then belong to another exec.
  make();
  std::memset(exec_->memory, 0xFF, exec_->layout.bytes());
  const std::vector<std::byte> before(exec_->memory, exec_->memory + exec_->layout.bytes());
  Frame frame{};
  const Header header{kNote, 4, 1, flag::share, 0, 0, source::node};
  frame.word[0] = header.word0();
  frame.word[1] = header.word1();
  frame.word[2] = static_cast<u32>(exec_->offset / kCell) + kFirstRecord;
  EXPECT_EQ(graph::proceed(bench_.lease, &worker_[0], frame, &frame, false), kNothing);
  EXPECT_EQ(std::memcmp(exec_->memory, before.data(), before.size()), 0);
}

// ---- Control nodes ---------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, ControlNodesArePassedAtOnce) {
  const u32 a = add(), b = add();
  const u32 join = control_behind({control_behind({a}), b});
  behind({control_behind({join})});
  control_behind({join});
  make();
  for (u32 i = 1; i <= 2; ++i) {
    ran.clear();
    launch(0, {}, kLaunch + i);
    EXPECT_EQ(queued(), 1U) << "the other start";
    run_ready();
    EXPECT_THAT(ran, testing::AnyOf(ElementsAre(0U, 1U, 5U), ElementsAre(1U, 0U, 5U)));
    run_ready();
    EXPECT_TRUE(bench_.complete(kLaunch + i));
    expect_clean();
  }
}

TEST_F(GraphOnWorkersTest, ControlNodesInTheReadyQueueArePassed) {
  const u32 a = add();
  const u32 b = control_behind({a}), c = control_behind({a});
  behind({b});
  behind({c});
  make();
  launch();
  EXPECT_EQ(ran.size(), 2U);
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_THAT(ran, testing::UnorderedElementsAre(0U, 3U, 4U));
  EXPECT_TRUE(complete());
}

TEST_F(GraphOnWorkersTest, AGraphOfControlNodesEnds) {
  control_behind({control_behind({})});
  make();
  launch();
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(GraphOnWorkersTest, ControlNodesPropagateFailures) {
  const u32 a = add(), bad = add(kFail);
  const u32 join = control_behind({a, bad});
  behind({join});
  behind({control_behind({join})});
  const u32 apart = behind({a});
  make();
  launch();
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_THAT(ran, testing::UnorderedElementsAre(a, bad, apart));
  EXPECT_EQ(bench_.status(kLaunch), 41);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, ManySuccessorsOfAControlNode) {
  const u32 first = add();
  const u32 all = control_behind({first});
  const u32 last = control_behind({});
  for (u32 i = 0; i < 100; ++i) plan_.edge(behind({all}), last);
  behind({last});
  make();
  launch();
  EXPECT_EQ(queued(), 1U) << "a share for the other worker";
  run_ready();
  EXPECT_TRUE(complete());
  EXPECT_EQ(ran.size(), 102U);
  EXPECT_EQ(ran.back(), 103U);
  expect_clean();
}

// ---- Clock nodes -----------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, ClockNodesAddUpTheRunsOfANode) {
  const u32 a = add();
  const u32 bad = behind({a}, kFail);
  behind({bad});
  NodeTime times[3]{};
  plan_.data = dwell::graph::with_clocks(plan_.data, reinterpret_cast<u64>(times));
  during = [](u32) {
    const u64 begun = now_ns();
    while (now_ns() - begun < 100'000) {}
  };
  make();
  for (u64 launches = 1; launches <= 3; ++launches) {
    launch();
    for (const u32 node : {a, bad}) {
      EXPECT_EQ(times[node].runs, node == a ? launches : 0U);
      EXPECT_GE(now_ns(), times[node].begun);
    }
    EXPECT_GE(times[a].total, launches * 100'000);
    EXPECT_EQ(times[2].begun, 0U) << "it is cancelled";
  }
}

}  // namespace
}  // namespace dwell::device::graph_test
