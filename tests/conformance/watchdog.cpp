// Diagnoses of waits, busy work that is no stall, and stalls.
#include <future>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Decrements a cell, and runs for `ns`.
constexpr const char* kCountDown = R"(
DWELL_OPERATOR(count_down)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[0], ~0u);
})";
using CountDown = void(Span<u32>, u64);

// A chain of tasks, each of which spawns the next.
constexpr const char* kSpawnChain = R"(
DWELL_USES(spawn_chain, dwell::u32, dwell::u64)
DWELL_OPERATOR(spawn_chain)(dwell::Group g, dwell::u32 left, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
  if (left != 0) g.spawn(uses::spawn_chain, left - 1, ns);
})";
using SpawnChain = void(u32, u64);

// A gang of `steps` steps that yields when asked.
constexpr const char* kYieldingGang = R"(
DWELL_OPERATOR(yielding_gang)(dwell::Group g, dwell::u32 steps, dwell::u64 ns) {
  const dwell::Gang gang = g.gang();
  for (dwell::u32 step = gang.resume(0u); step < steps; ++step) {
    const dwell::u64 start = dwell::device::now_ns();
    for (dwell::u32 round = 0; dwell::device::now_ns() - start < ns; ++round) dwell::device::relax(round);
    gang.sync();
    if (gang.should_yield()) return gang.yield(step + 1);
  }
})";
using YieldingGang = void(u32, u64);

class WatchdogTest : public DeviceTest {
 protected:
  // Sanitizers may delay threads of tests for long.
  static constexpr auto kTimeout = kSanitized ? 1000ms : 300ms;
  static constexpr auto kLong = 4 * kTimeout;
  static constexpr u64 kLongNs = std::chrono::nanoseconds(kLong).count();

  Options watched() const {
    Options given = options();
    given.lease = 10ms;
    given.stall_timeout = kTimeout;
    return given;
  }
  static const TaskState* find(const Diagnosis& diagnosis, const Ticket& ticket) {
    for (const TaskState& task : diagnosis.tasks)
      if (task.position == ticket.position()) return &task;
    return nullptr;
  }
};
DWELL_ON_EVERY_DEVICE(WatchdogTest);

TEST_P(WatchdogTest, DiagnosisListsWaitsOfEachTask) {
  Options one = options();
  one.workers = 1;
  Runtime runtime(one);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  EXPECT_EQ(runtime.diagnose().total, 0U);
  runtime.submit(nothing);
  runtime.submit(nothing, link).wait();  // links are in use from here on
  Latch latch(runtime);
  const Ticket holds = runtime.submit(hold, latch.words());
  latch.await();
  const Ticket linked = runtime.submit(nothing, link);
  const Ticket free = runtime.submit(nothing);
  const Ticket two = runtime.submit(nothing, after(holds, linked));
  const Ticket drains = runtime.submit(nothing, drain);
  const Ticket behind = runtime.submit(nothing);
  runtime.cancel(free);
  std::this_thread::sleep_for(20ms);
  const Diagnosis found = runtime.diagnose();
  EXPECT_EQ(found.total, 6U);
  EXPECT_EQ(found.workers, 1U);
  EXPECT_EQ(found.busy, 1U);
  EXPECT_TRUE(found.cycles.empty());
  for (const Ticket* const each : {&holds, &linked, &free, &two, &drains, &behind})
    ASSERT_NE(find(found, *each), nullptr) << to_string(found);
  EXPECT_EQ(find(found, holds)->doing, Doing::runs);
  EXPECT_EQ(find(found, holds)->name, "hold (version 1)");
  EXPECT_EQ(find(found, holds)->workers.size(), 1U);
  EXPECT_GT(find(found, holds)->workers[0].since, 5ms);
  EXPECT_EQ(find(found, linked)->waits_for, std::vector{holds.position()});
  EXPECT_EQ(find(found, free)->doing, Doing::waits_to_run);
  EXPECT_TRUE(find(found, free)->cancelled);
  EXPECT_EQ(find(found, two)->waits_for, (std::vector{holds.position(), linked.position()}));
  EXPECT_EQ(find(found, drains)->waits_for, (std::vector{holds.position(), linked.position(), free.position(), two.position()}));
  EXPECT_EQ(find(found, behind)->waits_for, std::vector{drains.position()});
  EXPECT_THAT(to_string(found), HasSubstr("of operator hold (version 1) runs on worker 0 for"));
  latch.release();
  runtime.wait_all();
  EXPECT_EQ(runtime.diagnose().total, 0U);
  EXPECT_EQ(runtime.diagnose().busy, 0U);
}

