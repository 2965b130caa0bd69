#include "device/cancels.hpp"

#include <gtest/gtest.h>

#include "tests/unit/bench.hpp"

namespace dwell::device::cancels_test {
namespace {

using test::Bench;

class CancelsTest : public testing::Test {
 protected:
  void ask(u32 position) {
    bench_.report.cancelled[bench_.report.cancels % kCancels] = position;
    ++bench_.report.cancels;
  }
  void push(const Header& header, u32 position) { ready_queue::push(bench_.lease, Bench::quads(header, position)); }
  void hold(const Header& header, u32 position) { device::hold(bench_.lease, Bench::quads(header, position), position, header.slots); }
  static u32 flags_of(const Quad& head) { return Header::from(head.word[0], head.word[1]).flags; }
  u32 queued(u32 place) const { return flags_of(bench_.lease.queue[place].quad[0]); }
  u32 held(u32 index) const { return flags_of(bench_.lease.held[index].quad[0]); }

  static constexpr u32 kMarked = flag::cancelled | flag::share;
  Bench bench_{7, 3};
};

TEST_F(CancelsTest, AreHandledOnce) {
  cancels::look(bench_.lease);
  EXPECT_EQ(bench_.report.cancels_seen, 0U);
  push(Bench::plain(3, flag::memory), 5);
  ask(5);
  cancels::look_if_asked(bench_.lease);
  EXPECT_EQ(queued(0), flag::memory | kMarked);
  EXPECT_EQ(bench_.report.cancels_seen, 1U);
  EXPECT_EQ(bench_.control().crew.cancels, 1U);
  EXPECT_EQ(bench_.control().crew.marking, 0U);
}

TEST_F(CancelsTest, AreLeftToTheMarkingWorker) {
  push(Bench::plain(3), 5);
  ask(5);
  bench_.control().crew.marking = 1;
  cancels::look(bench_.lease);
  EXPECT_EQ(queued(0), 0U);
  EXPECT_EQ(bench_.report.cancels_seen, 0U);
}

TEST_F(CancelsTest, MarkAllPlacesOfATaskAndNoOther) {
  const Header wide{3, 8, 1, flag::wide | flag::share, 0};
  ready_queue::push_copies(bench_.lease, Bench::quads(wide, 5), 2);
  push(Bench::plain(3), 6);
  push(Bench::plain(3), 5 + bench_.capacity());
  hold(Bench::plain(3, flag::link | flag::hard), 7);
  hold(Bench::plain(3, flag::link), 8);
  for (const u32 position : {5U, 7U}) ask(position);
  cancels::look(bench_.lease);
  EXPECT_EQ(queued(0), flag::wide | kMarked);
  EXPECT_EQ(queued(1), flag::wide | kMarked);
  EXPECT_EQ(queued(2), 0U);
  EXPECT_EQ(queued(3), 0U) << "it is of the next lap";
  EXPECT_EQ(held(7), flag::link | flag::hard | kMarked);
  EXPECT_EQ(held(8), flag::link);
}

TEST_F(CancelsTest, DoNotTouchTasksOfOtherLaps) {
  hold(Bench::plain(3), 7 + bench_.capacity());
  ask(7);
  cancels::look(bench_.lease);
  EXPECT_EQ(held(7), 0U);
}

TEST_F(CancelsTest, DoNotTouchNodesAndTasksOfOperators) {
  // Word 2 of such tasks is not a position.
  push(Header{3, 1, 1, 0, 0, 0, source::node}, 5);
  push(Header{3, 1, 1, 0, 0, 0, source::spawned}, 5);
  ask(5);
  cancels::look(bench_.lease);
  EXPECT_EQ(queued(0), 0U);
  EXPECT_EQ(queued(1), 0U);
}

TEST_F(CancelsTest, TurnQueuedGangsIntoCancelledTasks) {
  constexpr u32 kToBeJoined = flag::wide | flag::share | flag::member::joins;
  push(Header{3, 2, 1, flag::wide | flag::share, 0, 0, source::gang}, 5);
  push(Header{3, 2, 1, kToBeJoined, 0, 0, source::member}, 6);
  ask(5);
  ask(6);
  cancels::look(bench_.lease);
  EXPECT_EQ(queued(0), flag::wide | kMarked);
  EXPECT_FALSE(Header::from(bench_.lease.queue[0].quad[0].word[0], bench_.lease.queue[0].quad[0].word[1]).is_gang());
  EXPECT_EQ(queued(1), kToBeJoined) << "it has begun";
}

TEST_F(CancelsTest, LeaveYieldedGangsAlone) {
  constexpr u32 kInLine = flag::wide | flag::share;
  hold(Header{3, 2, 1, kInLine, 0, 0, source::member}, 5);
  hold(Header{3, 2, 1, kInLine, 0, 0, source::gang}, 6);  // has not started
  ask(5);
  ask(6);
  cancels::look(bench_.lease);
  EXPECT_EQ(held(5), kInLine);
  EXPECT_EQ(held(6), flag::wide | kMarked);
}

TEST_F(CancelsTest, WideTaskFollowsItsFirstDraw) {
  const Header marked{3, 8, 1, flag::wide | kMarked, 0};
  Wide begun{};
  begun.next = 1;
  EXPECT_FALSE(cancels::ends(marked, &begun));
  EXPECT_EQ(begun.next, 1U);
  Wide fresh{};
  EXPECT_TRUE(cancels::ends(marked, &fresh));
  EXPECT_TRUE(cancels::ends(marked, &fresh)) << "the other shares";
  EXPECT_GE(fresh.next++, 8U) << "no group is left for shares without a mark";
  EXPECT_TRUE(cancels::ends(marked, &fresh));
  EXPECT_FALSE(cancels::ends(Header{3, 8, 1, flag::wide | flag::share, 0}, &fresh));
  EXPECT_TRUE(cancels::ends(Header{3, 1, 1, kMarked, 0}, nullptr)) << "it has no counters";
}

TEST_F(CancelsTest, HostQueuesRequestsBeyondTheList) {
  Bench bench{12, 2};
  std::atomic<std::uint32_t> alias{4};
  for (u32 i = 0; i < kCancels + 200; ++i) {
    std::uint64_t position = 0;
    ASSERT_TRUE(bench.queue.try_submit(alias, test::task_of({}), &position));
    ASSERT_TRUE(bench.queue.cancel(position));
    ASSERT_TRUE(bench.queue.cancel(position)) << "asked before";
    EXPECT_EQ(bench.header(position).flags & kMarked, kMarked);
  }
  EXPECT_EQ(bench.report.cancels, kCancels);
  for (u32 i = 0; i < kCancels; ++i) ASSERT_EQ(bench.report.cancelled[i], i);
  cancels::look(bench.lease);
  bench.queue.pass_on_cancels();
  EXPECT_EQ(bench.report.cancels, kCancels + 200);
  EXPECT_EQ(bench.report.cancelled[0], kCancels);
  bench.finish(0, status::cancelled);
  EXPECT_TRUE(bench.queue.result(0).asked);
  bench.finish(1);
  EXPECT_FALSE(bench.queue.cancel(0));
  EXPECT_FALSE(bench.queue.cancel(1));
  bench.queue.reap_done();
  EXPECT_FALSE(bench.queue.cancel(0));
  EXPECT_TRUE(bench.queue.result(0).asked);
  EXPECT_EQ(bench.queue.result(1).status, status::ok);
}

}  // namespace
}  // namespace dwell::device::cancels_test
