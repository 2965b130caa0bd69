// A runtime's counts by part: ring, ready queue, workers, leases, images, compilations, memory, graphs, batches.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dwell/batch.hpp>

#include "jit/base/temporary_directory.hpp"
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// An empty cache on disk for runtimes opened during its lifetime.
class EmptyCache {
 public:
  EmptyCache() {
    for (const char* name : kNames) {
      const char* const value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
    setenv(kNames[0], folder_.path().c_str(), 1);
  }
  ~EmptyCache() {
    for (std::size_t i = 0; i < before_.size(); ++i) before_[i] ? setenv(kNames[i], before_[i]->c_str(), 1) : unsetenv(kNames[i]);
  }
  EmptyCache(const EmptyCache&) = delete;
  EmptyCache& operator=(const EmptyCache&) = delete;

 private:
  static constexpr const char* kNames[] = {"DWELL_CACHE_DIR", "DWELL_CACHE", "DWELL_CACHE_MAX_BYTES"};
  jit::TemporaryDirectory folder_;
  std::vector<std::optional<std::string>> before_;
};

std::uint64_t sum_of(const Metrics& metrics, std::uint64_t WorkerMetrics::*member) {
  std::uint64_t all = 0;
  for (const WorkerMetrics& worker : metrics.workers) all += worker.*member;
  return all;
}

// An operator that no other test compiles.
std::string nothing_of(u32 number) { return std::string(kNothing) + "// of parts, " + std::to_string(number) + "\n"; }

class MetricsOfPartsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(MetricsOfPartsTest);

TEST_P(MetricsOfPartsTest, ARingThatIsFullCountsEachSubmitterThatWaits) {
  Options given = options();
  given.workers = 2;
  Runtime runtime(given);
  const auto hold = runtime.define<Hold>("hold", kHold);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const std::uint64_t slots = runtime.metrics().ring_slots;
  EXPECT_EQ(slots, given.ring_slots);
  Latch latch(runtime);
  std::uint64_t submitted = 1;
  runtime.submit(hold, latch.words());
  latch.await();
  // Slots are freed in order: tasks that ran behind the held one keep theirs.
  for (; submitted < slots; ++submitted) runtime.submit(nothing);
  Metrics metrics = runtime.metrics();
  EXPECT_EQ(metrics.submitted, slots);
  EXPECT_EQ(metrics.in_flight_slots, slots);
  EXPECT_EQ(metrics.credit_waits, 0U);
  {
    std::vector<std::jthread> waiting;
    for (std::uint64_t count = 1; count <= 3; ++count, ++submitted) {
      waiting.emplace_back([&] { runtime.submit(nothing); });
      EXPECT_TRUE(eventually([&] { return runtime.metrics().credit_waits == count; })) << count;
    }
    metrics = runtime.metrics();
    EXPECT_EQ(metrics.submitted, slots) << "they wait";
    EXPECT_EQ(metrics.in_flight_slots, slots);
    latch.release();
  }
  runtime.wait_all();
  EXPECT_TRUE(eventually([&] { return runtime.metrics().in_flight_slots == 0; })) << "places that a thread left are passed over";
  metrics = runtime.metrics();
  EXPECT_EQ(metrics.submitted, submitted);
  EXPECT_EQ(metrics.credit_waits, 3U);
}

TEST_P(MetricsOfPartsTest, RingWithRoomHasNoWaits) {
  Options given = options();
  given.ring_slots = 128;
  Runtime runtime(given);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  // Each round crosses the end of the ring.
  for (int round = 0; round < 20; ++round) {
    for (const std::size_t count : {std::size_t{64}, std::size_t{30}})
      runtime.submit_many(nothing, count, [](std::size_t, auto&& put) { put(); });
    runtime.wait_all();
  }
  EXPECT_EQ(runtime.metrics().credit_waits, 0U);
}

TEST_P(MetricsOfPartsTest, TheReadyQueueShowsTasksThatWaitForAWorker) {
  Options given = options();
  given.workers = 2;
  given.priorities = Priorities{};  // tasks that find no idle worker go through the queue
  Runtime runtime(given);
  const auto hold = runtime.define<Hold>("hold", kHold);
  EXPECT_EQ(runtime.metrics().queued, 0U);
  Latch latch(runtime);
  constexpr std::uint64_t kTasks = 100;
  for (std::uint64_t i = 0; i < kTasks; ++i) runtime.submit(hold, latch.words());
  latch.await();
  EXPECT_TRUE(eventually([&] { return runtime.metrics().queued > 0; }));
  const Metrics metrics = runtime.metrics();
  EXPECT_LE(metrics.queued, kTasks - 1) << "one is held";
  EXPECT_EQ(metrics.in_flight_slots, kTasks);
  latch.release();
  runtime.wait_all();
  EXPECT_TRUE(eventually([&] { return runtime.metrics().queued == 0; }));
  EXPECT_TRUE(eventually([&] { return runtime.metrics().in_flight_slots == 0; }));
  EXPECT_GE(sum_of(runtime.metrics(), &WorkerMetrics::queued), metrics.queued) << "all were taken from there";
}

TEST_P(MetricsOfPartsTest, NodesTakenByOthersAreQueuedOrStolen) {
  Options given = options();
  given.workers = 4;
  Runtime runtime(given);
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const auto meet = runtime.define<Meet>("meet", kMeet);
  for (int i = 0; i < 100; ++i) runtime.submit(nothing).wait();
  // Two workers run nodes of each stage, so one of them has taken its own.
  constexpr u32 kStages = 20;
  constexpr u32 kWide = 4;
  const auto there = filled<u32>(runtime, kStages, 0);
  Graph graph;
  Node last = graph.add(nothing);
  for (u32 i = 0; i < kStages; ++i) {
    Node join = graph.add(nothing);
    for (u32 k = 0; k < kWide; ++k) join.after(graph.add(meet, there, i).after(last));
    last = join;
  }
  const GraphExec exec = runtime.instantiate(graph);
  const Metrics before = runtime.metrics();
  runtime.launch(exec).wait();
  Metrics did;
  constexpr std::uint64_t kNodes = kStages * (kWide + 1) + 1;
  // A worker may count after the completion.
  EXPECT_TRUE(eventually([&] {
    did = difference(runtime.metrics(), before);
    return sum_of(did, &WorkerMetrics::tasks) == kNodes;
  }));
  const std::uint64_t stolen = sum_of(did, &WorkerMetrics::stolen);
  EXPECT_EQ(stolen != 0, on_cpu()) << "its workers keep the nodes that they have made ready, others put them into the queue";
  const std::uint64_t taken = sum_of(did, &WorkerMetrics::queued) + stolen;
  EXPECT_GE(taken, kStages);
  EXPECT_LE(taken, kNodes + did.workers.size()) << "the nodes, and shares of the launch";
}

TEST_P(MetricsOfPartsTest, WorkersCountTheirLeasesAndTheTimeInThem) {
  Options given = options();
  given.workers = 2;
  given.idle = 10s;  // the loop leaves only on request
  given.metrics = Metering::times;
  Runtime runtime(given);
  const auto spin = runtime.define<Spin>("spin", kSpin);
  constexpr std::uint64_t kRounds = 10;
  constexpr u64 kSpun = 5'000'000;
  runtime.park();
  const Metrics before = runtime.metrics();
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    runtime.resume();
    runtime.submit(spin, kSpun).wait();
    runtime.park();
  }
  const Metrics did = difference(runtime.metrics(), before);
  const auto wall = static_cast<std::uint64_t>(std::chrono::nanoseconds(runtime.metrics().at - before.at).count());
  EXPECT_GE(did.leases, kRounds);
  EXPECT_GE(did.parks, kRounds - 1);
  EXPECT_EQ(did.pauses, kRounds);
  EXPECT_GE(sum_of(did, &WorkerMetrics::parks), kRounds) << "somebody left each time";
  EXPECT_GE(sum_of(did, &WorkerMetrics::leases), kRounds) << "somebody ran each";
  EXPECT_GE(sum_of(did, &WorkerMetrics::busy_ns), kRounds * kSpun);
  EXPECT_GE(sum_of(did, &WorkerMetrics::present_ns), sum_of(did, &WorkerMetrics::busy_ns)) << "the loop is off the device";
  for (const WorkerMetrics& worker : did.workers) {
    EXPECT_LE(worker.leases, did.leases);
    EXPECT_LE(worker.present_ns, wall + wall / 8) << "of two clocks";
    EXPECT_LE(worker.busy_ns, worker.present_ns);
    EXPECT_LE(worker.parks, worker.leases);
    EXPECT_GT(worker.idle_ns, 0U);
    EXPECT_NEAR(static_cast<double>(worker.idle_ns + worker.busy_ns), static_cast<double>(worker.present_ns),
                static_cast<double>(worker.present_ns) / 100);
  }
  runtime.resume();
}

