// When the janitor destroys what it is given, and on which thread.
#include "runtime/lease/janitor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

class JanitorTest : public testing::Test {
 protected:
  // Something that counts, and says where it goes.
  struct Waste {
    explicit Waste(JanitorTest* owner) : test(owner) {}
    Waste(const Waste&) = delete;
    Waste& operator=(const Waste&) = delete;
    ~Waste() {
      if (std::this_thread::get_id() == test->caller_) ++test->here_;
      ++test->destroyed_;
    }
    JanitorTest* test;
  };

  void take() { janitor_->take(std::make_shared<Waste>(this)); }
  bool comes_to(int count, std::chrono::milliseconds time) const {
    const auto until = std::chrono::steady_clock::now() + time;
    while (destroyed_ != count && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
    return destroyed_ == count;
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<int> destroyed_{0};
  std::atomic<int> here_{0};
  std::unique_ptr<Janitor> janitor_ = std::make_unique<Janitor>();
};

TEST_F(JanitorTest, NothingIsDestroyedOnTheCallersThread) {
  for (int i = 0; i < 100; ++i) take();
  janitor_->now();
  EXPECT_TRUE(comes_to(100, 10s));
  EXPECT_EQ(here_, 0);
}

TEST_F(JanitorTest, ManyAreDestroyedTogether) {
  for (int i = 0; i < 15; ++i) take();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(destroyed_, 0) << "fifteen wait";
  take();
  EXPECT_TRUE(comes_to(16, 500ms)) << "and not for the second that fewer wait";
}

TEST_F(JanitorTest, NothingIsDestroyedWhileTheLoopIsOnTheDeviceUntilItIsUrgent) {
  std::atomic<int> asked{0};
  std::atomic<bool> parked{false};
  std::atomic<int> urgent_asks{0};
  janitor_ = std::make_unique<Janitor>([&](bool urgent, const std::function<void()>& destroy) {
    ++asked;
    if (urgent) ++urgent_asks;
    if (!urgent && !parked) return false;
    destroy();
    return true;
  });
  take();
  std::this_thread::sleep_for(5ms);
  janitor_->now();
  while (asked == 0) std::this_thread::sleep_for(100us);
  EXPECT_EQ(destroyed_, 0);
  take();
  parked = true;
  janitor_->now();
  EXPECT_TRUE(comes_to(2, 500ms)) << "with what came since";
  EXPECT_EQ(urgent_asks, 0);
  parked = false;
  take();
  EXPECT_TRUE(comes_to(3, 10s)) << "after a second";
  EXPECT_EQ(urgent_asks, 1);
}

TEST_F(JanitorTest, WhatFailsBeforeItDestroysDestroysAllTheSame) {
  janitor_ =
      std::make_unique<Janitor>([](bool, const std::function<void()>&) -> bool { throw std::runtime_error("the device has failed"); });
  take();
  janitor_->now();
  EXPECT_TRUE(comes_to(1, 10s));
}

TEST_F(JanitorTest, FewerAreDestroyedAfterASecond) {
  take();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(destroyed_, 0);
  EXPECT_TRUE(comes_to(1, 10s));
}

TEST_F(JanitorTest, NowDestroysWhatItHas) {
  janitor_->now();
  take();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(destroyed_, 0) << "an earlier now does not count";
  janitor_->now();
  EXPECT_TRUE(comes_to(1, 500ms));
}

TEST_F(JanitorTest, TheLastReferenceOfAllCounts) {
  auto kept = std::make_shared<Waste>(this);
  janitor_->take(kept);
  janitor_->now();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(destroyed_, 0);
  janitor_->take(std::move(kept));
  janitor_->now();
  EXPECT_TRUE(comes_to(1, 10s));
  EXPECT_EQ(here_, 0);
}

TEST_F(JanitorTest, ItsEndDestroysAll) {
  take();
  take();
  janitor_.reset();
  EXPECT_EQ(destroyed_, 2);
  EXPECT_EQ(here_, 0);
}

TEST_F(JanitorTest, NothingIsNoWaste) {
  janitor_->take(nullptr);
  janitor_->now();
  janitor_.reset();
  EXPECT_EQ(destroyed_, 0);
}

TEST_F(JanitorTest, WhatDestroysMoreMayGiveItToTheJanitor) {
  janitor_->take(std::shared_ptr<void>(this, [this](void*) { take(); }));
  janitor_->now();
  EXPECT_TRUE(comes_to(1, 10s));
}

}  // namespace
}  // namespace dwell::runtime
