// A worker of the CPU serves a ring: all of src/device at once, on threads of the test's own.
#include "device/cpu_resident.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device {
namespace {

using test::Bench;
using test::task_of;

std::atomic<u32> ran[1024];
void count(const Group&, const u32* arguments) { ++ran[arguments[0]]; }

class CpuResidentTest : public testing::Test {
 protected:
  CpuResidentTest() {
    for (auto& times : ran) times = 0;
    bench_.lease.operators = entries_;
  }
  // Submits a task that counts in ran[at].
  void submit(u32 at, u32 flags = 0, u32 groups = 1, u32 words = 1) {
    std::vector<u32> arguments(words, 0U);
    arguments[0] = at;
    const detail::Task task = task_of(arguments, flags, groups);
    std::uint64_t last = 0;
    ASSERT_TRUE(bench_.queue.try_submit(alias_, task, &last));
  }
  void serve(u32 me = 0) {
    Worker worker{};
    alignas(64) u8 scratch[64];
    CpuWorker(bench_.lease, &worker, scratch, me).serve();
  }

  Bench bench_{7, 1};
  const void* entries_[1] = {reinterpret_cast<const void*>(&count)};
  std::atomic<u32> alias_{0};
};

TEST_F(CpuResidentTest, WhatStandsBeforeTheRequestToLeaveIsDone) {
  for (u32 i = 0; i < 80; ++i) submit(i, i % 10 == 5 ? detail::kLink : i % 10 == 9 ? detail::kDrain : 0, 1, i % 10 == 3 ? 50 : 1);
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number));
  serve();
  for (u32 i = 0; i < 80; ++i) EXPECT_EQ(ran[i], 1U) << "task " << i;
  EXPECT_TRUE(bench_.queue.reap());
  EXPECT_EQ(bench_.report.left, bench_.lease.number);
}

TEST_F(CpuResidentTest, WhatIsNotDoneIsTheNextLeases) {
  for (u32 i = 0; i < 50; ++i) submit(i, detail::kWide, 3);
  bench_.lease.lease_ticks = 1;  // so short that it ends amid them
  for (; bench_.lease.number < 1000 && !bench_.queue.reap(); ++bench_.lease.number) serve();
  for (u32 i = 0; i < 50; ++i) EXPECT_EQ(ran[i], 3U) << "task " << i;
}

TEST_F(CpuResidentTest, WithNothingToDoItLeaves) {
  bench_.lease.idle_ticks = 50;
  serve();
  EXPECT_EQ(bench_.report.left, bench_.lease.number);
}

TEST_F(CpuResidentTest, TheHostMayAskAsideOfTheRing) {
  bench_.report.end = bench_.lease.number;
  serve();
  EXPECT_EQ(bench_.report.left, bench_.lease.number);
  EXPECT_NE(*gate::word(bench_.lease) & gate::kFirm, 0U);
}

TEST_F(CpuResidentTest, SeveralWorkersLeaveTogether) {
  for (u32 turn = 0; turn < 20; ++turn) {
    Bench bench{7, 3};
    bench.lease.operators = entries_;
    std::uint64_t last = 0;
    for (u32 i = 0; i < 60; ++i) {
      const detail::Task task = task_of({i}, i % 5 == 0 ? detail::kWide : 0, i % 5 == 0 ? 3 : 1);
      ASSERT_TRUE(bench.queue.try_submit(alias_, task, &last));
    }
    bench.lease.idle_ticks = 100;
    // A worker that had no processor for a while may take the moment between two tasks for the end, so a lease may leave some.
    for (u32 leases = 0; !bench.queue.reap(); ++leases) {
      ASSERT_LT(leases, 60U);
      bench.lease.number += leases == 0 ? 0 : 1;
      std::vector<std::jthread> workers;
      for (u32 me = 0; me < 3; ++me)
        workers.emplace_back([&, me] {
          Worker worker{};
          alignas(64) u8 scratch[64];
          CpuWorker(bench.lease, &worker, scratch, me).serve();
        });
      workers.clear();
      EXPECT_EQ(bench.report.left, bench.lease.number);
    }
    for (u32 i = 0; i < 60; ++i) ASSERT_EQ(ran[i].exchange(0), i % 5 == 0 ? 3U : 1U) << "task " << i;
  }
}

}  // namespace
}  // namespace dwell::device