TEST_P(MetricsOfPartsTest, ImagesCountByTier) {
  for (const Tier tier : {Tier::relocatable, Tier::lto}) {
    if (tier == Tier::lto && on_cpu()) continue;  // unsupported
    SCOPED_TRACE(tier == Tier::lto ? "lto" : "relocatable");
    Options given = options();
    given.tier = tier;
    Runtime runtime(given);
    const Metrics before = runtime.metrics();
    EXPECT_EQ(before.images, 0U);
    auto nothing = runtime.define<void()>("nothing", nothing_of(0));
    constexpr u32 kMore = 3;
    for (u32 i = 1; i <= kMore; ++i) {
      nothing.redefine(nothing_of(i));
      runtime.submit(nothing).wait();
    }
    const Metrics metrics = runtime.metrics();
    EXPECT_EQ(metrics.images, 1 + kMore);
    EXPECT_EQ(metrics.hand_overs_relocatable, tier == Tier::relocatable ? 1 + kMore : 0);
    EXPECT_EQ(metrics.hand_overs_lto, tier == Tier::lto ? 1 + kMore : 0);
    // An ending lease may delay the count.
    EXPECT_TRUE(eventually([&] {
      const Metrics now = runtime.metrics();
      return now.tasks_relocatable == (tier == Tier::relocatable ? kMore : 0) && now.tasks_lto == (tier == Tier::lto ? kMore : 0);
    }));
    EXPECT_EQ(before.last_hand_over_ns, 0U);
    EXPECT_GT(metrics.last_hand_over_ns, 0U);
  }
}

