// Gates of launches, on a device that runs nothing and ends launches on request.
#include "runtime/complete/launch_gates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <dwell/error.hpp>

#include "device/gates.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/fake_backend.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
namespace flag = device::flag;

class LaunchGatesTest : public testing::Test {
 protected:
  void TearDown() override { notifier_.finish(); }  // its callbacks use the gates
  std::uint64_t launch() { return launches_.launch(*kernels_, {}, {"axpy<float>", {}, nullptr}) | detail::kLaunch; }
  static detail::Waits waits_for(const std::vector<std::uint64_t>& all, std::uint32_t any_result = 0) {
    detail::Waits waits;
    for (const std::uint64_t one : all) waits.position[waits.count++] = one;
    waits.any_result = any_result;
    return waits;
  }
  bool is_open(std::uint64_t position) const {
    const device::Slot& slot = bench_.ring[position % bench_.capacity()];
    return device::load_quad<device::Scope::system>(&slot.quad[device::gates::kQuad]).word[0] == device::gates::kOpen;
  }
  bool eventually_open(std::uint64_t position) const {
    for (int i = 0; i < 10'000 && !is_open(position); ++i) std::this_thread::sleep_for(1ms);
    return is_open(position);
  }

  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  std::unique_ptr<backend::LoadedModule> kernels_ = backend_.load_kernels({}, {});
  Launches launches_{backend_};
  test::Bench bench_{7, 1};
  Notifier notifier_{{}};
  LaunchGates gates_{bench_.queue, launches_, notifier_, false};
  std::atomic<std::uint32_t> alias_{5};
};

TEST_F(LaunchGatesTest, LaunchHasOneGateThatOpensAtItsEnd) {
  const std::uint64_t one = launch();
  const std::uint64_t two = launch();
  detail::Waits waits = waits_for({one, 77, two}, 4);
  EXPECT_TRUE(LaunchGates::are_needed(waits));
  ASSERT_TRUE(gates_.try_replace(waits, alias_));
  EXPECT_FALSE(LaunchGates::are_needed(waits));
  ASSERT_EQ(waits.count, 3U);
  EXPECT_EQ(waits.position[1], 77U);
  EXPECT_EQ(waits.any_result, 4U);
  const device::Header header = bench_.header(waits.position[0]);
  EXPECT_EQ(header.groups, 0U);
  EXPECT_EQ(header.source, device::source::gate);
  EXPECT_EQ(header.flags, flag::wide | flag::memory | flag::system | flag::tracked);
  detail::Waits again = waits_for({two, one});
  ASSERT_TRUE(gates_.try_replace(again, alias_));
  EXPECT_EQ(again.position[0], waits.position[2]);
  EXPECT_EQ(again.position[1], waits.position[0]);
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(is_open(waits.position[0]));
  device_->end_launch(1);
  EXPECT_TRUE(eventually_open(waits.position[2]));
  EXPECT_FALSE(is_open(waits.position[0]));
  device_->end_launch(0);
  EXPECT_TRUE(eventually_open(waits.position[0]));
}

TEST_F(LaunchGatesTest, EndedLaunchHasNoGate) {
  const std::uint64_t one = launch();
  const std::uint64_t two = launch();
  device_->end_launch(0);
  detail::Waits waits = waits_for({one, 77, 78, two}, 6);
  ASSERT_TRUE(gates_.try_replace(waits, alias_));
  ASSERT_EQ(waits.count, 3U);
  EXPECT_EQ(waits.position[0], 77U);
  EXPECT_EQ(waits.any_result, 3U);
  device_->end_launch(1);
}

TEST_F(LaunchGatesTest, WithoutRoomThereIsNoGate) {
  const std::vector<detail::FirstSlot> slots(bench_.capacity(), test::task_of({}).first);
  std::uint64_t last = 0;
  ASSERT_EQ(bench_.queue.try_submit_plain(alias_, slots.data(), slots.size(), &last), slots.size());
  const std::uint64_t one = launch();
  const std::uint64_t two = launch();
  detail::Waits waits = waits_for({one, two});
  EXPECT_FALSE(gates_.try_replace(waits, alias_));
  EXPECT_EQ(waits.position[0], one) << "as it was";
  device_->end_launch(0);
  std::this_thread::sleep_for(5ms);
  bench_.finish(0);
  ASSERT_TRUE(gates_.try_replace(waits, alias_));
  ASSERT_EQ(waits.count, 1U);
  EXPECT_EQ(waits.position[0], 128U);
  device_->end_launch(1);
  EXPECT_TRUE(eventually_open(128));
}

TEST_F(LaunchGatesTest, AllOpenWhenTheRuntimeEnds) {
  detail::Waits waits = waits_for({launch()});
  ASSERT_TRUE(gates_.try_replace(waits, alias_));
  notifier_.finish();
  EXPECT_TRUE(is_open(waits.position[0]));
  detail::Waits more = waits_for({launch()});
  DWELL_EXPECT_ERROR(static_cast<void>(gates_.try_replace(more, alias_)), errc::closed, testing::HasSubstr("closed"));
  for (const int i : {0, 1}) device_->end_launch(i);
}

TEST_F(LaunchGatesTest, WithBurstsTheSubmitterWaitsForTheLaunch) {
  LaunchGates gates(bench_.queue, launches_, notifier_, true);
  const std::uint64_t one = launch();
  detail::Waits waits = waits_for({one, 77});
  const std::uint64_t tail = bench_.queue.tail();
  EXPECT_FALSE(gates.try_replace(waits, alias_));
  std::jthread device([this] {
    std::this_thread::sleep_for(5ms);
    device_->end_launch(0);
  });
  gates.await(waits);
  EXPECT_TRUE(launches_.done(one & ~detail::kLaunch));
  ASSERT_TRUE(gates.try_replace(waits, alias_));
  ASSERT_EQ(waits.count, 1U);
  EXPECT_EQ(waits.position[0], 77U);
  EXPECT_EQ(bench_.queue.tail(), tail) << "no gate";
}

TEST_F(LaunchGatesTest, WithoutBurstsNobodyWaitsOnTheHost) {
  const detail::Waits waits = waits_for({launch()});
  gates_.await(waits);
  EXPECT_FALSE(launches_.done(0));
  device_->end_launch(0);
}

}  // namespace
}  // namespace dwell::runtime
