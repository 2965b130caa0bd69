#include "runtime/watch/preemptor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
namespace flag = device::flag;
using Record = InFlightTasks::Record;

class HeldAllAlongTest : public testing::Test {
 protected:
  HeldAllAlongTest() {
    known_.name_of = [](std::uint32_t opcode) { return "op" + std::to_string(opcode); };
    known_.node_at = [](std::uint64_t offset) -> std::optional<std::pair<std::string, std::uint64_t>> {
      if (offset < 1000 || offset >= 2000) return std::nullopt;
      return std::pair("'node'", std::uint64_t{1000});
    };
    known_.graph_name_of = [](std::uint64_t exec) { return exec == 1000 ? "step" : ""; };
    known_.users = [this](std::uint64_t) { return users_; };
  }
  std::uint64_t submit(u32 level = 0) {
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, test::task_of({}, level << detail::kLevelAt), &position));
    return position;
  }
  // Records in which only the word matters.
  static Record task(std::uint32_t worker, std::uint64_t position, std::chrono::nanoseconds since = 1ms) {
    return {worker, Record::Kind::task, false, position, 0, 5, since, position + 1};
  }
  static Record node(std::uint32_t worker, std::uint64_t offset) { return {worker, Record::Kind::node, false, 0, offset, 5, 2ms, offset}; }
  static Record nothing(std::uint32_t worker) { return {worker, Record::Kind::other, false, 0, 0, 0, 3ms, 0}; }
  std::vector<Preemption::Holder> held(std::vector<Record> before, std::vector<Record> after, bool all = true) {
    Circumstances then = known_;
    then.records = std::move(before);
    Circumstances now = known_;
    now.records = std::move(after);
    return held_all_along(RingView(bench_.ring.data(), 7, bench_.queue), then, now, all);
  }

  test::Bench bench_{7, 4};
  std::atomic<std::uint32_t> alias_{5};
  Circumstances known_;
  std::vector<std::uint64_t> users_;  // of the exec at 1000
};

TEST_F(HeldAllAlongTest, UnchangedHoldersAreNamed) {
  const std::uint64_t one = submit();
  const std::uint64_t two = submit(6 ^ 3);
  const std::uint64_t three = submit();
  const auto held_by = held({task(0, one), task(1, two), task(2, two), task(3, one)},
                            {task(0, one, 1ms), task(1, two, 7ms), task(2, two, 4ms), task(3, three)});
  ASSERT_EQ(held_by.size(), 2U);
  EXPECT_EQ(held_by[0].position, two) << "who has a worker longest comes first";
  EXPECT_EQ(held_by[0].priority, 6U);
  EXPECT_EQ(held_by[0].name, "op5");
  EXPECT_EQ(held_by[0].since, 7ms);
  EXPECT_THAT(held_by[0].workers, ElementsAre(1, 2));
  EXPECT_EQ(held_by[1].position, one);
  EXPECT_EQ(held_by[1].priority, 3U);
  EXPECT_THAT(held_by[1].workers, ElementsAre(0));
}

TEST_F(HeldAllAlongTest, EndedTasksHoldNothing) {
  const std::uint64_t one = submit();
  const std::uint64_t two = submit();
  bench_.finish(one);
  Record over = task(1, two);
  over.over = true;
  EXPECT_TRUE(held({task(0, one), over}, {task(0, one), over}).empty());
  EXPECT_TRUE(held({}, {task(0, two)}).empty()) << "a worker that was not there";
}

