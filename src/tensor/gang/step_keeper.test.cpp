#include "tensor/gang/step_keeper.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/unit/sanitized.hpp"

namespace dwell::tensor::gang {
namespace {

using namespace std::chrono_literals;

template <class Condition>
bool soon(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(100us);
  return condition();
}

TEST(StepKeeperTest, LooksWhileItIsToldToAndSleepsUntilItIsWoken) {
  std::atomic<int> looks{0};
  std::atomic<int> most{5};
  StepKeeper keeper(100us, [&] { return ++looks < most; });
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(looks, 0);
  keeper.wake();
  EXPECT_TRUE(soon([&] { return looks == 5; }));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(looks, 5);
  most = 8;
  keeper.wake();
  EXPECT_TRUE(soon([&] { return looks == 8; }));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(looks, 8);
}

TEST(StepKeeperTest, AWakeDuringALookIsNotLost) {
  std::atomic<int> looks{0};
  std::atomic<bool> goes_on{false};
  StepKeeper keeper(1h, [&] {
    if (++looks == 1)
      while (!goes_on) std::this_thread::yield();
    return false;
  });
  keeper.wake();
  ASSERT_TRUE(soon([&] { return looks == 1; }));
  keeper.wake();
  goes_on = true;
  EXPECT_TRUE(soon([&] { return looks == 2; }));
}

TEST(StepKeeperTest, EndsAtOnce) {
  const auto begun = std::chrono::steady_clock::now();
  {
    const StepKeeper never(1h, [] { return true; });
    StepKeeper sleeps(1h, [] { return false; });
    sleeps.wake();
    std::atomic<int> looks{0};
    StepKeeper waits(1h, [&] { return ++looks != 0; });
    waits.wake();
    EXPECT_TRUE(soon([&] { return looks != 0; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 60s);
}

TEST(StepKeeperTest, AForkedChildNeitherJoinsNorWaits) {
  if (kSanitized) GTEST_SKIP() << "another thread may hold a lock of the sanitizer's allocator at the fork";
  for (const bool again : {false, true}) {
    std::atomic<int> looks{0};
    std::optional<StepKeeper> keeper(std::in_place, 1h, [&] {
      ++looks;
      return again;
    });
    keeper->wake();
    ASSERT_TRUE(soon([&] { return looks != 0; }));
    std::this_thread::sleep_for(5ms);  // it waits
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      keeper.reset();
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace dwell::tensor::gang
