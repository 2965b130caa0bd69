// Submitting tasks and waiting for them.
#include <numeric>
#include <set>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class SubmitTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(SubmitTest);

TEST_P(SubmitTest, RunsATask) {
  Runtime runtime(options());
  auto axpy = runtime.define<void(float, Span<const float>, Span<float>)>("axpy", R"(
    DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
      for (auto i : g.range(y.size())) y[i] += a * x[i];
    })");
  std::vector<float> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  auto x = runtime.allocate<float>(1000);
  auto y = filled(runtime, 1000, 1.0F);
  x.write(numbers);
  const Ticket ticket = runtime.submit(axpy, 2.0F, x, y);
  ticket.wait();
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
  EXPECT_EQ(ticket.device(), 0U);
  const std::vector<float> result = read(y);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 1.0F + 2.0F * numbers[i]);
}

TEST_P(SubmitTest, FunctionsOfRealNumbersNeedNoInclude) {
  Runtime runtime(options());
  auto evaluate = runtime.define<void(double, Span<double>)>("evaluate", R"(
    DWELL_OPERATOR(evaluate)(dwell::Group g, double x, dwell::Span<double> y) {
      if (g.rank() != 0) return;
      const float f = static_cast<float>(x);
      y[0] = sqrt(x) * sqrt(x);
      y[1] = sqrtf(f) * sqrtf(f);
      y[2] = exp(log(x));
      y[3] = 1 / (rsqrtf(f) * rsqrtf(f));
      y[4] = pow(x, 2.0) / fma(x, 1.0, 0.0);
      y[5] = hypotf(f, 0) + floorf(sinf(0));
      y[6] = fminf(fmaxf(f, 1), 100) + atan2(0.0, 1.0);
      y[7] = copysign(fabs(-x), 1.0);
    })");
  auto y = filled(runtime, 8, 0.0);
  runtime.submit(evaluate, 3.0, y).wait();
  for (const double value : read(y)) EXPECT_NEAR(value, 3.0, 1e-5);
}

TEST_P(SubmitTest, AnEmptyTicketIsDone) {
  const Ticket ticket;
  ticket.wait();
  EXPECT_TRUE(ticket.wait_for(0ns));
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
}

TEST_P(SubmitTest, TicketsFollowOneAnother) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  std::uint64_t last = runtime.submit(nothing).position();
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t position = runtime.submit(nothing).position();
    EXPECT_GT(position, last);
    last = position;
  }
  EXPECT_EQ(runtime.metrics().submitted, 101U);
}

TEST_P(SubmitTest, WaitForGivesUpAndTheTaskContinues) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  const Ticket ticket = runtime.submit(hold, latch.words());
  latch.await();
  const auto start = Clock::now();
  EXPECT_FALSE(ticket.wait_for(30ms));
  EXPECT_GE(Clock::now() - start, 30ms);
  EXPECT_FALSE(ticket.wait_for(0ns));
  EXPECT_FALSE(ticket.wait_for(-1s));
  EXPECT_FALSE(ticket.done());
  latch.release();
  EXPECT_TRUE(ticket.wait_for(20s));
  EXPECT_TRUE(ticket.done());
}

TEST_P(SubmitTest, WaitForTakesTheLongestTime) {
  Runtime runtime(options());
  auto spin = runtime.define<Spin>("spin", kSpin);
  const Ticket ticket = runtime.submit(spin, 20'000'000ULL);
  EXPECT_TRUE(ticket.wait_for(std::chrono::nanoseconds::max()));
  EXPECT_TRUE(runtime.submit(spin, 20'000'000ULL).wait_for(std::chrono::hours(24 * 365 * 250)));
}

TEST_P(SubmitTest, SeveralThreadsWaitForOneTicket) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  const Ticket ticket = runtime.submit(hold, latch.words());
  std::atomic<int> back{0};
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, copy = ticket] {
      copy.wait();
      ++back;
    });
  latch.await();
  EXPECT_EQ(back.load(), 0);
  latch.release();
  threads.clear();
  EXPECT_EQ(back.load(), 4);
}

