#include "device/admission.hpp"

#include <gtest/gtest.h>

#include "tests/unit/bench.hpp"

namespace dwell::device::admission_test {
namespace {

using test::Bench;

class AdmissionTest : public testing::Test {
 protected:
  Admission admit(const Header& header, u32 position) { return admit(header, position, position); }
  // `named`: word 2 of the task, as its flags define it.
  Admission admit(const Header& header, u32 position, u32 named) {
    task_ = Bench::quads(header, position, named);
    return admission::admit(bench_.lease, &task_, header, position, &drains_);
  }
  // Returns whether the task at `position` is now a share without groups, alone in the ready queue.
  bool is_cancelled(u32 position) {
    TaskQuads share;
    if (!ready_queue::try_take(bench_.lease, &share) || waiting() != 0 || share.quad[0].word[2] != position) return false;
    const Header header = Header::from(share.quad[0].word[0], share.quad[0].word[1]);
    return (header.flags & flag::share) != 0 && header.groups == 0 && bench_.lease.wide[position].status == status::cancelled;
  }
  u32 waiting() const { return bench_.control().tail.value - bench_.control().head.value; }

  Bench bench_{7, 3};
  TaskQuads task_{};
  u32 drains_ = 0;  // the drains that the fetcher has counted
};

TEST_F(AdmissionTest, ATaskWithoutOrderRuns) { EXPECT_EQ(admit(Bench::plain(0), 9), Admission::run); }

TEST_F(AdmissionTest, ATaskThatTheHostHasCancelledDoesNotRun) {
  constexpr u32 kMarked = flag::cancelled | flag::share;
  EXPECT_EQ(admit(Bench::plain(0, kMarked), 9), Admission::taken);
  EXPECT_TRUE(is_cancelled(9));
  // It still waits for its predecessor, however that ends.
  EXPECT_EQ(admit(Bench::plain(0, kMarked | flag::link | flag::hard), 10, 9), Admission::taken);
  EXPECT_EQ(waiting(), 0U);
  u32 waiter = 0;
  ASSERT_TRUE(complete(bench_.lease, Bench::plain(0, flag::tracked), 9, status::ok, &waiter));
  release(bench_.lease, waiters::position(bench_.lease, waiter, 9), false);
  EXPECT_TRUE(is_cancelled(10));
}

TEST_F(AdmissionTest, ATaskBehindADrainWaitsForIt) {
  Header behind = Bench::plain(0);
  behind.drains = 1;
  EXPECT_EQ(admit(behind, 9), Admission::not_yet);
  bench_.control().crew.drains = 1;
  EXPECT_EQ(admit(behind, 9), Admission::run);
  EXPECT_EQ(drains_, 1U);
}

TEST_F(AdmissionTest, ADrainWaitsForAllBefore) {
  bench_.control().completed.value = 8;
  EXPECT_EQ(admit(Bench::plain(0, flag::drain), 9), Admission::not_yet);
  bench_.control().completed.value = 9;
  EXPECT_EQ(admit(Bench::plain(0, flag::drain), 9), Admission::run);
}

TEST_F(AdmissionTest, PaddingIsCompleteWhenItIsFetched) {
  EXPECT_EQ(admit(Header{0, 0, 5, 0, 0, 0, source::pass}, 59), Admission::taken);
  EXPECT_TRUE(bench_.complete(59));
  EXPECT_EQ(bench_.control().completed.value, 5U);
  EXPECT_EQ(bench_.control().crew.over, 0U);
}

TEST_F(AdmissionTest, PaddingBehindADrainWaitsToo) {
  EXPECT_EQ(admit(Header{0, 0, 5, 0, 1, 0, source::pass}, 59), Admission::not_yet);
  EXPECT_FALSE(bench_.complete(59));
}

TEST_F(AdmissionTest, RequestToEndALeaseEndsIt) {
  EXPECT_EQ(admit(Header{0, 0, 1, flag::pass::close, 0, 0, source::pass}, 3, bench_.lease.number), Admission::taken);
  EXPECT_EQ(bench_.control().crew.over, bench_.lease.number);
  EXPECT_EQ(bench_.control().crew.end, 0U) << "its workers wait for their successors";
  EXPECT_EQ(admit(Header{0, 1, 1, flag::pass::close, 0, 0, source::pass}, 4, bench_.lease.number), Admission::taken);
  EXPECT_EQ(bench_.control().crew.end, bench_.lease.number);
}

TEST_F(AdmissionTest, ARequestForALeaseThatHasEndedChangesNothing) {
  bench_.lease.number = 0x82;
  bench_.control().crew.over = 0x81;
  EXPECT_EQ(admit(Header{0, 0, 1, flag::pass::close, 0, 0, source::pass}, 3, 0x80), Admission::taken);
  EXPECT_EQ(bench_.control().crew.over, 0x81U);
  EXPECT_TRUE(bench_.complete(3)) << "its slot is the host's again all the same";
  admit(Header{0, 0, 1, flag::pass::close, 0, 0, source::pass}, 4, 0x83);
  EXPECT_EQ(bench_.control().crew.over, 0x83U) << "the lease that waits";
}

TEST_F(AdmissionTest, ALinkedTaskIsHeldUntilTheOneBeforeIsComplete) {
  const Header header{3, 1, 1, flag::link | flag::tracked, 0};
  EXPECT_EQ(admit(header, 9, 7), Admission::taken);
  u32 successor = 0;
  EXPECT_TRUE(complete(bench_.lease, Bench::plain(0, flag::tracked), 7, 0, &successor));
  EXPECT_EQ(successor, 9U);
  TaskQuads held{};
  load_held(bench_.lease, &held, 9, 0, 1);
  EXPECT_EQ(held.quad[0].word[0], header.word0());
  EXPECT_EQ(held.quad[0].word[2], 9U) << "its position";
}

TEST_F(AdmissionTest, ALinkedTaskRunsWhenTheOneBeforeIsComplete) {
  u32 successor = 0;
  complete(bench_.lease, Bench::plain(0, flag::tracked), 7, 0, &successor);
  EXPECT_EQ(admit(Header{3, 1, 1, flag::link | flag::tracked, 0}, 9, 7), Admission::run);
  EXPECT_EQ(task_.quad[0].word[2], 9U) << "its position";
}

TEST_F(AdmissionTest, ALinkedTaskIsCancelledWhenTheOneBeforeHasFailed) {
  u32 successor = 0;
  complete(bench_.lease, Bench::plain(0, flag::tracked), 7, 40, &successor);
  EXPECT_EQ(admit(Header{3, 1, 1, flag::link | flag::tracked, 0}, 9, 7), Admission::taken);
  EXPECT_TRUE(is_cancelled(9));
  EXPECT_EQ(admit(Header{3, 8, 3, flag::link | flag::wide, 0}, 10, 7), Admission::taken);
  EXPECT_TRUE(is_cancelled(10));
  EXPECT_EQ(admit(Header{3, 1, 1, flag::link | flag::hard, 0}, 11, 7), Admission::run);
}

TEST_F(AdmissionTest, LinkedTaskIsCancelledOnRequestOfTheHost) {
  EXPECT_EQ(admit(Header{3, 1, 1, flag::failed, 0}, 9, 7), Admission::taken);
  EXPECT_TRUE(is_cancelled(9));
}

TEST_F(AdmissionTest, ALinkedDrainIsCancelledWhenTheOneBeforeHasFailed) {
  u32 successor = 0;
  complete(bench_.lease, Bench::plain(0), 6, 0, &successor);
  complete(bench_.lease, Bench::plain(0), 7, 40, &successor);
  const Header drain{3, 1, 1, flag::link | flag::drain, 0};
  EXPECT_EQ(admit(drain, 9, 7), Admission::not_yet);
  EXPECT_EQ(waiting(), 0U);
  bench_.control().completed.value = 9;
  EXPECT_EQ(admit(drain, 9, 6), Admission::run);
  EXPECT_EQ(task_.quad[0].word[2], 9U) << "its position";
  EXPECT_EQ(admit(drain, 9, 7), Admission::taken);
  EXPECT_TRUE(is_cancelled(9));
}

TEST_F(AdmissionTest, ATaskThatWaitsForSeveralIsHeldUntilAllAreComplete) {
  const Header header{3, 1, 2, flag::after | flag::tracked, 0};
  TaskQuads task = Bench::quads(header, 9, WaitList{3, 2}.word());
  task.quad[3] = Quad{0, {7, 0, 0}};
  task.quad[4] = Quad{0, {6, 0, 0}};
  EXPECT_EQ(admission::admit(bench_.lease, &task, header, 9, &drains_), Admission::taken);
  u32 waiter = 0;
  ASSERT_TRUE(complete(bench_.lease, Bench::plain(0, flag::tracked), 6, 0, &waiter));
  EXPECT_EQ(let_go_on(bench_.lease, 6, waiter, false).outcome, Outcome::none);
  ASSERT_TRUE(complete(bench_.lease, Bench::plain(0, flag::tracked), 7, 0, &waiter));
  EXPECT_EQ(let_go_on(bench_.lease, 7, waiter, false).position, 9U);
  TaskQuads held{};
  load_held(bench_.lease, &held, 9, 0, 1);
  EXPECT_EQ(held.quad[0].word[0], header.word0());
  EXPECT_EQ(held.quad[0].word[2], 9U) << "its position";
}

TEST_F(AdmissionTest, ATaskThatWaitsForSeveralRunsOrIsCancelledWhenAllAreComplete) {
  u32 waiter = 0;
  complete(bench_.lease, Bench::plain(0, flag::tracked), 6, 0, &waiter);
  complete(bench_.lease, Bench::plain(0, flag::tracked), 7, 40, &waiter);
  for (const u32 drain : {0U, +flag::drain}) {
    bench_.control().completed.value = 9;
    const Header header{3, 1, 2, flag::after | flag::tracked | drain, 0};
    TaskQuads task = Bench::quads(header, 9, WaitList{3, 2}.word());
    task.quad[3] = Quad{0, {7, 0, 1}};
    task.quad[4] = Quad{0, {6, 0, 0}};
    EXPECT_EQ(admission::admit(bench_.lease, &task, header, 9, &drains_), Admission::run);
    EXPECT_EQ(task.quad[0].word[2], 9U) << "its position";
    task.quad[0].word[2] = WaitList{3, 2}.word();
    task.quad[3].word[2] = 0;
    EXPECT_EQ(admission::admit(bench_.lease, &task, header, 9, &drains_), Admission::taken);
    EXPECT_TRUE(is_cancelled(9));
  }
}

TEST_F(AdmissionTest, GateCompletesWhenTheHostOpensIt) {
  const Header gate{3, 0, 1, flag::wide, 0, 0, source::gate};
  for (const u32 position : {9U, 10U, 11U}) {
    task_ = Bench::quads(gate, position);
    task_.quad[gates::kQuad].word[0] = 0;
    EXPECT_EQ(admission::admit(bench_.lease, &task_, gate, position, &drains_), Admission::taken);
  }
  for (int turn = 0; turn < 3; ++turn) gates::look(bench_.lease);
  EXPECT_EQ(waiting(), 0U);
  bench_.queue.open_gate(10);
  gates::look(bench_.lease);
  TaskQuads share;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
  EXPECT_EQ(share.quad[0].word[2], 10U);
  EXPECT_EQ(Header::from(share.quad[0].word[0], share.quad[0].word[1]).groups, 0U);
  EXPECT_EQ(bench_.lease.wide[10].status, status::ok);
  bench_.queue.open_gate(9);
  bench_.queue.open_gate(11);
  gates::look(bench_.lease);
  gates::look(bench_.lease);
  EXPECT_EQ(waiting(), 2U) << "each once";
  EXPECT_EQ(bench_.control().crew.gates, 0U);
}

TEST_F(AdmissionTest, OpenGateDoesNotWait) {
  const Header gate{3, 0, 1, flag::wide, 0, 0, source::gate};
  task_ = Bench::quads(gate, 9);
  task_.quad[gates::kQuad].word[0] = gates::kOpen;
  EXPECT_EQ(admission::admit(bench_.lease, &task_, gate, 9, &drains_), Admission::taken);
  EXPECT_EQ(waiting(), 1U);
  EXPECT_EQ(bench_.control().crew.gates, 0U);
}

TEST_F(AdmissionTest, ATaskOfNoGroupIsCompletedByItsWorker) {
  EXPECT_EQ(admit(Header{3, 0, 1, flag::wide, 0}, 9), Admission::taken);
  EXPECT_EQ(waiting(), 1U);
  EXPECT_EQ(bench_.lease.wide[9].status, status::ok);
}

TEST_F(AdmissionTest, ATaskOfSeveralSlotsIsHeldForItsWorker) {
  EXPECT_EQ(admit(Header{3, 1, 4, 0, 0}, 20), Admission::run);
  TaskQuads held{};
  load_held(bench_.lease, &held, 20, 1, 4);
  EXPECT_EQ(held.quad[15].word[2], 20U + 47);
}

TEST_F(AdmissionTest, AWideTaskIsSharedOut) {
  EXPECT_EQ(admit(Header{3, 8, 1, flag::wide, 0}, 9), Admission::taken);
  EXPECT_EQ(waiting(), 3U);
}

TEST_F(AdmissionTest, AWideTaskThatIsLinkedWaitsFirst) {
  EXPECT_EQ(admit(Header{3, 8, 1, flag::wide | flag::link | flag::tracked, 0}, 9, 8), Admission::taken);
  EXPECT_EQ(waiting(), 0U);
}

TEST_F(AdmissionTest, AWideDrainWaitsFirst) {
  EXPECT_EQ(admit(Header{3, 8, 1, flag::wide | flag::drain, 0}, 9), Admission::not_yet);
  EXPECT_EQ(waiting(), 0U);
}

}  // namespace
}  // namespace dwell::device::admission_test
