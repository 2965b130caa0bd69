// Diagnoses of rings that the test fills.
#include "runtime/watch/diagnose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/arena.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Record = InFlightTasks::Record;

class DiagnoseTest : public testing::Test {
 protected:
  explicit DiagnoseTest(std::uint64_t first = 0) : bench_(7, 4, first) {
    known_.workers = 4;
    known_.name_of = [](std::uint32_t opcode) { return "op" + std::to_string(opcode); };
    known_.node_at = [](std::uint64_t offset) -> std::optional<std::pair<std::string, std::uint64_t>> {
      if (offset < 1000 || offset >= 2000) return std::nullopt;
      return std::pair("'node " + std::to_string(offset) + "'", std::uint64_t{1000});
    };
    known_.graph_name_of = [](std::uint64_t exec) { return exec == 3000 ? "step" : ""; };
    known_.users = [this](std::uint64_t exec) { return exec == 1000 ? users_ : std::vector<std::uint64_t>(); };
  }

  std::uint64_t submit(u32 flags = 0, u32 groups = 1, const std::vector<std::uint64_t>& after = {}, const std::vector<u32>& words = {}) {
    detail::Waits waits;
    for (const std::uint64_t position : after) waits.position[waits.count++] = position;
    const detail::Task task = test::task_of(words, flags | (after.empty() ? 0 : detail::kAfter), groups, &waits);
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, task, &position));
    return position;
  }
  std::uint64_t submit_after(const std::vector<std::uint64_t>& tasks) { return submit(0, 1, tasks); }
  // Submits a launch of an exec whose head has this offset.
  std::uint64_t launch(u32 head, const std::vector<std::uint64_t>& after = {}, u32 groups = 1) {
    detail::Waits waits;
    for (const std::uint64_t position : after) waits.position[waits.count++] = position;
    const std::vector<u32> words{head, 0, 0};
    const detail::Task task = test::task_of(words, detail::kGraph | detail::kShare | (after.empty() ? 0 : detail::kAfter), groups, &waits);
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_launch(task, bench_.queue.switches(), &position));
    if (head == 1000) users_.push_back(position);
    return position;
  }
  // Makes an entry of the wait list of the task at `position` name another task.
  void rename(std::uint64_t position, std::uint32_t i, std::uint64_t task) {
    device::Slot& slot = bench_.ring[position % bench_.capacity()];
    const device::WaitList list = device::WaitList::from(slot.quad[0].word[2]);
    ASSERT_LT(i, list.count);
    slot.quad[list.first + i].word[0] = static_cast<u32>(task);
    slot.quad[list.first + i].word[1] = static_cast<u32>(task >> 32U);
  }
  void runs(std::uint32_t worker, std::uint64_t position, bool over = false) {
    known_.records.push_back({worker, Record::Kind::task, over, position, 0, 5, 1500ms, 0});
  }
  void runs_node(std::uint32_t worker, std::uint64_t offset, bool over = false) {
    known_.records.push_back({worker, Record::Kind::node, over, 0, offset, 5, 20s, 0});
  }
  Diagnosis now() const { return diagnose(RingView(bench_.ring.data(), 7, bench_.queue), known_); }
  static std::vector<std::uint64_t> positions(const Diagnosis& diagnosis) {
    std::vector<std::uint64_t> all;
    for (const TaskState& task : diagnosis.tasks) all.push_back(task.position);
    return all;
  }

  test::Bench bench_;
  std::atomic<std::uint32_t> alias_{5};
  Circumstances known_;
  std::vector<std::uint64_t> users_;  // of the exec at 1000
};

TEST_F(DiagnoseTest, EmptyRingHasEmptyDiagnosis) {
  EXPECT_EQ(now().total, 0U);
  const std::uint64_t one = submit();
  EXPECT_EQ(now().total, 1U);
  bench_.finish(one);
  EXPECT_EQ(now().total, 0U);
  EXPECT_THAT(to_string(now()), HasSubstr("0 tasks are not complete; 0 of 4 workers"));
}

TEST_F(DiagnoseTest, ATaskThatRunsNamesItsWorkers) {
  const std::uint64_t wide = submit(detail::kWide, 9);
  const std::uint64_t free = submit();
  runs(0, wide);
  runs(2, wide);
  runs(3, free + 50);  // complete
  const Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(wide, free));
  EXPECT_EQ(found.busy, 2U);
  EXPECT_EQ(found.tasks[0].doing, Doing::runs);
  EXPECT_EQ(found.tasks[0].name, "op5");
  EXPECT_EQ(found.tasks[0].groups, 9U);
  ASSERT_EQ(found.tasks[0].workers.size(), 2U);
  EXPECT_EQ(found.tasks[0].workers[1].worker, 2U);
  EXPECT_EQ(found.tasks[0].workers[1].since, 1500ms);
  EXPECT_EQ(found.tasks[1].doing, Doing::waits_to_run);
  EXPECT_THAT(to_string(found),
              AllOf(HasSubstr("ticket " + std::to_string(wide) + " of operator op5 runs on worker 0 for 1500 ms, worker 2"),
                    HasSubstr("waits for a free worker")));
}