TEST_P(MetricsOfPartsTest, CacheHitsAreNeitherCompiledNorLinked) {
  const EmptyCache cache;
  Options given = options();
  given.tier = Tier::relocatable;  // makes no image in the background
  constexpr u32 kSources = 3;
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known ? "the second time" : "the first time");
    Runtime runtime(given);
    auto nothing = runtime.define<void()>("nothing", nothing_of(100));
    const Metrics before = runtime.metrics();
    for (u32 i = 1; i <= kSources; ++i) nothing.redefine(nothing_of(100 + i));
    const Metrics did = difference(runtime.metrics(), before);
    EXPECT_EQ(did.images, kSources);
    EXPECT_EQ(did.compiled, known ? 0 : kSources);
    EXPECT_EQ(did.linked, known ? 0 : kSources);
    EXPECT_EQ(did.cache_hits, known ? 2 * kSources : 0) << "sources and images";
    EXPECT_EQ(did.last_cache_hit_ns != 0, known);
    // The first definition also compiles the loop.
    EXPECT_GE(before.compiled, known ? 0U : 1U);
    EXPECT_EQ(before.linked, known ? 0 : 1);
  }
}

TEST_P(MetricsOfPartsTest, CancelsCountUnlessTheTaskIsComplete) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const Ticket done = runtime.submit(nothing);
  done.wait();
  runtime.cancel(done);
  EXPECT_EQ(runtime.metrics().cancels, 0U);
  runtime.park();
  const Ticket waits = runtime.submit(nothing);
  runtime.cancel(waits);
  EXPECT_EQ(runtime.metrics().cancels, 1U);
  runtime.resume();
}

