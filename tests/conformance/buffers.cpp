// Memory: writing, reading, lifetimes and refusals.
#include <numeric>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class BuffersTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(BuffersTest);

std::vector<u32> counting(u32 count, u32 from = 0) {
  std::vector<u32> numbers(count);
  std::iota(numbers.begin(), numbers.end(), from);
  return numbers;
}

TEST_P(BuffersTest, WrittenDataIsReadBack) {
  Runtime runtime(options());
  for (const Memory memory : {Memory::device, Memory::host}) {
    auto buffer = runtime.allocate<u32>(1000, memory);
    EXPECT_EQ(buffer.size(), 1000U);
    EXPECT_EQ(buffer.bytes(), 4000U);
    EXPECT_EQ(buffer.memory(), memory);
    buffer.write(counting(1000));
    EXPECT_EQ(read(buffer), counting(1000));
    buffer.write(counting(10, 5000), 990);
    std::vector<u32> part(20);
    buffer.read(part, 980);
    EXPECT_EQ(part[9], 989U);
    EXPECT_EQ(part[10], 5000U);
    buffer.write(std::span<const u32>(), 1000);
    buffer.read(std::span<u32>(), 1000);
  }
}

TEST_P(BuffersTest, ACopyBeyondTheBufferIsRefused) {
  Runtime runtime(options());
  auto buffer = runtime.allocate<u32>(10);
  std::vector<u32> eleven(11);
  DWELL_EXPECT_ERROR_FIELDS(buffer.write(eleven), errc::invalid_argument, "buffer", "", 11, 10);
  DWELL_EXPECT_ERROR_FIELDS(buffer.read(eleven), errc::invalid_argument, "buffer", "", 11, 10);
  DWELL_EXPECT_ERROR_FIELDS(buffer.write(std::vector<u32>(1), 10), errc::invalid_argument, "buffer", "", 1, 0);
  DWELL_EXPECT_ERROR(buffer.write(std::span<const u32>(), 11), errc::invalid_argument, HasSubstr("11"));
  DWELL_EXPECT_ERROR(buffer.slice(5, 6), errc::invalid_argument, HasSubstr("5"));
  DWELL_EXPECT_ERROR(buffer.slice(11, 0), errc::invalid_argument, HasSubstr("11"));
  DWELL_EXPECT_ERROR(buffer.slice(1, SIZE_MAX), errc::invalid_argument, HasSubstr("1"));
  EXPECT_EQ(buffer.slice(10, 0).size(), 0U);
  Buffer<u32> none;
  DWELL_EXPECT_ERROR(none.write(std::vector<u32>()), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(none.host(), errc::invalid_argument, HasSubstr("empty"));
  EXPECT_EQ(none.size(), 0U);
  EXPECT_EQ(none.bytes(), 0U);
  EXPECT_EQ(none.data(), nullptr);
}

TEST_P(BuffersTest, AnEmptyBufferWorks) {
  Runtime runtime(options());
  auto op = runtime.define<void(Span<const float>, Span<u32>)>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<const float> none, dwell::Span<dwell::u32> out) {
      if (g.rank() == 0) out[0] = none.empty() ? 1 : 2;
    })");
  const auto none = runtime.allocate<float>(0);
  auto out = runtime.allocate<u32>(1);
  runtime.submit(op, none, out).wait();
  EXPECT_EQ(read(out)[0], 1U);
}

