// A runtime's counts of its own work.
#include <functional>
#include <numeric>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

constexpr const char* kFails =
    "DWELL_OPERATOR(fails)(dwell::Group g, dwell::i32 status) { if (g.rank() == 0 && status != 0) g.fail(status); }\n";

// An operator that runs for a number of ns.
std::string spins_as(const std::string& name) {
  return "DWELL_OPERATOR(" + name + ")(dwell::Group, dwell::u64 ns) {\n" + R"(
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < ns) {}
}
)";
}

// The row of one version of an operator; zeros if there is none.
OperatorMetrics row(const Metrics& metrics, const std::string& name, std::uint32_t version = 1) {
  for (const OperatorMetrics& op : metrics.operators)
    if (op.name == name && op.version == version) return op;
  return {};
}
std::uint64_t worker_tasks(const Metrics& metrics) {
  std::uint64_t all = 0;
  for (const WorkerMetrics& worker : metrics.workers) all += worker.tasks;
  return all;
}

class MetricsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(MetricsTest);

TEST_P(MetricsTest, CountsEachTaskOnce) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  constexpr std::uint64_t kTasks = kSanitized ? 5000 : 100'000;
  for (std::uint64_t i = 0; i < kTasks; ++i) runtime.submit(nothing);
  runtime.wait_all();
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(metrics.metering, Metering::counts);
  EXPECT_EQ(row(metrics, "nothing").tasks, kTasks);
  EXPECT_EQ(row(metrics, "nothing").failures, 0U);
  EXPECT_EQ(row(metrics, "nothing").timed, 0U) << "times were not asked for";
  EXPECT_EQ(worker_tasks(metrics), kTasks);
  EXPECT_EQ(metrics.submitted, kTasks);
  EXPECT_EQ(metrics.in_flight_slots, 0U);
  EXPECT_GT(metrics.leases, 0U);
  std::uint64_t fetched = 0;
  for (const WorkerMetrics& worker : metrics.workers) fetched += worker.fetched;
  EXPECT_GE(fetched, kTasks);
}

TEST_P(MetricsTest, CountsFailuresOfAllKindsOfTasks) {
  Runtime runtime(options());
  const auto fails = runtime.define<void(i32)>("fails", kFails);
  for (i32 i = 0; i < 100; ++i) runtime.submit(fails, i % 4 == 0 ? 7 : 0);
  runtime.wait_all();
  EXPECT_EQ(row(runtime.metrics(), "fails").tasks, 100U);
  EXPECT_EQ(row(runtime.metrics(), "fails").failures, 25U);
  // Linked: successors of a failure are cancelled, not called.
  runtime.submit(fails, 7);
  for (int i = 0; i < 5; ++i) runtime.submit(fails, 0, link);
  runtime.wait_all();
  EXPECT_EQ(row(runtime.metrics(), "fails").tasks, 101U);
  EXPECT_EQ(row(runtime.metrics(), "fails").failures, 26U);
  // Wide: each failing group counts, however many a worker runs.
  runtime.submit(fails, 7, groups(37));
  runtime.wait_all();
  EXPECT_EQ(row(runtime.metrics(), "fails").tasks, 138U);
  EXPECT_EQ(row(runtime.metrics(), "fails").failures, 63U);
  // Graph nodes: a chain that fails in its middle.
  Graph graph;
  Node before;
  for (int i = 0; i < 10; ++i) {
    Node node = graph.add(fails, i == 4 ? 9 : 0);
    if (i != 0) node.after(before);
    before = node;
  }
  const GraphExec exec = runtime.instantiate(graph);
  EXPECT_THROW(runtime.launch(exec).wait(), Error);
  EXPECT_EQ(row(runtime.metrics(), "fails").tasks, 143U);
  EXPECT_EQ(row(runtime.metrics(), "fails").failures, 64U);
  EXPECT_EQ(runtime.metrics().graph_launches, 1U);
}

TEST_P(MetricsTest, CountsGroupsNodesAndSpawnedTasks) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  runtime.submit(nothing, groups(37)).wait();
  EXPECT_EQ(row(runtime.metrics(), "nothing").tasks, 37U);
  Graph graph;
  for (int i = 0; i < 500; ++i) graph.add(nothing);
  const GraphExec exec = runtime.instantiate(graph);
  for (int i = 0; i < 3; ++i) runtime.launch(exec);
  runtime.wait_all();
  EXPECT_EQ(row(runtime.metrics(), "nothing").tasks, 1537U);
  const auto tree = runtime.define<void(u32)>("tree", R"(
DWELL_USES(tree, dwell::u32)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::u32 levels) {
  if (levels == 0) return;
  g.spawn(uses::tree, levels - 1);
  g.spawn(uses::tree, levels - 1);
}
)");
  runtime.submit(tree, 9U).wait();
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(row(metrics, "tree").tasks, 1023U);
  std::uint64_t spawned = 0;
  for (const WorkerMetrics& worker : metrics.workers) spawned += worker.spawned;
  EXPECT_EQ(spawned, 1022U);
}