TEST_P(MetricsOfPartsTest, BuffersCountWhileTheyLive) {
  Runtime runtime(options());
  const Metrics before = runtime.metrics();
  EXPECT_EQ(before.buffers, 0U);
  EXPECT_EQ(before.buffer_bytes, 0U);
  {
    const auto floats = runtime.allocate<float>(1000);
    const auto doubles = runtime.allocate<double>(77, Memory::host);
    EXPECT_EQ(runtime.metrics().buffers, 2U);
    EXPECT_EQ(runtime.metrics().buffer_bytes, 4000U + 77 * 8);
    const auto wrapped = runtime.wrap(floats.data(), 10);
    EXPECT_EQ(runtime.metrics().buffers, 2U) << "of those that the runtime has allocated";
    EXPECT_EQ(runtime.metrics().buffer_bytes, 4000U + 77 * 8);
    {
      const auto bytes = runtime.allocate<std::byte>(5);
      EXPECT_EQ(runtime.metrics().buffers, 3U);
      EXPECT_EQ(runtime.metrics().buffer_bytes, 4000U + 77 * 8 + 5);
    }
    EXPECT_EQ(runtime.metrics().buffers, 2U);
  }
  EXPECT_EQ(runtime.metrics().buffers, 0U);
  EXPECT_EQ(runtime.metrics().buffer_bytes, 0U);
}

TEST_P(MetricsOfPartsTest, TheArenaGrowsWithTheRing) {
  Options given = options();
  const std::uint64_t bytes = Runtime(given).metrics().arena_bytes;
  EXPECT_GE(bytes, given.ring_slots * 64ULL) << "a task that waits for others is kept in its slot";
  const unsigned before = given.ring_slots;
  given.ring_slots *= 8;
  EXPECT_GE(Runtime(given).metrics().arena_bytes, bytes + (given.ring_slots - before) * 64ULL);
}

TEST_P(MetricsOfPartsTest, LaunchesCountWhetherTheySucceedOrNot) {
  Runtime runtime(options());
  const auto nothing = runtime.define<void()>("nothing", kNothing);
  const auto fail = runtime.define<Fail>("fail", kFail);
  Graph good;
  good.add(nothing);
  Graph bad;
  bad.add(fail, 7);
  const GraphExec exec = runtime.instantiate(good);
  const GraphExec failing = runtime.instantiate(bad);
  EXPECT_EQ(runtime.metrics().graph_launches, 0U) << "none is launched yet";
  for (int i = 0; i < 7; ++i) runtime.launch(exec);
  for (int i = 0; i < 4; ++i) runtime.launch(failing);
  for (int i = 0; i < 5; ++i) runtime.submit(nothing);
  runtime.wait_all();
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(metrics.graph_launches, 11U);
  EXPECT_EQ(metrics.submitted, 16U) << "launches and tasks";
}

TEST_P(MetricsOfPartsTest, BatchesCountTheirFlushesOperationsAndTasks) {
  Runtime runtime(options());
  Batch batch(runtime);
  const auto ones = filled<float>(runtime, 1000, 1);
  const auto twos = filled<float>(runtime, 1000, 2);
  const TensorView x(ones);
  const TensorView y(twos);
  const Metrics before = runtime.metrics();
  EXPECT_EQ(before.batch_flushes, 0U);
  constexpr std::uint64_t kFlushes = 4;
  constexpr std::uint64_t kOperations = 6;  // of the first batch
  for (std::uint64_t flush = 0; flush < kFlushes; ++flush) {
    for (std::uint64_t i = 0; i < kOperations + flush; ++i) batch.apply(TensorOp::add, x, {x, 1.0});
    batch.apply(TensorOp::mul, y, {y, 2.0});
    batch.flush();
  }
  runtime.wait_all();
  const Metrics did = difference(runtime.metrics(), before);
  EXPECT_EQ(did.batch_flushes, kFlushes);
  EXPECT_EQ(did.batch_operations, kFlushes * (kOperations + 1) + (0 + 1 + 2 + 3));
  EXPECT_EQ(did.batch_operations, batch.stats().operations);
  EXPECT_EQ(did.batch_tasks, batch.stats().tasks);
  EXPECT_EQ(did.batch_tasks, did.submitted);
  EXPECT_GE(did.batch_tasks, kFlushes);
  EXPECT_LT(did.batch_tasks, did.batch_operations) << "those of one tensor become one";
  EXPECT_EQ(read(twos)[0], 32.0F);
}

}  // namespace
}  // namespace dwell::test
