#include "runtime/complete/notifier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

std::size_t threads() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Notifier, StartsItsThreadWithTheFirstCallback) {
  // A sanitizer starts a thread of its own with the first one. /proc lists a thread for a moment after its join.
  pid_t first = 0;
  std::thread([&] { first = gettid(); }).join();
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(first))) std::this_thread::sleep_for(1ms);
  const std::size_t before = threads();
  Notifier notifier({});
  EXPECT_EQ(threads(), before);
  std::promise<std::thread::id> called;
  EXPECT_TRUE(notifier.when([] { return true; }, [&] { called.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(called.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(threads(), before + 1);
  notifier.finish();
  for (int i = 0; i < 1000 && threads() != before; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(threads(), before);
}

TEST(Notifier, CallsOnceWhenTheConditionHolds) {
  Notifier notifier({});
  std::atomic<bool> due{false};
  std::atomic<int> calls{0};
  std::promise<void> called;
  notifier.when([&] { return due.load(); },
                [&] {
                  ++calls;
                  called.set_value();
                });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 0);
  due = true;
  called.get_future().wait();
  notifier.finish();
  EXPECT_EQ(calls, 1);
}

TEST(Notifier, ALongWaitDelaysNoOtherCallback) {
  Notifier notifier({});
  std::atomic<bool> never{false};
  std::vector<int> order;
  notifier.when([&] { return never.load(); }, [&] { order.push_back(0); });
  std::this_thread::sleep_for(20ms);
  std::promise<void> called;
  notifier.when([] { return true; }, [&] { order.push_back(1); });
  notifier.when([] { return true; },
                [&] {
                  order.push_back(2);
                  called.set_value();
                });
  called.get_future().wait();
  notifier.finish();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 0));
}

TEST(Notifier, FinishRunsRemainingCallbacksAndRefusesMore) {
  Notifier notifier({});
  int calls = 0;
  for (int i = 0; i < 2; ++i) notifier.when([] { return false; }, [&] { ++calls; });
  notifier.finish();
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(notifier.when([] { return true; }, [&] { ++calls; }));
  notifier.finish();
  EXPECT_EQ(calls, 2);
}

TEST(Notifier, MovesACallbackOnlyIfAccepted) {
  Notifier notifier({});
  std::promise<std::thread::id> dropped;
  std::shared_ptr<void> held(nullptr, [&](void*) { dropped.set_value(std::this_thread::get_id()); });
  Notifier::Callback callback = [held = std::move(held)] {};
  EXPECT_TRUE(notifier.when([] { return true; }, callback));
  EXPECT_FALSE(callback) << "what it holds may go on this thread";
  EXPECT_NE(dropped.get_future().get(), std::this_thread::get_id());
  int calls = 0;
  callback = [&] { ++calls; };
  Notifier::Prepared prepared = notifier.prepare([] { return true; }, callback);
  notifier.finish();
  EXPECT_FALSE(notifier.when([] { return true; }, callback));
  callback();
  EXPECT_FALSE(notifier.when(prepared));
  prepared.call();
  EXPECT_EQ(calls, 2);
}

TEST(Notifier, ExceptionsOfCallbacksAreReported) {
  std::vector<std::string> lines;
  Notifier notifier([&](std::string_view line) { lines.emplace_back(line); });
  notifier.when([] { return true; }, [] { throw std::runtime_error("enough"); });
  notifier.when([]() -> bool { throw std::runtime_error("not known"); }, [] { throw 3; });
  notifier.finish();
  EXPECT_THAT(lines, testing::ElementsAre(testing::HasSubstr("a callback threw: enough"), testing::HasSubstr("a callback threw")));
}

TEST(Notifier, CountsInAnEventfd) {
  Notifier notifier({});
  const int fd = notifier.event_fd();
  EXPECT_EQ(notifier.event_fd(), fd);
  pollfd poll{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  notifier.count();
  notifier.count();
  EXPECT_EQ(::poll(&poll, 1, 0), 1);
  std::uint64_t count = 0;
  EXPECT_EQ(::read(fd, &count, sizeof(count)), 8);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
}

TEST(Notifier, SeveralThreadsAddCallbacksWhileItFinishes) {
  for (int turn = 0; turn < 20; ++turn) {
    std::atomic<int> asked{0};
    std::atomic<int> called{0};
    Notifier notifier({});
    {
      std::vector<std::jthread> askers;
      for (int i = 0; i < 3; ++i)
        askers.emplace_back([&] {
          while (notifier.when([] { return true; }, [&] { ++called; })) ++asked;
        });
      std::this_thread::sleep_for(1ms);
      notifier.finish();
    }
    EXPECT_EQ(called, asked);
  }
}

}  // namespace
}  // namespace dwell::runtime
