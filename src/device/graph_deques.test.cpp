// Graphs on workers that keep ready nodes in deques, as those of the CPU do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::graph_deques_test {
namespace {

using testing::ElementsAre;

class GraphDequesTest : public GraphOnWorkersTest {
 protected:
  GraphDequesTest() : GraphOnWorkersTest(true) {}

  u64 kept(u32 me = 0) const { return bench_.lease.deques[me].newest - bench_.lease.deques[me].oldest; }
  // Runs a node that worker 1 steals from worker 0. False if there is none.
  bool run_stolen() {
    TaskQuads task;
    u64 put = 0;
    if (!graph::steal(bench_.lease, 0, &task, &put)) return false;
    run_task(1, task);
    return true;
  }
  // Puts another task into the ring, for any worker to fetch.
  void submit_another() {
    std::uint64_t position = 0;
    ASSERT_TRUE(bench_.queue.try_submit(alias_, test::task_of({0}), &position));
  }

  std::atomic<u32> alias_{0};
};

TEST_F(GraphDequesTest, WorkerRunsTheNewest) {
  const u32 root = add();
  const u32 a = behind({root}), b = behind({root}), c = behind({root});
  const u32 behind_c = behind({c});
  const u32 more_behind_c = behind({c});
  make();
  launch();
  EXPECT_THAT(ran, ElementsAre(root, a, c, behind_c, more_behind_c, b));
  EXPECT_EQ(queued(), 0U);
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(GraphDequesTest, OthersStealTheOldest) {
  const u32 root = add();
  const u32 a = behind({root}), b = behind({root}), c = behind({root}), d = behind({root});
  const u32 last = behind({b, c});
  make();
  during = [&](u32 which) {
    if (which != a) return;
    EXPECT_EQ(kept(), 3U);
    EXPECT_TRUE(run_stolen());
    EXPECT_THAT(ran, ElementsAre(root, a, b));
    EXPECT_TRUE(run_stolen());
  };
  launch();
  EXPECT_THAT(ran, ElementsAre(root, a, b, c, last, d)) << "the thief goes on with what it has made ready";
  EXPECT_TRUE(complete());
  EXPECT_FALSE(run_stolen());
  expect_clean();
}

TEST_F(GraphDequesTest, TheThiefMayEndTheLaunch) {
  const u32 root = add();
  const u32 a = behind({root}), b = behind({root});
  make();
  TaskQuads task;
  u64 put = 0;
  during = [&](u32 which) {
    if (which == a) {
      EXPECT_TRUE(graph::steal(bench_.lease, 0, &task, &put));
    }
  };
  launch();
  EXPECT_FALSE(complete()) << "a node that was stolen holds the launch open";
  run_task(1, task);
  EXPECT_THAT(ran, ElementsAre(root, a, b));
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(GraphDequesTest, NodesThatAreCancelledAreNotCalled) {
  const u32 root = add(kFail);
  for (u32 i = 0; i < 4; ++i) behind({root});
  make();
  launch();
  EXPECT_THAT(ran, ElementsAre(root));
  EXPECT_TRUE(complete());
  EXPECT_EQ(bench_.status(kLaunch), 41);
  expect_clean();
}

TEST_F(GraphDequesTest, ANodeThatIsStolenAndCancelledIsNotCalled) {
  const u32 node = add();
  make();
  const u32 record = static_cast<u32>(exec_->offset / kCell) + cell(node);
  TaskQuads task;
  u64 put = 0;
  for (const u32 cancelled : {0U, kPoisoned}) {
    ASSERT_TRUE(node_deque::push(bench_.lease.deques[0], record | cancelled));
    ASSERT_TRUE(graph::steal(bench_.lease, 0, &task, &put));
    const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
    EXPECT_EQ((header.flags & flag::cancelled) != 0, cancelled != 0);
    EXPECT_NE(header.flags & flag::memory, 0U) << "the thief acquires what the predecessors did";
    EXPECT_EQ(task.quad[0].word[2], record);
  }
}

TEST_F(GraphDequesTest, FullDequeSpillsToTheReadyQueue) {
  constexpr u32 kEach = kFewSuccessors;
  u32 all = 1;
  // The newest successor of each node has kEach successors too.
  for (u32 spine = add(), i = 0; i < 10; ++i) {
    for (u32 j = 0; j < kEach; ++j, ++all) behind({spine});
    spine = all - 1;
  }
  make();
  u64 most = 0;
  during = [&](u32) { most = std::max(most, kept()); };
  launch();
  EXPECT_EQ(most, NodeDeque::kMost);
  EXPECT_GT(queued(), 0U);
  EXPECT_EQ(kept(), 0U);
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(all);
  expect_clean();
}

TEST_F(GraphDequesTest, LeavingWorkerReturnsItsDeque) {
  const u32 root = add();
  for (u32 i = 0; i < 4; ++i) behind({behind({root})});
  make();
  during = [&](u32 which) {
    if (which == root + 1) worker_[0].context.yield = 1;
  };
  launch();
  EXPECT_THAT(ran, ElementsAre(root, root + 1));
  EXPECT_EQ(kept(), 0U);
  EXPECT_EQ(queued(), 4U);
  run_ready();
  EXPECT_TRUE(complete());
  expect_each_once(9);
  expect_clean();
}

TEST_F(GraphDequesTest, WorkerYieldsAfterItsTurnIfTasksWait) {
  const u32 root = add();
  for (u32 i = 0; i < 10; ++i) {
    u32 last = root;
    for (u32 j = 0; j < 20; ++j) last = behind({last});
  }
  make();
  const auto ran_at_once = [&](u32 since) {
    ran.clear();
    bench_.lease.seats[0].running_since = since;
    worker_[0].turn_over = 0;
    launch();
    const std::size_t at_once = ran.size();
    run_ready();
    EXPECT_TRUE(complete());
    expect_each_once(201);
    expect_clean();
    return at_once;
  };
  const u32 long_ago = now_ticks() - graph::kTurn - 1000;
  EXPECT_EQ(ran_at_once(long_ago), 201U) << "nobody waits";
  submit_another();
  // Restarts the turn with each node: the thread may be preempted for as long as a turn.
  during = [&](u32) { bench_.lease.seats[0].running_since = now_ticks(); };
  std::size_t most = 0;
  for (u32 i = 0; i < 100 && most != 201; ++i) most = std::max(most, ran_at_once(now_ticks()));
  EXPECT_EQ(most, 201U) << "its turn is not over";
  during = nullptr;
  EXPECT_LT(ran_at_once(long_ago), 65U);
  EXPECT_EQ(worker_[0].turn_over, 1U) << "so that it looks for what waits";
  bench_.control().fetch_position += 1;  // another worker has fetched it
  EXPECT_EQ(ran_at_once(long_ago), 201U);
}

}  // namespace
}  // namespace dwell::device::graph_deques_test
