// Leases: parking, idling, leaving while busy, and long tasks.
#include <sys/resource.h>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class LeaseTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(LeaseTest);

// Runs until the runtime asks for the worker, at most three seconds: then it fails with code 98. Sets the second of two words when it
// begins.
constexpr const char* kUntilYield = R"(
DWELL_OPERATOR(until_yield)(dwell::Group g, dwell::Span<dwell::u64> ran_ns) {
  const dwell::u64 start = dwell::device::now_ns();
  if (g.rank() == 0 && ran_ns.size() > 1)
    dwell::device::store<dwell::device::Order::relaxed, dwell::device::Scope::system>(&ran_ns[1], dwell::u64{1});
  dwell::u32 yields = 0;
  for (dwell::u32 round = 0; yields == 0; ++round) {
    yields = g.reduce(g.should_yield() ? 1u : 0u, [](dwell::u32 a, dwell::u32 b) { return a | b; });
    if (dwell::device::now_ns() - start > 3000000000ull) {
      g.fail(98);
      yields = 1;
    }
    yields = g.reduce(yields, [](dwell::u32 a, dwell::u32 b) { return a | b; });
    dwell::device::relax(round);
  }
  if (g.rank() == 0) ran_ns[0] = dwell::device::now_ns() - start;
})";
using UntilYield = void(Span<u64>);

TEST_P(LeaseTest, NothingRunsWhileParked) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  for (int turn = 0; turn < 5; ++turn) {
    runtime.park();
    std::vector<Ticket> tickets;
    tickets.reserve(20);
    for (int i = 0; i < 20; ++i) tickets.push_back(runtime.submit(add, cells, 0U, 1U));
    EXPECT_FALSE(tickets.front().wait_for(10ms));
    for (const Ticket& ticket : tickets) EXPECT_FALSE(ticket.done());
    runtime.resume();
    for (const Ticket& ticket : tickets) ticket.wait();
  }
  EXPECT_EQ(read(cells)[0], 100U);
}

TEST_P(LeaseTest, ParksAreCounted) {
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  DWELL_EXPECT_ERROR(runtime.resume(), errc::invalid_argument, HasSubstr("without park"));
  runtime.park();
  runtime.park();
  const Ticket ticket = runtime.submit(nothing);
  runtime.resume();
  EXPECT_FALSE(ticket.wait_for(10ms));
  runtime.resume();
  ticket.wait();
  DWELL_EXPECT_ERROR(runtime.resume(), errc::invalid_argument, HasSubstr("without park"));
  runtime.submit(nothing).wait();
}

TEST_P(LeaseTest, ParkWaitsForRunningTasks) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  const Ticket ticket = runtime.submit(hold, latch.words());
  latch.await();
  std::atomic<bool> parked{false};
  std::jthread parker([&] {
    runtime.park();
    parked = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(parked.load());
  latch.release();
  parker.join();
  EXPECT_TRUE(ticket.done());
  runtime.resume();
}

TEST_P(LeaseTest, ParkWorksWithAFullRing) {
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto spin = runtime.define<Spin>("spin", kSpin);
  std::atomic<bool> stop{false};
  std::jthread producer([&] {
    while (!stop) runtime.submit(spin, u64{20'000});
  });
  for (int turn = 0; turn < 20; ++turn) {
    runtime.park();
    const std::uint64_t leases = runtime.metrics().leases;
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(runtime.metrics().leases, leases);
    runtime.resume();
    std::this_thread::sleep_for(1ms);
  }
  stop = true;
  producer.join();
  runtime.wait_all();
}

TEST_P(LeaseTest, ARingFilledWhileParkedRunsOnResume) {
  // Full of tasks of one kind, then of all kinds: no task may need a place that only a later one frees.
  struct Long {
    u32 word[80];
  };
  enum Shape : u32 { plain, wide, linked, drained, wide_link, wide_drain, lengthy, lengthy_link, kShapes };
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto multi_slot = runtime.define<void(Span<u32>, u32, Long)>("multi_slot", R"(
    struct Long { dwell::u32 word[80]; };
    DWELL_OPERATOR(multi_slot)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, Long payload) {
      if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], payload.word[79]);
    })");
  Long one{};
  one.word[79] = 1;
  for (u32 turn = 0; turn <= 2 * kShapes; ++turn) {
    SCOPED_TRACE("turn " + std::to_string(turn));
    auto cells = filled<u32>(runtime, 129, 0);
    runtime.park();
    std::vector<Ticket> tickets;
    std::vector<u32> expected(129, 0);
    Random random(turn);
    for (;;) {
      const auto at = static_cast<u32>(tickets.size());
      ASSERT_LE(at, 128U);
      const u32 shape = turn < kShapes ? turn : random() % kShapes;
      std::optional<Ticket> ticket;
      switch (shape) {
        case plain: ticket = runtime.try_submit(add, cells, at, 1U); break;
        case wide: ticket = runtime.try_submit(add, cells, at, 1U, groups(5)); break;
        case linked: ticket = runtime.try_submit(add, cells, at, 1U, link); break;
        case drained: ticket = runtime.try_submit(add, cells, at, 1U, drain); break;
        case wide_link: ticket = runtime.try_submit(add, cells, at, 1U, groups(5), link); break;
        case wide_drain: ticket = runtime.try_submit(add, cells, at, 1U, groups(5), drain); break;
        case lengthy: ticket = runtime.try_submit(multi_slot, cells, at, one); break;
        default: ticket = runtime.try_submit(multi_slot, cells, at, one, link); break;
      }
      if (!ticket) break;
      expected[at] = shape == wide || shape == wide_link || shape == wide_drain ? 5 : 1;
      tickets.push_back(*ticket);
    }
    EXPECT_GE(tickets.size(), 14U);
    for (const Ticket& ticket : tickets) ASSERT_FALSE(ticket.done());
    std::jthread([&] { runtime.resume(); }).join();
    for (const Ticket& ticket : tickets) ASSERT_TRUE(ticket.wait_for(20s)) << "ticket " << ticket.position();
    EXPECT_EQ(read(cells), expected);
  }
}

