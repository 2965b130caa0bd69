#include "tensor/gang/step_calls.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/unit/sanitized.hpp"

namespace dwell::tensor::gang {
namespace {

using namespace std::chrono_literals;
using Clock = StepCalls::Clock;

// The memory of a step whose gang is the test: its results are its inputs.
struct Words {
  static constexpr std::uint32_t kCount = 3;

  static std::uint64_t load(const std::uint64_t& word) {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
  }
  std::uint32_t call() const { return static_cast<std::uint32_t>(load(control)); }
  std::uint32_t last_to_leave() const { return static_cast<std::uint32_t>(load(control) >> 32U); }
  // Returns whether all inputs of a call are there, and answers it then.
  bool answer(std::uint32_t number) {
    std::array<std::uint64_t, kCount> words{};
    for (std::size_t i = 0; i < kCount; ++i) {
      words[i] = load(inputs[i]);
      if (words[i] >> 32U != number) return false;
    }
    if (call() != number) return false;
    for (std::size_t i = 0; i < kCount; ++i) std::atomic_ref(outputs[i]).store(words[i], std::memory_order_relaxed);
    return true;
  }
  void leave(std::uint32_t kernel) { std::atomic_ref(left).store(kernel, std::memory_order_relaxed); }
  StepCalls::Memory memory() { return {.control = &control, .inputs = inputs.data(), .outputs = outputs.data(), .left = &left}; }

