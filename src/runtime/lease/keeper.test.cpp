// Who starts leases and who notices their end, on a device whose leases begin and end as the test says.
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

  explicit KeeperTest(std::uint64_t first = 0) : bench_(7, kWorkers, first) {}
  ~KeeperTest() override {
    device_->obeys = true;
    keeper_.reset();
  }

  void open() {
    keeper_ = std::make_unique<Keeper>(backend_, bench_.queue, settings_, [](const std::vector<Keeper::Holder>& holders, bool running) {
      std::string text;
      for (const Keeper::Holder& holder : holders)
        text += "; worker " + std::to_string(holder.worker) + (running ? " ran " : " last ran ") + std::to_string(holder.opcode) + " at " +
                std::to_string(holder.position);
      return text;
    });
    install();
  }
  void install() {
    keeper_->hold();
    keeper_->install(backend_.load({}));
    keeper_->resume();
  }
  // Submits a task; its position.
  std::uint64_t submit() {
    const detail::Task task = test::task_of({});
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, task, &position));
    keeper_->submitted();
    return position;
  }
  void record_in_flight(std::uint32_t worker, std::uint64_t position, std::uint32_t opcode) {
    device::store<device::Order::relaxed, device::Scope::system>(
        &bench_.in_flight[worker].word, static_cast<u32>(position) | static_cast<u64>(opcode) << 32U | InFlight::kValid);
  }
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

  test::Bench bench_;
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  Keeper::Settings settings_ = test::keeper_settings(bench_, kWorkers);
  std::unique_ptr<Keeper> keeper_;
  std::atomic<std::uint32_t> alias_{7};
};

// ---- Starting ----

TEST_F(KeeperTest, WithoutWorkNothingStarts) {
  open();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
}

TEST_F(KeeperTest, ASubmitterStartsTheLeaseItself) {
  open();
  submit();
  EXPECT_EQ(starts(), 1);
  const device::Lease lease = device_->last_lease();
  EXPECT_EQ(lease.number, 1U);
  EXPECT_EQ(lease.workers, kWorkers);
  EXPECT_EQ(lease.crew, kWorkers / 8);
  EXPECT_EQ(lease.lease_ticks, 2'000'000U >> device::kTickShift);
  EXPECT_EQ(lease.idle_ticks, 1'000'000U >> device::kTickShift);
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
    device_->end_lease();
    ASSERT_TRUE(started(turn + 1));
  }
  bench_.finish(position);
  device_->end_lease();
  EXPECT_TRUE(rests());
}

TEST_F(KeeperTest, AfterARestTheNextSubmitterStartsIt) {
  open();
  for (int turn = 1; turn < 20; ++turn) {
    const std::uint64_t position = submit();
    ASSERT_EQ(starts(), turn);
    bench_.finish(position);
    device_->end_lease();
    // Sometimes the keeper has noticed, sometimes not yet.
    if (turn % 2 == 0) std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(keeper_->leases(), 19U);
}

TEST_F(KeeperTest, LeasesFollowWithoutWorkWhileIdleIsLonger) {
  settings_.lease_time = 1ms;
  settings_.idle_time = 400ms;
  open();
  bench_.finish(submit());
  std::this_thread::sleep_for(2ms);
  device_->end_lease();
  EXPECT_TRUE(started(2));
  std::this_thread::sleep_for(450ms);
  const int before = starts();
  device_->end_lease();
  EXPECT_TRUE(rests()) << "idle is over";
  EXPECT_EQ(starts(), before);
}

TEST_F(KeeperTest, ALeaseThatEndsEarlyIsNotFollowedByOneWithoutWork) {
  settings_.lease_time = 10s;
  settings_.idle_time = 20s;
  open();
  bench_.finish(submit());
  device_->end_lease();
  EXPECT_TRUE(rests());
}

// ---- Holding ----

TEST_F(KeeperTest, HoldAsksTheLeaseToEndAndWaitsForIt) {
  device_->obeys = false;
  open();
  submit();
  std::atomic<bool> held{false};
  std::jthread holder([&] {
    keeper_->hold();
    held = true;
  });
  const auto asked = [&] { return device::load<device::Order::relaxed, device::Scope::system>(&bench_.report.end) == 1; };
  EXPECT_TRUE(eventually(asked));
  EXPECT_TRUE(eventually([&] { return bench_.queue.tail() == 2; })) << "the ring says so too";
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(held);
  const int before = device_->finishes;
  device_->end_lease();
  holder.join();
  EXPECT_EQ(device_->finishes, before + 1) << "the device must be rid of the lease, which has only reported its end";
}

TEST_F(KeeperTest, NothingStartsWhileItIsHeld) {
  open();
  keeper_->hold();
  submit();
  EXPECT_TRUE(rests());
  EXPECT_EQ(starts(), 0);
  keeper_->resume();
  EXPECT_EQ(starts(), 1);
}

TEST_F(KeeperTest, HoldsAreCounted) {
  open();
  EXPECT_THROW(keeper_->resume(), Error);
  for (int i = 0; i < 3; ++i) keeper_->hold();
  submit();
  keeper_->resume();
  keeper_->resume();
  EXPECT_EQ(starts(), 0);
  keeper_->resume();
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(keeper_->resume(), Error);
}

TEST_F(KeeperTest, AllHoldsCanBeUndoneAtOnce) {
  open();
  for (int i = 0; i < 3; ++i) keeper_->hold();
  submit();
  keeper_->resume_all();
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(keeper_->resume(), Error);
}

TEST_F(KeeperTest, HoldAtEndAsksForNothing) {
  device_->obeys = false;
  open();
  const std::uint64_t task = submit();
  EXPECT_FALSE(keeper_->hold_at_end(20ms)) << "the lease goes on";
  EXPECT_EQ((device::load<device::Order::relaxed, device::Scope::system>(&bench_.report.end)), 0U);
  bench_.finish(task);
  const std::uint64_t next = submit();
  device_->end_lease();
  EXPECT_TRUE(started(2)) << "what was given up holds nothing";
  bench_.finish(next);
  std::jthread end([&] {
    std::this_thread::sleep_for(5ms);
    device_->end_lease();
  });
  EXPECT_TRUE(keeper_->hold_at_end(10s));
  submit();
  EXPECT_TRUE(rests());
  keeper_->resume();
  EXPECT_TRUE(started(3));
}

TEST_F(KeeperTest, TheProgramBeforeIsDestroyed) {
  open();
  EXPECT_EQ(device_->programs, 1);
  install();
  EXPECT_EQ(device_->programs, 1);
}

TEST_F(KeeperTest, WorkersAreAsManyAsFitAndAsWereAskedFor) {
  open();
  const auto program = backend_.load({});
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers);
  device_->room = kWorkers - 1;
  EXPECT_EQ(keeper_->workers_of(*program), kWorkers - 1);
  EXPECT_EQ(keeper_->workers(), kWorkers) << "of the program that was installed";
  device_->room = 0;
  EXPECT_EQ(keeper_->workers_of(*program), 0U);
}

