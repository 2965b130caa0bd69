#include "runtime/submit/submit_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

// A counter that loses counts if two threads are ever inside at once.
struct Guarded {
  SubmitLock lock;
  std::uint64_t count = 0;

  void add() {
    const std::lock_guard guard(lock);
    const std::uint64_t before = count;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    count = before + 1;
  }
};

TEST(SubmitLock, ThreadsThatHurryExcludeEachOther) {
  constexpr std::uint64_t kEach = 200'000;
  Guarded guarded;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t k = 0; k < kEach; ++k) guarded.add();
    });
  threads.clear();
  EXPECT_EQ(guarded.count, 4 * kEach);
}

// Owners that do not go on: the lock is taken from them.
TEST(SubmitLock, ThreadsThatPauseExcludeEachOther) {
  constexpr int kRounds = 2000;
  constexpr int kBurst = 40;
  Guarded guarded;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        for (int k = 0; k < kBurst; ++k) guarded.add();
        if (round % 16 == i) std::this_thread::sleep_for(20us);
      }
    });
  threads.clear();
  EXPECT_EQ(guarded.count, 3ULL * kRounds * kBurst);
}

TEST(SubmitLock, AThreadMayEndAsItsOwner) {
  Guarded guarded;
  for (int i = 0; i < 200; ++i)
    std::jthread([&] {
      for (int k = 0; k < 50; ++k) guarded.add();
    });
  guarded.add();
  EXPECT_EQ(guarded.count, 200U * 50U + 1U);
}

TEST(SubmitLock, AThreadOwnsSeveralLocksInTurn) {
  Guarded one;
  Guarded other;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100'000; ++k) {
        one.add();
        other.add();
      }
    });
  threads.clear();
  EXPECT_EQ(one.count, 200'000U);
  EXPECT_EQ(other.count, 200'000U);
}

// An owner that sleeps outside the lock must not keep anybody waiting.
TEST(SubmitLock, AnAbsentOwnerKeepsNobodyWaiting) {
  Guarded guarded;
  std::atomic<bool> owned{false};
  std::atomic<bool> over{false};
  std::jthread owner([&] {
    for (int k = 0; k < 1000; ++k) guarded.add();
    owned = true;
    owned.notify_all();
    over.wait(false);
  });
  owned.wait(false);
  const auto start = std::chrono::steady_clock::now();
  guarded.add();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
  over = true;
  over.notify_all();
  owner.join();
  EXPECT_EQ(guarded.count, 1001U);
}

}  // namespace
}  // namespace dwell::runtime