TEST_P(BuffersTest, AllocationsBeyondTheMemoryAreRefused) {
  Runtime runtime(options());
  DWELL_EXPECT_ERROR(runtime.allocate<double>(SIZE_MAX / 4), errc::invalid_argument, HasSubstr("too large"));
  // A size whose product wraps around.
  struct Prime {
    char bytes[2800529];
  };
  static_assert(6586878433935ULL * sizeof(Prime) == SIZE_MAX);
  DWELL_EXPECT_ERROR(runtime.allocate<Prime>(6586878433935ULL), errc::invalid_argument, HasSubstr("too large"));
  for (const Memory memory : {Memory::device, Memory::host}) {
    for (std::size_t less = 0; less < 600; less += 17)
      DWELL_EXPECT_ERROR(runtime.allocate<u8>(SIZE_MAX - less, memory), errc::invalid_argument, HasSubstr("too large"));
    for (int bit = 48; bit < 64; ++bit)
      for (const std::size_t count : {std::size_t{1} << bit, (std::size_t{1} << bit) / 8, (std::size_t{1} << bit) / 8 + 1})
        DWELL_EXPECT_ERROR(runtime.allocate<double>(count, memory), errc::invalid_argument, HasSubstr("too large"));
  }
  if (kSanitized) GTEST_SKIP() << "the sanitizer's allocator ends the program instead";
  DWELL_EXPECT_ERROR(runtime.allocate<double>(1ULL << 43), errc::out_of_memory, HasSubstr("70368744177664 bytes"));
  DWELL_EXPECT_ERROR(runtime.allocate<double>(1ULL << 43, Memory::host), errc::out_of_memory, HasSubstr("70368744177664 bytes"));
  auto still = filled<u32>(runtime, 10, 3);
  EXPECT_THAT(read(still), testing::Each(3U));
}

TEST_P(BuffersTest, ReadAndWriteWaitForTheTasksOnTheBuffer) {
  Runtime runtime(options());
  auto slow_copy = runtime.define<void(u64, Span<u32>, Span<u32>)>("slow_copy", R"(
    DWELL_OPERATOR(slow_copy)(dwell::Group g, dwell::u64 ns, dwell::Span<dwell::u32> from, dwell::Span<dwell::u32> to) {
      const dwell::u64 start = dwell::device::now_ns();
      while (dwell::device::now_ns() - start < ns) {}
      g.sync();
      for (auto i : g.range(to.size())) to[i] = from[i];
    })");
  for (const Memory memory : {Memory::device, Memory::host}) {
    auto from = runtime.allocate<u32>(300, memory);
    auto to = runtime.allocate<u32>(300, memory);
    for (u32 turn = 0; turn < 20; ++turn) {
      // The second write must not reach the earlier task.
      from.write(counting(300, turn * 1000));
      runtime.submit(slow_copy, 1'000'000ULL, from, to);
      from.write(counting(300, 7));
      ASSERT_EQ(read(to), counting(300, turn * 1000));
    }
  }
}

TEST_P(BuffersTest, ReadAndWriteDoNotWaitForTasksOnOtherBuffers) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto add = runtime.define<Add>("add", kAdd);
  auto before = filled<u32>(runtime, 100, 1);
  Latch latch(runtime);
  auto after = filled<u32>(runtime, 100, 2);
  const Ticket held = runtime.submit(hold, latch.words());
  latch.await();
  runtime.submit(add, before, 0U, 10U);
  before.write(std::vector<u32>{5}, 1);
  EXPECT_EQ(read(before)[0], 11U);
  EXPECT_EQ(read(before)[1], 5U);
  EXPECT_THAT(read(after), testing::Each(2U));
  EXPECT_FALSE(held.done());
  latch.release();
}

// ---- Users that come in unusual ways ----

// Writes to its cells after 200 us.
constexpr const char* kSlowFill = R"(
DWELL_OPERATOR(slow_fill)(dwell::Group g, dwell::Span<dwell::u32> to, dwell::u32 value) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 200000) {}
  g.sync();
  for (auto i : g.range(to.size())) to[i] = value;
})";
using SlowFill = void(Span<u32>, u32);

