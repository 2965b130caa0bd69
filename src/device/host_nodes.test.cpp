#include "device/host_nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/graph_on_workers.hpp"

namespace dwell::device::host_nodes_test {
namespace {

using test::PlainExec;
using testing::ElementsAre;

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
  // The numbers of the host nodes called since the previous call.
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
  // Answers call `i`, counted from the first one.
  void answer(std::size_t i, bool throws = false) {
    rings_[(1U << kShift) + index_of(answered_, kShift)] = Quad{lap_of(answered_, kShift), {cells_[i], throws ? 1U : 0U, 0}};
    ++answered_;
  }
  u32 callers() const { return bench_.control().crew.callers; }

  std::vector<Quad> rings_{2U << kShift};
  std::vector<u32> hosts_;
  std::vector<u32> cells_;  // of the called nodes
  u32 read_ = 0;
  u32 answered_ = 0;
};

TEST_F(HostNodesOnWorkersTest, SuccessorsOfAHostNodeRunAfterItsAnswer) {
  const u32 first = add();
  const u32 host = host_behind({first});
  behind({host});
  make();
  launch();
  EXPECT_THAT(calls(), ElementsAre(0U));
  EXPECT_THAT(ran, ElementsAre(first));
  EXPECT_EQ(callers(), exec_->offset / kCell);
  EXPECT_EQ(worker_[0].graph.base, 0U) << "no worker waits";
  host_nodes::look(bench_.lease);
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(callers(), exec_->offset / kCell) << "it waits on";
  answer(0);
  host_nodes::look(bench_.lease);
  EXPECT_EQ(callers(), 0U);
  EXPECT_EQ(queued(), 1U);
  run_ready();
  EXPECT_THAT(ran, ElementsAre(first, 2U));
  EXPECT_TRUE(complete());
  expect_clean();
}

TEST_F(HostNodesOnWorkersTest, PlacesAreReused) {
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

TEST_F(HostNodesOnWorkersTest, AnsweredNodesContinueBeforeOthers) {
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

TEST_F(HostNodesOnWorkersTest, ThrowingCallbackFailsItsNode) {
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

TEST_F(HostNodesOnWorkersTest, AnswersWaitForRoom) {
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
  PlainExec other(plan_, bench_);
  std::vector<Quad> others(2U << kShift);
  other.head().calls = reinterpret_cast<u64>(others.data());
  other.head().calls_shift = kShift;
  make();
  launch();
  host_nodes::call(bench_.lease, other.address(), 0);
  EXPECT_EQ(callers(), other.offset / kCell);
  calls();
  answer(0);
  host_nodes::look(bench_.lease);
  EXPECT_EQ(callers(), other.offset / kCell) << "the other one waits on";
  EXPECT_EQ(other.head().next_caller, 0U);
  run_ready();
  EXPECT_TRUE(complete());
}

TEST_F(HostNodesOnWorkersTest, LaunchContinuedElsewhereClearsTheInFlightRecord) {
  host_behind({});
  make();
  bench_.in_flight[0].word = kLaunch | InFlight::kValid;
  launch();
  EXPECT_EQ(bench_.in_flight[0].word, 0U);
}

}  // namespace
}  // namespace dwell::device::host_nodes_test
