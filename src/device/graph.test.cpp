#include "device/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "device/worker.hpp"
#include "graph/times.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/graph_plan.hpp"

namespace dwell::device {
namespace {

using test::Bench;
using test::GraphPlan;
using test::PlainExec;
using testing::ElementsAre;

// What the operators below have seen: the number of the node, in order.
std::vector<u32> ran;
std::function<void(u32)> during;  // called by each with that number

void note(const Group&, const u32* arguments) {
  ran.push_back(arguments[0]);
  if (during) during(arguments[0]);
}
void fail(const Group& g, const u32* arguments) {
  note(g, arguments);
  g.fail(41);
}
void take_scratch(const Group& g, const u32* arguments) {
  note(g, arguments);
  EXPECT_EQ(g.shared<u32>(200).size(), 200U);  // of the 1024 bytes that there are
}
void note_group(const Group& g, const u32* arguments) {
  ran.push_back(arguments[0] + g.index());
  if (during) during(arguments[0] + g.index());
}
enum : u32 { kNote, kFail, kTakeScratch, kNoteGroup };

class GraphOnWorkersTest : public testing::Test {
 protected:
  static constexpr u32 kLaunch = 5;  // position

  GraphOnWorkersTest() {
    ran.clear();
    during = nullptr;
    entries_ = {reinterpret_cast<const void*>(&note), reinterpret_cast<const void*>(&fail), reinterpret_cast<const void*>(&take_scratch),
                reinterpret_cast<const void*>(&note_group)};
    bench_.lease.operators = entries_.data();
    bench_.lease.lease_ticks = ~0U;
    for (Worker& worker : worker_) {
      worker.context.scratch = scratch_;
      worker.context.scratch_bytes = sizeof(scratch_);
      worker.context.over = &bench_.control().crew.over;
      worker.context.started = now_ticks();
      reset(&worker.context);
    }
  }

  u32 add(u32 opcode = kNote) { return plan_.add(opcode, {static_cast<u32>(plan_.data.nodes.size())}); }
  u32 behind(std::initializer_list<u32> before, u32 opcode = kNote) {
    const u32 node = add(opcode);
    for (const u32 from : before) plan_.edge(from, node);
    return node;
  }
  u32 control_behind(std::initializer_list<u32> before) {
    const u32 node = plan_.control();
    for (const u32 from : before) plan_.edge(from, node);
    return node;
  }
  void make() { exec_.emplace(plan_); }

  void run_task(u32 me, const TaskQuads& task) {
    for (u32 i = 0; i < kMaxSlots * 4; ++i)
      std::memcpy(frame_at(&worker_[me], kFrame0)->word + i * 3, task.quad[i].word, sizeof(task.quad[i].word));
    run(bench_.lease, &worker_[me], kFrame0, me, 0);
  }
  // Launches the exec on a worker. `changes`: place of a word, value. A launch without a group is cancelled.
  void launch(u32 me = 0, const std::vector<u32>& changes = {}, u32 position = kLaunch, u32 groups = 1) {
    TaskQuads task{};
    const Header header{0, groups, 1, flag::graph | flag::share | flag::memory, 0};
    std::vector<u32> words{header.word0(),
                           header.word1(),
                           position,
                           static_cast<u32>(exec_->address()),
                           static_cast<u32>(exec_->address() >> 32U),
                           static_cast<u32>(changes.size() / 2)};
    words.insert(words.end(), changes.begin(), changes.end());
    for (std::size_t i = 0; i < words.size(); ++i) task.quad[i / 3].word[i % 3] = words[i];
    run_task(me, task);
  }
  // Runs what is in the ready queue; at most `most` tasks.
  void run_ready(u32 me = 1, u32 most = ~0U) {
    TaskQuads task;
    for (u32 i = 0; i < most && ready_queue::try_take(bench_.lease, &task); ++i) {
      const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
      if (header.slots > 1) load_rest(bench_.lease, &task, header, task.quad[0].word[2]);
      run_task(me, task);
    }
  }
  // Makes workers believe that the ready queue is as full as nodes may make it, and back.
  void fill_queue() { bench_.control().tail.value += kMostQueuedNodes; }
  void empty_queue() { bench_.control().tail.value -= kMostQueuedNodes; }
  u32 queued() const { return bench_.control().tail.value - bench_.control().head.value; }
  u32 cell(u32 node) const { return exec_->layout.cell(node); }
  u32 overflow_top() const { return static_cast<u32>(exec_->head().overflow >> 32U); }
  bool complete() const { return bench_.complete(kLaunch); }
  // Each of the nodes [0, count) has run once.
  static void expect_each_once(u32 count) {
    std::vector<u32> all(count);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_THAT(ran, testing::UnorderedElementsAreArray(all));
  }
  // Nothing of the launch is left, and no place of the ready queue is lost.
  void expect_clean() const {
    EXPECT_EQ(exec_->head().pending, 0U);
    EXPECT_EQ(overflow_top(), 0U);
    EXPECT_EQ(bench_.control().spare_shares.value, most_spare_shares(bench_.lease.ring_shift));
    for (u32 node = 0; node < plan_.data.nodes.size(); ++node) {
      const NodeState& state = exec_->state(cell(node));
      EXPECT_EQ(state.arrivals, arrivals(state.in_degree)) << "node " << node << " is not armed for the next launch";
    }
  }