TEST_P(MetricsTest, VersionsCountApartThroughSwapsAndParks) {
  Options brief = options();
  brief.lease = on_cpu() ? 2ms : 200us;
  Runtime runtime(brief);
  auto nothing = runtime.define<void()>("nothing", kNothing);
  constexpr std::uint32_t kVersions = kSanitized ? 6 : 40;
  constexpr std::uint64_t kTasks = 300;
  for (std::uint32_t version = 1; version <= kVersions; ++version) {
    if (version != 1) nothing.redefine(std::string(kNothing) + "// " + std::to_string(version) + "\n");
    for (std::uint64_t i = 0; i < kTasks; ++i) runtime.submit(nothing);
    if (version % 3 == 0) {
      runtime.park();
      runtime.resume();
    }
  }
  runtime.wait_all();
  const Metrics metrics = runtime.metrics();
  std::uint64_t all = 0;
  for (const OperatorMetrics& op : metrics.operators) {
    all += op.tasks;
    if (op.version != 0) {
      EXPECT_EQ(op.tasks, kTasks) << op.version;
    }
  }
  EXPECT_EQ(all, kTasks * kVersions);
  EXPECT_EQ(row(metrics, "nothing", kVersions).tasks, kTasks);
  EXPECT_LE(metrics.operators.size(), 18U) << "old versions are added up";
  EXPECT_EQ(worker_tasks(metrics), all);
}

TEST_P(MetricsTest, ManyOperatorsFindRoomWhileOthersRun) {
  Runtime runtime(options());
  std::vector<Operator<void()>> all;
  constexpr std::size_t kOperators = kSanitized ? 8 : 40;
  std::vector<std::shared_future<Operator<>>> made;
  for (std::size_t i = 0; i < kOperators; ++i) {
    const std::string name = "op" + std::to_string(i);
    made.push_back(runtime.define_async(name, "DWELL_OPERATOR(" + name + ")(dwell::Group) {}\n"));
  }
  for (auto& one : made) all.emplace_back(one.get());
  for (std::size_t i = 0; i < kOperators; ++i)
    for (std::size_t k = 0; k <= i; ++k) runtime.submit(all[i]);
  runtime.wait_all();
  const Metrics metrics = runtime.metrics();
  for (std::size_t i = 0; i < kOperators; ++i) EXPECT_EQ(row(metrics, "op" + std::to_string(i)).tasks, i + 1);
}