TEST_P(WatchdogTest, ADiagnosisNamesNodesAndCallbacks) {
  Runtime runtime(options());
  const auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  std::promise<void> runs;
  std::promise<void> go_on;
  Graph graph;
  graph.add(hold, latch.words()).name("the holder");
  graph.add_host("ask", [&] {
    runs.set_value();
    go_on.get_future().wait();
  });
  graph.add_host("late", [] {});
  const GraphExec exec = runtime.instantiate(graph);
  const Ticket launch = runtime.launch(exec);
  const Ticket again = runtime.launch(exec, after(launch));
  latch.await();
  runs.get_future().wait();
  const Diagnosis found = runtime.diagnose();
  ASSERT_NE(find(found, launch), nullptr);
  EXPECT_TRUE(find(found, launch)->graph);
  EXPECT_EQ(find(found, launch)->doing, Doing::runs);
  EXPECT_THAT(find(found, launch)->named, testing::Contains(AllOf(HasSubstr("ask"), HasSubstr("which runs"))));
  EXPECT_EQ(find(found, again)->waits_for, std::vector{launch.position()});
  latch.release();
  go_on.set_value();
  launch.wait();
  // The callback of the second launch would set the promise again, unless it is cancelled first.
  EXPECT_TRUE(find(runtime.diagnose(), launch) == nullptr);
  try {
    again.wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::task_failed) << error.what();  // the promise is set twice
  }
}

TEST_P(WatchdogTest, ParkedRuntimeReportsIt) {
  Runtime runtime(watched());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.park();
  const Ticket waits = runtime.submit(nothing);
  EXPECT_FALSE(waits.wait_for(kLong)) << "nobody calls that a stall";
  const Diagnosis found = runtime.diagnose();
  EXPECT_TRUE(found.parked);
  EXPECT_EQ(find(found, waits)->doing, Doing::parked);
  runtime.resume();
  waits.wait();
}

