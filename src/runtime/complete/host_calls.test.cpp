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

// Makes as many calls as `called` says.
class Caller final : public HostCaller {
 public:
  explicit Caller(std::function<void()> callback) : callback_(std::move(callback)) {}
  std::optional<HostCall> next() override {
    if (read_ == called) return std::nullopt;
    return HostCall{read_++, 77};
  }
  std::vector<HostCall> waiting() override {
    std::vector<HostCall> all;
    for (std::uint32_t at = read_; at != called; ++at) all.push_back({at, 77});
    return all;
  }
  std::string name(std::uint32_t number) const override { return "'" + std::to_string(number) + "'"; }
  void answer(const HostCall&, Causes&) noexcept override {
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

TEST_F(HostCallsTest, RunsCallsAndReleasesTheCallerWithItsLaunch) {
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

TEST_F(HostCallsTest, UnsubmittedLaunchKeepsNothing) {
  auto caller = std::make_shared<Caller>([] {});
  calls_.launches(caller);
  calls_.placed(*caller, std::nullopt);
  const std::weak_ptr<Caller> left = caller;
  caller.reset();
  for (int i = 0; i < 10'000 && !left.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(left.expired());
}

TEST_F(HostCallsTest, OthersRunOnAnotherThreadWhileOneWaits) {
  std::promise<void> begun;
  std::promise<std::thread::id> inner;
  auto first = launched([&] {
    begun.set_value();
    const HostCalls::Waits waits(calls_);
    const HostCalls::Waits again(calls_);  // nested: no effect
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

TEST_F(HostCallsTest, ListsOpenCallsAndWaitsOfTheirCallbacks) {
  HostCalls other([](std::uint64_t) { return false; });
  EXPECT_TRUE(calls_.open().empty());
  std::promise<void> waits_here;
  std::promise<void> waits_there;
  std::promise<void> step[3];
  auto caller = launched([&] {
    {
      const HostCalls::Waits waits(calls_, 5);
      waits_here.set_value();
      step[0].get_future().wait();
    }
    const HostCalls::Waits elsewhere(other, 6);  // of another runtime
    waits_there.set_value();
    step[1].get_future().wait();
  });
  caller->called = 1;
  waits_here.get_future().wait();
  std::vector<HostCalls::Open> open = calls_.open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].launch, 77U);
  EXPECT_EQ(open[0].name, "'0'");
  EXPECT_TRUE(open[0].begun);
  EXPECT_EQ(open[0].waits_for, 5U);
  step[0].set_value();
  waits_there.get_future().wait();
  open = calls_.open();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].waits_for, std::nullopt);
  EXPECT_GE(open[0].since, 0ns);
  step[1].set_value();
  EXPECT_TRUE(caller->eventually(1));
  for (int i = 0; i < 10'000 && !calls_.open().empty(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(calls_.open().empty());

  // One thread leads: while its callback runs, other calls wait.
  std::promise<void> runs;
  auto busy = launched([&] {
    runs.set_value();
    step[2].get_future().wait();
  });
  auto late = launched([] {});
  busy->called = 1;
  runs.get_future().wait();
  late->called = 2;
  open = calls_.open();
  ASSERT_EQ(open.size(), 3U);
  EXPECT_TRUE(open[0].begun);
  EXPECT_FALSE(open[1].begun);
  EXPECT_FALSE(open[2].begun);
  step[2].set_value();
  EXPECT_TRUE(late->eventually(2));
}

TEST_F(HostCallsTest, FinishWaitsForCallbacksAndRefusesMore) {
  std::promise<void> begun;
  auto caller = launched([&] {
    begun.set_value();
    // Prepares until finish has begun, which refuses it.
    try {
      for (;; std::this_thread::sleep_for(1ms)) calls_.prepare();
    } catch (const Error&) {}
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