TEST_P(SubmitTest, WaitAllWaitsForAll) {
  Runtime runtime(options());
  auto spin = runtime.define<Spin>("spin", kSpin);
  runtime.wait_all();
  std::vector<Ticket> tickets;
  tickets.reserve(20);
  for (int i = 0; i < 20; ++i) tickets.push_back(runtime.submit(spin, 2'000'000ULL));
  runtime.wait_all();
  for (const Ticket& ticket : tickets) EXPECT_TRUE(ticket.done());
}

TEST_P(SubmitTest, WaitAllDoesNotWaitForLaterTasks) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch first(runtime);
  Latch second(runtime);
  runtime.submit(hold, first.words());
  first.await();
  std::atomic<int> stage{0};
  std::jthread waiter([&] {
    stage = 1;
    runtime.wait_all();
    stage = 2;
  });
  EXPECT_TRUE(eventually([&] { return stage == 1; }));
  std::this_thread::sleep_for(50ms);
  const Ticket later = runtime.submit(hold, second.words());
  EXPECT_EQ(stage, 1);
  first.release();
  EXPECT_TRUE(eventually([&] { return stage == 2; }));
  EXPECT_FALSE(later.done());
  second.release();
}

TEST_P(SubmitTest, SubmitManyRunsEachOnce) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  constexpr std::size_t kCells = 5000;
  auto cells = filled<u32>(runtime, kCells, 0);
  EXPECT_TRUE(runtime.submit_many(add, 0, [](std::size_t, auto&&) {}).done());
  // The last two are larger than the ring.
  for (const std::size_t count : {1U, 63U, 64U, 65U, 1500U, 5000U}) {
    const Ticket last =
        runtime.submit_many(add, count, [&](std::size_t i, auto&& put) { put(cells, static_cast<u32>(i), static_cast<u32>(i) + 1); });
    last.wait();
    runtime.wait_all();
    std::vector<u32> result = read(cells);
    for (std::size_t i = 0; i < kCells; ++i) ASSERT_EQ(result[i], i < count ? i + 1 : 0) << count;
    cells.write(std::vector<u32>(kCells, 0));
  }
}

TEST_P(SubmitTest, SubmitManyTakesModifiersAndUncheckedHandles) {
  Runtime runtime(options());
  Operator<> append = runtime.define("append", kAppend);
  auto number = filled<u32>(runtime, 1, 0);
  runtime.submit_many(append, 700, [&](std::size_t i, auto&& put) {
    if (i % 5 == 0)
      put(number, static_cast<u32>(i), drain);
    else
      put(number, static_cast<u32>(i), link);
  });
  EXPECT_EQ(read(number)[0], appended(700));
}

TEST_P(SubmitTest, SubmitManyNeedsOneTaskPerCall) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 200, 0);
  for (const std::uint32_t puts : {0U, 2U}) {
    const auto each = [&](std::size_t i, auto&& put) {
      for (std::uint32_t k = 0; k < (i == 100 ? puts : 1); ++k) put(cells, static_cast<u32>(i), 1U);
    };
    DWELL_EXPECT_ERROR(runtime.submit_many(add, 200, each), errc::invalid_argument,
                       HasSubstr(puts == 0 ? "each(100, put) has called put not at all" : "each(100, put) has called put 2 times"));
  }
  const auto stops = [&](std::size_t i, auto&& put) {
    if (i == 70) throw std::runtime_error("enough");
    put(cells, static_cast<u32>(i), 1U);
  };
  EXPECT_THROW(runtime.submit_many(add, 200, stops), std::runtime_error);
  const auto stops_behind_its_put = [&](std::size_t i, auto&& put) {
    if (i % 2 == 0)
      put(cells, static_cast<u32>(i), 1U);
    else
      put(cells, static_cast<u32>(i), 1U, link);
    if (i == 20 || i == 31) throw std::runtime_error("enough");
  };
  EXPECT_THROW(runtime.submit_many(add, 200, stops_behind_its_put), std::runtime_error);
  const auto links_twice = [&](std::size_t i, auto&& put) {
    put(cells, static_cast<u32>(i), 1U, link);
    if (i == 10) put(cells, static_cast<u32>(i), 1U, link);
  };
  DWELL_EXPECT_ERROR(runtime.submit_many(add, 200, links_twice), errc::invalid_argument, HasSubstr("each(10, put)"));
  runtime.wait_all();
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 200; ++i) {
    const u32 calls = i < 10 ? 5 : i < 20 ? 4 : i < 70 ? 3 : i < 100 ? 2 : 0;
    EXPECT_EQ(result[i], calls) << "cell " << i;
  }
}

