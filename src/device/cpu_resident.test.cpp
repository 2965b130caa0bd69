// CPU workers serve a ring: all of src/device together, on threads of the test.
#include "device/cpu_resident.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::cpu_resident_test {
namespace {

using test::Bench;
using test::entry_of;
using test::task_of;

std::atomic<u32> ran[1024];
void count(const Group&, const u32* arguments) { ++ran[arguments[0]]; }
// Called by the operator with the opcode 1.
std::function<void()> amid;
void call_amid(const Group&, const u32*) { amid(); }

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

  // Runs a lease of `count` workers until all have left it.
  static void serve_all(Bench& bench, u32 count) {
    std::vector<std::jthread> workers;
    for (u32 me = 0; me < count; ++me)
      workers.emplace_back([&bench, me] {
        Worker worker{};
        alignas(64) u8 scratch[64];
        CpuWorker(bench.lease, &worker, scratch, me).serve();
      });
  }

  Bench bench_{7, 1};
  // Submits a task that calls `amid`.
  void submit_amid() {
    std::uint64_t last = 0;
    ASSERT_TRUE(bench_.queue.try_submit(amid_alias_, task_of({}), &last));
  }

  const void* entries_[2] = {entry_of<&count>(), entry_of<&call_amid>()};
  std::atomic<u32> alias_{0};
  std::atomic<u32> amid_alias_{1};
};

TEST_F(CpuResidentTest, TasksBeforeTheRequestToLeaveAreRun) {
  for (u32 i = 0; i < 80; ++i) submit(i, i % 10 == 5 ? detail::kLink : i % 10 == 9 ? detail::kDrain : 0, 1, i % 10 == 3 ? 50 : 1);
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  serve();
  for (u32 i = 0; i < 80; ++i) EXPECT_EQ(ran[i], 1U) << "task " << i;
  EXPECT_TRUE(bench_.queue.reap());
  EXPECT_EQ(bench_.report.left[0], bench_.lease.number);
}

TEST_F(CpuResidentTest, ARequestToLeaveIsSeenInTheRing) {
  bench_.lease.lease_ticks = bench_.lease.idle_ticks = 0x7FFFFFFF;  // nothing else ends the lease
  std::jthread worker([this] { serve(); });
  submit(0);
  while (ran[0] == 0) std::this_thread::yield();
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  const auto left = [&] { return load<Order::acquire, Scope::system>(&bench_.report.left[0]) == bench_.lease.number; };
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20); !left() && std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  EXPECT_TRUE(left());
  store<Order::relaxed, Scope::system>(&bench_.report.end, bench_.lease.number);  // so that the worker ends in any case
}

TEST_F(CpuResidentTest, TasksWaitForGatesThatTheHostOpens) {
  const auto submit_after = [&](u32 at, std::uint64_t before) {
    detail::Waits waits;
    waits.count = 1;
    waits.position[0] = before;
    std::uint64_t last = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, task_of({at}, detail::kAfter, 1, &waits), &last));
  };
  std::uint64_t gate[2];
  for (u32 i = 0; i < 2; ++i) {
    ASSERT_TRUE(bench_.queue.try_submit_gate(alias_, &gate[i]));
    submit_after(i, gate[i]);
    submit_after(i + 2, gate[i]);
  }
  submit(4);
  submit(5, detail::kDrain);  // no later task is fetched before the gates are complete
  submit(6);
  EXPECT_EQ(bench_.queue.submitted(), 7U) << "gates are no tasks";
  std::jthread worker([this] { serve(); });
  while (ran[4] == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (const u32 i : {0U, 1U, 2U, 3U, 5U, 6U}) EXPECT_EQ(ran[i], 0U);
  bench_.queue.open_gate(gate[1]);
  while (ran[1] == 0 || ran[3] == 0) std::this_thread::yield();
  EXPECT_EQ(ran[0], 0U);
  bench_.queue.open_gate(gate[0]);
  while (ran[6] == 0) std::this_thread::yield();
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  worker.join();
  for (u32 i = 0; i < 7; ++i) EXPECT_EQ(ran[i], 1U) << i;
  EXPECT_TRUE(bench_.queue.reap());
}