TEST_P(BuffersTest, ReadsWaitForTasksAtPlacesThatAThreadHadBefore) {
  // A thread that submits often has places in the ring that it fills later: before the tail of a read, and of an allocation.
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  auto fill = runtime.define<SlowFill>("slow_fill", kSlowFill);
  auto known = filled<u32>(runtime, 4, 0);
  constexpr u32 kTurns = kSanitized ? 50 : 300;
  std::optional<Buffer<u32>> fresh;
  std::atomic<u32> turn{0};  // odd: the other thread's
  const auto reach = [&](u32 to) {
    while (turn.load() < to) std::this_thread::yield();
  };
  std::jthread other([&] {
    for (u32 round = 0; round < kTurns; ++round) {
      for (u32 i = 0; i < 5; ++i) runtime.submit(nothing);
      turn = 4 * round + 1;
      reach(4 * round + 2);
      runtime.submit(fill, known, round + 1);
      runtime.submit(fill, *fresh, round + 1);
      turn = 4 * round + 3;
      reach(4 * round + 4);
    }
  });
  for (u32 round = 0; round < kTurns; ++round) {
    reach(4 * round + 1);
    fresh.emplace(runtime.allocate<u32>(4));
    EXPECT_THAT(read(known), testing::Each(round));
    turn = 4 * round + 2;
    reach(4 * round + 3);
    EXPECT_THAT(read(*fresh), testing::Each(round + 1));
    EXPECT_THAT(read(known), testing::Each(round + 1));
    turn = 4 * round + 4;
  }
}

TEST_P(BuffersTest, ThreadsReadWhatTheirTasksWrite) {
  Runtime runtime(options());
  auto fill = runtime.define<SlowFill>("slow_fill", kSlowFill);
  auto nothing = runtime.define("nothing", kNothing);
  constexpr u32 kThreads = 4;
  constexpr u32 kTurns = kSanitized ? 20 : 100;
  std::vector<std::jthread> threads;
  for (u32 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      auto kept = filled<u32>(runtime, 4, 0);
      for (u32 round = 0; round < kTurns; ++round) {
        auto fresh = runtime.allocate<u32>(4);
        for (u32 i = 0; i < t * 7; ++i) runtime.submit(nothing);
        runtime.submit(fill, kept, round);
        if (round % 2 == 0) runtime.submit(fill, fresh, round + 1);
        EXPECT_THAT(read(kept), testing::Each(round));
        EXPECT_THAT(read(fresh), testing::Each(round % 2 == 0 ? round + 1 : 0));
      }
    });
}

TEST_P(BuffersTest, ReadsWaitForGraphsThatHaveComeToUseTheBuffer) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto fill = runtime.define<SlowFill>("slow_fill", kSlowFill);
  auto first = filled<u32>(runtime, 4, 0);
  auto second = filled<u32>(runtime, 4, 0);
  Graph graph;
  const Node node = graph.add(fill, first, 1U);
  GraphExec exec = runtime.instantiate(graph);
  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  latch.await();
  const Ticket waits = runtime.launch(exec, after(held));
  EXPECT_THAT(read(second), testing::Each(0U)) << "no launch uses it yet";
  EXPECT_FALSE(waits.done());
  exec.set(node, 0, second);
  exec.set(node, 1, 2U);
  runtime.launch(exec);
  latch.release();
  EXPECT_THAT(read(second), testing::Each(2U));
  EXPECT_THAT(read(first), testing::Each(1U));
}

TEST_P(BuffersTest, CancelledAndFailedTasksAreUsersUntilTheyEnd) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto fill = runtime.define<SlowFill>("slow_fill", kSlowFill);
  auto fails = runtime.define<void(Span<u32>)>("fails", R"(
    DWELL_OPERATOR(fails)(dwell::Group g, dwell::Span<dwell::u32> to) {
      for (auto i : g.range(to.size())) to[i] = 7;
      if (g.rank() == 0) g.fail(3);
    })");
  auto buffer = filled<u32>(runtime, 4, 1);
  const Ticket failed = runtime.submit(fails, buffer);
  EXPECT_THAT(read(buffer), testing::Each(7U));
  EXPECT_TRUE(failed.done());
  EXPECT_EQ(failed.status(), 3);
  runtime.submit(fill, buffer, 8U);
  EXPECT_THAT(read(buffer), testing::Each(8U)) << "behind the failed one";

  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  latch.await();
  const Ticket cancelled = runtime.submit(fill, buffer, 9U, after(held));
  EXPECT_TRUE(cancelled.cancel());
  std::jthread releases([&] {
    std::this_thread::sleep_for(5ms);
    latch.release();
  });
  buffer.write(std::vector<u32>(4, 5));  // waits for the end of the cancelled one
  EXPECT_TRUE(cancelled.done());
  EXPECT_EQ(cancelled.status(), status::cancelled);
  EXPECT_THAT(read(buffer), testing::Each(5U));
  runtime.submit(fill, buffer, 10U);
  EXPECT_THAT(read(buffer), testing::Each(10U));
}

