#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <dwell/device/spawn.hpp>

#include "device/worker.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/graph_plan.hpp"

namespace dwell::device::graph_launch_test {
namespace {

using test::Bench;
using test::entry_of;
using test::GraphPlan;
using test::PlainExec;
using testing::ElementsAre;

// The numbers of the nodes that the operators below have run, in order.
std::vector<u32> ran;
std::function<void(u32)> during;  // called by each with its number
std::vector<u64> targets;         // execs launched by kLaunches

void note(const Group&, const u32* arguments) {
  ran.push_back(arguments[0]);
  if (during) during(arguments[0]);
}
void fail(const Group& g, const u32* arguments) {
  note(g, arguments);
  g.fail(41);
}
Exec exec_at(u64 address) {
  const u32 words[2] = {static_cast<u32>(address), static_cast<u32>(address >> 32U)};
  return Wire<Exec>::read(words);
}
void launches(const Group& g, const u32* arguments) {
  note(g, arguments);
  for (const u64 target : targets) g.launch(exec_at(target));
}
void chains(const Group& g, const u32* arguments) {
  note(g, arguments);
  Child last = g.launch(exec_at(targets[0]));
  for (std::size_t i = 1; i < targets.size(); ++i) last = g.launch_after(last, exec_at(targets[i]));
}
enum : u32 { kNote, kFail, kLaunches, kChains };

class GraphLaunchTest : public testing::Test {
 protected:
  static constexpr u32 kTask = 40;  // position of the first task

  GraphLaunchTest() {
    ran.clear();
    during = nullptr;
    targets.clear();
    entries_ = {entry_of<&note>(), entry_of<&fail>(), entry_of<&launches>(), entry_of<&chains>()};
    bench_.lease.operators = entries_.data();
    bench_.lease.lease_ticks = ~0U;
    for (u32 me = 0; me < 2; ++me) {
      Worker& worker = worker_[me];
      spawn::begin(bench_.lease, &worker);
      bench_.set_up(&worker, me);
    }
  }

  // An exec of a chain of nodes with these numbers.
  PlainExec& chain(std::initializer_list<u32> numbers, u32 opcode = kNote) {
    GraphPlan plan;
    u32 last = ~0U;
    for (const u32 number : numbers) {
      const u32 node = plan.add(opcode, {number});
      if (last != ~0U) plan.edge(last, node);
      last = node;
    }
    return *execs_.emplace_back(std::make_unique<PlainExec>(plan, bench_));
  }
  void run_task(u32 me, const TaskQuads& task) {
    for (u32 i = 0; i < kMaxSlots * 4; ++i)
      std::memcpy(frame_at(&worker_[me], kFrame0)->word + i * 3, task.quad[i].word, sizeof(task.quad[i].word));
    const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
    sources::take_up(bench_.lease, &worker_[me], header, task.quad[0].word[2]);
    run(bench_.lease, &worker_[me], kFrame0);
  }
  // Runs a task of the ring.
  void run_ring(u32 opcode, u32 position, u32 number, u32 me = 0) {
    TaskQuads task{};
    task.quad[0] = Quad{0, {opcode | 1U << 16U, Header{0, 1, 1, 0, 0}.word1(), position}};
    task.quad[1].word[0] = number;
    run_task(me, task);
  }
  void launch(const PlainExec& exec, u32 position, u32 me = 0) {
    TaskQuads task{};
    const Header header{0, 1, 1, flag::share | flag::memory, 0, 0, source::launch};
    task.quad[0] = Quad{0, {header.word0(), header.word1(), position}};
    task.quad[1] = Quad{0, {static_cast<u32>(exec.offset), static_cast<u32>(exec.offset >> 32U), 0}};
    run_task(me, task);
  }
  // Runs at most `most` tasks of the ready queue. Returns how many.
  u32 run_ready(u32 me = 1, u32 most = ~0U) {
    TaskQuads task;
    u32 count = 0;
    for (; count < most && ready_queue::try_take(bench_.lease, &task); ++count) {
      const Header header = Header::from(task.quad[0].word[0], task.quad[0].word[1]);
      if (header.slots > 1) sources::load_rest(bench_.lease, &task, header, task.quad[0].word[2]);
      run_task(me, task);
    }
    return count;
  }
  const Quad& inside(u32 position) const { return bench_.failed_inside[index_of(position, 7)]; }
  // Expects the first node of `exec`, whose number this is, as the failed node of the task at `position`.
  void expect_inside(u32 position, const PlainExec& exec, u32 number) const {
    EXPECT_EQ(inside(position).lap, lap_of(position, 7));
    EXPECT_EQ(inside(position).word[0], 41U);
    EXPECT_EQ(inside(position).word[1], number);
    EXPECT_EQ(inside(position).word[2], exec.layout.cell(0));
  }
  u32 queued() const { return bench_.control().tail.value - bench_.control().head.value; }
  void fill_queue() { bench_.control().tail.value += kMostQueuedNodes; }
  void empty_queue() { bench_.control().tail.value -= kMostQueuedNodes; }
  // The number of records that are not free.
  u32 records_in_use() const {
    u32 used = 0;
    for (u32 number = 1; number < bench_.control().lists.fresh && number < bench_.lease.spawned_records; ++number)
      if (bench_.lease.spawned[number].parent != Spawned::kNobody) ++used;
    for (const Worker& worker : worker_)
      for (u32 i = 0; i < worker.spawn.free_count; ++i)
        if (bench_.lease.spawned[worker.spawn.free[i]].parent != Spawned::kNobody) --used;  // never allocated
    return used;
  }