TEST_F(CpuResidentTest, TheNextLeaseRunsTheRemainingTasks) {
  for (u32 i = 0; i < 50; ++i) submit(i, detail::kWide, 3);
  bench_.lease.lease_ticks = bench_.lease.stretch_ticks = 1;  // ends in the middle of the tasks
  for (; bench_.lease.number < 1000 && !bench_.queue.reap(); ++bench_.lease.number) serve();
  for (u32 i = 0; i < 50; ++i) EXPECT_EQ(ran[i], 3U) << "task " << i;
}

// ---- Tasks that a worker has fetched together ----

TEST_F(CpuResidentTest, FetchedTaskMovesToAnotherWorkerBehindALongOne) {
  Bench bench{7, 2};
  bench.lease.operators = entries_;
  bool met = false;
  amid = [&] {  // returns when the last task has run; its own worker has fetched that one too
    for (int i = 0; i < 20'000 && ran[5] == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    met = ran[5] != 0;
  };
  std::uint64_t last = 0;
  ASSERT_TRUE(bench.queue.try_submit(amid_alias_, task_of({}), &last));
  for (u32 i = 1; i < 6; ++i) ASSERT_TRUE(bench.queue.try_submit(alias_, task_of({i}), &last));
  ASSERT_TRUE(bench.queue.try_submit(alias_, task_of({6}, detail::kDrain), &last));
  ASSERT_TRUE(bench.queue.try_close_lease(bench.lease.number, true));
  serve_all(bench, 2);
  EXPECT_TRUE(met);
  for (u32 i = 1; i < 7; ++i) EXPECT_EQ(ran[i], 1U) << "task " << i;
  EXPECT_TRUE(bench.queue.reap());
  EXPECT_EQ(bench.control().ranges.value, 0U);
}

TEST_F(CpuResidentTest, FetchedTaskCanBeCancelled) {
  submit_amid();
  for (u32 i = 1; i < 4; ++i) submit(i);
  bool cancelled = false;
  amid = [&] { cancelled = bench_.queue.cancel(2); };
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  serve();
  EXPECT_TRUE(cancelled);
  for (u32 i = 1; i < 4; ++i) EXPECT_EQ(ran[i], i == 2 ? 0U : 1U) << "task " << i;
  EXPECT_EQ(bench_.completions[2].status, status::cancelled);
  EXPECT_TRUE(bench_.queue.reap());
}

TEST_F(CpuResidentTest, FetchedTasksSurviveTheLease) {
  submit_amid();
  for (u32 i = 1; i < 4; ++i) submit(i);
  amid = [&] { store<Order::relaxed, Scope::system>(&bench_.report.end, bench_.lease.number); };
  serve();
  EXPECT_EQ(bench_.report.left[0], 1U);
  EXPECT_EQ(bench_.control().completed.value, 1U) << "counted where the worker leaves";
  EXPECT_TRUE(range::has_any(bench_.lease, 0));
  ++bench_.lease.number;
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  serve();
  for (u32 i = 1; i < 4; ++i) EXPECT_EQ(ran[i], 1U) << "task " << i;
  EXPECT_TRUE(bench_.queue.reap());
  EXPECT_EQ(bench_.control().ranges.value, 0U);
}

TEST_F(CpuResidentTest, FailureAffectsOneTaskOnly) {
  amid = [] { throw std::runtime_error("amid"); };
  submit(0);
  submit_amid();
  submit(2);
  ASSERT_TRUE(bench_.queue.try_close_lease(bench_.lease.number, true));
  serve();
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_EQ(ran[i], i == 1 ? 0U : 1U) << "task " << i;
    EXPECT_EQ(bench_.completions[i].status, i == 1 ? status::exception : status::ok) << "task " << i;
  }
}