TEST_F(DiagnoseTest, LinksAndListsNameThoseThatAreNotComplete) {
  submit();
  const std::uint64_t one = submit(detail::kLink);
  submit(detail::kLink);  // links are in use from here on
  bench_.finish(0);
  bench_.finish(one);
  const std::uint64_t a = submit();
  const std::uint64_t b = submit();
  const std::uint64_t linked = submit(detail::kLink);
  const std::uint64_t behind = submit_after({a, b, linked});
  bench_.finish(a);
  const Diagnosis found = now();
  const auto state = [&](std::uint64_t position) -> const TaskState& {
    for (const TaskState& task : found.tasks)
      if (task.position == position) return task;
    ADD_FAILURE() << position;
    return found.tasks[0];
  };
  EXPECT_THAT(state(linked).waits_for, ElementsAre(b));
  EXPECT_THAT(state(behind).waits_for, ElementsAre(b, linked));
  EXPECT_EQ(state(behind).doing, Doing::waits_to_start);
  EXPECT_THAT(to_string(found), HasSubstr("ticket " + std::to_string(behind) + " of operator op5 waits for tickets " + std::to_string(b) +
                                          ", " + std::to_string(linked)));
}

TEST_F(DiagnoseTest, DrainsWaitForAllBeforeAndAllBehindForThem) {
  const std::uint64_t a = submit();
  const std::uint64_t b = submit();
  const std::uint64_t drain = submit(detail::kDrain);
  const std::uint64_t behind = submit();
  const std::uint64_t second = submit(detail::kDrain);
  Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(a, b, drain, behind, second));
  EXPECT_THAT(found.tasks[2].waits_for, ElementsAre(a, b));
  EXPECT_THAT(found.tasks[3].waits_for, ElementsAre(drain));
  EXPECT_THAT(found.tasks[4].waits_for, ElementsAre(drain, behind));
  bench_.finish(a);
  bench_.finish(b);
  bench_.finish(drain);
  found = now();
  EXPECT_EQ(found.tasks[0].doing, Doing::waits_to_run);
  EXPECT_THAT(found.tasks[1].waits_for, ElementsAre(behind));
}

TEST_F(DiagnoseTest, GatesAreTheLaunchesThatOpenThem) {
  std::uint64_t gate = 0;
  ASSERT_TRUE(bench_.queue.try_submit_gate(alias_, &gate));
  std::uint64_t other = 0;
  ASSERT_TRUE(bench_.queue.try_submit_gate(alias_, &other));
  const std::uint64_t before = submit();
  const std::uint64_t task = submit_after({gate, before, other});
  known_.gates.emplace(gate, "launch 3 of kernel axpy");
  Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(before, task)) << "gates are no tasks of the user's";
  EXPECT_EQ(found.tasks[1].doing, Doing::waits_to_start);
  EXPECT_THAT(found.tasks[1].waits_for, ElementsAre(before));
  EXPECT_THAT(found.tasks[1].named, ElementsAre("launch 3 of kernel axpy", HasSubstr("has ended")));
  bench_.finish(before);
  bench_.finish(other);
  found = now();
  EXPECT_EQ(found.tasks[0].doing, Doing::waits_for_host);
  EXPECT_THAT(to_string(found), HasSubstr("waits for launch 3 of kernel axpy"));
}

TEST_F(DiagnoseTest, RuntimeTasksAreReplacedByTheirPredecessors) {
  std::vector<std::uint64_t> before;
  for (int i = 0; i < 16; ++i) before.push_back(submit());
  const std::vector<u32> words(80, 1);  // with the list too large for a task: a task without groups waits in its place
  const std::uint64_t task = submit(0, 1, before, words);
  const Diagnosis found = now();
  EXPECT_EQ(found.total, 17U);
  EXPECT_EQ(found.tasks.back().position, task);
  EXPECT_EQ(found.tasks.back().waits_for, before);
}

