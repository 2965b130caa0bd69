// Starts and ends of leases, on a device whose leases begin and end as the test says.
#include "runtime/lease/keeper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "tests/unit/bench.hpp"
#include "tests/unit/fake_backend.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using device::InFlight;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
  return condition();
}

class KeeperTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kWorkers = 16;

  // A lease works when a test says so: then the next one is due.
  explicit KeeperTest(std::uint64_t first = 0) : bench_(7, kWorkers, first) { device_->begins = false; }
  ~KeeperTest() override {
    device_->obeys = true;
    const bool failed = keeper_ != nullptr && keeper_->failed();
    keeper_.reset();
    if (failed) return;  // nobody waits for such a device
    EXPECT_EQ(device_->early, 0) << "an image was destroyed under a lease of it";
  }

  void open() {
    keeper_ = std::make_unique<Keeper>(backend_, bench_.queue, settings_, [](const std::vector<Keeper::Holder>& holders, bool running) {
      std::string text;
      for (const Keeper::Holder& holder : holders)
        text += "; worker " + std::to_string(holder.worker) + (running ? " ran " : " last ran ") + std::to_string(holder.opcode) + " at " +
                std::to_string(holder.position);
      return text;
    });
    hand_over();
  }
  void park() { const ParkGuard guard = keeper_->park_loop(); }
  void hand_over() { keeper_->hand_over(backend_.load({})); }
  // Submits a task; its position.
  std::uint64_t submit() {
    const detail::Task task = test::task_of({});
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, task, &position));
    keeper_->submitted();
    return position;
  }
  // Completes all tasks, and what the crew passes over: the keeper's requests.
  void finish_all() {
    for (std::uint64_t at = bench_.queue.reaped(); at < bench_.queue.tail(); ++at) bench_.finish(at);
  }
  void record_in_flight(std::uint32_t worker, std::uint64_t position, std::uint32_t opcode) {
    device::store<device::Order::relaxed, device::Scope::system>(
        &bench_.in_flight[worker].word, static_cast<u32>(position) | static_cast<u64>(opcode) << 32U | InFlight::kValid);
  }
  static u32 told(const u32& word) { return device::load<device::Order::acquire, device::Scope::system>(&word); }
  int starts() const { return device_->starts; }
  bool started(int times) const {
    return eventually([&] { return starts() >= times; });
  }
  // Whether nothing starts for a while.
  bool rests() const {
    const int before = starts();
    std::this_thread::sleep_for(15ms);
    return starts() == before;
  }

  // Images go while no lease is on the device.
  bool one_image_is_left() {
    const ParkGuard parked = keeper_->park_loop();
    return eventually([this] { return device_->programs == 1; });
  }

  test::Bench bench_;
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  Keeper::Settings settings_ = test::keeper_settings(bench_, kWorkers);
  std::unique_ptr<Keeper> keeper_;
  std::atomic<std::uint32_t> alias_{7};
};

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

TEST_F(KeeperTest, WorkersAreAsManyAsTheImageLeavesRoomFor) {
  device_->room = 3;
  open();
  submit();
  EXPECT_EQ(device_->last_lease().workers, 3U);
  EXPECT_EQ(device_->last_lease().crew, 1U);
}

TEST_F(KeeperTest, ALeaseFollowsWhileWorkIsLeft) {
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

TEST_F(KeeperTest, TheNextSubmitterStartsALeaseAfterARest) {
  open();
  for (int turn = 1; turn < 20; ++turn) {
    const std::uint64_t position = submit();
    ASSERT_EQ(starts(), turn);
    bench_.finish(position);
    device_->end_leases();
    // Sometimes the keeper has noticed, sometimes not yet.
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
    ASSERT_EQ(starts(), before + 1);
    if (turn % 2 == 0) std::this_thread::sleep_for(300us);
    device_->end_leases();
    hand_over();  // may note it before the keeper's thread
    ASSERT_TRUE(started(before + 2)) << "turn " << turn;
    finish_all();
    device_->end_leases();
    std::this_thread::sleep_for(3ms);
  }
}

// ---- Rolling ----

TEST_F(KeeperTest, TheNextLeaseStartsWhileOneWorks) {
  settings_.lease_time = 400ms;  // half of which a lease works
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
    if (lease > 2) device_->end_lease(lease - 1);  // and the first stays
  }
  EXPECT_THAT(device_->leases(), testing::Contains(1U));
}

// ---- Images ----