TEST_F(CpuResidentTest, IdleWorkerLeaves) {
  bench_.lease.idle_ticks = 50;
  serve();
  EXPECT_EQ(bench_.report.left[0], bench_.lease.number);
}

TEST_F(CpuResidentTest, HostMayEndALeaseWithoutTheRing) {
  bench_.report.end = bench_.lease.number;
  serve();
  EXPECT_EQ(bench_.report.left[0], bench_.lease.number);
  EXPECT_EQ(bench_.control().crew.end, bench_.lease.number);
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
    // A worker that was preempted between two tasks may take the gap for the end, so a lease may leave tasks.
    for (u32 leases = 0; !bench.queue.reap(); ++leases) {
      ASSERT_LT(leases, 60U);
      bench.lease.number += leases == 0 ? 0 : 1;
      serve_all(bench, 3);
      EXPECT_EQ(bench.report.left[0], bench.lease.number);
    }
    for (u32 i = 0; i < 60; ++i) ASSERT_EQ(ran[i].exchange(0), i % 5 == 0 ? 3U : 1U) << "task " << i;
  }
}

TEST_F(CpuResidentTest, EndedLeaseContinuesUntilTheNextStarts) {
  bench_.lease.lease_ticks = 1;
  std::jthread worker([this] { serve(); });
  for (u32 i = 0; i < 200; ++i) {
    submit(i % 100);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ((load<Order::acquire, Scope::system>(bench_.report.left)), 0U);
  store<Order::relaxed, Scope::system>(&bench_.report.launched, 2U);
  worker.join();
  EXPECT_EQ(bench_.report.left[0], 1U);
}

TEST_F(CpuResidentTest, LeaseEndedBeforeItBeginsLeavesAtOnce) {
  bench_.control().crew.over = bench_.lease.number;
  submit(0);
  serve();
  EXPECT_EQ(bench_.report.left[0], bench_.lease.number);
}

TEST_F(CpuResidentTest, LeasesRollBesideEachOther) {
  // Two sets of threads alternate, as two kernels do.
  constexpr u32 kLeastTasks = 20'000;
  Bench bench{10, 2};
  bench.lease.lease_ticks = 20;
  bench.lease.operators = entries_;
  std::atomic<u32> last{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;
  const auto lease = [&](u32 number) {
    device::Lease next = bench.lease;
    next.number = number;
    next.slot = number % kMostLeases;
    store<Order::relaxed, Scope::system>(&bench.report.launched, number);
    for (u32 me = 0; me < 2; ++me)
      workers.emplace_back([next, me] {
        Worker worker{};
        alignas(64) u8 scratch[64];
        CpuWorker(next, &worker, scratch, me).serve();
      });
  };
  std::jthread keeper([&] {
    for (u32 number = 1; !stop; ++number) {
      lease(number);
      last = number;
      // The previous lease may report late that it has begun.
      while (!stop && load<Order::relaxed, Scope::system>(&bench.report.begun) != number &&
             load<Order::relaxed, Scope::system>(&bench.report.left[number % kMostLeases]) != number)
        std::this_thread::yield();
      // The slot of the lease after the next must be free.
      while (number > 2 && load<Order::acquire, Scope::system>(&bench.report.left[(number - 2) % kMostLeases]) != number - 2)
        std::this_thread::yield();
    }
  });
  u32 tasks = 0;
  for (; tasks < kLeastTasks || last <= 10; ++tasks) {
    const detail::Task task = task_of({tasks % 1024});
    std::uint64_t at = 0;
    while (!bench.queue.try_submit(alias_, task, &at)) {
      bench.queue.reap();
      std::this_thread::yield();
    }
  }
  while (!bench.queue.reap()) std::this_thread::yield();
  stop = true;
  keeper.join();
  store<Order::relaxed, Scope::system>(&bench.report.end, last.load());
  workers.clear();
  u32 all = 0;
  for (auto& times : ran) all += times;
  EXPECT_EQ(all, tasks);
}

}  // namespace
}  // namespace dwell::device::cpu_resident_test