TEST_P(LeaseTest, ParkWorksWithADrainAhead) {
  Options small = options();
  small.ring_slots = 128;
  small.lease = small.idle = 1000s;  // ends only on request
  Runtime runtime(small);
  auto hold = runtime.define<Hold>("hold", kHold);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  u32 expected = 0;
  Latch latch(runtime);
  for (int turn = 0; turn < 3; ++turn) {
    latch.reset();
    runtime.submit(hold, latch.words());
    latch.await();
    // The request to leave is queued behind a drain that waits for the running task, or finds no place.
    runtime.submit(add, cells, 0U, 1U, drain);
    ++expected;
    while (turn == 1 && runtime.try_submit(add, cells, 0U, 1U)) ++expected;
    std::atomic<bool> parked{false};
    std::jthread parker([&] {
      runtime.park();
      parked = true;
    });
    std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(parked);
    latch.release();
    parker.join();
    const std::uint64_t leases = runtime.metrics().leases;
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(runtime.metrics().leases, leases);
    runtime.resume();
    EXPECT_EQ(read(cells)[0], expected);
  }
}

TEST_P(LeaseTest, SeveralThreadsParkAndResume) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 3000, 0);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> parkers;
  for (int i = 0; i < 2; ++i)
    parkers.emplace_back([&] {
      while (!stop) {
        runtime.park();
        runtime.resume();
        std::this_thread::sleep_for(200us);
      }
    });
  for (u32 i = 0; i < 3000; ++i) {
    const Ticket ticket = runtime.submit(add, cells, i, 1U);
    if (i % 10 == 0) ticket.wait();
  }
  runtime.wait_all();
  stop = true;
  parkers.clear();
  EXPECT_THAT(read(cells), testing::Each(1U));
}

TEST_P(LeaseTest, AnIdleRuntimeParksAndWakes) {
  Options shy = options();
  shy.idle = 300us;
  Runtime runtime(shy);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  Random random(3);
  for (u32 turn = 1; turn <= 200; ++turn) {
    // A random time around the moment at which the loop parks.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 800));
    runtime.submit(add, cells, 0U, 1U).wait();
    ASSERT_EQ(read(cells)[0], turn);
  }
  std::this_thread::sleep_for(50ms);
  const std::uint64_t leases = runtime.metrics().leases;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(runtime.metrics().leases, leases) << "leases follow one another with nothing to do";
  runtime.submit(add, cells, 0U, 1U).wait();
  EXPECT_GT(runtime.metrics().leases, leases);  // leases roll, if others keep the device from this one
}