TEST_P(SubmitTest, FullRingRefusesUntilTasksComplete) {
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1000, 0);
  u32 placed = 0;
  for (int turn = 0; turn < 3; ++turn) {
    runtime.park();
    u32 taken = 0;
    while (runtime.try_submit(add, cells, placed, 1U)) {
      ++placed;
      ++taken;
      ASSERT_LE(taken, 128U);
    }
    // One or two places hold no task.
    EXPECT_GE(taken, 120U);
    EXPECT_FALSE(runtime.try_submit(add, cells, placed, 1U));
    runtime.resume();
    runtime.wait_all();
    EXPECT_TRUE(runtime.try_submit(add, cells, placed++, 1U));
  }
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], i < placed ? 1U : 0U) << i;
}

TEST_P(SubmitTest, SubmitWaitsForAPlace) {
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 400, 0);
  runtime.park();
  std::atomic<u32> submitted{0};
  std::jthread producer([&] {
    for (u32 i = 0; i < 400; ++i) {
      runtime.submit(add, cells, i, 1U);
      ++submitted;
    }
  });
  EXPECT_TRUE(eventually([&] { return submitted >= 120; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(submitted.load(), 128U);
  runtime.resume();
  producer.join();
  EXPECT_THAT(read(cells), testing::Each(1U));
}

TEST_P(SubmitTest, SeveralThreadsSubmit) {
  constexpr u32 kThreads = 4;
  constexpr u32 kEach = kSanitized ? 1500 : 6000;
  Options small = options();
  small.ring_slots = 256;
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, std::size_t{kThreads} * kEach, 0);
  std::vector<std::vector<std::uint64_t>> positions(kThreads);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      const u32 first = me * kEach;
      std::vector<std::uint64_t>& mine = positions[me];
      for (u32 i = 0; i < kEach;) {
        if (i % 100 == 50) {
          const u32 batch = std::min(70U, kEach - i);
          runtime.submit_many(add, batch, [&](std::size_t k, auto&& put) { put(cells, first + i + static_cast<u32>(k), 1U); });
          i += batch;
        } else if (i % 3 == 0) {
          if (const auto ticket = runtime.try_submit(add, cells, first + i, 1U)) {
            mine.push_back(ticket->position());
            ++i;
          }
        } else {
          mine.push_back(runtime.submit(add, cells, first + i++, 1U).position());
        }
      }
    });
  }
  threads.clear();
  EXPECT_THAT(read(cells), testing::Each(1U));
  EXPECT_EQ(runtime.metrics().submitted, kThreads * kEach);
  std::set<std::uint64_t> all;
  for (const auto& mine : positions) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    for (const std::uint64_t position : mine) EXPECT_TRUE(all.insert(position).second) << position;
  }
}

TEST_P(SubmitTest, EffectsAreVisibleOnceTheTicketIsDone) {
  Runtime runtime(options());
  auto write = runtime.define<void(Span<u32>, u32)>("write", R"(
    DWELL_OPERATOR(write)(dwell::Group g, dwell::Span<dwell::u32> to, dwell::u32 value) {
      for (auto i : g.local_range(to.size())) to[i] = value;
    })");
  auto buffer = runtime.allocate<u32>(64, Memory::host);
  for (u32 turn = 1; turn <= 2000; ++turn) {
    const Ticket ticket = runtime.submit(write, buffer, turn);
    while (!ticket.done()) {}
    for (const u32 value : buffer.host()) ASSERT_EQ(value, turn);
  }
}

}  // namespace
}  // namespace dwell::test