  Bench bench_{7, 2};
  std::vector<const void*> entries_;
  Worker worker_[2]{};
  alignas(64) u8 scratch_[1024];
  GraphPlan plan_;
  std::optional<PlainExec> exec_;
};

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

TEST_F(GraphOnWorkersTest, AnOnlyPredecessorNeedsNoCounter) {
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

TEST_F(GraphOnWorkersTest, ChangesAreThereBeforeTheFirstNode) {
  add();
  make();
  launch(0, {static_cast<u32>(exec_->layout.word_at(plan_.data, 0, 0) / 4), 77});
  EXPECT_THAT(ran, ElementsAre(77U));
}

TEST_F(GraphOnWorkersTest, ACancelledLaunchChangesTheExecAndRunsNothing) {
  add();
  make();
  const u32 word = static_cast<u32>(exec_->layout.word_at(plan_.data, 0, 0) / 4);
  bench_.lease.wide[kLaunch] = Wide{0, 1, status::cancelled, 0, 0, 0, 0};
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

TEST_F(GraphOnWorkersTest, AFailureCancelsWhatFollowsAndIsNoted) {
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

TEST_F(GraphOnWorkersTest, TheFirstFailureIsTheLaunchs) {
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
  // The other worker comes while the first group runs.
  during = [this](u32 which) {
    if (which == 0) run_ready(1);
  };
  launch();
  EXPECT_TRUE(complete());
  expect_each_once(6);
  EXPECT_EQ(ran.back(), 5U);
  expect_clean();
}

TEST_F(GraphOnWorkersTest, AShareThatIsNotTheLastTouchesNothingOfTheNode) {
  // When it has ended its share, the launch may have ended with the last one, and the memory be somebody else's.
  make();
  std::memset(exec_->memory.get(), 0xFF, exec_->layout.bytes());
  const std::vector<std::byte> before(exec_->memory.get(), exec_->memory.get() + exec_->layout.bytes());
  Frame frame{};
  Header header{kNote, 4, 1, flag::node | flag::share, 0};
  const u64 number = exec_->address() / kCell + kFirstRecord;
  header.drains = static_cast<u32>(number >> 32U);
  frame.word[0] = header.word0();
  frame.word[1] = header.word1();
  frame.word[2] = static_cast<u32>(number);
  EXPECT_EQ(graph::proceed(bench_.lease, &worker_[0], frame, &frame, false), kNothing);
  EXPECT_EQ(std::memcmp(exec_->memory.get(), before.data(), before.size()), 0);
}

// ---- Control nodes ---------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, ControlNodesAreGoneOnBehindAtOnce) {
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

TEST_F(GraphOnWorkersTest, ControlNodesOfTheReadyQueueAreGoneOnBehind) {
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

TEST_F(GraphOnWorkersTest, ControlNodesHandOnFailures) {
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

// ---- Branches --------------------------------------------------------------------------------------------------------------------

class BranchesTest : public GraphOnWorkersTest {
 protected:
  using Kind = detail::BranchKind;

  // A node that notes `number`.
  static u32 noting(GraphPlan& to, u32 number, u32 opcode = kNote) { return to.add(opcode, {number}); }
  void edge(const detail::GraphData::Branch& before, u32 behind) { plan_.edge(before.end, behind); }
  // The value is one less with each node that has this number.
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

TEST_F(BranchesTest, ABranchBehindAFailureReadsNoValue) {
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

TEST_F(BranchesTest, AWorkerThatIsToLeaveHandsBackALoop) {
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
  plan_.branch(Kind::repeat_while, value, {&plan_});  // of nothing
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

TEST_F(BranchesTest, ALoopOfManyGoesOnWhileTheReadyQueueIsFull) {
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
  // Were they shared out, shares of one round would be in use in the next.
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

// ---- The overflow ----------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, TheOverflowGivesBackWhatWasPutThere) {
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

TEST_F(GraphOnWorkersTest, WhatFindsNoRoomInTheReadyQueueRunsAllTheSame) {
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

TEST_F(GraphOnWorkersTest, WhoHasPutNodesOnTheOverflowHoldsTheLaunchOpen) {
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

TEST_F(GraphOnWorkersTest, WhoDoesNotHoldTheLaunchOpenLeavesTheOverflowAlone) {
  // The launch may have ended when its last arrival is made: the overflow is then the next one's, or somebody else's memory.
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

TEST_F(GraphOnWorkersTest, WhoDrawsHoldsTheLaunchOpen) {
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

// ---- Leaving ---------------------------------------------------------------------------------------------------------------------

TEST_F(GraphOnWorkersTest, AWorkerThatIsToLeaveHandsBackWhatItHas) {
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

TEST_F(GraphOnWorkersTest, AWorkerThatIsToLeaveHandsBackTheRestOfAChain) {
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

TEST_F(GraphOnWorkersTest, AWorkerThatIsToLeaveHandsBackAllThatItDraws) {
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

TEST_F(GraphOnWorkersTest, AWorkerThatIsToLeaveGoesOnWhileTheReadyQueueIsFull) {
  const u32 root = add();
  for (u32 i = 0; i < 20; ++i) behind({behind({root})});
  make();
  fill_queue();
  during = [&](u32) { worker_[0].context.yield = 1; };
  launch();
  EXPECT_TRUE(complete()) << "nobody else would find what lies on the overflow";
  expect_each_once(41);
}

TEST_F(GraphOnWorkersTest, AWorkerThatIsToLeaveHandsBackTheOverflow) {
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
  // Nodes of two slots and more predecessors than one: no chains.
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

// ---- Host nodes ------------------------------------------------------------------------------------------------------------------

class HostNodesOnWorkersTest : public GraphOnWorkersTest {
 protected:
  static constexpr u32 kShift = 2;

  u32 host_behind(std::initializer_list<u32> before) {
    const u32 node = plan_.control(detail::kHostNode);
    hosts_.push_back(node);
    for (const u32 from : before) plan_.edge(from, node);
    return node;
  }
  void make() {
    GraphOnWorkersTest::make();
    exec_->head().calls = reinterpret_cast<u64>(rings_.data());
    exec_->head().calls_shift = kShift;
  }
  // The numbers of the host nodes that the device has called since the last time.
  std::vector<u32> calls() {
    std::vector<u32> all;
    for (;; ++read_) {
      const Quad& call = rings_[index_of(read_, kShift)];
      if (call.lap != lap_of(read_, kShift)) return all;
      all.push_back(call.word[0]);
      EXPECT_EQ(call.word[1], call.lap);
      EXPECT_EQ(call.word[2], kLaunch);
      cells_.push_back(cell(hosts_[call.word[0]]));
    }
  }
  // Answers the `i`-th call of all.
  void answer(std::size_t i, bool throws = false) {
    rings_[(1U << kShift) + index_of(answered_, kShift)] = Quad{lap_of(answered_, kShift), {cells_[i], throws ? 1U : 0U, 0}};
    ++answered_;
  }
  u64 callers() const { return bench_.control().crew.callers; }

  std::vector<Quad> rings_{2U << kShift};
  std::vector<u32> hosts_;
  std::vector<u32> cells_;  // of those that were called
  u32 read_ = 0;
  u32 answered_ = 0;
};

TEST_F(HostNodesOnWorkersTest, ANodeBehindAHostNodeRunsWhenTheHostHasAnswered) {
  const u32 first = add();
  const u32 host = host_behind({first});
  behind({host});
  make();
  launch();
  EXPECT_THAT(calls(), ElementsAre(0U));
  EXPECT_THAT(ran, ElementsAre(first));
  EXPECT_EQ(callers(), exec_->address() | host_nodes::kListed);
  EXPECT_EQ(worker_[0].graph.base, 0U) << "no worker waits";
  host_nodes::look(bench_.lease);
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(callers(), exec_->address() | host_nodes::kListed) << "it waits on";
  answer(0);
  host_nodes::look(bench_.lease);
  EXPECT_EQ(callers(), 0U);
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_THAT(ran, ElementsAre(first, 2U));
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(HostNodesOnWorkersTest, PlacesAreUsedAgain) {
  const u32 host = host_behind({});
  host_behind({host});
  make();
  for (u32 i = 0; i < 20; ++i) {
    launch();
    for (u32 number = 0; number < 2; ++number) {
      ASSERT_THAT(calls(), ElementsAre(number));
      answer(2 * i + number);
      host_nodes::look(bench_.lease);
      run_ready();
    }
    EXPECT_EQ(exec_->head().pending, 0U);
    EXPECT_EQ(exec_->head().unanswered, 0U);
  }
}

TEST_F(HostNodesOnWorkersTest, SomeThatAreAnsweredGoOnBeforeTheOthers) {
  const u32 hosts[] = {host_behind({}), host_behind({}), host_behind({})};
  for (const u32 host : hosts) behind({host});
  make();
  launch();
  run_ready(1);
  EXPECT_EQ(calls().size(), 3U);
  answer(1);
  host_nodes::look(bench_.lease);
  run_ready();
  EXPECT_EQ(ran.size(), 1U);
  EXPECT_NE(callers(), 0U);
  EXPECT_EQ(exec_->head().unanswered, 2U);
  answer(2);
  answer(0);
  for (int i = 0; i < 2; ++i) host_nodes::look(bench_.lease);  // one at a time on the CPU
  EXPECT_EQ(callers(), 0U);
  run_ready();
  EXPECT_THAT(ran, testing::UnorderedElementsAre(3U, 4U, 5U));
  EXPECT_TRUE(complete());
}

TEST_F(HostNodesOnWorkersTest, ACallbackThatHasThrownFailsItsNode) {
  const u32 host = host_behind({});
  const u32 second = host_behind({host});
  behind({second});
  const u32 apart = add();
  make();
  launch();
  run_ready();
  EXPECT_EQ(calls().size(), 1U);
  answer(0, true);
  host_nodes::look(bench_.lease);
  run_ready();
  EXPECT_THAT(calls(), testing::IsEmpty()) << "the one behind is cancelled";
  EXPECT_THAT(ran, ElementsAre(apart));
  EXPECT_EQ(bench_.status(kLaunch), status::threw);
  EXPECT_EQ(bench_.failed_nodes[kLaunch], static_cast<u64>(cell(host)) << 32U | static_cast<u32>(status::threw));
  expect_clean();
}

TEST_F(HostNodesOnWorkersTest, WithoutRoomAnAnswerStays) {
  const u32 host = host_behind({});
  behind({host});
  make();
  launch();
  EXPECT_EQ(calls().size(), 1U);
  answer(0);
  fill_queue();
  host_nodes::look(bench_.lease);
  EXPECT_EQ(exec_->head().answered, 0U);
  EXPECT_NE(callers(), 0U);
  empty_queue();
  host_nodes::look(bench_.lease);
  run_ready();
  EXPECT_TRUE(complete());
}

TEST_F(HostNodesOnWorkersTest, SeveralExecsOnTheList) {
  const u32 host = host_behind({});
  behind({host});
  PlainExec other(plan_);
  std::vector<Quad> others(2U << kShift);
  other.head().calls = reinterpret_cast<u64>(others.data());
  other.head().calls_shift = kShift;
  make();
  launch();
  host_nodes::call(bench_.lease, other.address(), 0);
  EXPECT_EQ(callers(), other.address() | host_nodes::kListed);
  calls();
  answer(0);
  host_nodes::look(bench_.lease);
  EXPECT_EQ(callers(), other.address() | host_nodes::kListed) << "the other one waits on";
  EXPECT_EQ(other.head().next_caller, 0U);
  run_ready();
  EXPECT_TRUE(complete());
}

TEST_F(HostNodesOnWorkersTest, ALaunchThatGoesOnElsewhereIsNotTheWorkersAnyMore) {
  host_behind({});
  make();
  bench_.in_flight[0].word = kLaunch | InFlight::kValid;
  launch();
  EXPECT_EQ(bench_.in_flight[0].word, 0U);
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
}  // namespace dwell::device