TEST_F(DiagnoseTest, NodesBelongToTheLaunchThatRuns) {
  const std::uint64_t first = launch(1000);
  const std::uint64_t second = launch(1000, {first});
  runs_node(1, 1500);
  runs_node(2, 1600, true);
  runs_node(3, 5000);  // of a destroyed exec
  const Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(first, second));
  EXPECT_TRUE(found.tasks[0].graph);
  EXPECT_EQ(found.tasks[0].doing, Doing::runs);
  ASSERT_EQ(found.tasks[0].workers.size(), 1U);
  EXPECT_EQ(found.tasks[0].workers[0].node, "'node 1500'");
  EXPECT_THAT(found.tasks[1].waits_for, ElementsAre(first));
  EXPECT_THAT(to_string(found),
              HasSubstr("ticket " + std::to_string(first) + " of a graph runs on worker 1 (at or behind node 'node 1500') for 20 s"));
}

TEST_F(DiagnoseTest, LaunchesAreNamedByTheirGraphs) {
  launch(2000);
  launch(3000);
  const Diagnosis found = now();
  EXPECT_EQ(found.tasks[0].name, "a graph");
  EXPECT_EQ(found.tasks[1].name, "graph 'step'");
  EXPECT_THAT(to_string(found), HasSubstr("ticket 1 of graph 'step' waits for a free worker"));
}

TEST_F(DiagnoseTest, NodesLaunchedByAnOperatorBelongToItsTask) {
  const std::uint64_t task = submit();
  const std::uint64_t change = launch(1000, {task}, 0);
  const std::uint64_t second = launch(1000, {change});
  submit(detail::kDrain);
  const std::uint64_t behind = submit();
  users_.insert(users_.end(), {task, behind, task});
  runs_node(1, 1500);
  const Diagnosis found = now();
  ASSERT_EQ(found.tasks[0].position, task);
  EXPECT_EQ(found.tasks[0].doing, Doing::runs);
  ASSERT_EQ(found.tasks[0].workers.size(), 1U) << "whoever waits, or runs no node, has not begun";
  EXPECT_EQ(found.tasks[0].workers[0].node, "'node 1500'");
  EXPECT_EQ(found.tasks[1].position, second);
  EXPECT_EQ(found.tasks[1].doing, Doing::waits_to_start);
  EXPECT_THAT(to_string(found), HasSubstr("ticket 0 of operator op5 runs on worker 1 (at or behind node 'node 1500')"));
}

TEST_F(DiagnoseTest, LaunchIsUnattributedIfHostAndOperatorsLaunch) {
  const std::uint64_t task = submit();
  const std::uint64_t other = submit();
  const std::uint64_t graph = launch(1000);
  users_.push_back(task);
  runs_node(1, 1500);
  for (const bool proven : {false, true}) {
    known_.proven = proven;
    const Diagnosis found = now();
    ASSERT_THAT(positions(found), ElementsAre(task, other, graph));
    EXPECT_EQ(found.busy, 1U);
    for (const std::size_t i : {0U, 2U}) {
      EXPECT_EQ(found.tasks[i].doing, Doing::waits_to_run);
      EXPECT_TRUE(found.tasks[i].workers.empty());
      EXPECT_THAT(found.tasks[i].named, ElementsAre("worker 1 is at or behind node 'node 1500', for one of tickets 0, 2"));
    }
    EXPECT_EQ(found.tasks[1].doing, proven ? Doing::lost : Doing::waits_to_run);
    EXPECT_TRUE(found.tasks[1].named.empty());
    EXPECT_THAT(to_string(found), HasSubstr("ticket 2 of a graph waits for a free worker, or for what it has made, or for its turn with a "
                                            "graph: worker 1 is at or behind node 'node 1500', for one of tickets 0, 2\n"));
  }
}

TEST_F(DiagnoseTest, CallbackThatWaitsBehindItsLaunchIsACircle) {
  const std::uint64_t graph = launch(1000);
  const std::uint64_t between = submit_after({graph});
  const std::uint64_t task = submit_after({between});
  known_.callbacks.push_back({static_cast<u32>(graph), "'ask'", true, task, 1s});
  known_.callbacks.push_back({static_cast<u32>(graph), "'late'", false, {}, 0s});
  const Diagnosis found = now();
  EXPECT_EQ(found.tasks[0].doing, Doing::waits_for_host);
  EXPECT_THAT(found.tasks[0].named, ElementsAre(HasSubstr("'ask', which waits for ticket 2"), HasSubstr("'late', which has not begun")));
  ASSERT_EQ(found.cycles.size(), 1U);
  EXPECT_THAT(found.cycles[0], ElementsAre(graph, task, between));
  EXPECT_THAT(to_string(found), HasSubstr("circle: ticket 0 waits for ticket 2 waits for ticket 1 waits for ticket 0"));
  EXPECT_THAT(in_short(found), HasSubstr("circle"));
}