TEST_F(KeeperTest, ItEndsItsLeaseBeforeItGoes) {
  open();
  bench_.finish(submit());
  keeper_.reset();
  EXPECT_EQ((device::load<device::Order::relaxed, device::Scope::system>(&bench_.report.left)), 1U);
  EXPECT_EQ(device_->programs, 0);
}

// ---- Failing ----

TEST_F(KeeperTest, ALeaseThatCannotStartFailsTheRuntime) {
  open();
  device_->refuses_start = true;
  submit();
  ASSERT_TRUE(keeper_->failed());
  EXPECT_EQ(keeper_->failure().kind(), errc::device_lost);
  EXPECT_THAT(keeper_->failure().message(), HasSubstr("the launch is refused"));
  EXPECT_THROW(keeper_->hold(), Error);
}

TEST_F(KeeperTest, AFaultNamesAllThatWereRunning) {
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
  EXPECT_THROW(keeper_->hold(), Error) << "whoever waits for the device is told";
}

TEST_F(KeeperTest, AFaultEndsAWaitForTheDevice) {
  device_->obeys = false;
  open();
  submit();
  std::jthread holder([&] { EXPECT_THROW(keeper_->hold(), Error); });
  std::this_thread::sleep_for(5ms);
  device_->set_fault("illegal address");
  holder.join();
}

TEST_F(KeeperTest, ATaskThatOverstaysIsNamedAndTheDeviceAbandoned) {
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

TEST_F(KeeperTest, NobodyWaitsForADeviceThatWasGivenUp) {
  device_->obeys = false;
  open();
  submit();
  std::jthread holder([&] { EXPECT_THROW(keeper_->hold(), Error); });
  std::this_thread::sleep_for(20ms);
  keeper_->give_up(Error(errc::task_timeout, "a kernel hangs"));
  holder.join();
  EXPECT_TRUE(device_->abandoned);
  EXPECT_EQ(keeper_->failure().message(), "a kernel hangs");
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

TEST_F(KeeperAtLargePositions, BlameNamesThe64BitTicket) {
  device_->obeys = false;
  open();
  for (int i = 0; i < 100; ++i) submit();
  record_in_flight(0, (3ULL << 32U) - 1, 7);
  record_in_flight(1, 3ULL << 32U, 7);
  record_in_flight(2, (3ULL << 32U) + 36, 7);  // not submitted yet: what another lease has left there
  device_->set_fault("illegal address");
  ASSERT_TRUE(eventually([&] { return keeper_->failed(); }));
  EXPECT_THAT(keeper_->failure().message(),
              AllOf(HasSubstr("worker 0 ran 7 at 12884901887"), HasSubstr("worker 1 ran 7 at 12884901888"), Not(HasSubstr("worker 2"))));
}

}  // namespace
}  // namespace dwell::runtime
