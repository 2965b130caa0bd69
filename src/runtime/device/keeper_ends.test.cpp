// Parking, and the keeper on a failed device.
#include "tests/unit/keeper_suite.hpp"

#include <optional>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class KeeperEndsTest : public KeeperSuite {};

// ---- Parking ----

TEST_F(KeeperEndsTest, AParkAsksTheLeasesToEndAndWaitsForThem) {
  device_->obeys = false;
  open();
  submit();
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  std::atomic<bool> parked{false};
  const int before = device_->finishes;
  std::jthread parker([&] {
    const ParkGuard guard = keeper_->park_loop();
    parked = true;
  });
  EXPECT_TRUE(eventually([&] { return told(bench_.report.end) == 2; }));
  EXPECT_TRUE(eventually([&] { return bench_.queue.tail() == 2; })) << "the ring says so too";
  device_->end_lease(2);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(parked);
  EXPECT_EQ(device_->finishes, before);
  device_->end_lease(1);
  parker.join();
  EXPECT_EQ(keeper_->pauses(), 1U);
  EXPECT_EQ(device_->finishes, before + 1) << "the device must be rid of the leases, which have only reported their end";
  EXPECT_TRUE(started(3)) << "the guard is gone";
}

TEST_F(KeeperEndsTest, NoLeaseStartsWhileParked) {
  open();
  keeper_->park();
  submit();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
  keeper_->resume();
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(keeper_->pauses(), 0U) << "it was not on the device";
}

TEST_F(KeeperEndsTest, ParksAreCounted) {
  open();
  EXPECT_THROW(keeper_->resume(), Error);
  for (int i = 0; i < 3; ++i) keeper_->park();
  submit();
  keeper_->resume();
  keeper_->resume();
  EXPECT_EQ(starts(), 0);
  keeper_->resume();
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(keeper_->resume(), Error);
}

TEST_F(KeeperEndsTest, ResumeAllUndoesAllParks) {
  open();
  for (int i = 0; i < 3; ++i) keeper_->park();
  submit();
  keeper_->resume_all();
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(keeper_->resume(), Error);
}

TEST_F(KeeperEndsTest, AResumeWithoutAParkDoesNotUndoAGuard) {
  open();
  {
    ParkGuard first = keeper_->park_loop();
    const ParkGuard guard = std::move(first);
    EXPECT_THROW(keeper_->resume(), Error);
    keeper_->resume_all();
    keeper_->park();
    keeper_->resume();
    submit();
    EXPECT_TRUE(rests());
    EXPECT_EQ(starts(), 0);
  }
  EXPECT_EQ(starts(), 1);
}

TEST_F(KeeperEndsTest, ANewImageWaitsForAParkToEnd) {
  open();
  submit();
  keeper_->park();
  hand_over();
  EXPECT_EQ(starts(), 1);
  keeper_->resume();
  EXPECT_TRUE(started(2));  // at once, or by the keeper's thread
}

TEST_F(KeeperEndsTest, TryParkAsksNoLeaseToEnd) {
  open();
  const std::uint64_t task = submit();
  EXPECT_FALSE(keeper_->try_park_loop(20ms)) << "the lease goes on";
  EXPECT_EQ(told(bench_.report.end), 0U);
  EXPECT_EQ(told(bench_.report.over), 0U);
  bench_.finish(task);
  const std::uint64_t next = submit();
  device_->end_leases();
  EXPECT_TRUE(started(2)) << "what was given up parks nothing";
  EXPECT_EQ(keeper_->pauses(), 0U);
  bench_.finish(next);
  std::jthread end([&] {
    std::this_thread::sleep_for(5ms);
    device_->end_leases();
  });
  std::optional<ParkGuard> guard = keeper_->try_park_loop(10s);
  ASSERT_TRUE(guard);
  EXPECT_EQ(keeper_->pauses(), 1U);
  submit();
  EXPECT_TRUE(rests());
  guard.reset();
  EXPECT_TRUE(started(3));
}

TEST_F(KeeperEndsTest, WorkersAreLimitedByRoomAndRequest) {
  open();
  const auto program = backend_.load({});
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers);
  device_->room = kWorkers - 1;
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers - 1);
  EXPECT_EQ(keeper_->workers(), kWorkers) << "of the image that runs";
  device_->room = 0;
  EXPECT_EQ(keeper_->workers_of(*program), 0U);
}