TEST_F(HeldAllAlongTest, NodesAreOfTheLaunchThatRuns) {
  const std::vector<u32> words{1000, 0, 0};
  std::uint64_t launch = 0;
  ASSERT_TRUE(bench_.queue.try_launch(test::task_of(words, detail::kGraph | detail::kShare), bench_.queue.switches(), &launch));
  users_ = {launch};
  const auto held_by = held({node(0, 1500), node(1, 5000)}, {node(0, 1500), node(1, 5000)});
  ASSERT_EQ(held_by.size(), 1U);
  EXPECT_EQ(held_by[0].position, launch);
  EXPECT_TRUE(held_by[0].graph);
  EXPECT_EQ(held_by[0].graph_name, "step");
  EXPECT_EQ(held_by[0].name, "'node'");
  bench_.finish(launch);
  EXPECT_TRUE(held({node(0, 1500)}, {node(0, 1500)}).empty()) << "no launch of the exec is in flight";
}

TEST_F(HeldAllAlongTest, NodesBelongToTheOnlyLaunchingTask) {
  const std::uint64_t task = submit(6 ^ 3);
  users_ = {task};
  auto held_by = held({node(0, 1500)}, {node(0, 1500)});
  ASSERT_EQ(held_by.size(), 1U);
  EXPECT_EQ(held_by[0].position, task);
  EXPECT_FALSE(held_by[0].graph);
  EXPECT_EQ(held_by[0].name, "op5, node 'node'");
  EXPECT_EQ(held_by[0].priority, 6U);
  users_.push_back(submit());
  held_by = held({node(0, 1500)}, {node(0, 1500)});
  ASSERT_EQ(held_by.size(), 1U);
  EXPECT_FALSE(held_by[0].position.has_value());
  EXPECT_EQ(held_by[0].name, "node 'node' of graph 'step'");
  EXPECT_TRUE(held({node(0, 1500)}, {node(0, 1500)}, false).empty()) << "its priority is not known";
}

TEST_F(HeldAllAlongTest, OtherRequestsAreNoHolders) {
  std::uint64_t request = 0;
  ASSERT_TRUE(bench_.queue.try_submit_request(5 ^ 3, &request));
  const device::Header header = bench_.header(request);
  EXPECT_EQ(header.groups, 0U);
  EXPECT_EQ(header.level, 6U);
  EXPECT_EQ(header.flags & (flag::wide | flag::ranked), flag::wide | flag::ranked);
  EXPECT_EQ(bench_.queue.submitted(), 0U);
  EXPECT_TRUE(held({task(0, request)}, {task(0, request)}).empty());
}

TEST_F(HeldAllAlongTest, WorkersWithoutRecordRunSpawnedTasks) {
  ASSERT_EQ(held({nothing(2)}, {nothing(2)}).size(), 1U);
  const auto held_by = held({nothing(2), nothing(3)}, {nothing(2), nothing(3)});
  EXPECT_THAT(held_by[0].workers, ElementsAre(2, 3));
  EXPECT_FALSE(held_by[0].position.has_value());
  EXPECT_TRUE(held({nothing(2)}, {nothing(2)}, false).empty()) << "they may have been idle";
}

TEST(PreemptionText, ReportsHoldersOfWorkers) {
  Preemption preemption;
  preemption.waited = 50ms;
  preemption.holders.push_back({70, "simulate (version 3)", false, 1, {0, 1}, 812ms});
  preemption.holders.push_back({71, "'relax'", true, 2, {2}, 64us});
  preemption.holders.push_back({72, "", true, 2, {4}, 64us, "step"});
  preemption.holders.push_back({{}, "a task that an operator has made", false, 3, {3}, 1ms});
  EXPECT_EQ(to_string(preemption),
            "no worker was free within 50 ms\n"
            "ticket 70 of operator simulate (version 3), priority 1, holds workers 0, 1 for 812 ms\n"
            "ticket 71 of a graph, node 'relax', priority 2, holds worker 2 for 64 us\n"
            "ticket 72 of graph 'step', priority 2, holds worker 4 for 64 us\n"
            "a task that an operator has made holds worker 3 for 1000 us\n");
  preemption = {};
  preemption.in_time = true;
  preemption.waited = 12us;
  EXPECT_EQ(to_string(preemption), "a worker was free after 12 us\n");
}

}  // namespace
}  // namespace dwell::runtime
