// Several threads at one submission queue: assignment of positions, and positions that stay unused.
#include "runtime/device/submitter.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/device/status.hpp>

#include "tests/unit/bench.hpp"
#include "tests/unit/child.hpp"

namespace dwell::runtime {
namespace {

using device::Header;
using namespace std::chrono_literals;
namespace flag = device::flag;

// A thread that runs given steps one by one.
class Follower {
 public:
  Follower() = default;
  ~Follower() {
    tell([this] { over_ = true; });
  }

  // Runs `step` on the thread. Returns its result.
  template <class Step>
  auto run(Step step) {
    std::optional<decltype(step())> result;
    tell([&] { result = step(); });
    return *result;
  }

 private:
  void tell(const std::function<void()>& step) {
    std::unique_lock lock(mutex_);
    step_ = &step;
    changed_.notify_all();
    changed_.wait(lock, [this] { return step_ == nullptr; });
  }
  void follow() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait(lock, [this] { return step_ != nullptr; });
      (*step_)();
      step_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* step_ = nullptr;
  bool over_ = false;
  std::jthread thread_{[this] { follow(); }};
};

class SubmitterTest : public testing::Test {
 protected:
  // Submits a task with these argument words. Waits until there is room.
  std::uint64_t submit(u32 flags = 0, const std::vector<u32>& words = {0}) {
    const detail::Task task = test::task_of(words, flags);
    std::uint64_t position = 0;
    while (!queue().try_submit(alias_, task, &position)) finish_all();
    ++tasks_;
    return position;
  }
  // Completes all tasks of the ring, as a device would.
  void finish_all() {
    for (std::uint64_t at = queue().reaped(); at < queue().tail(); ++at)
      if (bench_.written(at) && !bench_.complete(at)) bench_.finish(at);
  }
  // Lets another thread submit without pauses until it owns positions that it does not use. Returns the first of those; nothing if threads
  // are given no more than they use.
  std::optional<std::uint64_t> leave_places_unused(Follower& other) {
    if (!kHaveMembarrier) return std::nullopt;
    const auto usual = std::exchange(queue().fast_pace, 1ms);
    for (int tries = 0; tries < 100'000; ++tries) {
      submit();  // no other submitter has the tail afterwards
      const std::uint64_t next = other.run([this] {
        std::uint64_t last = 0;
        for (int i = 0; i < 12; ++i) {
          last = submit();
          if (queue().tail() > last + 1) break;
        }
        return last + 1;
      });
      if (queue().tail() > next) {
        queue().fast_pace = usual;
        return next;
      }
    }
    ADD_FAILURE() << "a thread that submits without pause is given one place at a time";
    return std::nullopt;
  }
  void expect_passed_over(std::uint64_t first, std::uint64_t last) const {
    for (std::uint64_t at = first; at < last; at += bench_.header(at).slots) {
      ASSERT_TRUE(bench_.written(at)) << at;
      EXPECT_EQ(bench_.header(at).source, device::source::pass);
    }
  }

  SubmissionQueue& queue() { return bench_.queue; }

  test::Bench bench_{10, 1};
  std::atomic<std::uint32_t> alias_{5};
  std::atomic<std::uint64_t> tasks_{0};
};

TEST_F(SubmitterTest, SingleThreadGetsConsecutivePositions) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(submit(), i);
    ASSERT_EQ(queue().tail(), i + 1);
  }
  EXPECT_FALSE(queue().rest());
}

TEST_F(SubmitterTest, SlowThreadsLeaveNoPositionUnused) {
  Follower other;
  for (std::uint64_t i = 0; i < 200; i += 2) {
    ASSERT_EQ(submit(), i);
    ASSERT_EQ(other.run([this] { return submit(); }), i + 1);
    std::this_thread::sleep_for(1us);
  }
  EXPECT_FALSE(queue().pass_over_idle());
}

TEST_F(SubmitterTest, PausingThreadReturnsItsPositions) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t tail = queue().tail();
  EXPECT_EQ(queue().submitted(), tasks_) << "an unused place is no task";
  EXPECT_FALSE(queue().rest()) << "this thread has none";
  EXPECT_TRUE(other.run([this] { return queue().rest(); }));
  EXPECT_FALSE(other.run([this] { return queue().rest(); }));
  expect_passed_over(*unused, tail);
  EXPECT_EQ(queue().submitted(), tasks_);
  EXPECT_EQ(other.run([this] { return submit(); }), tail);
  finish_all();
  EXPECT_TRUE(queue().reap());
}

TEST_F(SubmitterTest, NoTaskBeforeASwitchOfTheOpcodeRunsTheNewOne) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t from = bench_.switch_alias(alias_, 6);
  expect_passed_over(*unused, from);
  const std::uint64_t behind = other.run([this] { return submit(); });
  EXPECT_GE(behind, from);
  EXPECT_EQ(bench_.header(behind).opcode, 6U);
  finish_all();
}