// A callback waits for a task behind its own launch: neither can end.
TEST_P(WatchdogTest, CircleThroughACallbackFailsAndIsNamed) {
  Runtime runtime(watched());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  std::promise<Ticket> later;
  std::optional<Error> inner;
  Graph graph;
  graph.add_host("ask", [&] {
    const Ticket behind = later.get_future().get();
    try {
      behind.wait();
    } catch (const Error& error) {
      inner = error;
      throw;
    }
  });
  const GraphExec exec = runtime.instantiate(graph);
  const Ticket launch = runtime.launch(exec);
  const Ticket between = runtime.submit(nothing, after(launch));
  const Ticket behind = runtime.submit(nothing, after(between));
  later.set_value(behind);
  ASSERT_TRUE(eventually([&] { return !runtime.diagnose().cycles.empty(); })) << "known before anything is said to have stalled";
  EXPECT_EQ(runtime.diagnose().cycles,
            (std::vector<std::vector<std::uint64_t>>{{launch.position(), behind.position(), between.position()}}));
  const auto number = [](const Ticket& ticket) { return "ticket " + std::to_string(ticket.position()); };
  try {
    behind.wait();
    FAIL() << "it cannot end well";
  } catch (const Error& error) {
    // Either this wait was ended first, or the callback's, which cancels tasks behind its launch.
    EXPECT_TRUE(error.kind() == errc::stalled || error.kind() == errc::cancelled) << error.what();
  }
  // The callback's own wait was ended too: it throws, the launch fails, and the others are cancelled.
  DWELL_EXPECT_ERROR(
      {
        while (!launch.done()) std::this_thread::sleep_for(1ms);
        launch.wait();
      },
      errc::task_failed, AllOf(HasSubstr("ask"), HasSubstr("nothing has moved")));
  ASSERT_TRUE(inner.has_value());
  EXPECT_EQ(inner->kind(), errc::stalled);
  EXPECT_THAT(inner->message(), HasSubstr("a circle: " + number(launch) + " waits for " + number(behind) + " waits for " + number(between) +
                                          " waits for " + number(launch)));
  while (!behind.done()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(behind.status(), status::cancelled);
  runtime.submit(nothing).wait();
}

TEST_P(WatchdogTest, BusyWorkIsNoStall) {
  static constexpr auto kBusy = kSanitized ? 2 * kTimeout : kLong;
  static constexpr u64 kBusyNs = std::chrono::nanoseconds(kBusy).count();
  Options given = watched();
  std::atomic<int> warned{0};
  given.warn = [&](std::string_view) { ++warned; };
  given.parts = Parts::all;  // a first use behind a long task would warn
  Runtime runtime(given);
  const auto spin = runtime.define<Spin>("spin", kSpin);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const auto count_down = runtime.define<CountDown>("count_down", kCountDown);
  const auto spawn_chain = runtime.define<SpawnChain>("spawn_chain", kSpawnChain);
  const auto yielding = runtime.define<YieldingGang>("yielding_gang", kYieldingGang);
  // A long operator, and a task that waits for it.
  const Ticket longest = runtime.submit(spin, kBusyNs);
  runtime.submit(nothing, after(longest)).wait();
  // A loop in a graph: workers report nothing new to the host.
  const auto cells = filled<u32>(runtime, 1, static_cast<u32>(kBusyNs / 5'000'000));
  Graph body;
  body.add(count_down, cells, u64{5'000'000});
  Graph graph;
  graph.add_while("loop", cells, body);
  runtime.launch(runtime.instantiate(graph)).wait();
  EXPECT_EQ(read(cells)[0], 0U);
  // Tasks that spawn tasks.
  runtime.submit(spawn_chain, static_cast<u32>(kBusyNs / 5'000'000), u64{5'000'000}).wait();
  // A gang that yields and resumes.
  runtime.submit(yielding, static_cast<u32>(kBusyNs / 5'000'000), u64{5'000'000}, gang(std::min(2U, runtime.info().workers))).wait();
  // A slow callback.
  Graph calls;
  calls.add_host("slow", [] { std::this_thread::sleep_for(kBusy); });
  runtime.launch(runtime.instantiate(calls)).wait();
  // A callback that waits for a slow operator.
  Graph asks;
  asks.add_host("asks", [&] { runtime.submit(spin, kBusyNs).wait(); });
  runtime.launch(runtime.instantiate(asks)).wait();
  // A full ring, with a sleeping submitter.
  Latch latch(runtime);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const Ticket holds = runtime.submit(hold, latch.words());
  latch.await();
  runtime.submit(nothing, drain);
  std::jthread submitter([&] {
    for (int i = 0; i < 2000; ++i) runtime.submit(nothing);
  });
  std::this_thread::sleep_for(kBusy);
  EXPECT_FALSE(holds.done());
  latch.release();
  submitter.join();
  runtime.wait_all();
  EXPECT_EQ(warned, 0);
}

TEST_P(WatchdogTest, LeasesThatNeverEndAreWatched) {
  Options given = watched();
  given.lease = given.idle = 1h;
  Runtime runtime(given);
  const auto spin = runtime.define<Spin>("spin", kSpin);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing);
  runtime.submit(nothing, link).wait();  // links are in use from here on, so that the next one is no drain
  const Ticket longest = runtime.submit(spin, kLongNs);
  const Ticket behind = runtime.submit(nothing, after(longest));
  std::this_thread::sleep_for(kTimeout * 2);
  // Other tasks must run beside a long one.
  if (runtime.info().workers > 1) {
    EXPECT_TRUE(runtime.submit(nothing).wait_for(kTimeout));
  }
  behind.wait();
}

}  // namespace
}  // namespace dwell::test
