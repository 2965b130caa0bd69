// Tasks, up to a hundred million, through rolls, parks, swaps, first uses of parts and moves of the arena: every counter adds up.
#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/detail/move_arena.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class CountsTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 300s; }
};
DWELL_ON_EVERY_DEVICE(CountsTest);

TEST_P(CountsTest, EveryCounterAddsUpThroughAllChanges) {
  const bool brief = environment("DWELL_STRESS") == "short";
  const std::uint64_t all = brief ? 100'000 : on_cpu() ? 4'000'000 : 100'000'000;
  constexpr std::uint32_t kSources = 4;  // compiled once each; versions cycle through them
  constexpr std::uint32_t kSwaps = 8;    // at least: one for each first use
  Options short_leases = options();
  short_leases.lease = on_cpu() ? 2ms : 500us;
  Runtime runtime(short_leases);
  const auto source = [](std::uint32_t number) { return std::string(kNothing) + "// " + std::to_string(number) + "\n"; };
  auto first = runtime.define<void()>("nothing", source(0));
  for (std::uint32_t i = 1; i < kSources; ++i) first.redefine(source(i));
  const auto second = runtime.define<void(u32)>("other", "DWELL_OPERATOR(other)(dwell::Group, dwell::u32) {}\n");

  // Each first use loads a part of the loop while tasks run. Returns its number of calls of `first`.
  const auto waits_for = [](const Ticket& ticket, std::uint64_t calls) {
    EXPECT_EQ(ticket.status(), status::ok);
    return calls;
  };
  const std::function<std::uint64_t()> first_uses[] = {
      [&] { return waits_for(runtime.submit(first, link), 1); },
      [&] { return waits_for(runtime.submit(first, groups(5)), 5); },
      [&] { return waits_for(runtime.submit(first, repeat(9)), 9); },
      [&] { return waits_for(runtime.submit(first, gang(1)), 1); },
      [&] {
        Graph graph;
        graph.add(first).after(graph.add(first));
        return waits_for(runtime.launch(runtime.instantiate(graph)), 2);
      },
      [&] { return runtime.set_metrics(Metering::times), std::uint64_t{0}; },
      [&] { return waits_for(runtime.submit(first, drain), 1); },
  };
  std::atomic<std::uint64_t> submitted[2] = {};
  std::uint64_t more = 0;  // calls of `first` by the first uses
  std::atomic<bool> over{false};
  std::atomic<std::uint32_t> swaps{0};
  {
    const std::jthread submitter([&] {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; sum < all; ++i) {
        const std::uint64_t count = std::min<std::uint64_t>(all - sum, i % 7 == 0 ? 1 : 1'000 + i % 1'000);
        if (i % 3 == 0)
          runtime.submit_many(second, count, [](std::size_t at, auto put) { put(static_cast<u32>(at)); });
        else
          runtime.submit_many(first, count, [](std::size_t, auto put) { put(); });
        submitted[i % 3 == 0 ? 1 : 0] += count;
        sum += count;
        // Keeps the ratio of swaps to tasks, on any load of the machine.
        while (swaps * all < sum * kSwaps) std::this_thread::sleep_for(100us);
      }
      over = true;
    });
    while (!over) {
      first.redefine(source(++swaps % kSources));
      detail::move_arena(runtime);
      if (swaps <= std::size(first_uses)) more += first_uses[swaps - 1]();
      if (swaps % 5 == 0) {
        runtime.park();
        runtime.resume();
      }
      std::this_thread::sleep_for(2ms);
    }
  }
  runtime.wait_all();

  const Metrics metrics = runtime.metrics();
  std::uint64_t by_operator[2] = {};
  std::uint64_t failures = 0;
  for (const OperatorMetrics& op : metrics.operators) {
    by_operator[op.name == "other" ? 1 : 0] += op.tasks;
    failures += op.failures;
  }
  EXPECT_EQ(by_operator[0], submitted[0] + more);
  EXPECT_EQ(by_operator[1], submitted[1]);
  EXPECT_EQ(submitted[0] + submitted[1], all);
  EXPECT_EQ(failures, 0U);
  std::uint64_t tasks = 0;
  std::uint64_t fetched = 0;
  for (const WorkerMetrics& worker : metrics.workers) {
    tasks += worker.tasks;
    fetched += worker.fetched;
  }
  EXPECT_EQ(tasks, all + more);
  EXPECT_GE(fetched, all) << "a slot each, and those of drains";
  EXPECT_GE(metrics.submitted, all);
  EXPECT_GT(metrics.leases, 2U);
  EXPECT_GT(metrics.parks, 0U);
  EXPECT_GE(swaps, kSwaps);
  std::printf("%llu tasks, %u swaps, %llu leases, %llu parks\n", static_cast<unsigned long long>(all), swaps.load(),
              static_cast<unsigned long long>(metrics.leases), static_cast<unsigned long long>(metrics.parks));
}

