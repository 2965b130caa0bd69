#include "runtime/complete/host_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include <dwell/error.hpp>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

// Calls as often as it is told to.
class Caller final : public HostCaller {
 public:
  explicit Caller(std::function<void()> callback) : callback_(std::move(callback)) {}
  std::optional<HostCall> next() override {
    if (read_ == called) return std::nullopt;
    return HostCall{read_++, 77};
  }
  void answer(const HostCall&) noexcept override {
    callback_();
    ++answered;
  }
  bool eventually(std::uint32_t count) const {
    for (int i = 0; i < 10'000 && answered < count; ++i) std::this_thread::sleep_for(1ms);
    return answered == count;
  }

  std::atomic<std::uint32_t> called{0};
  std::atomic<std::uint32_t> answered{0};

 private:
  std::function<void()> callback_;
  std::uint32_t read_ = 0;
};

class HostCallsTest : public testing::Test {
 protected:
  void SetUp() override { calls_.prepare(); }
  std::shared_ptr<Caller> launched(std::function<void()> callback) {
    auto caller = std::make_shared<Caller>(std::move(callback));
    calls_.launches(caller);
    calls_.placed(*caller, 77);
    return caller;
  }
  std::atomic<bool> done_{false};
  HostCalls calls_{[this](std::uint64_t position) { return position == 77 && done_; }};
};

TEST_F(HostCallsTest, RunsWhatIsCalledAndLetsGoOfTheCallerWithItsLaunch) {
  auto caller = launched([] {});
  caller->called = 3;
  EXPECT_TRUE(caller->eventually(3));
  std::this_thread::sleep_for(5ms);
  caller->called = 4;
  EXPECT_TRUE(caller->eventually(4));
  const std::weak_ptr<Caller> left = caller;
  caller.reset();
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(left.expired());
  done_ = true;
  for (int i = 0; i < 10'000 && !left.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(left.expired());
}

TEST_F(HostCallsTest, ALaunchThatIsNotPlacedKeepsNothing) {
  auto caller = std::make_shared<Caller>([] {});
  calls_.launches(caller);
  calls_.placed(*caller, std::nullopt);
  const std::weak_ptr<Caller> left = caller;
  caller.reset();
  for (int i = 0; i < 10'000 && !left.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(left.expired());
}

TEST_F(HostCallsTest, WhileOneWaitsOthersRunOnAnotherThread) {
  std::promise<void> begun;
  std::promise<std::thread::id> inner;
  auto first = launched([&] {
    begun.set_value();
    HostCalls::waits();
    HostCalls::waits();  // once is enough
    EXPECT_NE(inner.get_future().get(), std::this_thread::get_id());
  });
  auto second = launched([&] { inner.set_value(std::this_thread::get_id()); });
  first->called = 1;
  begun.get_future().wait();
  second->called = 1;
  EXPECT_TRUE(second->eventually(1));
  EXPECT_TRUE(first->eventually(1));
}

TEST_F(HostCallsTest, KnowsWhoseCallbackRuns) {
  HostCalls other([](std::uint64_t) { return false; });
  EXPECT_FALSE(calls_.runs_here());
  auto caller = launched([&] {
    EXPECT_TRUE(calls_.runs_here());
    EXPECT_TRUE(calls_.runs_here(77));
    EXPECT_FALSE(calls_.runs_here(78));
    EXPECT_TRUE(calls_.runs_before(78));
    EXPECT_FALSE(calls_.runs_before(77));
    EXPECT_FALSE(other.runs_here());
  });
  caller->called = 1;
  EXPECT_TRUE(caller->eventually(1));
}

TEST_F(HostCallsTest, FinishWaitsForCallbacksAndTakesNoMore) {
  std::promise<void> begun;
  auto caller = launched([&] {
    begun.set_value();
    std::this_thread::sleep_for(20ms);
  });
  caller->called = 2;
  begun.get_future().wait();
  calls_.finish();
  EXPECT_EQ(caller->answered, 1U);
  EXPECT_EQ(caller.use_count(), 1);
  EXPECT_THROW(calls_.prepare(), Error);
}

}  // namespace
}  // namespace dwell::runtime