TEST_P(MetricsTest, TimingCanBeEnabledWhileItRuns) {
  Runtime runtime(options());
  const auto spins = runtime.define<void(u64)>("spins", spins_as("spins"));
  runtime.submit(spins, 1000ULL).wait();
  EXPECT_EQ(row(runtime.metrics(), "spins").timed, 0U);
  runtime.set_metrics(Metering::times);
  constexpr std::uint64_t kTasks = 200;
  for (std::uint64_t i = 0; i < kTasks; ++i) runtime.submit(spins, i % 2 == 0 ? 20'000ULL : 200'000ULL);
  runtime.wait_all();
  const Metrics metrics = runtime.metrics();
  const OperatorMetrics op = row(metrics, "spins");
  EXPECT_EQ(metrics.metering, Metering::times);
  EXPECT_EQ(op.tasks, kTasks + 1);
  EXPECT_EQ(op.timed, kTasks);
  EXPECT_EQ(op.times.total(), kTasks);
  EXPECT_GE(op.min_ns, 19'000U);
  EXPECT_LE(op.min_ns, 100'000U);
  EXPECT_GE(op.max_ns, 199'000U);
  EXPECT_GE(op.mean_ns(), 109'000.0);
  EXPECT_GE(op.times.quantile(0.9), 190'000.0);
  std::uint64_t busy = 0;
  for (const WorkerMetrics& worker : metrics.workers) busy += worker.busy_ns;
  EXPECT_EQ(busy, op.total_ns);
  runtime.set_metrics(Metering::off);
  const Metrics before = runtime.metrics();
  runtime.submit(spins, 1000ULL).wait();
  EXPECT_EQ(row(runtime.metrics(), "spins").tasks, kTasks + 1) << "nothing is noted";
  EXPECT_EQ(difference(runtime.metrics(), before).submitted, 1U) << "the host counts on";
  runtime.set_metrics(Metering::counts);
  runtime.submit(spins, 1000ULL).wait();
  EXPECT_EQ(row(runtime.metrics(), "spins").tasks, kTasks + 2);
  EXPECT_EQ(row(runtime.metrics(), "spins").timed, kTasks);
}

TEST_P(MetricsTest, SampleHasWaitsAndBytesOfTasks) {
  Runtime runtime(with_all_parts());
  const auto spins = runtime.define<void(u64)>("spins", spins_as("spins"));
  constexpr const char* kSpans = "DWELL_OPERATOR(spans)(dwell::Group, dwell::u32, dwell::Span<const float>, dwell::Span<double>) {}\n";
  using Spans = void(u32, Span<const float>, Span<double>);
  const auto few = runtime.define<Spans>("few", std::string(kSpans).replace(15, 5, "few"));
  const auto many = runtime.define<Spans>("many", std::string(kSpans).replace(15, 5, "many"));
  const auto floats = runtime.allocate<float>(100);
  const auto doubles = runtime.allocate<double>(1000);
  constexpr std::uint64_t kTasks = 8192;
  const auto submit = [&](const std::optional<Ticket>& before) {
    // Alternately, as most programs submit.
    for (std::uint64_t i = 0; i < kTasks / 2; ++i) {
      if (before) {
        runtime.submit(few, 1U, floats, doubles.slice(0, 10), after(*before));
        runtime.submit(many, 1U, floats, doubles, after(*before));
      } else {
        runtime.submit(few, 1U, floats, doubles.slice(0, 10));
        runtime.submit(many, 1U, floats, doubles);
      }
    }
    runtime.wait_all();
  };
  submit({});
  EXPECT_EQ(row(runtime.metrics(), "few").sampled, 0U) << "times were not asked for";
  runtime.set_metrics(Metering::times);
  for (const bool waits : {false, true}) {
    SCOPED_TRACE(waits ? "behind a long task" : "of no order");
    const Metrics before = runtime.metrics();
    const auto begun = Clock::now();
    submit(waits ? std::optional(runtime.submit(spins, 50'000'000ULL)) : std::nullopt);
    const double took = std::chrono::duration<double, std::nano>(Clock::now() - begun).count();
    // A worker records the wait of a task after its completion.
    Metrics did;
    for (int i = 0; i < 100; ++i) {
      did = difference(runtime.metrics(), before);
      if (std::ranges::all_of(did.operators, [](const OperatorMetrics& op) { return op.waits == op.sampled; })) break;
      std::this_thread::sleep_for(10ms);
    }
    for (const char* name : {"few", "many"}) {
      SCOPED_TRACE(name);
      const OperatorMetrics op = row(did, name);
      EXPECT_NEAR(static_cast<double>(op.sampled), kTasks / 2.0 / 256, 12);
      EXPECT_EQ(op.waits, op.sampled);
      EXPECT_DOUBLE_EQ(op.mean_bytes(), 400 + (op.name == "few" ? 80 : 8000));
      EXPECT_GT(op.mean_wait_ns(), 0);
      EXPECT_LE(op.mean_wait_ns(), took + did.clock_error_ns);
      EXPECT_LE(op.waited_ns, op.waits * op.longest_wait_ns);
      EXPECT_GE(static_cast<double>(op.longest_wait_ns) + did.clock_error_ns, waits ? 10e6 : 0);
    }
  }
  runtime.set_metrics(Metering::counts);
  const Metrics before = runtime.metrics();
  submit({});
  EXPECT_EQ(row(difference(runtime.metrics(), before), "many").sampled, 0U);
}

TEST_P(MetricsTest, WaitsAreSampledBeforeTheFirstSnapshot) {
  Options timed = options();
  timed.metrics = Metering::times;
  Runtime runtime(timed);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  constexpr std::uint64_t kTasks = 8192;
  for (std::uint64_t i = 0; i < kTasks; ++i) runtime.submit(nothing);
  runtime.wait_all();
  // A worker records the wait of a task after its completion. All tasks precede the first snapshot.
  OperatorMetrics op;
  for (int i = 0; i < 100; ++i) {
    op = row(runtime.metrics(), "nothing");
    if (op.waits == op.sampled && op.waits != 0) break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_NEAR(static_cast<double>(op.sampled), kTasks / 256.0, 12);
  EXPECT_EQ(op.waits, op.sampled);
  EXPECT_GT(op.waited_ns, 0U);
}

TEST_P(MetricsTest, SampleHasBytesOfNodes) {
  Options given = options();
  given.metrics = Metering::times;
  Runtime runtime(given);
  const auto spans = runtime.define<void(u32, Span<const float>)>(
      "spans", "DWELL_OPERATOR(spans)(dwell::Group, dwell::u32, dwell::Span<const float>) {}\n");
  const auto floats = runtime.allocate<float>(100);
  Graph graph;
  const Node first = graph.add(spans, 1U, floats.slice(0, 10));
  graph.add(spans, 1U, floats).after(first);
  GraphExec exec = runtime.instantiate(graph);
  constexpr std::uint64_t kLaunches = 4096;
  const auto launch = [&] {
    const Metrics before = runtime.metrics();
    for (std::uint64_t i = 0; i < kLaunches; ++i) runtime.launch(exec);
    runtime.wait_all();
    return row(difference(runtime.metrics(), before), "spans");
  };
  OperatorMetrics op = launch();
  EXPECT_EQ(op.tasks, 2 * kLaunches);
  EXPECT_NEAR(static_cast<double>(op.sampled), 2.0 * kLaunches / 256, 24);
  EXPECT_DOUBLE_EQ(op.mean_bytes(), (40 + 400) / 2.0);
  exec.set(first, 1, floats.slice(0, 50));
  op = launch();
  EXPECT_DOUBLE_EQ(op.mean_bytes(), (200 + 400) / 2.0);
  runtime.set_metrics(Metering::counts);
  EXPECT_EQ(launch().sampled, 0U);
}

// Nodes and spawned tasks taken by other workers than those that made them ready.
TEST_P(MetricsTest, SampleHasWaitsOfNodesAndSpawnedTasks) {
  Options given = options();
  given.metrics = Metering::times;
  given.workers = 4;
  Runtime runtime(given);
  const auto node = runtime.define<void(u32, Span<const float>)>("busy", R"(
DWELL_OPERATOR(busy)(dwell::Group, dwell::u32, dwell::Span<const float>) {
  const dwell::u64 begun = dwell::device::now_ns();
  while (dwell::device::now_ns() - begun < 5000) {}
}
)");
  const auto spawn_busy = runtime.define<void(u32, Span<const float>)>("spawn_busy", R"(
DWELL_USES(busy, dwell::u32, dwell::Span<const float>)
DWELL_OPERATOR(spawn_busy)(dwell::Group g, dwell::u32 count, dwell::Span<const float> floats) {
  for (dwell::u32 i = 0; i < count; ++i) g.spawn(uses::busy, i, floats);
}
)");
  const auto floats = runtime.allocate<float>(100);
  const auto expect_waits = [&](const std::function<void()>& run) {
    OperatorMetrics op;
    std::chrono::nanoseconds took{};
    const Metrics before = runtime.metrics();
    for (int i = 0; i < 100 && op.waits == 0; ++i) {
      const auto begun = Clock::now();
      run();
      took += Clock::now() - begun;
      op = row(difference(runtime.metrics(), before), "busy");
    }
    EXPECT_GT(op.waits, 0U);
    EXPECT_LE(op.waits * 8, op.tasks + 128) << "one place in 16";
    EXPECT_LT(op.waited_ns, op.waits * static_cast<std::uint64_t>(took.count()));
    EXPECT_GE(op.longest_wait_ns * op.waits, op.waited_ns);
    return op;
  };
  Graph graph;
  for (u32 i = 0; i < 500; ++i) graph.add(node, i, floats);
  const GraphExec exec = runtime.instantiate(graph);
  expect_waits([&] { runtime.launch(exec).wait(); });

  constexpr u32 kMade = 1600;
  const OperatorMetrics op = expect_waits([&] { runtime.submit(spawn_busy, kMade, floats).wait(); });
  EXPECT_NEAR(static_cast<double>(op.sampled), static_cast<double>(op.tasks) / 16, static_cast<double>(op.tasks) / 160);
  EXPECT_DOUBLE_EQ(op.mean_bytes(), 400);
}

TEST_P(MetricsTest, ExtremesBelongToTheOperator) {
  Options alone = options();
  alone.workers = 1;
  alone.lease = 1s;
  alone.metrics = Metering::times;
  Runtime runtime(alone);
  const auto wide = runtime.define<void(u64)>("wide", spins_as("wide"));
  const auto narrow = runtime.define<void(u64)>("narrow", spins_as("narrow"));
  // The times of the narrow operator lie within those that the worker has just seen of the wide one.
  for (int i = 0; i < 40; ++i) {
    runtime.submit(wide, i % 10 == 5 ? 2'000'000ULL : i % 10 == 8 ? 20'000ULL : 500'000ULL).wait();
    runtime.submit(narrow, i % 10 == 5 ? 1'000'000ULL : i % 10 == 8 ? 100'000ULL : 400'000ULL).wait();
  }
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(row(metrics, "wide").timed, 40U);
  EXPECT_GE(row(metrics, "wide").min_ns, 19'000U);
  EXPECT_LT(row(metrics, "wide").min_ns, 400'000U);
  EXPECT_GE(row(metrics, "wide").max_ns, 1'999'000U);
  EXPECT_GE(row(metrics, "narrow").min_ns, 99'000U);
  EXPECT_LT(row(metrics, "narrow").min_ns, 300'000U);
  EXPECT_GE(row(metrics, "narrow").max_ns, 999'000U);
}

// A worker prefetches nodes of a chain in blocks of eight slots, and counts them at the next block.
TEST_P(MetricsTest, EachNodeOfAChainCounts) {
  Runtime runtime(options());
  struct Two {
    u64 word[6];
  };
  struct Five {
    u64 word[25];
  };
  struct Eight {
    u64 word[44];
  };
  const auto source = [](const std::string& name, const std::string& words) {
    return "struct Words { dwell::u64 word[" + words + "]; };\nDWELL_OPERATOR(" + name + ")(dwell::Group, Words) {}\n";
  };
  const auto one = runtime.define<void()>("one", "DWELL_OPERATOR(one)(dwell::Group) {}\n");
  const auto two = runtime.define<void(Two)>("two", source("two", "6"));
  const auto five = runtime.define<void(Five)>("five", source("five", "25"));
  const auto eight = runtime.define<void(Eight)>("eight", source("eight", "44"));
  std::mt19937 random(7);
  std::array<std::uint64_t, 4> nodes = {};
  Graph graph;
  std::optional<Node> last;
  for (int i = 0; i < 2000; ++i) {
    // Mostly short nodes, sometimes in runs.
    const std::uint32_t kind = i % 500 < 100 ? 0 : std::min<std::uint32_t>(random() % 8, 6) * 4 / 7;
    Node node = kind == 0   ? graph.add(one)
                : kind == 1 ? graph.add(two, Two{})
                : kind == 2 ? graph.add(five, Five{})
                            : graph.add(eight, Eight{});
    if (last) node.after(*last);
    last = node;
    ++nodes[kind];
  }
  const GraphExec exec = runtime.instantiate(graph);
  std::uint64_t launches = 0;
  for (const Metering metering : {Metering::counts, Metering::times, Metering::counts}) {
    runtime.set_metrics(metering);
    for (int i = 0; i < 5; ++i) runtime.launch(exec);
    launches += 5;
    runtime.wait_all();
    // A worker may count after the completion.
    Metrics metrics = runtime.metrics();
    for (int i = 0; i < 100 && row(metrics, "one").tasks != launches * nodes[0]; ++i) {
      std::this_thread::sleep_for(1ms);
      metrics = runtime.metrics();
    }
    EXPECT_EQ(row(metrics, "one").tasks, launches * nodes[0]);
    EXPECT_EQ(row(metrics, "two").tasks, launches * nodes[1]);
    EXPECT_EQ(row(metrics, "five").tasks, launches * nodes[2]);
    EXPECT_EQ(row(metrics, "eight").tasks, launches * nodes[3]);
    EXPECT_EQ(row(metrics, "eight").timed, metering == Metering::counts && launches == 5 ? 0 : 5 * nodes[3]);
  }
}

TEST_P(MetricsTest, SnapshotsGrowWhileItWorks) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  std::atomic<bool> over{false};
  std::uint64_t submitted = 0;
  std::thread submitter([&] {
    for (; !over.load(); ++submitted) runtime.submit(nothing);
  });
  std::uint64_t before = 0;
  for (int i = 0; i < 50; ++i) {
    const Metrics metrics = runtime.metrics();
    const std::uint64_t now = row(metrics, "nothing").tasks;
    EXPECT_GE(now, before);
    before = now;
  }
  over.store(true);
  submitter.join();
  runtime.wait_all();
  EXPECT_EQ(row(runtime.metrics(), "nothing").tasks, submitted);
}

TEST_P(MetricsTest, IsRefusedWhenClosed) {
  Runtime runtime(options());
  runtime.close();
  expect_error(errc::closed, HasSubstr(""), [&] { static_cast<void>(runtime.metrics()); });
  expect_error(errc::closed, HasSubstr(""), [&] { runtime.set_metrics(Metering::times); });
}

}  // namespace
}  // namespace dwell::test