TEST_P(LeaseTest, TasksWakeTheLoopAtAnyTime) {
  // Two threads submit at random, also while the loop is about to leave.
  Options shy = options();
  shy.idle = 1us;
  Runtime runtime(shy);
  auto add = runtime.define<Add>("add", kAdd);
  constexpr u32 kEach = kSanitized ? 1000 : 5000;
  auto cells = filled<u32>(runtime, 2, 0);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < 2; ++me)
    threads.emplace_back([&, me] {
      Random random(me);
      for (u32 i = 0; i < kEach; ++i) {
        const Ticket ticket = runtime.submit(add, cells, me, 1U);
        ASSERT_TRUE(ticket.wait_for(20s)) << "a task that came while the loop left does not run";
        for (u32 pause = random() % 2000; pause > 0; --pause) std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    });
  threads.clear();
  EXPECT_THAT(read(cells), testing::Each(kEach));
}

TEST_P(LeaseTest, AnIdleRuntimeUsesNoProcessor) {
  if (!on_cpu()) GTEST_SKIP() << "the driver's own threads are not ours to judge";
  Runtime runtime(options());
  auto nothing = runtime.define("nothing", kNothing);
  runtime.submit(nothing).wait();
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  };
  // A busy machine falls asleep late.
  constexpr auto kMost = kSanitized ? 50ms : 10ms;
  auto spent = 1s + 0us;
  for (int seconds = 0; seconds < 10 && spent >= kMost; ++seconds) {
    const auto before = used();
    std::this_thread::sleep_for(1s);
    spent = used() - before;
  }
  EXPECT_LT(spent, kMost) << "an idle runtime uses more than one percent of a processor";
}

TEST_P(LeaseTest, BusyLeasesEndAndTasksContinue) {
  Options quick = options();
  quick.lease = 500us;
  Runtime runtime(quick);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1, 0);
  const auto start = Clock::now();
  u32 tasks = 0;
  while (Clock::now() - start < 200ms) {
    runtime.submit_many(add, 100, [&](std::size_t, auto&& put) { put(cells, 0U, 1U); });
    tasks += 100;
  }
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], tasks);
  // At most one lease each 500 us; fewer on a noisy machine.
  EXPECT_GT(runtime.metrics().leases, 5U);
}

TEST_P(LeaseTest, LongTasksOutlastTheirLease) {
  Options quick = options();
  quick.lease = 200us;
  Runtime runtime(quick);
  auto spin = runtime.define<Spin>("spin", kSpin);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 500, 0);
  for (u32 i = 0; i < 500; ++i) {
    if (i % 50 == 0) runtime.submit(spin, u64{3'000'000});
    runtime.submit(add, cells, i, 1U);
  }
  runtime.wait_all();
  EXPECT_THAT(read(cells), testing::Each(1U));
}

TEST_P(LeaseTest, LongTaskDoesNotBlockOthers) {
  Options quick = options();
  quick.lease = 200us;
  quick.ring_slots = 8192;  // room for the tasks behind one in flight
  Runtime runtime(quick);
  auto hold = runtime.define<Hold>("hold", kHold);
  auto append = runtime.define<Append>("append", kAppend);
  auto add = runtime.define<Add>("add", kAdd);
  auto number = filled<u32>(runtime, 1, 0);
  auto cells = filled<u32>(runtime, 1, 0);
  // The first link of a runtime is a drain.
  runtime.submit(append, number, 0U);
  runtime.submit(append, number, 0U, link).wait();
  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  latch.await();
  for (u32 i = 0; i < 300; ++i) {
    for (u32 k = 0; k < 10; ++k) runtime.submit(add, cells, 0U, 1U);
    runtime.submit(add, cells, 0U, 1U, groups(3)).wait();
  }
  Ticket last = runtime.submit(append, number, 1U);
  for (u32 i = 2; i < 100; ++i) last = runtime.submit(append, number, i, link);
  EXPECT_TRUE(last.wait_for(20s));
  EXPECT_FALSE(held.done());
  latch.release();
  held.wait();
  EXPECT_EQ(read(cells)[0], 3900U);
  EXPECT_EQ(read(number)[0], appended(100));
}

