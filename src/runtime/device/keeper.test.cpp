// Starting and rolling of leases, and changes of images.
#include "tests/unit/expect_error.hpp"
#include "tests/unit/keeper_suite.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class KeeperTest : public KeeperSuite {};

// ---- Starting ----

TEST_F(KeeperTest, WithoutWorkNoLeaseStarts) {
  open();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
}

TEST_F(KeeperTest, WorkersWaitLongerForSuccessorsThatCannotStartBesideThem) {
  settings_.kernels_queue = true;
  open();
  submit();
  EXPECT_EQ(device_->last_lease().stretch_ticks, 16'000'000U >> device::kTickShift);
}

TEST_F(KeeperTest, ASubmitterStartsTheLeaseItself) {
  open();
  submit();
  EXPECT_EQ(starts(), 1);
  const device::Lease lease = device_->last_lease();
  EXPECT_EQ(lease.number, 1U);
  EXPECT_EQ(lease.workers, kWorkers);
  EXPECT_EQ(lease.crew, kWorkers / 8);
  EXPECT_EQ(lease.lease_ticks, 900'000U >> device::kTickShift) << "of the 2 ms that others wait";
  EXPECT_EQ(lease.stretch_ticks, 125'000U >> device::kTickShift);
  EXPECT_EQ(lease.idle_ticks, 1'000'000U >> device::kTickShift);
  EXPECT_EQ(lease.wakes, 1U);
  EXPECT_EQ(lease.lays_out, 1U) << "the first lease of all lays out the seats";
  EXPECT_EQ(lease.former_workers, 0U);
  EXPECT_EQ(told(bench_.report.launched), 1U);
  EXPECT_EQ(keeper_->workers(), kWorkers);
  submit();
  EXPECT_EQ(starts(), 1) << "one is on the device already";
}

TEST_F(KeeperTest, WorkersFitTheImage) {
  device_->room = 3;
  open();
  submit();
  EXPECT_EQ(device_->last_lease().workers, 3U);
  EXPECT_EQ(device_->last_lease().crew, 1U);
}

TEST_F(KeeperTest, NextLeaseStartsWhileWorkIsLeft) {
  open();
  const std::uint64_t position = submit();
  for (int turn = 1; turn < 5; ++turn) {
    device_->end_leases();
    ASSERT_TRUE(started(turn + 1));
  }
  bench_.finish(position);
  device_->end_leases();
  EXPECT_TRUE(rests());
}

TEST_F(KeeperTest, SubmitterStartsALeaseAfterAPause) {
  open();
  for (int turn = 1; turn < 20; ++turn) {
    const std::uint64_t position = submit();
    ASSERT_EQ(starts(), turn);
    bench_.finish(position);
    device_->end_leases();
    // In every second turn, the keeper has time to notice.
    if (turn % 2 == 0) std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(keeper_->leases(), 19U);
}

TEST_F(KeeperTest, ATaskMissedByALeaseStartsTheNext) {
  settings_.lease_time = 1s;
  open();
  for (int turn = 0; turn < 30; ++turn) {
    const int before = starts();
    submit();
    ASSERT_TRUE(started(before + 1)) << "turn " << turn;  // possibly by the keeper's thread
    if (turn % 2 == 0) std::this_thread::sleep_for(300us);
    device_->end_leases();
    hand_over();  // may see it before the keeper's thread
    ASSERT_TRUE(started(before + 2)) << "turn " << turn;
    finish_all();
    // Also ends a lease that the keeper's thread has started meanwhile.
    ASSERT_TRUE(eventually([&] {
      device_->end_leases();
      return keeper_->asleep();
    })) << "turn "
        << turn;
  }
}

// ---- Rolling ----

TEST_F(KeeperTest, TheNextLeaseStartsWhileOneWorks) {
  settings_.lease_time = 400ms;  // the next one starts after half of it
  open();
  submit();
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(starts(), 1) << "the first does not work yet";
  for (std::uint32_t lease = 1; lease < 4; ++lease) {
    const auto then = std::chrono::steady_clock::now();
    device_->begin_lease(lease);
    if (lease > 1) device_->end_lease(lease - 1);
    ASSERT_TRUE(started(static_cast<int>(lease) + 1));
    EXPECT_GE(std::chrono::steady_clock::now() - then, 100ms);
    const device::Lease next = device_->last_lease();
    EXPECT_EQ(next.number, lease + 1);
    EXPECT_EQ(next.wakes, 0U);
    EXPECT_EQ(next.lays_out, 0U);
    EXPECT_THAT(device_->leases(), ElementsAre(lease, lease + 1));
  }
  EXPECT_EQ(told(bench_.report.over), 0U) << "leases roll by themselves";
  EXPECT_EQ(told(bench_.report.end), 0U);
}

TEST_F(KeeperTest, AtMostOneLeaseWaits) {
  open();
  submit();
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 2);
}

TEST_F(KeeperTest, LeasesWithoutWorkDoNotRoll) {
  settings_.lease_time = 400ms;
  settings_.idle_time = 2ms;
  open();
  bench_.finish(submit());
  device_->begin_lease(1);
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(starts(), 1);
  submit();
  EXPECT_TRUE(started(2)) << "it was due when work came";
}

TEST_F(KeeperTest, LeasesRollWithoutWorkWhileIdleIsLonger) {
  settings_.idle_time = 10s;
  open();
  bench_.finish(submit());
  device_->begin_lease(1);
  EXPECT_TRUE(started(2));
}

TEST_F(KeeperTest, LongTasksInEarlierLeasesLeaveTheLastSlotToANewImage) {
  device_->obeys = false;
  open();
  submit();
  for (std::uint32_t lease = 1; lease < device::kMostLeases - 1; ++lease) {
    device_->begin_lease(lease);
    ASSERT_TRUE(started(static_cast<int>(lease) + 1));
  }
  device_->begin_lease(device::kMostLeases - 1);
  EXPECT_TRUE(rests());
  EXPECT_THAT(device_->leases(), ElementsAre(1, 2, 3));
  std::atomic<bool> done{false};
  std::jthread changer([&] {
    hand_over();
    done = true;
  });
  ASSERT_TRUE(started(4));
  EXPECT_TRUE(eventually([&] { return told(bench_.report.over) == 3; }));
  EXPECT_EQ(told(bench_.report.end), 0U);
  device_->end_lease(2);
  device_->end_lease(3);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(done) << "a task of the old image still runs";
  device_->begin_lease(4);
  EXPECT_TRUE(started(5)) << "the new image rolls meanwhile";
  device_->end_lease(1);
  changer.join();
  device_->obeys = true;
  EXPECT_TRUE(one_image_is_left());
}

TEST_F(KeeperTest, ASlotIsUsedAgainWhenItsLeaseHasLeft) {
  open();
  submit();
  device_->begin_lease(1);
  for (std::uint32_t lease = 2; lease < 20; ++lease) {
    ASSERT_TRUE(started(static_cast<int>(lease)));
    EXPECT_LT(device_->last_lease().slot, device::kMostLeases);
    device_->begin_lease(lease);
    if (lease > 2) device_->end_lease(lease - 1);  // the first lease stays
  }
  EXPECT_THAT(device_->leases(), testing::Contains(1U));
}

// ---- Images ----

TEST_F(KeeperTest, NewImageWithEqualWorkersNeedsNoPark) {
  open();
  submit();
  const int before = device_->finishes;
  device_->begin_lease(1);
  hand_over();
  EXPECT_EQ(device_->finishes, before);
  EXPECT_GE(starts(), 2);
  EXPECT_EQ(told(bench_.report.end), 0U);
  EXPECT_GE(told(bench_.report.over), 1U);
  EXPECT_THAT(device_->leases(), Not(testing::Contains(1U)));
  EXPECT_EQ(device_->last_lease().lays_out, 0U);
  EXPECT_TRUE(one_image_is_left());
}

TEST_F(KeeperTest, NewImageStartsBeforeOldLeasesAreAskedToEnd) {
  device_->obeys = false;
  settings_.lease_time = 10s;
  open();
  submit();
  device_->begin_lease(1);
  std::atomic<bool> done{false};
  std::jthread changer([&] {
    hand_over();
    done = true;
  });
  ASSERT_TRUE(eventually([&] { return told(bench_.report.over) == 1; }));
  EXPECT_THAT(device_->leases(), ElementsAre(1, 2));
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(done);
  device_->end_lease(1);
  changer.join();
  EXPECT_THAT(device_->leases(), ElementsAre(2));
}

TEST_F(KeeperTest, NewImageWithOtherWorkersParksAndReseats) {
  device_->begins = false;
  open();
  submit();
  const int before = device_->finishes;
  device_->room = 3;
  hand_over();
  EXPECT_GE(device_->finishes, before + 1);
  EXPECT_EQ(told(bench_.report.end), 1U);
  ASSERT_TRUE(started(2));
  const device::Lease lease = device_->last_lease();
  EXPECT_EQ(lease.workers, 3U);
  EXPECT_EQ(lease.crew, 1U);
  EXPECT_EQ(lease.wakes, 1U);
  EXPECT_EQ(lease.lays_out, 1U);
  EXPECT_EQ(lease.former_workers, kWorkers);
  EXPECT_EQ(lease.former_crew, kWorkers / 8);
  device_->begin_lease(2);
  ASSERT_TRUE(started(3));
  EXPECT_EQ(device_->last_lease().lays_out, 0U) << "they are laid out";
}

// With room for one lease only, an overtaking lease would take the room of the worker that it waits for.
TEST_F(KeeperTest, NoLeaseIsStartedBesideOneThatLaysOutTheSeats) {
  settings_.lease_time = 10s;
  device_->begins = false;
  open();
  submit();
  std::jthread changer([&] { keeper_->outlast_tasks(); });  // needs the next lease, whether or not the first one has begun
  std::this_thread::sleep_for(20ms);
  EXPECT_THAT(device_->leases(), ElementsAre(1));
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  EXPECT_EQ(device_->last_lease().lays_out, 0U);
  device_->end_lease(1);
}

TEST_F(KeeperTest, ALeaseThatLaidOutTheSeatsAndLeftWithoutWorkIsFollowed) {
  device_->begins = false;
  open();
  submit();
  device_->end_lease(1);
  ASSERT_TRUE(started(2));
  EXPECT_EQ(device_->last_lease().lays_out, 0U);
}

TEST_F(KeeperTest, PauseEmptiesTheDeviceAndRestartsTheLoop) {
  device_->begins = true;
  open();
  submit();
  ASSERT_TRUE(started(1));
  bool empty = false;
  int before = 0;
  EXPECT_TRUE(keeper_->pause(10s, [&] {
    empty = device_->leases().empty();
    before = starts();
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(starts(), before) << "none starts meanwhile";
  }));
  EXPECT_TRUE(empty);
  EXPECT_EQ(keeper_->pauses(), 1U);
  EXPECT_TRUE(started(before + 1)) << "for the task that waits";
  finish_all();
}

TEST_F(KeeperTest, APauseOfAnIdleLoopStartsNothing) {
  open();
  bool called = false;
  EXPECT_TRUE(keeper_->pause(10s, [&] { called = true; }));
  EXPECT_TRUE(called);
  EXPECT_EQ(starts(), 0);
  EXPECT_EQ(keeper_->pauses(), 0U);
}

TEST_F(KeeperTest, ALongLeaseLeavesForACallThatWaitsForTheDevice) {
  device_->begins = true;
  settings_.lease_time = 100s;  // no lease rolls by itself
  open();
  submit();
  ASSERT_TRUE(started(1));
  bool empty = false;
  keeper_->beside_tasks([&] { empty = device_->leases().empty(); });
  EXPECT_TRUE(empty);
  EXPECT_EQ(keeper_->pauses(), 1U);
  EXPECT_THROW(keeper_->beside_tasks([] { throw Error(errc::link_failed, "it does not load"); }), Error);
  finish_all();
}

TEST_F(KeeperTest, AShortLeaseStaysBesideACallThatWaitsForTheDevice) {
  device_->begins = true;
  open();
  submit();
  ASSERT_TRUE(started(1));
  bool called = false;
  keeper_->beside_tasks([&] { called = true; });
  EXPECT_TRUE(called);
  EXPECT_EQ(keeper_->pauses(), 0U);
  finish_all();
}

TEST_F(KeeperTest, LongTaskPreventsAPauseAndOthersRun) {
  device_->obeys = false;
  settings_.lease_time = 100s;  // no lease rolls by itself
  open();
  submit();
  device_->begin_lease(1);
  EXPECT_FALSE(keeper_->pause(20ms, [] { ADD_FAILURE() << "a lease is on the device"; }));
  EXPECT_TRUE(started(2)) << "where other tasks can run";
  EXPECT_EQ(told(bench_.report.end), 0U) << "that one is not asked to end";
  // Leases 1 and 2 end; then a long task keeps the next lease, which is asked to end at once.
  std::jthread ends([&] {
    std::this_thread::sleep_for(20ms);
    device_->end_lease(1);
    device_->end_lease(2);
  });
  EXPECT_FALSE(keeper_->pause(300ms, [] { ADD_FAILURE() << "a lease is on the device"; }));
  EXPECT_EQ(told(bench_.report.end), 3U);
  EXPECT_EQ(device_->last_lease().number, 4U) << "others need one that works";
  EXPECT_EQ(keeper_->pauses(), 0U) << "it was on the device all the time";
  device_->end_leases();
  finish_all();
  device_->obeys = true;
}

TEST_F(KeeperTest, AfterADelayedStartALeaseLeavesBeforeTheNextStarts) {
  device_->obeys = false;
  settings_.lease_time = 200ms;
  settings_.give_way = 50ms;
  open();
  device_->on_start = [] { std::this_thread::sleep_for(1ms); };
  submit();
  device_->begin_lease(1);
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 1) << "the call that held it up waits for its end";
  device_->on_start = nullptr;
  const auto end = std::chrono::steady_clock::now();
  device_->end_lease(1);
  submit();
  ASSERT_TRUE(started(2)) << "tasks wait";
  EXPECT_GE(std::chrono::steady_clock::now() - end, 50ms);
  device_->begin_lease(2);
  EXPECT_TRUE(started(3)) << "that was quick";
  device_->end_leases();
}

TEST_F(KeeperTest, ANewImageWhileNothingRunsStartsNothing) {
  open();
  hand_over();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
  EXPECT_TRUE(one_image_is_left());
}

TEST_F(KeeperTest, AnImageIsDestroyedOnlyWhenItsLastLeaseHasLeft) {
  device_->obeys = false;
  open();
  submit();
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  std::jthread changer([&] { hand_over(); });
  ASSERT_TRUE(started(3));
  device_->end_lease(1);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(device_->programs, 2);
  device_->end_lease(2);
  changer.join();
  device_->obeys = true;
  EXPECT_TRUE(one_image_is_left());
}

TEST_F(KeeperTest, AQuietHandOverAsksNoLeaseToEnd) {
  settings_.lease_time = 10s;
  open();
  submit();
  device_->begin_lease(1);
  EXPECT_TRUE(keeper_->hand_over_quietly(backend_.load({}), 0ns));
  EXPECT_TRUE(rests());
  EXPECT_THAT(device_->leases(), ElementsAre(1));
  EXPECT_EQ(told(bench_.report.over), 0U);
  EXPECT_EQ(told(bench_.report.end), 0U);
  EXPECT_EQ(device_->programs, 2) << "the lease runs the old image";
  device_->end_lease(1);
  EXPECT_TRUE(one_image_is_left());
}

TEST_F(KeeperTest, AQuietHandOverToAnotherNumberOfWorkersNeedsAPark) {
  open();
  const std::uint64_t task = submit();
  device_->room = 3;
  EXPECT_FALSE(keeper_->hand_over_quietly(backend_.load({}), 5ms));
  EXPECT_EQ(keeper_->workers(), kWorkers) << "nothing has changed";
  EXPECT_EQ(device_->programs, 1);
  EXPECT_EQ(told(bench_.report.end), 0U);
  bench_.finish(task);
  device_->end_leases();
  EXPECT_TRUE(keeper_->hand_over_quietly(backend_.load({}), 10s));
  EXPECT_EQ(keeper_->workers(), 3U);
}

// Any driver call may wait until the device is idle. This thread needs the same locks as other threads' calls.
TEST_F(KeeperTest, BurstEndIsSubmittedBeforeOtherDriverCalls) {
  settings_.bursts = true;
  open();
  const std::uint64_t task = submit();
  std::uint64_t tail = 0;
  device_->on_order = [&] {
    ASSERT_THAT(device_->leases(), ElementsAre(1));
    tail = bench_.queue.tail();
  };
  int stream = 0;
  EXPECT_TRUE(keeper_->try_burst(&stream));
  device_->end_leases();
  ASSERT_EQ(tail, task + 2);
  EXPECT_EQ(bench_.header(task + 1).source, device::source::pass);
  EXPECT_EQ(bench_.header(task + 1).flags, device::flag::pass::burst);
  EXPECT_EQ(bench_.named(task + 1), 1U);
}

TEST_F(KeeperTest, FailedOrderBehindABurstFailsTheDevice) {
  settings_.bursts = true;
  open();
  submit();
  device_->on_order = [] { throw Error(errc::device_lost, "the stream is gone"); };
  int stream = 0;
  const Error error = error_of([&] { keeper_->try_burst(&stream); });
  device_->end_leases();
  EXPECT_EQ(error.kind(), errc::device_lost);
  EXPECT_THAT(error.message(), HasSubstr("the stream is gone"));
  EXPECT_TRUE(keeper_->failed());
}

}  // namespace
}  // namespace dwell::runtime