TEST_F(SubmitterTest, PositionsOfAStoppedThreadAreSkipped) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t tail = queue().tail();
  const std::uint64_t behind = submit();
  EXPECT_GE(behind, tail);
  for (int looks = 0; !bench_.written(tail - 1); ++looks) {
    ASSERT_LT(looks, 100);
    queue().pass_over_idle();
    std::this_thread::sleep_for(10us);
  }
  expect_passed_over(*unused, tail);
  EXPECT_GT(other.run([this] { return submit(); }), behind);
  EXPECT_EQ(queue().submitted(), tasks_);
}

TEST_F(SubmitterTest, KeeperSkipsUnusedPositions) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t tail = queue().tail();
  std::this_thread::sleep_for(1ms);
  finish_all();
  EXPECT_FALSE(queue().reap()) << "the entries to skip are in flight";
  expect_passed_over(*unused, tail);
  finish_all();
  EXPECT_TRUE(queue().reap());
}

TEST_F(SubmitterTest, TaskAfterADrainFollowsIt) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t tail = queue().tail();
  const std::uint64_t drain = submit(detail::kDrain);
  EXPECT_GE(drain, tail);
  expect_passed_over(*unused, tail);
  const std::uint64_t later = other.run([this] { return submit(); });
  EXPECT_GT(later, drain);
  EXPECT_EQ(bench_.header(later).drains, 1U);
}

TEST_F(SubmitterTest, DrainFollowsItsThreadsTasks) {
  Follower other;
  const auto unused = leave_places_unused(other);
  if (!unused) GTEST_SKIP();
  const std::uint64_t tail = queue().tail();
  EXPECT_EQ(other.run([this] { return submit(detail::kDrain); }), tail);
  expect_passed_over(*unused, tail);
}

TEST_F(SubmitterTest, AliasChangeAppliesToTheNextTaskOfEachThread) {
  Follower other;
  leave_places_unused(other);
  const std::uint64_t from = bench_.switch_alias(alias_, 8);
  EXPECT_EQ(bench_.header(other.run([this] { return submit(); })).opcode, 8U);
  const std::uint64_t mine = submit();
  EXPECT_EQ(bench_.header(mine).opcode, 8U);
  EXPECT_GE(mine, from);
}

TEST_F(SubmitterTest, AThreadThatEndsLeavesNothing) {
  std::optional<std::uint64_t> unused;
  {
    Follower other;
    unused = leave_places_unused(other);
  }
  if (!unused) GTEST_SKIP();
  expect_passed_over(*unused, queue().tail());
  finish_all();
  EXPECT_TRUE(queue().reap());
}

TEST_F(SubmitterTest, TailOwnerMayEnd) {
  submit();
  for (int i = 0; i < 20; ++i)
    std::jthread([&] {
      for (int k = 0; k < 100; ++k) submit();
    });
  submit();
  EXPECT_EQ(queue().submitted(), tasks_);
  finish_all();
  EXPECT_TRUE(queue().reap());
}

