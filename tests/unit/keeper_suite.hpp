// Shared by the tests of the keeper, on a device whose leases begin and end as the test says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/keeper.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/fake_backend.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {

inline bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return condition();
}

class KeeperSuite : public testing::Test {
 protected:
  static constexpr std::uint32_t kWorkers = 16;

  // A lease begins only when a test says so; then the next one is due.
  explicit KeeperSuite(std::uint64_t first = 0) : bench_(7, kWorkers, first) { device_->begins = false; }
  ~KeeperSuite() override {
    device_->obeys = true;
    const bool failed = keeper_ != nullptr && keeper_->failed();
    keeper_.reset();
    if (failed) return;  // no thread waits for such a device
    EXPECT_EQ(device_->early, 0) << "an image was destroyed under a lease of it";
  }

  void open() {
    keeper_ = std::make_unique<Keeper>(backend_, bench_.queue, settings_,
                                       [](std::string text, const std::vector<InFlightTasks::Holder>& holders, bool running) {
                                         for (const InFlightTasks::Holder& holder : holders)
                                           text += "; worker " + std::to_string(holder.worker) + (running ? " ran " : " last ran ") +
                                                   std::to_string(holder.opcode) + " at " + std::to_string(holder.position);
                                         return text;
                                       });
    hand_over();
  }
  void park() { const ParkGuard guard = keeper_->park_loop(); }
  void hand_over() { keeper_->hand_over(backend_.load({})); }
  // Submits a task. Returns its position.
  std::uint64_t submit() {
    const detail::Task task = test::task_of({});
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, task, &position));
    keeper_->submitted();
    return position;
  }
  // Completes all tasks, including the keeper's requests, which the crew passes over.
  void finish_all() {
    for (std::uint64_t at = bench_.queue.reaped(); at < bench_.queue.tail(); ++at) bench_.finish(at);
  }
  void record_in_flight(std::uint32_t worker, std::uint64_t position, std::uint32_t opcode) {
    device::store<device::Order::relaxed, device::Scope::system>(
        &bench_.in_flight[worker].word, static_cast<u32>(position) | static_cast<u64>(opcode) << 32U | device::InFlight::kValid);
  }
  static u32 told(const u32& word) { return device::load<device::Order::acquire, device::Scope::system>(&word); }
  int starts() const { return device_->starts; }
  bool started(int times) const {
    return eventually([&] { return starts() >= times; });
  }
  // Returns whether no lease starts for a while.
  bool rests() const {
    const int before = starts();
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return starts() == before;
  }

  // Images are destroyed while no lease is on the device.
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

}  // namespace dwell::runtime