TEST_F(KeeperTest, ANewImageOfAsManyWorkersTakesOverWithoutAPark) {
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

TEST_F(KeeperTest, ANewImageStartsBeforeTheLeasesOfTheOldOneAreAskedOver) {
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

TEST_F(KeeperTest, ANewImageOfAnotherNumberOfWorkersParksAndReseats) {
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

// Where there is room for one lease alone, one that overtakes it would take the room of the worker that it waits for.
TEST_F(KeeperTest, NoLeaseIsStartedBesideOneThatLaysOutTheSeats) {
  settings_.lease_time = 10s;
  device_->begins = false;
  open();
  submit();
  std::jthread changer([&] { keeper_->outlast_tasks(); });  // wants the next lease, whether the first one has begun or not
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

TEST_F(KeeperTest, APauseFindsTheDeviceEmptyAndLetsTheLoopComeBack) {
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
  EXPECT_TRUE(started(before + 1)) << "for the task that waits";
  finish_all();
}

TEST_F(KeeperTest, APauseOfAnIdleLoopStartsNothing) {
  open();
  bool called = false;
  EXPECT_TRUE(keeper_->pause(10s, [&] { called = true; }));
  EXPECT_TRUE(called);
  EXPECT_EQ(starts(), 0);
}

TEST_F(KeeperTest, ATaskThatRunsLongKeepsTheLoopFromPausingAndOthersGoOn) {
  device_->obeys = false;
  settings_.lease_time = 100s;  // none rolls by itself
  open();
  submit();
  device_->begin_lease(1);
  EXPECT_FALSE(keeper_->pause(20ms, [] { ADD_FAILURE() << "a lease is on the device"; }));
  EXPECT_TRUE(started(2)) << "where other tasks can run";
  EXPECT_EQ(told(bench_.report.end), 0U) << "that one is not asked to end";
  // What ran has ended; then a task keeps the lease that is asked to end at once.
  std::jthread ends([&] {
    std::this_thread::sleep_for(20ms);
    device_->end_lease(1);
    device_->end_lease(2);
  });
  EXPECT_FALSE(keeper_->pause(300ms, [] { ADD_FAILURE() << "a lease is on the device"; }));
  EXPECT_EQ(told(bench_.report.end), 3U);
  EXPECT_EQ(device_->last_lease().number, 4U) << "others need one that works";
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

// ---- Parking ----

TEST_F(KeeperTest, AParkAsksTheLeasesToEndAndWaitsForThem) {
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
  EXPECT_EQ(device_->finishes, before + 1) << "the device must be rid of the leases, which have only reported their end";
  EXPECT_TRUE(started(3)) << "the guard is gone";
}

TEST_F(KeeperTest, NoLeaseStartsWhileParked) {
  open();
  keeper_->park();
  submit();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
  keeper_->resume();
  EXPECT_EQ(starts(), 1);
}

TEST_F(KeeperTest, ParksAreCounted) {
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

TEST_F(KeeperTest, AllParksCanBeUndoneAtOnce) {
  open();
  for (int i = 0; i < 3; ++i) keeper_->park();
  submit();
  keeper_->resume_all();
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(keeper_->resume(), Error);
}

TEST_F(KeeperTest, AResumeWithoutAParkDoesNotUndoAGuard) {
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

TEST_F(KeeperTest, ANewImageWaitsForAParkToEnd) {
  open();
  submit();
  keeper_->park();
  hand_over();
  EXPECT_EQ(starts(), 1);
  keeper_->resume();
  EXPECT_TRUE(started(2));  // at once, or by the keeper's thread
}

TEST_F(KeeperTest, ATryToParkAsksNoLeaseToEnd) {
  open();
  const std::uint64_t task = submit();
  EXPECT_FALSE(keeper_->try_park_loop(20ms)) << "the lease goes on";
  EXPECT_EQ(told(bench_.report.end), 0U);
  EXPECT_EQ(told(bench_.report.over), 0U);
  bench_.finish(task);
  const std::uint64_t next = submit();
  device_->end_leases();
  EXPECT_TRUE(started(2)) << "what was given up parks nothing";
  bench_.finish(next);
  std::jthread end([&] {
    std::this_thread::sleep_for(5ms);
    device_->end_leases();
  });
  std::optional<ParkGuard> guard = keeper_->try_park_loop(10s);
  ASSERT_TRUE(guard);
  submit();
  EXPECT_TRUE(rests());
  guard.reset();
  EXPECT_TRUE(started(3));
}

TEST_F(KeeperTest, WorkersAreAsManyAsFitAndAsWereAskedFor) {
  open();
  const auto program = backend_.load({});
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers);
  device_->room = kWorkers - 1;
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers - 1);
  EXPECT_EQ(keeper_->workers(), kWorkers) << "of the image that runs";
  device_->room = 0;
  EXPECT_EQ(keeper_->workers_of(*program), 0U);
}

TEST_F(KeeperTest, TheDestructorEndsItsLeases) {
  open();
  submit();
  device_->begin_lease(1);
  ASSERT_TRUE(started(2));
  keeper_.reset();
  EXPECT_THAT(device_->leases(), testing::IsEmpty());
  EXPECT_EQ(device_->programs, 0);
}

TEST_F(KeeperTest, LeasesRollAndImagesChangeUnderLoad) {
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
      if (position % 64 == 0) std::this_thread::sleep_for(3ms);  // the loop may fall asleep
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

TEST_F(KeeperTest, AFailedStartFailsTheRuntime) {
  open();
  device_->refuses_start = true;
  submit();
  ASSERT_TRUE(keeper_->failed());
  EXPECT_EQ(keeper_->failure().kind(), errc::device_lost);
  EXPECT_THAT(keeper_->failure().message(), HasSubstr("the launch is refused"));
  EXPECT_THROW(park(), Error);
}

TEST_F(KeeperTest, AFaultNamesAllRunningTasks) {
  device_->obeys = false;
  open();
  for (int i = 0; i < 5; ++i) submit();
  bench_.finish(2);
  record_in_flight(0, 1, 7);
  record_in_flight(5, 2, 7);  // complete
  record_in_flight(9, 4, 8);
  device_->set_fault("illegal address");
  ASSERT_TRUE(eventually([&] { return keeper_->failed(); }));
  EXPECT_EQ(keeper_->failure().kind(), errc::device_lost);
  EXPECT_THAT(keeper_->failure().message(),
              AllOf(HasSubstr("illegal address; worker 0 ran 7 at 1; worker 9 ran 8 at 4"), Not(HasSubstr("at 2"))));
  EXPECT_THROW(park(), Error) << "whoever waits for the device is told";
}

TEST_F(KeeperTest, AFaultEndsAWaitForTheDevice) {
  device_->obeys = false;
  open();
  submit();
  std::jthread holder([&] { EXPECT_THROW(park(), Error); });
  std::this_thread::sleep_for(5ms);
  device_->set_fault("illegal address");
  holder.join();
}

TEST_F(KeeperTest, AFaultEndsAWaitForTheLeasesOfAnOldImage) {
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

TEST_F(KeeperTest, AnOverstayingTaskIsNamedAndTheDeviceAbandoned) {
  device_->obeys = false;
  settings_.task_timeout = 30ms;
  open();
  for (int i = 0; i < 3; ++i) submit();
  record_in_flight(3, 1, 7);
  ASSERT_TRUE(eventually([&] { return keeper_->failed(); }));
  EXPECT_EQ(keeper_->failure().kind(), errc::task_timeout);
  EXPECT_THAT(keeper_->failure().message(), AllOf(HasSubstr("30 ms"), HasSubstr("; worker 3 ran 7 at 1")));
  EXPECT_TRUE(device_->abandoned);
}

TEST_F(KeeperTest, NoThreadWaitsForAnAbandonedDevice) {
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

TEST_F(KeeperTest, WorkersOfAnAbandonedDeviceAreAskedToLeave) {
  device_->obeys = false;
  open();
  submit();
  keeper_->give_up(Error(errc::task_timeout, "a kernel hangs"));
  EXPECT_EQ(told(bench_.report.end), told(bench_.report.launched));
}

TEST_F(KeeperTest, NoLeaseStartsAfterRetire) {
  open();
  submit();
  keeper_->retire();
  const auto leases = keeper_->leases();
  keeper_->park();
  keeper_->resume();
  submit();
  EXPECT_EQ(keeper_->leases(), leases);
}

TEST_F(KeeperTest, ManyTasksOnOneWorkerDoNotOverstay) {
  device_->obeys = false;
  settings_.task_timeout = 400ms;
  open();
  for (int i = 0; i < 40; ++i) {
    record_in_flight(3, submit(), 7);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_FALSE(keeper_->failed());
}

class KeeperAtLargePositions : public KeeperTest {
 protected:
  KeeperAtLargePositions() : KeeperTest((3ULL << 32U) - 64) {}
};

TEST_F(KeeperAtLargePositions, TheFailureNamesThe64BitTicket) {
  device_->obeys = false;
  open();
  for (int i = 0; i < 100; ++i) submit();
  record_in_flight(0, (3ULL << 32U) - 1, 7);
  record_in_flight(1, 3ULL << 32U, 7);
  record_in_flight(2, (3ULL << 32U) + 36, 7);  // not submitted yet: a record that another lease has left
  device_->set_fault("illegal address");
  ASSERT_TRUE(eventually([&] { return keeper_->failed(); }));
  EXPECT_THAT(keeper_->failure().message(),
              AllOf(HasSubstr("worker 0 ran 7 at 12884901887"), HasSubstr("worker 1 ran 7 at 12884901888"), Not(HasSubstr("worker 2"))));
}

}  // namespace
}  // namespace dwell::runtime