TEST_F(SubmitterTest, IdleTailOwnerDoesNotBlockOthers) {
  Follower other;
  other.run([this] {
    std::uint64_t last = 0;
    for (int k = 0; k < 1000; ++k) last = submit();
    return last;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(submit(), 1000U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
}

TEST_F(SubmitterTest, AThreadEndsInAForkedChildWithALockedQueue) {
  submit();
  std::atomic<bool> over{false};
  std::jthread other([&] {
    while (!over) static_cast<void>(queue().submitted());  // holds the lock most of the time
  });
  bool well = true;
  for (int i = 0; i < 20 && well; ++i) {
    well = test::ended_well(test::run_child([]() -> int {
      alarm(20);
      // Runs after the destructors of thread-local objects and before other handlers: the leak check of the address sanitizer hangs in a
      // child of a multithreaded process.
      std::atexit([] { _exit(0); });
      std::exit(1);
    }));
  }
  over = true;
  EXPECT_TRUE(well);
}

TEST_F(SubmitterTest, NewThreadIsNotLinkedToAnEndedOne) {
  Follower().run([this] { return submit(); });
  submit();
  submit(detail::kLink);
  const std::uint64_t last = submit(detail::kLink);
  Follower later;
  const std::uint64_t first = later.run([this] { return submit(detail::kLink); });
  EXPECT_EQ(bench_.header(last).flags, flag::link | flag::tracked);
  EXPECT_EQ(bench_.header(first).flags, flag::tracked);
}

TEST_F(SubmitterTest, ALinkLeadsToTheThreadsOwnTask) {
  Follower other;
  submit(detail::kLink);
  submit(detail::kLink);
  other.run([this] { return submit(); });
  const std::uint64_t theirs = other.run([this] { return submit(detail::kLink); });  // the thread's first link is a drain
  const std::uint64_t mine = submit();
  submit();
  const std::uint64_t theirs_too = other.run([this] { return submit(detail::kLink); });
  EXPECT_EQ(bench_.header(theirs_too).flags, flag::link | flag::tracked);
  EXPECT_EQ(bench_.named(theirs_too), theirs);
  EXPECT_EQ(bench_.named(submit(detail::kLink)), mine + 1);
}

TEST_F(SubmitterTest, ThreadHasASubmitterForEachQueue) {
  auto second = std::make_unique<test::Bench>(10, 1);
  const detail::Task task = test::task_of({});
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(submit(), i);
    ASSERT_TRUE(second->queue.try_submit(alias_, task, &position));
    ASSERT_EQ(position, i);
  }
  second = std::make_unique<test::Bench>(10, 1);  // often at the same address as before
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(second->queue.try_submit(alias_, task, &position));
    ASSERT_EQ(position, i);
    ASSERT_EQ(submit(), 500 + i);
  }
}

// Threads submit tasks of all kinds, in bursts and with pauses, while another one passes over positions, changes the alias and asks leases
// to end. A device reads the ring in order and checks each task.
TEST_F(SubmitterTest, EachTaskOfManyThreadsIsWrittenOnce) {
  constexpr u32 kThreads = 4;
  constexpr u32 kEach = 40'000;
  std::array<u32, kThreads> next{};  // next task of each thread, as seen by the device
  std::atomic<bool> over{false};
  std::jthread device([&] {
    std::uint64_t at = 0;
    u32 drains = 0;
    for (;;) {
      if (!bench_.written(at)) {
        if (over && at == queue().tail()) return;
        std::this_thread::yield();
        continue;
      }
      const Header header = bench_.header(at);
      for (u32 slot = 1; slot < header.slots; ++slot)
        while (!bench_.written(at + slot)) std::this_thread::yield();
      ASSERT_EQ(header.drains, drains & Header::kDrainMask) << "at " << at;
      ASSERT_LE(at % device::kWindow + header.slots, device::kWindow);
      if (header.source != device::source::pass) {
        const u32 thread = bench_.argument(at, 0);
        ASSERT_LT(thread, kThreads);
        ASSERT_EQ(bench_.argument(at, 1), next[thread]++) << "of thread " << thread << " at " << at;
        if ((header.flags & flag::drain) != 0) ++drains;
      }
      bench_.finish(at);
      at += header.slots;
    }
  });
  std::vector<std::jthread> threads;
  std::atomic<u32> running{kThreads};
  for (u32 me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] {
      u32 random = me + 1;
      const auto below = [&](u32 limit) { return (random = random * 1664525U + 1013904223U) / 65536U % limit; };
      const auto place = [&](const detail::Task& task) {
        std::uint64_t position = 0;
        while (!queue().try_submit(alias_, task, &position)) {
          queue().pass_over_idle();
          std::this_thread::yield();
        }
      };
      for (u32 i = 0; i < kEach;) {
        const u32 kind = below(200);
        if (kind == 0) {
          queue().rest();
        } else if (kind == 1) {
          std::this_thread::sleep_for(std::chrono::microseconds(below(30)));
        } else if (kind == 2) {
          place(test::task_of({me, i++}, detail::kDrain));
        } else if (kind < 8) {
          place(test::task_of({me, i++}, detail::kLink));
        } else if (kind < 12) {
          std::vector<u32> words(10 + below(80), me);
          words[1] = i++;
          place(test::task_of(words));
        } else if (kind < 16) {
          std::vector<detail::FirstSlot> batch;
          for (u32 size = std::min(1 + below(100), kEach - i); batch.size() < size;) batch.push_back(test::task_of({me, i++}).first);
          std::uint64_t last = 0;
          for (std::size_t done = 0; done < batch.size();) {
            done += queue().try_submit_plain(alias_, batch.data() + done, batch.size() - done, &last);
            if (done < batch.size()) queue().pass_over_idle();
          }
        } else {
          place(test::task_of({me, i++}));
        }
      }
      if (me % 2 == 0) queue().rest();
      --running;
    });
  for (u32 opcode = 6; running != 0; ++opcode) {
    std::this_thread::sleep_for(100us);
    queue().pass_over_idle();
    if (opcode % 8 == 0) bench_.switch_alias(alias_, opcode & 0xFFFFU);
    if (opcode % 16 == 0) queue().try_close_lease(opcode, true);
    queue().reap();
  }
  threads.clear();
  over = true;
  device.join();
  for (const u32 count : next) EXPECT_EQ(count, kEach);
  EXPECT_EQ(queue().submitted(), kThreads * kEach);
  EXPECT_TRUE(queue().reap());
}

}  // namespace
}  // namespace dwell::runtime