TEST_P(LeaseTest, ShouldYieldIsTrueOnceTheLeaseIsOver) {
  for (const unsigned workers : {2U, 1U}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    Options some = options();
    some.workers = workers;
    some.lease = 20ms;
    some.idle = 1s;
    Runtime runtime(some);
    auto until_yield = runtime.define<UntilYield>("until_yield", kUntilYield);
    auto ran = filled<u64>(runtime, workers, 0);
    // One task for each worker, so that no idle worker watches the clock.
    std::vector<Ticket> tickets;
    for (unsigned i = 0; i < workers; ++i) tickets.push_back(runtime.submit(until_yield, ran.slice(i, 1)));
    for (const Ticket& ticket : tickets) EXPECT_EQ(ticket.status(), status::ok) << "should_yield never became true";
    for (const u64 ns : read(ran)) EXPECT_LT(ns, 1'000'000'000U);
  }
}

TEST_P(LeaseTest, ShouldYieldIsFalseWhileTheLeaseLasts) {
  // An idle worker is no reason to yield this one.
  Options calm = options();
  calm.lease = 5s;
  calm.idle = 100us;
  Runtime runtime(calm);
  auto poll_yield = runtime.define<void(u64, Span<u32>)>("poll_yield", R"(
    DWELL_OPERATOR(poll_yield)(dwell::Group g, dwell::u64 ns, dwell::Span<dwell::u32> yielded) {
      const dwell::u64 start = dwell::device::now_ns();
      dwell::u32 seen = 0;
      while (dwell::device::now_ns() - start < ns) seen |= g.should_yield() ? 1u : 0u;
      seen = g.sum(seen);
      if (g.rank() == 0) yielded[0] = seen;
    })");
  auto yielded = filled<u32>(runtime, 1, 7);
  runtime.submit(poll_yield, u64{50'000'000}, yielded).wait();
  EXPECT_EQ(read(yielded)[0], 0U);
}

TEST_P(LeaseTest, ShouldYieldIsTrueForALongTaskOnceTheHostParks) {
  Options calm = options();
  calm.lease = 5s;
  Runtime runtime(calm);
  auto until_yield = runtime.define<UntilYield>("until_yield", kUntilYield);
  auto words = runtime.allocate<u64>(2, Memory::host);
  words.write(std::vector<u64>(2, 0));
  const Ticket ticket = runtime.submit(until_yield, words);
  ASSERT_TRUE(eventually([&] { return std::atomic_ref(words.host()[1]).load() != 0; }, 20s)) << "the task does not start";
  runtime.park();
  ASSERT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
  runtime.resume();
}

TEST_P(LeaseTest, OneWorkerDoesEverything) {
  Options one = options();
  one.workers = 1;
  one.lease = 300us;
  one.ring_slots = 128;
  Runtime runtime(one);
  EXPECT_LE(runtime.info().workers, 1U);
  auto add = runtime.define<Add>("add", kAdd);
  auto append = runtime.define<Append>("append", kAppend);
  auto spin = runtime.define<Spin>("spin", kSpin);
  auto cells = filled<u32>(runtime, 1000, 0);
  auto number = filled<u32>(runtime, 1, 0);
  u32 digits = 0;
  for (u32 i = 0; i < 1000; ++i) {
    runtime.submit(add, cells, i, 1U, groups(i % 20 + 1));
    if (i % 3 == 0) runtime.submit(append, number, digits++, drain);
    if (i % 3 == 0) runtime.submit(append, number, digits++, link);
    if (i % 100 == 0) runtime.submit(spin, u64{1'000'000});
    if (i % 250 == 0) {
      runtime.park();
      runtime.resume();
    }
  }
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < 1000; ++i) ASSERT_EQ(result[i], i % 20 + 1);
  EXPECT_EQ(read(number)[0], appended(digits));
  EXPECT_EQ(runtime.info().workers, 1U);
}

TEST_P(LeaseTest, ManyWorkersOnFewProcessors) {
  if (!on_cpu()) GTEST_SKIP() << "blocks are not preempted";
  Options many = options();
  many.workers = 16;
  many.ring_slots = 128;
  many.lease = 2ms;
  Runtime runtime(many);
  auto add = runtime.define<Add>("add", kAdd);
  constexpr u32 kTasks = kSanitized ? 2000 : 20'000;
  auto cells = filled<u32>(runtime, kTasks, 0);
  for (u32 i = 0; i < kTasks; ++i) {
    if (i % 50 == 0)
      runtime.submit(add, cells, i, 1U, groups(16));
    else if (i % 7 == 0)
      runtime.submit(add, cells, i, 1U, link);
    else
      runtime.submit(add, cells, i, 1U);
  }
  const std::vector<u32> result = read(cells);
  for (u32 i = 0; i < kTasks; ++i) ASSERT_EQ(result[i], i % 50 == 0 ? 16U : 1U);
}

}  // namespace
}  // namespace dwell::test