  std::uint64_t control = 0;
  std::array<std::uint64_t, kCount> inputs{};
  std::array<std::uint64_t, kCount> outputs{};
  std::uint32_t left = 0;
};

using Numbers = std::array<std::uint32_t, Words::kCount>;
void put(const StepCalls& calls, const Numbers& numbers) { calls.put(0, std::as_bytes(std::span(numbers))); }
Numbers get(const StepCalls& calls) {
  Numbers numbers{};
  calls.get(0, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

// Times are given: a lease takes an hour.
class StepCallsTest : public testing::Test {
 protected:
  static constexpr std::chrono::nanoseconds kLease = 1h;

  void begin() {
    put(calls_, {next_, 1, 2});
    calls_.begin();
  }
  void finish(std::uint32_t number) {
    ASSERT_TRUE(words_.answer(number));
    ASSERT_TRUE(calls_.done());
    EXPECT_EQ(get(calls_), (Numbers{next_, 1, 2}));
    ++next_;
  }
  // The next call, with results.
  void call() {
    const std::uint32_t before = words_.call();
    begin();
    EXPECT_EQ(words_.call(), before + 1);
    finish(before + 1);
  }
  // Calls, and looks ahead at a time of the last launch.
  bool call_and_look(double leases) {
    call();
    return look(leases);
  }
  bool look(double leases) { return calls_.look_ahead(begun_ + std::chrono::duration_cast<Clock::duration>(leases * kLease)); }

  Words words_;
  std::vector<std::uint32_t> launched_;
  bool fails_ = false;
  std::uint32_t next_ = 7;
  Clock::time_point begun_ = Clock::now();
  StepCalls calls_{words_.memory(), Words::kCount, kLease, [this](std::uint32_t number) {
                     if (fails_) throw std::runtime_error("no launch");
                     launched_.push_back(number);
                   }};
};

TEST_F(StepCallsTest, LaunchesAKernelForACallThatFindsNone) {
  EXPECT_TRUE(calls_.have_left());
  call();
  EXPECT_EQ(launched_, std::vector({1U}));
  call();
  EXPECT_EQ(launched_, std::vector({1U}));
  words_.leave(1);
  begin();
  EXPECT_EQ(launched_, std::vector({1U, 2U}));
  finish(3);
  // The kernel leaves just after the call.
  begin();
  EXPECT_FALSE(calls_.done());
  EXPECT_EQ(launched_.size(), 2U);
  words_.leave(2);
  EXPECT_FALSE(calls_.done());
  EXPECT_EQ(launched_, std::vector({1U, 2U, 3U}));
  EXPECT_FALSE(calls_.done());
  EXPECT_EQ(launched_.size(), 3U);
  EXPECT_EQ(calls_.launched(), 3U);
  finish(4);
}

TEST_F(StepCallsTest, LaunchesAheadOnceHalfThroughALease) {
  EXPECT_TRUE(call_and_look(0.1));
  EXPECT_TRUE(call_and_look(0.4));
  EXPECT_EQ(launched_.size(), 1U);
  EXPECT_TRUE(call_and_look(0.6));
  EXPECT_EQ(launched_, std::vector({1U, 2U}));
  // One waits behind the other: no third one. The second one begins behind the last call that has seen the first one.
  EXPECT_TRUE(call_and_look(0.8));
  EXPECT_TRUE(call_and_look(1.2));
  EXPECT_EQ(launched_.size(), 2U);
  words_.leave(1);
  EXPECT_TRUE(call_and_look(1.4));
  EXPECT_TRUE(call_and_look(1.6));
  EXPECT_EQ(launched_.size(), 2U);
  EXPECT_TRUE(call_and_look(1.75));
  EXPECT_EQ(launched_, std::vector({1U, 2U, 3U}));
  // The calls find the kernel.
  words_.leave(2);
  call();
  EXPECT_EQ(launched_.size(), 3U);
}

TEST_F(StepCallsTest, LaunchesNothingAheadWithoutCalls) {
  EXPECT_FALSE(look(0));
  EXPECT_TRUE(call_and_look(0.1));
  for (const double at : {0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0}) EXPECT_TRUE(look(at)) << at;
  EXPECT_FALSE(look(2.2));
  EXPECT_EQ(launched_.size(), 1U);
  // A launch ahead needs a call after all this.
  words_.leave(1);
  begun_ = Clock::now();
  EXPECT_TRUE(call_and_look(0.3));
  EXPECT_TRUE(call_and_look(0.6));
  EXPECT_EQ(launched_, std::vector({1U, 2U, 3U}));
}

TEST_F(StepCallsTest, LaunchesNothingAheadOfAGangThatHasLeft) {
  EXPECT_TRUE(call_and_look(0.4));
  words_.leave(1);
  EXPECT_TRUE(look(0.45));
  begin();
  finish(2);
  words_.leave(2);
  fails_ = true;
  EXPECT_THROW(begin(), std::runtime_error);
  fails_ = false;
  EXPECT_TRUE(look(0.6));
  EXPECT_EQ(launched_, std::vector({1U, 2U}));
}

TEST_F(StepCallsTest, LaunchesNothingBetweenLeaveAndTheNextCall) {
  EXPECT_TRUE(call_and_look(0.4));
  call();
  calls_.leave();
  EXPECT_EQ(words_.last_to_leave(), 1U);
  EXPECT_FALSE(look(0.6));
  EXPECT_EQ(launched_.size(), 1U);
  EXPECT_FALSE(calls_.have_left());
  words_.leave(1);
  EXPECT_TRUE(calls_.have_left());
  EXPECT_FALSE(look(0.65));
  EXPECT_EQ(launched_.size(), 1U);
  // A launch that fails begins nothing.
  fails_ = true;
  EXPECT_THROW(begin(), std::runtime_error);
  fails_ = false;
  EXPECT_FALSE(look(0.7));
  EXPECT_EQ(launched_.size(), 1U);
  begin();
  finish(3);
  EXPECT_EQ(launched_, std::vector({1U, 2U}));
  EXPECT_EQ(words_.last_to_leave(), 1U);
  EXPECT_TRUE(call_and_look(0.8));
  EXPECT_EQ(launched_, std::vector({1U, 2U, 3U}));
  calls_.leave();
  EXPECT_EQ(words_.last_to_leave(), 3U);
}

TEST_F(StepCallsTest, ACallWhoseLaunchFailsIsBegunAgainWithItsNumber) {
  fails_ = true;
  EXPECT_THROW(begin(), std::runtime_error);
  EXPECT_THROW(begin(), std::runtime_error);
  EXPECT_EQ(words_.call(), 1U);
  EXPECT_THROW(static_cast<void>(calls_.done()), std::runtime_error);
  EXPECT_EQ(calls_.launched(), 0U);
  fails_ = false;
  begin();
  EXPECT_EQ(words_.call(), 1U);
  EXPECT_EQ(launched_, std::vector({1U}));
  finish(1);
  call();
  EXPECT_EQ(words_.call(), 2U);
}

TEST_F(StepCallsTest, AFailedLaunchAheadIsReportedByTheCallThatFindsNoKernel) {
  EXPECT_TRUE(call_and_look(0.4));
  fails_ = true;
  EXPECT_TRUE(call_and_look(0.6));
  fails_ = false;
  // Tried again half a lease later.
  EXPECT_TRUE(call_and_look(0.8));
  EXPECT_EQ(launched_, std::vector({1U}));
  EXPECT_TRUE(call_and_look(1.2));
  EXPECT_EQ(launched_, std::vector({1U, 2U}));
  words_.leave(1);
  EXPECT_TRUE(call_and_look(1.3));
  fails_ = true;
  EXPECT_TRUE(call_and_look(1.8));
  words_.leave(2);
  EXPECT_THROW(begin(), std::runtime_error);
  EXPECT_EQ(calls_.launched(), 2U);
}

// A stream that runs kernels one behind the other in a thread, and a thread that looks ahead, beside calls and pauses.
TEST(StepCallsInThreadsTest, NoLaunchMeetsAPause) {
  constexpr auto kLease = 500us;
  Words words;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::uint32_t> launched;
  bool over = false;
  std::uint32_t weights = 0;  // written during pauses only, and read by launches
  std::uint32_t written = 0;
  bool may_launch = true;
  std::atomic<int> launching{0};
  std::atomic<int> wrong{0};
  std::atomic<std::uint32_t> ahead{0};
  const std::thread::id caller = std::this_thread::get_id();
  StepCalls calls(words.memory(), Words::kCount, kLease, [&](std::uint32_t number) {
    const bool is_ahead = std::this_thread::get_id() != caller;
    const std::uint32_t there = number - 1 - std::atomic_ref(words.left).load(std::memory_order_relaxed);
    if (launching++ != 0 || !may_launch || weights != written || there > (is_ahead ? 1U : 0U)) ++wrong;
    if (is_ahead) ++ahead;
    std::this_thread::sleep_for(20us);
    {
      const std::lock_guard lock(mutex);
      launched.push_back(number);
      changed.notify_all();
    }
    --launching;
  });
  std::thread stream([&] {
    std::uint32_t answered = 0;
    for (;;) {
      std::uint32_t kernel = 0;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over || !launched.empty(); });
        if (launched.empty()) return;
        kernel = launched.front();
        launched.pop_front();
      }
      const Clock::time_point begun = Clock::now();
      while (static_cast<std::int32_t>(words.last_to_leave() - kernel) < 0 && Clock::now() - begun < kLease) {
        if (words.answer(answered + 1))
          ++answered;
        else
          std::this_thread::yield();
      }
      words.leave(kernel);
    }
  });
  std::atomic<bool> is_over{false};
  std::thread looks([&] {
    while (!is_over) {
      static_cast<void>(calls.look_ahead());
      std::this_thread::sleep_for(calls.between_looks());
    }
  });
  std::mt19937 random(5);
  for (std::uint32_t i = 0; i < (kSanitized ? 3000 : 20000); ++i) {
    const Numbers numbers{i, 2 * i, static_cast<std::uint32_t>(random())};
    put(calls, numbers);
    if (!may_launch) may_launch = true;
    calls.begin();
    while (!calls.done()) std::this_thread::yield();
    if (get(calls) != numbers) ++wrong;
    if (random() % 40 == 0) {
      calls.leave();
      may_launch = false;
      weights = i;
      while (!calls.have_left()) std::this_thread::yield();
      if (random() % 4 == 0) std::this_thread::sleep_for(300us);
      written = i;
    } else if (random() % 20 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 700));
    }
  }
  calls.leave();
  is_over = true;
  looks.join();
  {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  }
  stream.join();
  EXPECT_TRUE(calls.have_left());
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(ahead, 0U);
}

}  // namespace
}  // namespace dwell::tensor::gang
