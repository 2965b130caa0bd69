#include "runtime/program/compile_pool.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

TEST(CompilePool, RunsNoMoreAtOnceThanItHasThreads) {
  CompilePool pool(3);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::atomic<int> done{0};
  for (int i = 0; i < 30; ++i) {
    pool.run([&] {
      int seen = most.load();
      for (const int running = ++now; seen < running && !most.compare_exchange_weak(seen, running);) {}
      std::this_thread::sleep_for(2ms);
      --now;
      ++done;
    });
  }
  while (done < 30) std::this_thread::yield();
  EXPECT_EQ(most, 3);
}

TEST(CompilePool, RunsUrgentJobsFirstOthersInOrder) {
  CompilePool pool(1);
  std::promise<void> go;
  pool.run([ready = go.get_future().share()] { ready.wait(); });
  std::vector<int> order;
  std::promise<void> end;
  for (int i = 0; i < 3; ++i) pool.run([&order, i] { order.push_back(i); });
  pool.run([&] { end.set_value(); });
  pool.run_next(pool.prepare([&] { order.push_back(9); }));
  go.set_value();
  end.get_future().wait();
  EXPECT_EQ(order, (std::vector{9, 0, 1, 2}));
}

TEST(CompilePool, TimedJobsRunOnTime) {
  CompilePool pool(1);
  const auto start = CompilePool::Clock::now();
  std::vector<int> order;
  std::promise<void> end;
  pool.run_at(start + 40ms, [&] { end.set_value(); });
  pool.run_at(start + 20ms, [&] { order.push_back(2); });
  pool.run([&] { order.push_back(1); });
  end.get_future().wait();
  EXPECT_GE(CompilePool::Clock::now() - start, 40ms);
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(CompilePool, StopsWithoutStartingQueuedJobs) {
  CompilePool pool(1);
  std::promise<void> begun;
  std::atomic<int> ran{0};
  pool.run([&] {
    begun.set_value();
    // Runs until the pool is stopping and drops new work.
    for (bool dropped = false; !dropped;) {
      auto held = std::make_shared<int>();
      const std::weak_ptr<int> probe = held;
      pool.run([held = std::move(held)] {});
      dropped = probe.expired();
      std::this_thread::sleep_for(1ms);
    }
    ++ran;
  });
  begun.get_future().wait();
  for (int i = 0; i < 5; ++i) pool.run([&] { ++ran; });
  pool.run_at(CompilePool::Clock::now() + 1h, [&] { ++ran; });
  pool.stop();
  EXPECT_EQ(ran, 1);
  pool.run([&] { ++ran; });
  pool.stop();
  EXPECT_EQ(ran, 1);
}

TEST(CompilePool, RunsEveryErrandDuringAndAfterStop) {
  CompilePool pool(1);
  std::promise<void> begun;
  std::promise<void> go;
  std::vector<int> order;
  CompilePool::Errand errands[3];
  for (int i = 0; i < 3; ++i) errands[i] = pool.prepare([&order, i] { order.push_back(i); });
  pool.run([&] {
    begun.set_value();
    go.get_future().wait();
    pool.run_next(std::move(errands[1]));
  });
  begun.get_future().wait();
  pool.run_next(std::move(errands[0]));
  std::jthread stops([&] { pool.stop(); });
  std::this_thread::sleep_for(5ms);
  go.set_value();
  stops.join();
  EXPECT_EQ(order, (std::vector{0, 1}));
  pool.run_next(std::move(errands[2]));
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(CompilePool, WorksWithLowPriority) {
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  CompilePool pool(1);
  std::promise<int> nice;
  pool.run([&] { nice.set_value(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()))); });
  EXPECT_GE(nice.get_future().get(), std::max(own, 10));
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())), own);
}

}  // namespace
}  // namespace dwell::runtime