TEST_P(BuffersTest, ATaskSeesOnlyItsSlice) {
  Runtime runtime(options());
  auto fill = runtime.define<void(Span<u32>, u32)>("fill", R"(
    DWELL_OPERATOR(fill)(dwell::Group g, dwell::Span<dwell::u32> to, dwell::u32 value) {
      for (auto i : g.range(to.size())) to[i] = value + static_cast<dwell::u32>(to.size());
    })");
  auto buffer = filled<u32>(runtime, 100, 0);
  runtime.submit(fill, buffer.slice(10, 20), 1000U);
  runtime.submit(fill, buffer.slice(50, 0), 9000U);
  runtime.submit(fill, buffer.slice(99, 1), 2000U);
  const std::vector<u32> result = read(buffer);
  for (u32 i = 0; i < 100; ++i) ASSERT_EQ(result[i], i == 99 ? 2001U : i >= 10 && i < 30 ? 1020U : 0U) << i;
  EXPECT_EQ(buffer.slice(10, 20).span().data(), buffer.data() + 10);
}

TEST_P(BuffersTest, HostMemoryIsSeenByBoth) {
  Runtime runtime(options());
  auto add = runtime.define<void(Span<u32>)>("bump", R"(
    DWELL_OPERATOR(bump)(dwell::Group g, dwell::Span<dwell::u32> x) { for (auto i : g.range(x.size())) x[i] += 1; })");
  auto buffer = runtime.allocate<u32>(500, Memory::host);
  std::iota(buffer.host().begin(), buffer.host().end(), 0U);
  for (u32 turn = 1; turn < 50; ++turn) {
    runtime.submit(add, buffer).wait();
    for (u32 i = 0; i < 500; ++i) ASSERT_EQ(buffer.host()[i], i + turn);
  }
  auto device = filled<u32>(runtime, 3, 5);
  if (on_cpu()) {
    EXPECT_THAT(device.host(), testing::Each(5U));
  } else {
    DWELL_EXPECT_ERROR(device.host(), errc::unsupported, HasSubstr("host memory"));
  }
}

TEST_P(BuffersTest, ADroppedBufferLivesUntilItsTasksHaveRun) {
  Runtime runtime(options());
  auto copy = runtime.define<void(Span<const u32>, Span<u32>)>("copy", R"(
    DWELL_OPERATOR(copy)(dwell::Group g, dwell::Span<const dwell::u32> from, dwell::Span<dwell::u32> to) {
      for (auto i : g.range(to.size())) to[i] = from[i];
    })");
  constexpr u32 kTasks = 50;
  auto to = filled<u32>(runtime, 1000 * kTasks, 0);
  runtime.park();
  for (u32 task = 0; task < kTasks; ++task) {
    auto from = filled<u32>(runtime, 1000, task + 1);
    runtime.submit(copy, from, to.slice(std::size_t{1000} * task, 1000));
  }
  // New buffers, which would reuse the memory.
  std::vector<Buffer<u32>> others;
  for (u32 i = 0; i < kTasks; ++i) others.push_back(filled<u32>(runtime, 1000, 0xDEAD));
  runtime.resume();
  const std::vector<u32> result = read(to);
  for (u32 i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], i / 1000 + 1) << i;
}