TEST_F(KeeperEndsTest, TheDestructorEndsItsLeases) {
  open();
  submit();
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  keeper_.reset();
  EXPECT_THAT(device_->leases(), testing::IsEmpty());
  EXPECT_EQ(device_->programs, 0);
}

TEST_F(KeeperEndsTest, LeasesRollAndImagesChangeUnderLoad) {
  device_->begins = true;
  settings_.lease_time = 400us;
  open();
  std::atomic<bool> stop{false};
  std::jthread submitter([&] {
    while (!stop) {
      const detail::Task task = test::task_of({});
      std::uint64_t position = 0;
      if (bench_.queue.try_submit(alias_, task, &position)) keeper_->submitted();
      finish_all();
      if (position % 64 == 0) std::this_thread::sleep_for(3ms);  // lets the loop fall asleep
    }
  });
  std::jthread workers([&] {
    while (!stop) {
      const std::vector<std::uint32_t> leases = device_->leases();
      if (leases.size() > 1 && told(bench_.report.begun) == leases.front()) device_->begin_lease(leases[1]);
      if (leases.size() > 1) device_->end_lease(leases.front());
      std::this_thread::sleep_for(100us);
    }
  });
  for (int turn = 0; turn < 40; ++turn) {
    device_->room = turn % 8 == 7 ? 8 : 64;
    hand_over();
    if (turn % 5 == 0) const ParkGuard guard = keeper_->park_loop();
    std::this_thread::sleep_for(1ms);
  }
  stop = true;
  submitter.join();
  workers.join();
  EXPECT_FALSE(keeper_->failed());
  EXPECT_GE(starts(), 8);
}

// ---- Failing ----

TEST_F(KeeperEndsTest, AFailedStartFailsTheRuntime) {
  open();
  device_->refuses_start = true;
  submit();
  ASSERT_TRUE(keeper_->failed());
  EXPECT_EQ(keeper_->failure().kind(), errc::device_lost);
  EXPECT_THAT(keeper_->failure().message(), HasSubstr("the launch is refused"));
  EXPECT_THROW(park(), Error);
}

TEST_F(KeeperEndsTest, AFaultEndsAWaitForTheDevice) {
  device_->obeys = false;
  open();
  submit();
  std::jthread holder([&] { EXPECT_THROW(park(), Error); });
  std::this_thread::sleep_for(5ms);
  device_->set_fault("illegal address");
  holder.join();
  EXPECT_THROW(park(), Error) << "whoever waits for the device is told";
}

TEST_F(KeeperEndsTest, AFaultEndsAWaitForTheLeasesOfAnOldImage) {
  device_->obeys = false;
  open();
  submit();
  device_->begin_lease(1);
  std::jthread changer([&] { EXPECT_THROW(hand_over(), Error); });
  ASSERT_TRUE(started(2));
  device_->set_fault("illegal address");
  changer.join();
  device_->end_leases();
}

TEST_F(KeeperEndsTest, ThreadDetectsTimeouts) {
  device_->obeys = false;
  settings_.task_timeout = 30ms;
  open();
  for (int i = 0; i < 3; ++i) submit();
  record_in_flight(3, 1, 7);
  ASSERT_TRUE(eventually([&] { return keeper_->failed(); }));
  EXPECT_EQ(keeper_->failure().kind(), errc::task_timeout);
  EXPECT_THAT(keeper_->failure().message(), HasSubstr("; worker 3 ran 7 at 1"));
}

TEST_F(KeeperEndsTest, NoThreadWaitsForAnAbandonedDevice) {
  device_->obeys = false;
  open();
  submit();
  std::jthread holder([&] { EXPECT_THROW(park(), Error); });
  std::this_thread::sleep_for(20ms);
  keeper_->give_up(Error(errc::task_timeout, "a kernel hangs"));
  holder.join();
  EXPECT_TRUE(device_->abandoned);
  EXPECT_EQ(keeper_->failure().message(), "a kernel hangs");
}

TEST_F(KeeperEndsTest, WorkersOfAnAbandonedDeviceAreAskedToLeave) {
  device_->obeys = false;
  open();
  submit();
  keeper_->give_up(Error(errc::task_timeout, "a kernel hangs"));
  EXPECT_EQ(told(bench_.report.end), told(bench_.report.launched));
}

TEST_F(KeeperEndsTest, NoLeaseStartsAfterRetire) {
  open();
  submit();
  keeper_->retire();
  const auto leases = keeper_->leases();
  keeper_->park();
  keeper_->resume();
  submit();
  EXPECT_EQ(keeper_->leases(), leases);
}

}  // namespace
}  // namespace dwell::runtime