  Bench bench_{7, 2};
  std::vector<const void*> entries_;
  Worker worker_[2]{};
  std::vector<std::unique_ptr<PlainExec>> execs_;
};

TEST_F(GraphLaunchTest, TaskCompletesWithItsLaunches) {
  const PlainExec& exec = chain({1, 2, 3});
  targets = {exec.offset};
  during = [&](u32) { EXPECT_FALSE(bench_.complete(kTask)); };
  run_ring(kLaunches, kTask, 9);
  run_ready();
  EXPECT_THAT(ran, ElementsAre(9U, 1U, 2U, 3U));
  EXPECT_TRUE(bench_.complete(kTask));
  EXPECT_EQ(bench_.status(kTask), status::ok);
  EXPECT_EQ(exec.head().pending, 0U);
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, LaunchesOfOneExecAreQueuedInOrder) {
  PlainExec& exec = chain({1});
  const PlainExec& other = chain({2});
  targets = {exec.offset, exec.offset, exec.offset};
  // A launch of the ring holds the exec; then launches of the ring, an operator and the ring queue for it.
  bool nested = false;
  during = [&](u32 number) {
    if (number != 1 || nested) return;
    nested = true;
    launch(exec, kTask + 1, 1);
    EXPECT_FALSE(bench_.complete(kTask + 1));
    run_ring(kLaunches, kTask + 2, 9, 1);
    run_ready(1);
    launch(exec, kTask + 3, 1);
    launch(other, kTask + 4, 1);
    EXPECT_TRUE(bench_.complete(kTask + 4)) << "another exec is free";
    EXPECT_EQ(queued(), 0U) << "who stands in line is nowhere else";
  };
  launch(exec, kTask, 0);
  EXPECT_TRUE(bench_.complete(kTask));
  EXPECT_FALSE(bench_.complete(kTask + 1));
  std::vector<u32> order;
  for (u32 i = 0; i < 5; ++i) {
    EXPECT_EQ(queued(), 1U) << "one at a time has its turn";
    EXPECT_EQ(run_ready(i % 2, 1), 1U);
    order.push_back((bench_.complete(kTask + 1) ? 1U : 0U) + (bench_.complete(kTask + 2) ? 2U : 0U) +
                    (bench_.complete(kTask + 3) ? 4U : 0U));
  }
  // The operator's worker queued its launches newest first; all run before the launch behind them.
  EXPECT_THAT(order, ElementsAre(1U, 1U, 1U, 3U, 7U));
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(exec.head().pending, 0U) << "the exec is free";
  launch(exec, kTask + 5);
  run_ready();
  EXPECT_TRUE(bench_.complete(kTask + 5));
  EXPECT_EQ(exec.head().pending, 0U);
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, AFailureReachesTheParentAndNotTheNextLaunch) {
  PlainExec& exec = chain({1}, kFail);
  PlainExec& good = chain({2});
  targets = {exec.offset, good.offset};
  run_ring(kChains, kTask, 9);
  run_ready();
  EXPECT_THAT(ran, ElementsAre(9U, 1U, 2U));
  EXPECT_EQ(bench_.status(kTask), 41);
  EXPECT_EQ(exec.head().pending, 0U) << "the mark of the failure is gone";
  exec.record(exec.layout.cell(0)).quad[0].word[0] = kNote | 1U << 16U;
  run_ring(kChains, kTask + 1, 9);
  run_ready();
  EXPECT_TRUE(bench_.complete(kTask + 1));
  EXPECT_EQ(bench_.status(kTask + 1), status::ok);
}

TEST_F(GraphLaunchTest, FailedNodeIsRecordedForTheRingTask) {
  const PlainExec& exec = chain({1}, kFail);
  exec.head().number = 7;
  targets = {exec.offset};
  during = [&](u32) { EXPECT_EQ(inside(kTask).lap, 0U); };
  run_ring(kLaunches, kTask, 9);
  run_ready();
  for (const u64 word : bench_.failed_nodes) EXPECT_EQ(word, 0U);
  expect_inside(kTask, exec, 7);
  during = nullptr;
  // A launch of the ring uses only its own place.
  launch(exec, kTask + 1);
  EXPECT_EQ(bench_.failed_nodes[kTask + 1] >> 32U, exec.layout.cell(0));
  EXPECT_EQ(inside(kTask + 1).lap, 0U);
  EXPECT_EQ(bench_.status(kTask + 1), 41);
}

TEST_F(GraphLaunchTest, EachTaskRecordsItsFirstFailedNode) {
  const PlainExec& first = chain({1}, kFail);
  const PlainExec& second = chain({2}, kFail);
  first.head().number = 1;
  second.head().number = 2;
  targets = {first.offset, second.offset};
  run_ring(kChains, kTask, 9);
  run_ready();
  expect_inside(kTask, first, 1);
  // The next task at this position of the ring.
  targets = {second.offset};
  run_ring(kLaunches, kTask + bench_.capacity(), 9);
  run_ready();
  expect_inside(kTask + bench_.capacity(), second, 2);
}

TEST_F(GraphLaunchTest, FailedNodeIsRecordedAtAnyDepth) {
  const PlainExec& inner = chain({1}, kFail);
  PlainExec& middle = chain({2}, kLaunches);
  PlainExec& outer = chain({3}, kLaunches);
  inner.head().number = 1;
  middle.head().number = 2;
  outer.head().number = 3;
  during = [&](u32 number) { targets.assign(1, number == 2 ? inner.offset : number == 3 ? middle.offset : outer.offset); };
  run_ring(kLaunches, kTask, 9);
  run_ready();
  EXPECT_EQ(bench_.status(kTask), 41);
  expect_inside(kTask, inner, 1);
  // A launch of the ring has its own place as well.
  launch(outer, kTask + 1);
  run_ready();
  EXPECT_EQ(bench_.status(kTask + 1), 41);
  expect_inside(kTask + 1, inner, 1);
  EXPECT_EQ(bench_.failed_nodes[kTask + 1] >> 32U, outer.layout.cell(0));
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, WorkerQueuesItsTasksBeforeALaunch) {
  const PlainExec& first = chain({1});
  const PlainExec& second = chain({2});
  targets = {first.offset, second.offset};
  bench_.control().idle.value = ~0U;  // no worker waits for tasks
  during = [&](u32 number) {
    if (number != 2) return;
    EXPECT_EQ(queued(), 1U) << "another worker may begin the other";
    EXPECT_EQ(worker_[0].spawn.count, 0U);
  };
  run_ring(kLaunches, kTask, 9);
  EXPECT_THAT(ran, ElementsAre(9U, 2U));
  EXPECT_FALSE(bench_.complete(kTask));
  run_ready();
  EXPECT_THAT(ran, ElementsAre(9U, 2U, 1U));
  EXPECT_TRUE(bench_.complete(kTask));
}

TEST_F(GraphLaunchTest, TasksWithoutRoomGoToTheOverflow) {
  PlainExec& exec = chain({1});
  targets.assign(3, exec.offset);
  bench_.control().idle.value = ~0U;  // no worker waits for tasks
  fill_queue();
  during = [&](u32 number) {
    if (number == 1 && ran.size() == 2) {
      EXPECT_NE(bench_.control().lists.overflow >> 32U, 0U);
    }
  };
  run_ring(kLaunches, kTask, 9);
  EXPECT_THAT(ran, ElementsAre(9U, 1U, 1U, 1U)) << "its worker takes them from there";
  EXPECT_TRUE(bench_.complete(kTask));
  empty_queue();
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(bench_.control().lists.overflow >> 32U, 0U);
  EXPECT_EQ(records_in_use(), 0U);

  // A launch whose turn has come goes there too: the worker that ended the previous launch passes it on.
  ran.clear();
  bool nested = false;
  during = [&](u32 number) {
    if (number != 1 || nested) return;
    nested = true;
    targets.assign(1, exec.offset);
    run_ring(kLaunches, kTask + 1, 8, 1);
    fill_queue();
  };
  launch(exec, kTask + 2);
  EXPECT_TRUE(bench_.complete(kTask + 2));
  EXPECT_FALSE(bench_.complete(kTask + 1));
  EXPECT_EQ(bench_.control().lists.overflow >> 32U, 0U) << "its place in the ready queue is what the worker came by";
  bench_.control().head.value += kMostQueuedNodes;  // removes what fill_queue added
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_TRUE(bench_.complete(kTask + 1));
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, CancelledQueuedLaunchIsSkipped) {
  PlainExec& exec = chain({1});
  bool nested = false;
  during = [&](u32) {
    if (nested) return;
    nested = true;
    launch(exec, kTask + 1, 1);
    launch(exec, kTask + 2, 1);
    Quad& head = bench_.lease.held[kTask + 1].quad[0];
    cancels::mark(&head, kTask + 1);
  };
  launch(exec, kTask);
  EXPECT_EQ(queued(), 2U) << "the one that is cancelled, and the one behind it";
  run_ready();
  EXPECT_THAT(ran, ElementsAre(1U, 1U));
  EXPECT_EQ(bench_.status(kTask + 1), status::cancelled);
  EXPECT_TRUE(bench_.complete(kTask + 2));
  EXPECT_EQ(bench_.status(kTask + 2), status::ok);
}

TEST_F(GraphLaunchTest, StartedLaunchIsNotCancelled) {
  PlainExec& exec = chain({1});
  bool nested = false;
  during = [&](u32) {
    if (std::exchange(nested, true)) return;
    launch(exec, kTask + 1, 1);
  };
  launch(exec, kTask);
  ASSERT_EQ(queued(), 1U);
  cancels::mark(&ready_queue::slot(bench_.lease, bench_.control().head.value)->quad[0], kTask + 1);
  run_ready();
  EXPECT_EQ(bench_.status(kTask + 1), status::ok);
  EXPECT_THAT(ran, ElementsAre(1U, 1U));
}

TEST_F(GraphLaunchTest, RecursiveLaunchIsRefused) {
  PlainExec& inner = chain({1}, kLaunches);
  PlainExec& outer = chain({2}, kLaunches);
  // Task 2 launches `inner`; its node launches `outer`.
  during = [&](u32 number) { targets.assign(1, number == 1 ? outer.offset : inner.offset); };
  run_ring(kLaunches, kTask, 9);  // launches `inner`
  run_ready();
  EXPECT_TRUE(bench_.complete(kTask));
  EXPECT_EQ(bench_.status(kTask), status::launch_refused);
  launch(outer, kTask + 1);
  run_ready();
  EXPECT_TRUE(bench_.complete(kTask + 1));
  EXPECT_EQ(bench_.status(kTask + 1), status::launch_refused);
  for (const PlainExec* const exec : {&inner, &outer}) EXPECT_EQ(exec->head().pending, 0U);
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, NullExecIsRefused) {
  targets = {0};
  run_ring(kLaunches, kTask, 9);
  EXPECT_EQ(bench_.status(kTask), status::launch_refused);
  EXPECT_EQ(records_in_use(), 0U);
}

TEST_F(GraphLaunchTest, WorkerReturnsALaunchAtTheEndOfItsLease) {
  PlainExec& exec = chain({1, 2, 3});
  targets = {exec.offset};
  during = [&](u32 number) {
    if (number == 2) worker_[0].context.yield = 1;
  };
  run_ring(kLaunches, kTask, 9);
  EXPECT_THAT(ran, ElementsAre(9U, 1U, 2U));
  EXPECT_EQ(run_ready(), 1U);
  EXPECT_THAT(ran, ElementsAre(9U, 1U, 2U, 3U));
  EXPECT_TRUE(bench_.complete(kTask));
  EXPECT_EQ(records_in_use(), 0U);
}

}  // namespace
}  // namespace dwell::device::graph_launch_test