TEST_P(BuffersTest, ABufferMayBeAssignedWhileItsTaskRuns) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto latch = std::make_unique<Latch>(runtime);
  auto words = runtime.allocate<u32>(2, Memory::host);
  const std::span<u32> seen = words.host();
  const Ticket ticket = runtime.submit(hold, words);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref(seen[0]).load() != 0; }));
  std::atomic_ref<u32> go(seen[1]);
  words = runtime.allocate<u32>(2, Memory::host);
  EXPECT_FALSE(ticket.done());
  go.store(1);
  ticket.wait();
}

TEST_P(BuffersTest, BuffersMove) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto first = filled<u32>(runtime, 1, 1);
  auto second = filled<u32>(runtime, 1, 10);
  u32* const address = second.data();
  runtime.submit(add, second, 0U, 5U);
  first = std::move(second);
  EXPECT_EQ(first.data(), address);
  runtime.submit(add, first, 0U, 100U);
  EXPECT_EQ(read(first)[0], 115U);
  // The moved-from handle names no memory.
  DWELL_EXPECT_ERROR(runtime.submit(add, second, 0U, 1U), errc::invalid_argument, HasSubstr("empty"));  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.size(), 0U);
  EXPECT_EQ(second.data(), nullptr);
}

TEST_P(BuffersTest, BuffersOutliveTheirRuntime) {
  Buffer<u32> buffer;
  Buffer<u32> host;
  {
    Runtime runtime(options());
    auto add = runtime.define<Add>("add", kAdd);
    buffer = filled<u32>(runtime, 100, 1);
    host = runtime.allocate<u32>(10, Memory::host);
    runtime.submit(add, buffer, 0U, 1U);
  }
  EXPECT_EQ(buffer.size(), 100U);
  std::vector<u32> to(100);
  DWELL_EXPECT_ERROR(buffer.read(to), errc::stale_handle, HasSubstr("closed"));
  DWELL_EXPECT_ERROR(buffer.write(to), errc::stale_handle, HasSubstr("closed"));
  DWELL_EXPECT_ERROR(host.host(), errc::stale_handle, HasSubstr("closed"));
}

TEST_P(BuffersTest, BuffersMayBeUsedWhileTheirRuntimeCloses) {
  for (int turn = 0; turn < (kSanitized ? 20 : 60); ++turn) {
    Options little = options();
    little.ring_slots = 128;
    Runtime runtime(little);
    std::vector<Buffer<u32>> dropped;
    for (int i = 0; i < 50; ++i) dropped.push_back(runtime.allocate<u32>(64));
    auto used = filled<u32>(runtime, 64, 1);
    std::atomic<int> ready{0};
    std::jthread dropper([&] {
      ++ready;
      while (ready < 3) {}
      while (!dropped.empty()) dropped.pop_back();
    });
    std::jthread reader([&] {
      std::vector<u32> to(64);
      ++ready;
      while (ready < 3) {}
      try {
        for (;;) {
          used.read(to);
          ASSERT_THAT(to, testing::Each(1U));
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), errc::stale_handle);
      }
    });
    ++ready;
    while (ready < 3) {}
    runtime.close(turn % 2 == 0 ? Close::when_done : Close::now);
    dropper.join();
    reader.join();
  }
}

TEST_P(BuffersTest, SeveralThreadsAllocateAndDrop) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto sums = filled<u32>(runtime, 4, 0);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 4; ++me)
    threads.emplace_back([&, me] {
      for (u32 i = 0; i < 200; ++i) {
        auto mine = filled<u32>(runtime, 16 + i, i);
        const Ticket ticket = runtime.submit(add, mine, 3U, me);
        if (i % 2 == 0) {
          EXPECT_EQ(read(mine)[3], i + me);
          EXPECT_TRUE(ticket.done());
        }
        runtime.submit(add, sums, me, 1U);
      }
    });
  threads.clear();
  EXPECT_THAT(read(sums), testing::Each(200U));
}

}  // namespace
}  // namespace dwell::test
