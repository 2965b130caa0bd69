// When and on which thread the janitor destroys objects.
#include "runtime/device/janitor.hpp"

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
  // Counts its destructions, and those on the caller's thread.
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

  Janitor::Around around() {
    return [this](bool urgent, const std::function<void()>& destroy) {
      if (urgent) ++urgent_;
      if (!urgent && !parked_) return false;
      destroy();
      return true;
    };
  }
  void take(std::size_t bytes = 0) { janitor_->take(std::make_shared<Waste>(this), bytes); }
  bool comes_to(int count) const {
    const auto until = std::chrono::steady_clock::now() + 5s;
    while (destroyed_ != count && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
    return destroyed_ == count;
  }
  bool stays_at(int count, std::chrono::milliseconds time = 20ms) const {
    std::this_thread::sleep_for(time);
    return destroyed_ == count;
  }

  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> parked_{false};
  std::atomic<int> urgent_{0};
  std::atomic<int> destroyed_{0};
  std::atomic<int> here_{0};
  std::unique_ptr<Janitor> janitor_ = std::make_unique<Janitor>(around());
};

TEST_F(JanitorTest, NothingIsDestroyedOnTheCallersThread) {
  parked_ = true;
  for (int i = 0; i < 100; ++i) take();
  EXPECT_TRUE(comes_to(100));
  EXPECT_EQ(here_, 0);
  EXPECT_EQ(urgent_, 0);
}

TEST_F(JanitorTest, DestructionWaitsUntilTheLoopIsOffTheDevice) {
  take();
  EXPECT_TRUE(stays_at(0));
  janitor_->now();
  EXPECT_TRUE(stays_at(0)) << "it is back";
  parked_ = true;
  janitor_->now();
  EXPECT_TRUE(comes_to(1));
  take();
  EXPECT_TRUE(comes_to(2)) << "it is off still";
  EXPECT_EQ(urgent_, 0);
}

TEST_F(JanitorTest, BeyondTheLimitTheOldestAreDestroyedOneByOne) {
  for (std::size_t i = 0; i < Janitor::kMost; ++i) take();
  EXPECT_TRUE(stays_at(0)) << "as many wait";
  take();
  take();
  EXPECT_TRUE(comes_to(2));
  EXPECT_TRUE(stays_at(2, 2 * Janitor::kBreak)) << "the others wait on";
  EXPECT_EQ(urgent_, 2);
}

TEST_F(JanitorTest, LargeThingsDoNotWait) {
  take(Janitor::kMostBytes);
  EXPECT_TRUE(stays_at(0));
  take(1);
  EXPECT_TRUE(comes_to(1));
  EXPECT_TRUE(stays_at(1, 2 * Janitor::kBreak)) << "the oldest alone";
}

TEST_F(JanitorTest, LongWaitForcesDestruction) {
  janitor_ = std::make_unique<Janitor>(around(), 300ms);
  take();
  EXPECT_TRUE(stays_at(0, 100ms));
  take();
  EXPECT_TRUE(comes_to(2));
  EXPECT_EQ(urgent_, 2);
}

TEST_F(JanitorTest, FailureBeforeDestructionStillDestroys) {
  janitor_ =
      std::make_unique<Janitor>([](bool, const std::function<void()>&) -> bool { throw std::runtime_error("the device has failed"); });
  take();
  EXPECT_TRUE(comes_to(1));
}

TEST_F(JanitorTest, OnlyTheLastReferenceDestroys) {
  parked_ = true;
  auto kept = std::make_shared<Waste>(this);
  janitor_->take(kept);
  EXPECT_TRUE(stays_at(0));
  janitor_->take(std::move(kept));
  EXPECT_TRUE(comes_to(1));
  EXPECT_EQ(here_, 0);
}

TEST_F(JanitorTest, TheDestructorDestroysAll) {
  take();
  take();
  janitor_.reset();
  EXPECT_EQ(destroyed_, 2);
  EXPECT_EQ(here_, 0);
}

TEST_F(JanitorTest, ANullReferenceIsIgnored) {
  janitor_->take(nullptr);
  janitor_.reset();
  EXPECT_EQ(destroyed_, 0);
}

TEST_F(JanitorTest, DestructorsMayUseTheJanitor) {
  parked_ = true;
  janitor_->take(std::shared_ptr<void>(this, [this](void*) { take(); }));
  EXPECT_TRUE(comes_to(1));
}

}  // namespace
}  // namespace dwell::runtime