// The expected counts of several threads.
struct Expected {
  std::map<std::string, std::uint64_t> calls, failures;  // by operator, without those of batches
  std::uint64_t submitted = 0;
  std::uint64_t spawned = 0;
  std::uint64_t launches = 0;
  BatchStats batches;
  std::uint64_t flushes = 0;

  void add(const Expected& more) {
    for (const auto& [name, count] : more.calls) calls[name] += count;
    for (const auto& [name, count] : more.failures) failures[name] += count;
    submitted += more.submitted;
    spawned += more.spawned;
    launches += more.launches;
    batches.operations += more.batches.operations;
    batches.tasks += more.batches.tasks;
    flushes += more.flushes;
  }
};

TEST_P(CountsTest, TasksOfAllKindsAddUpWhileMeteringChanges) {
  const bool brief = environment("DWELL_STRESS") == "short";
  const u32 rounds = brief ? 300 : 30'000;  // of each thread
  constexpr std::uint32_t kSources = 4;
  constexpr std::uint32_t kChanges = 8;  // at least: swaps, and changes of the metering
  Options given = options();
  given.lease = on_cpu() ? 2ms : 500us;
  given.spawned_tasks = 1U << 16U;  // for as many trees as the ring has slots
  Runtime runtime(given);
  const auto source = [](std::uint32_t number) { return std::string(kNothing) + "// " + std::to_string(number) + "\n"; };
  auto nothing = runtime.define<void()>("nothing", source(0));
  for (std::uint32_t i = 1; i < kSources; ++i) nothing.redefine(source(i));
  const auto fails = runtime.define<Fail>("fail", kFail);  // succeeds with code 0
  const auto tree = runtime.define<void(u32)>("tree", R"(
DWELL_USES(tree, dwell::u32)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::u32 levels) {
  if (levels == 0) return;
  g.spawn(uses::tree, levels - 1);
  g.spawn(uses::tree, levels - 1);
}
)");

  const auto submits = [&](u32 round, Expected& did) {
    const u32 tasks = 20 + round % 30;
    for (u32 i = 0; i < tasks; ++i) runtime.submit(nothing);
    const u32 wide = 1 + round % 9;
    runtime.submit(nothing, groups(wide));
    runtime.submit(fails, 7, groups(wide));
    runtime.submit(fails, static_cast<i32>(round % 3));
    runtime.submit(nothing, link);  // cancelled if the previous task failed
    const u32 levels = round % 5;
    runtime.submit(tree, levels);
    const bool failed = round % 3 != 0;
    did.calls["nothing"] += tasks + wide + (failed ? 0 : 1);
    did.calls["fail"] += wide + 1;
    did.failures["fail"] += wide + (failed ? 1 : 0);
    did.calls["tree"] += (2ULL << levels) - 1;
    did.spawned += (2ULL << levels) - 2;
    did.submitted += tasks + 5;
  };

  // A chain; beside it, nodes before a common last one; a chain that fails in its middle.
  Graph good;
  Node last = good.add(nothing);
  const Node first = last;
  for (int i = 1; i < 10; ++i) last = good.add(nothing).after(last);
  Node join = good.add(tree, 2U).after(last);
  for (int i = 0; i < 10; ++i) join.after(good.add(nothing).after(first));
  Graph bad;
  last = bad.add(fails, 0);
  for (int i = 1; i < 10; ++i) last = bad.add(fails, i == 4 ? 9 : 0).after(last);
  const GraphExec good_exec = runtime.instantiate(good);
  const GraphExec bad_exec = runtime.instantiate(bad);
  const auto launches = [&](u32 round, Expected& did) {
    runtime.launch(good_exec);
    did.calls["nothing"] += 20;
    did.calls["tree"] += 7;
    did.spawned += 6;
    ++did.launches;
    if (round % 4 == 0) {
      runtime.launch(bad_exec);
      did.calls["fail"] += 5;
      ++did.failures["fail"];
      ++did.launches;
    }
  };

  Batch batch(runtime);
  const auto floats = filled<float>(runtime, 64, 0);
  const auto doubles = filled<double>(runtime, 64, 0);
  const auto flushes = [&](u32 round, Expected& did) {
    for (u32 i = 0; i <= round % 4; ++i) {
      batch.apply(TensorOp::add, TensorView(floats), {TensorView(floats), 1.0});
      batch.apply(TensorOp::mul, TensorView(doubles), {TensorView(doubles), 0.5});
    }
    batch.flush();
    ++did.flushes;
    did.batches = batch.stats();
  };

  std::array<Expected, 3> did;
  std::atomic<u32> changes{0};
  std::atomic<u32> over{0};
  {
    std::vector<std::jthread> threads;
    const auto start = [&](std::size_t me, auto work) {
      threads.emplace_back([&, me, work] {
        for (u32 round = 0; round < rounds; ++round) {
          work(round, did[me]);
          // Keeps the ratio of changes to tasks, on any load of the machine.
          while (std::uint64_t{changes} * rounds < std::uint64_t{round} * kChanges) std::this_thread::sleep_for(100us);
        }
        ++over;
      });
    };
    start(0, submits);
    start(1, launches);
    start(2, flushes);
    while (over < threads.size()) {
      nothing.redefine(source((changes + 1) % kSources));
      runtime.set_metrics(changes % 2 == 0 ? Metering::times : Metering::counts);
      if (++changes % 3 == 0) {
        runtime.park();
        runtime.resume();
      }
      std::this_thread::sleep_for(2ms);
    }
  }
  runtime.wait_all();
  EXPECT_TRUE(eventually([&] { return runtime.metrics().in_flight_slots == 0; })) << "places that a thread left are passed over";
  runtime.park();  // a worker may count after a completion, but not after its lease

  const Metrics metrics = runtime.metrics();
  Expected all;
  for (const Expected& one : did) all.add(one);
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, std::uint64_t> failures;
  std::uint64_t of_batches = 0;
  std::uint64_t sum = 0;
  for (const OperatorMetrics& op : metrics.operators) {
    SCOPED_TRACE(op.name);
    sum += op.tasks;
    EXPECT_LE(op.timed, op.tasks);
    EXPECT_EQ(op.times.total(), op.timed);
    if (all.calls.contains(op.name)) {
      calls[op.name] += op.tasks;
      if (op.failures != 0) failures[op.name] += op.failures;
    } else {
      of_batches += op.tasks;
      EXPECT_EQ(op.failures, 0U);
    }
  }
  EXPECT_EQ(calls, all.calls);
  EXPECT_EQ(failures, all.failures);
  EXPECT_EQ(of_batches, all.batches.tasks) << "tensors so small that a group has them";
  std::uint64_t tasks = 0;
  std::uint64_t fetched = 0;
  std::uint64_t spawned = 0;
  for (const WorkerMetrics& worker : metrics.workers) {
    tasks += worker.tasks;
    fetched += worker.fetched;
    spawned += worker.spawned;
  }
  EXPECT_EQ(tasks, sum);
  EXPECT_EQ(spawned, all.spawned);
  const std::uint64_t submitted = all.submitted + all.launches + all.batches.tasks;
  EXPECT_EQ(metrics.submitted, submitted);
  EXPECT_GE(fetched, submitted);
  EXPECT_EQ(metrics.graph_launches, all.launches);
  EXPECT_EQ(metrics.batch_flushes, all.flushes);
  EXPECT_EQ(metrics.batch_operations, all.batches.operations);
  EXPECT_EQ(metrics.batch_tasks, all.batches.tasks);
  EXPECT_GT(metrics.parks, 0U);
  EXPECT_GE(changes, kChanges);
  std::uint64_t timed = 0;
  for (const OperatorMetrics& op : metrics.operators) timed += op.timed;
  EXPECT_GT(timed, 0U);
  EXPECT_LT(timed, sum);
  std::printf("%llu calls, %llu of them timed, %u changes, %llu leases, %llu parks\n", static_cast<unsigned long long>(sum),
              static_cast<unsigned long long>(timed), changes.load(), static_cast<unsigned long long>(metrics.leases),
              static_cast<unsigned long long>(metrics.parks));
}

}  // namespace
}  // namespace dwell::test