TEST_F(DiagnoseTest, CirclesOfListsAreFound) {
  // Only a defect can create such circles: nobody has the ticket of a later task.
  const std::uint64_t outside = submit();
  const std::uint64_t a = submit_after({outside, outside});
  const std::uint64_t b = submit_after({a, outside});
  const std::uint64_t c = submit_after({b, outside});
  rename(a, 1, c);
  rename(c, 1, c);
  const Diagnosis found = now();
  ASSERT_EQ(found.cycles.size(), 2U);
  EXPECT_THAT(found.cycles, testing::UnorderedElementsAre(ElementsAre(a, c, b), ElementsAre(c)));
}

TEST_F(DiagnoseTest, NoCircleWhereManyWaitForMany) {
  std::vector<std::uint64_t> last{submit()};
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t a = submit_after(last);
    const std::uint64_t b = submit_after(last);
    last = {a, b};
  }
  submit(detail::kDrain);
  submit_after(last);
  const Diagnosis found = now();
  EXPECT_TRUE(found.cycles.empty());
  EXPECT_EQ(found.total, 23U);
}

TEST_F(DiagnoseTest, GangsReportJoinedMembers) {
  const std::uint64_t gang = submit(detail::kGang | detail::kWide, 4);
  EXPECT_EQ(now().tasks[0].doing, Doing::waits_for_gang);
  for (std::uint32_t worker = 0; worker < 3; ++worker) runs(worker, gang);
  EXPECT_EQ(now().tasks[0].doing, Doing::waits_for_gang);
  EXPECT_THAT(to_string(now()), HasSubstr("a gang, waits for 4 free workers at once; 3 have joined"));
  runs(3, gang);
  EXPECT_EQ(now().tasks[0].doing, Doing::runs);
}

TEST_F(DiagnoseTest, ReadyTasksWaitForTheResume) {
  submit();
  known_.parked = true;
  EXPECT_EQ(now().tasks[0].doing, Doing::parked);
  EXPECT_THAT(to_string(now()), AllOf(HasSubstr("the runtime is parked"), HasSubstr("waits for `resume`")));
}

TEST_F(DiagnoseTest, RunnableTasksAreLostOnceProven) {
  const std::uint64_t begun = submit();
  const std::uint64_t never = submit();
  const std::uint64_t graph = launch(1000);
  const std::uint64_t behind = submit_after({begun});
  runs(0, begun, true);
  runs_node(1, 1500, true);
  for (const TaskState& task : now().tasks) EXPECT_NE(task.doing, Doing::lost);
  known_.proven = true;
  const Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(begun, never, graph, behind));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found.tasks[static_cast<std::size_t>(i)].doing, Doing::lost) << i;
  EXPECT_EQ(found.tasks[3].doing, Doing::waits_to_start);
  EXPECT_EQ(found.busy, 0U);
  EXPECT_THAT(to_string(found), AllOf(HasSubstr("nothing moves"), HasSubstr("lost")));
}

TEST_F(DiagnoseTest, CancelMarksAreReported) {
  const std::uint64_t one = submit();
  bench_.queue.cancel(one);
  EXPECT_TRUE(now().tasks[0].cancelled);
  EXPECT_THAT(to_string(now()), HasSubstr("(cancelled)"));
}

TEST_F(DiagnoseTest, LongListsAreCountedAndShortened) {
  for (int i = 0; i < 100; ++i) submit();
  const Diagnosis found = now();
  EXPECT_EQ(found.total, 100U);
  ASSERT_EQ(found.tasks.size(), Diagnosis::kMost);
  EXPECT_EQ(found.tasks.back().position, 63U);
  EXPECT_THAT(to_string(found), HasSubstr("and 36 more\n"));
  EXPECT_THAT(in_short(found),
              AllOf(HasSubstr("ticket 0 "), HasSubstr("ticket 2 "), Not(HasSubstr("ticket 3 ")), HasSubstr("and 97 more")));
}

class LateDiagnoseTest : public DiagnoseTest {
 protected:
  LateDiagnoseTest() : DiagnoseTest((1ULL << 32U) - 64) {}
};

TEST_F(LateDiagnoseTest, PositionsBeyond32BitsAreWhole) {
  for (int i = 0; i < 63; ++i) bench_.finish(submit());
  const std::uint64_t first = submit();
  const std::uint64_t graph = launch(1000);
  const std::uint64_t task = submit_after({graph, first});
  EXPECT_LT(first, 1ULL << 32U);
  EXPECT_GE(graph, 1ULL << 32U);
  known_.callbacks.push_back({static_cast<u32>(graph), "'ask'", true, task, 1s});
  const Diagnosis found = now();
  ASSERT_THAT(positions(found), ElementsAre(first, graph, task));
  EXPECT_THAT(found.tasks[2].waits_for, ElementsAre(first, graph));
  EXPECT_THAT(found.cycles, ElementsAre(ElementsAre(graph, task)));
}

}  // namespace
}  // namespace dwell::runtime
