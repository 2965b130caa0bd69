// Jobs: admission within limits, balance, all kinds of ends.
#include <dwell/orchestrator.hpp>

#include <algorithm>
#include <array>
#include <future>
#include <set>

#include "tests/conformance/graph_suite.hpp"

namespace dwell::test {
namespace {

// Adds to the amount inside, and records the sum; kLeave subtracts it.
constexpr const char* kEnter = R"(
DWELL_OPERATOR(enter)(dwell::Group g, dwell::Span<dwell::u32> inside, dwell::u32 amount, dwell::Span<dwell::u32> seen, dwell::u32 at) {
  using namespace dwell::device;
  if (g.rank() == 0) seen[at] = fetch_add<Order::acq_rel>(&inside[0], amount) + amount;
})";
constexpr const char* kLeave = R"(
DWELL_OPERATOR(leave)(dwell::Group g, dwell::Span<dwell::u32> inside, dwell::u32 amount) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::acq_rel>(&inside[0], 0u - amount);
})";
using Enter = void(Span<u32>, u32, Span<u32>, u32);
using Leave = void(Span<u32>, u32);

class OrchestratorTest : public GraphSuite {
 protected:
  // A graph of one node that adds 1 to cell 0, unless a job sets argument 1 (the cell) or 2 (the value).
  Graph one_add(const Buffer<u32>& cells, Node& node) const {
    Graph graph;
    node = graph.add("add", add, cells, 0U, 1U);
    return graph;
  }
  static JobState after(const Job& job) {
    try {
      job.wait();
    } catch (const Error&) {}
    return job.state();
  }
  static errc why(const Job& job) {
    const std::optional<Error> error = job.error();
    return error ? error->kind() : errc::ok;
  }
};
DWELL_ON_EVERY_DEVICE(OrchestratorTest);

TEST_P(OrchestratorTest, AThousandGraphsAreInFlightAtOnce) {
  constexpr u32 kJobs = 1000;
  constexpr u32 kNodes = 16;
  constexpr u32 kRounds = 3;
  Options large = options();
  large.ring_slots = 16384;
  open(large);
  auto cells = filled<u32>(*runtime, kJobs * kNodes, 0);
  Graph graph;
  std::vector<Node> nodes;
  for (u32 i = 0; i < kNodes; ++i) {
    nodes.push_back(graph.add(add, cells, i, 1U));
    if (i > 0) nodes[i].after(nodes[i / 2]);
  }
  Orchestrator jobs(*runtime, {.workers = kJobs});
  const JobType type = jobs.define("tree", std::move(graph));
  for (u32 round = 1; round <= kRounds; ++round) {
    runtime->park();
    std::vector<Job> all;
    for (u32 i = 0; i < kJobs; ++i) {
      JobArguments arguments;
      for (u32 node = 0; node < kNodes; ++node) arguments.set(nodes[node], 1, i * kNodes + node);
      all.push_back(jobs.submit(type, std::move(arguments)));
    }
    EXPECT_EQ(jobs.statistics().types[0].admitted, kJobs);
    EXPECT_EQ(jobs.statistics().workers, kJobs);
    runtime->resume();
    for (const Job& job : all) job.wait();
    EXPECT_THAT(read(cells), testing::Each(round));
  }
  const JobStatistics found = jobs.statistics().types[0];
  EXPECT_EQ(found.submitted, kRounds * kJobs);
  EXPECT_EQ(found.done, kRounds * kJobs);
  EXPECT_EQ(found.admitted, 0U);
  EXPECT_EQ(found.workers, 0U);
  EXPECT_EQ(found.memory, 0U);
  EXPECT_EQ(found.most_admitted, kJobs);
  EXPECT_EQ(found.execs, kJobs);  // later rounds reused the execs of the first
  EXPECT_EQ(found.ran.count, kRounds * kJobs);
  EXPECT_GT(found.ran.p50, 0ns);
}

TEST_P(OrchestratorTest, JobsOfManyThreadsRunOnceWithTheirArguments) {
  constexpr u32 kThreads = 4;
  constexpr u32 kEach = kSanitized ? 100 : 500;
  constexpr u32 kOfGraph = 7;
  open();
  auto cells = filled<u32>(*runtime, kThreads * kEach, 0);
  Graph graph;
  const Node node = graph.add(add, cells, 0U, kOfGraph);
  Orchestrator jobs(*runtime, {.workers = 6});
  const JobType type = jobs.define("add", std::move(graph));
  std::vector<std::vector<Job>> submitted(kThreads);
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] {
      for (u32 i = 0; i < kEach; ++i) {
        const u32 at = me * kEach + i;
        // An exec whose value a job changed gets the graph's value back.
        JobArguments arguments;
        arguments.set(node, 1, at);
        if (i % 3 == 0) arguments.set(node, 2, at + 100);
        submitted[me].push_back(jobs.submit(type, std::move(arguments)));
        if (i % 50 == 49) submitted[me].back().wait();
      }
    });
  threads.clear();
  for (const auto& of_thread : submitted)
    for (const Job& job : of_thread) job.wait();
  const std::vector<u32> found = read(cells);
  for (u32 at = 0; at < found.size(); ++at) ASSERT_EQ(found[at], at % kEach % 3 == 0 ? at + 100 : kOfGraph) << at;
  EXPECT_LE(jobs.statistics().types[0].most_admitted, 6U);
  EXPECT_LE(jobs.statistics().types[0].execs, 6U);
}

TEST_P(OrchestratorTest, LimitsAreNeverExceeded) {
  constexpr u32 kEach = kSanitized ? 40 : 150;
  Options many = options();
  if (on_cpu()) many.workers = 6;
  open(many);
  auto enter = runtime->define<Enter>("enter", kEnter);
  auto leave = runtime->define<Leave>("leave", kLeave);
  auto spin = runtime->define<Spin>("spin", kSpin);

  struct Kind {
    const char* name;
    JobOptions options;
    u32 amount;  // of the limited resource, for each job
    u32 limit;
  };
  constexpr std::uint64_t kMemory = 1 << 20;
  const std::vector<Kind> kinds{
      {"by count", {.need = {.workers = 0}, .limits = {.at_once = 2}}, 1, 2},
      {"by workers", {.need = {.workers = 3}, .limits = {.workers = 7}}, 3, 6},
      {"by memory", {.need = {.workers = 0, .memory = kMemory}, .limits = {.memory = 4 * kMemory - 1}}, 1, 3},
      {"by workers of all", {.need = {.workers = 2}}, 2, 8},
  };
  Orchestrator jobs(*runtime, {.workers = 9});
  struct Running {
    Running(Runtime& runtime, const Kind& kind, Operator<Enter>& enter, Operator<Leave>& leave, Operator<Spin>& spin)
        : inside(filled<u32>(runtime, 1, 0)), seen(filled<u32>(runtime, kEach, 0)) {
      first = graph.add(enter, inside, kind.amount, seen, 0U);
      const Node work = graph.add(spin, u64{300'000}).after(first);
      graph.add(leave, inside, kind.amount).after(work);
    }
    Buffer<u32> inside;
    Buffer<u32> seen;
    Graph graph;
    Node first;
    JobType type;
  };
  std::vector<std::unique_ptr<Running>> running;
  for (const Kind& kind : kinds) {
    auto& each = *running.emplace_back(std::make_unique<Running>(*runtime, kind, enter, leave, spin));
    each.type = jobs.define(kind.name, std::move(each.graph), kind.options);
  }
  std::vector<Job> all;
  for (u32 i = 0; i < kEach; ++i)
    for (const auto& each : running) all.push_back(jobs.submit(each->type, JobArguments().set(each->first, 3, i)));
  for (const Job& job : all) job.wait();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::vector<u32> seen = read(running[i]->seen);
    EXPECT_LE(std::ranges::max(seen), kinds[i].limit) << kinds[i].name;
    EXPECT_GE(std::ranges::min(seen), kinds[i].amount) << kinds[i].name << ": a job has not run";
    EXPECT_EQ(read(running[i]->inside)[0], 0U);
    const JobStatistics found = jobs.statistics().types[i];
    EXPECT_EQ(found.done, kEach);
    EXPECT_LE(found.most_workers, 9U);
    if (const std::uint64_t limit = kinds[i].options.limits.memory; limit != 0) {
      EXPECT_LE(found.most_memory, limit);
    }
  }
}

TEST_P(OrchestratorTest, WorkersAreDividedByWeight) {
  constexpr u32 kEach = kSanitized ? 200 : 400;
  open();
  auto spin = runtime->define<Spin>("spin", kSpin);
  // Returns how many jobs of each type are done when a third of all are.
  const auto done = [&] {
    Orchestrator jobs(*runtime, {.workers = 8});
    std::vector<JobType> types;
    for (const u32 weight : {1U, 1U, 2U}) {
      Graph graph;
      graph.add(spin, u64{50'000});
      types.push_back(jobs.define("type " + std::to_string(types.size()), std::move(graph), {.weight = weight}));
    }
    runtime->park();
    std::atomic<u32> ended{0};
    std::promise<OrchestratorStatistics> third;
    for (u32 i = 0; i < kEach; ++i)
      for (const JobType& type : types)
        jobs.submit(type).then([&](const Job&) {
          if (++ended == kEach) third.set_value(jobs.statistics());
        });
    runtime->resume();
    const OrchestratorStatistics found = third.get_future().get();
    jobs.close(Close::now);
    return std::array{found.types[0].done, found.types[1].done, found.types[2].done};
  };
  // Weights divide time. Job counts follow only if jobs take equally long, which a busy machine does not guarantee.
  std::string seen;
  const auto divided = [&] {
    const auto [light, other, heavy] = done();
    seen += std::to_string(light) + ", " + std::to_string(other) + " and " + std::to_string(heavy) + "; ";
    const auto twice = [heavy = heavy](std::uint64_t of) {
      const double times = static_cast<double>(heavy) / static_cast<double>(of);
      return times > 1.4 && times < 2.8;
    };
    return twice(light) && twice(other);
  };
  EXPECT_TRUE(divided() || divided() || divided() || divided()) << seen;
}

TEST_P(OrchestratorTest, HeavyTypeDoesNotStarveALightOne) {
  open();
  auto spin = runtime->define<Spin>("spin", kSpin);
  Orchestrator jobs(*runtime, {.workers = 4});
  Graph heavy_graph;
  heavy_graph.add(spin, u64{5'000'000});
  const JobType heavy = jobs.define("heavy", std::move(heavy_graph));
  Graph light_graph;
  light_graph.add(spin, u64{20'000});
  const JobType light = jobs.define("light", std::move(light_graph));
  std::vector<Job> heavies;
  for (u32 i = 0; i < 60; ++i) heavies.push_back(jobs.submit(heavy));
  std::vector<Job> lights;
  for (u32 i = 0; i < 10; ++i) lights.push_back(jobs.submit(light));
  for (const Job& job : lights) job.wait();
  // Light jobs get two of four places as soon as the first heavy jobs end; in order of submission they would be last.
  EXPECT_LT(jobs.statistics().types[0].done, 30U);
  for (const Job& job : heavies) job.wait();
}

TEST_P(OrchestratorTest, StarvedJobGoesFirst) {
  constexpr u32 kUrgent = 300;
  open();
  auto clock = filled<u32>(*runtime, 1, 0);
  auto began = filled<u32>(*runtime, kUrgent + 2, ~0U);
  auto ended = filled<u32>(*runtime, kUrgent + 2, 0);
  const auto define = [&](Orchestrator& jobs, const char* name, u32 priority, Node& node) {
    Graph graph;
    node = graph.add(stamp, clock, began, ended, 0U, u64{0});
    return jobs.define(name, std::move(graph), {.priority = priority});
  };
  Orchestrator jobs(*runtime, {.workers = 1});
  Node low_node;
  Node high_node;
  const JobType low = define(jobs, "low", 1, low_node);
  const JobType high = define(jobs, "high", 6, high_node);
  runtime->park();
  std::vector<Job> all{jobs.submit(high, JobArguments().set(high_node, 3, 2U))};
  for (u32 i = 0; i < 2; ++i) all.push_back(jobs.submit(low, JobArguments().set(low_node, 3, i)));
  for (u32 i = 1; i < kUrgent; ++i) all.push_back(jobs.submit(high, JobArguments().set(high_node, 3, 2 + i)));
  runtime->resume();
  for (const Job& job : all) job.wait();
  // Each job takes two numbers from the clock.
  const std::vector<u32> when = read(began);
  EXPECT_EQ(when[0] / 2, 65U);
  EXPECT_EQ(when[1] / 2, 130U);
  for (u32 i = 1; i < kUrgent; ++i) ASSERT_GT(when[2 + i], when[1 + i]) << "in order of submission";
}

TEST_P(OrchestratorTest, JobsLaunchWithTheirPriority) {
  // One worker, and all jobs in flight: only the device can prefer the urgent one.
  Options one = options();
  one.workers = 1;
  one.priorities = Priorities{};
  open(one);
  auto hold = runtime->define<Hold>("hold", kHold);
  constexpr u32 kJobs = 20;
  auto clock = filled<u32>(*runtime, 1, 0);
  auto began = filled<u32>(*runtime, kJobs + 1, ~0U);
  auto ended = filled<u32>(*runtime, kJobs + 1, 0);
  Orchestrator jobs(*runtime, {.workers = 100});
  Node node[2];
  JobType type[2];
  for (u32 i = 0; i < 2; ++i) {
    Graph graph;
    node[i] = graph.add(stamp, clock, began, ended, 0U, u64{0});
    type[i] = jobs.define(i == 0 ? "normal" : "urgent", std::move(graph), {.priority = 3 + 3 * i});
  }
  Latch latch(*runtime);
  runtime->submit(hold, latch.words());
  latch.await();
  std::vector<Job> all;
  for (u32 i = 0; i < kJobs; ++i) all.push_back(jobs.submit(type[0], JobArguments().set(node[0], 3, i)));
  all.push_back(jobs.submit(type[1], JobArguments().set(node[1], 3, kJobs)));
  EXPECT_EQ(all.back().state(), JobState::admitted);
  std::this_thread::sleep_for(20ms);  // until all wait for the worker
  latch.release();
  for (const Job& job : all) job.wait();
  EXPECT_EQ(read(began)[kJobs], 0U);
}

TEST_P(OrchestratorTest, JobsAreCancelled) {
  open();
  auto cells = filled<u32>(*runtime, 6, 0);
  Node node;
  Orchestrator jobs(*runtime);
  const JobType type = jobs.define("add", one_add(cells, node), {.need = {.workers = 0}, .limits = {.at_once = 2}});
  runtime->park();
  std::vector<Job> all;
  for (u32 i = 0; i < 6; ++i) all.push_back(jobs.submit(type, JobArguments().set(node, 1, i)));
  for (u32 i = 0; i < 6; ++i) EXPECT_EQ(all[i].state(), i < 2 ? JobState::admitted : JobState::waiting) << i;
  EXPECT_FALSE(all[4].wait_for(1ms));
  std::atomic<u32> called{0};
  all[3].then([&](const Job& job) { called += job.state() == JobState::cancelled ? 1 : 100; });
  EXPECT_TRUE(all[3].cancel());  // waiting: ends at once
  EXPECT_EQ(called, 1U);
  EXPECT_EQ(all[3].state(), JobState::cancelled);
  DWELL_EXPECT_ERROR(all[3].wait(), errc::cancelled, HasSubstr("'add' was cancelled before it was admitted"));
  EXPECT_FALSE(all[3].cancel());
  EXPECT_TRUE(all[1].cancel());  // admitted: ends with its launch
  EXPECT_FALSE(all[1].done());
  runtime->resume();
  for (u32 i = 0; i < 6; ++i) EXPECT_EQ(after(all[i]), i == 1 || i == 3 ? JobState::cancelled : JobState::done) << i;
  DWELL_EXPECT_ERROR(all[1].wait(), errc::cancelled, HasSubstr(""));
  EXPECT_FALSE(all[0].cancel());
  EXPECT_EQ(read(cells), (std::vector<u32>{1, 0, 1, 0, 1, 1}));
  const JobStatistics found = jobs.statistics().types[0];
  EXPECT_EQ(found.done, 4U);
  EXPECT_EQ(found.cancelled, 2U);
  EXPECT_EQ(found.execs, 2U);
}

TEST_P(OrchestratorTest, CancellingAJobReleasesLaterOnes) {
  open();
  auto cells = filled<u32>(*runtime, 1, 0);
  Node node;
  Orchestrator jobs(*runtime, {.workers = 4});
  const JobType type = jobs.define("add", one_add(cells, node));
  runtime->park();
  const Job first = jobs.submit(type);
  const Job large = jobs.submit(type, JobArguments().need({.workers = 4}));
  const Job behind = jobs.submit(type);
  EXPECT_EQ(behind.state(), JobState::waiting);
  EXPECT_TRUE(large.cancel());
  EXPECT_EQ(behind.state(), JobState::admitted);
  runtime->resume();
  first.wait();
  behind.wait();
  EXPECT_EQ(read(cells)[0], 2U);
}

TEST_P(OrchestratorTest, FailedJobAffectsNoOther) {
  open();
  auto cells = filled<u32>(*runtime, 4, 0);
  Graph graph;
  const Node fails = graph.add("fails", fail, 0);
  const Node adds = graph.add("adds", add, cells, 0U, 1U).after(fails);
  Orchestrator jobs(*runtime);
  const JobType type = jobs.define("work", std::move(graph), {.limits = {.at_once = 1}});
  const Job bad = jobs.submit(type, JobArguments().set(fails, 0, 5).set(adds, 1, 1U));
  const Job good = jobs.submit(type);
  const Job misfit = jobs.submit(type, JobArguments().set(adds, 1, 2U).set(adds, 2, 1.5F));
  const Job again = jobs.submit(type);  // without the argument that the previous job could set
  DWELL_EXPECT_ERROR(bad.wait(), errc::task_failed, HasSubstr("'fails'"));
  EXPECT_EQ(bad.state(), JobState::failed);
  DWELL_EXPECT_ERROR(misfit.wait(), errc::signature_mismatch, HasSubstr("argument at index 2 of node 'adds'"));
  EXPECT_EQ(misfit.state(), JobState::failed);
  good.wait();
  again.wait();
  EXPECT_EQ(read(cells), (std::vector<u32>{2, 0, 0, 0}));
  const JobStatistics found = jobs.statistics().types[0];
  EXPECT_EQ(found.failed, 2U);
  EXPECT_EQ(found.done, 2U);
  EXPECT_EQ(found.waited.count, 3U);  // launched jobs
}

TEST_P(OrchestratorTest, CallbacksSubmitMoreJobs) {
  constexpr u32 kSteps = 50;
  open();
  auto number = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node node = graph.add(append, number, 0U);
  Orchestrator jobs(*runtime);
  const JobType type = jobs.define("append", std::move(graph));
  std::promise<void> last;
  std::function<void(const Job&)> next = [&, step = 0U](const Job& before) mutable {
    EXPECT_EQ(before.state(), JobState::done);
    if (++step == kSteps) return last.set_value();
    jobs.submit(type, JobArguments().set(node, 1, step)).then([&](const Job& job) { next(job); });
  };
  jobs.submit(type).then([&](const Job& job) { next(job); });
  last.get_future().get();
  EXPECT_EQ(read(number)[0], appended(kSteps));
  // Called at once if the job has ended.
  const Job job = jobs.submit(type);
  job.wait();
  bool called = false;
  job.then([&](const Job&) { called = true; });
  EXPECT_TRUE(called);
}

TEST_P(OrchestratorTest, BuffersOfAJobLiveUntilItsEnd) {
  open();
  std::atomic<bool> is_gone{false};
  const auto slowly_gone = [&](Buffer<u32>* buffer) {
    std::this_thread::sleep_for(10ms);
    delete buffer;
    is_gone = true;
  };
  std::shared_ptr<Buffer<u32>> cells(new Buffer<u32>(filled<u32>(*runtime, 1, 0)), slowly_gone);
  auto results = filled<u32>(*runtime, 1, 0);
  Graph graph;
  const Node node = graph.add(add, results, 0U, 1U);
  Orchestrator jobs(*runtime, {.workers = 1});
  const JobType type = jobs.define("add", std::move(graph));
  runtime->park();
  const Job first = jobs.submit(type);
  const Job second = jobs.submit(type, JobArguments().set(node, 0, *cells).keep(cells));
  cells.reset();
  EXPECT_FALSE(is_gone);
  runtime->resume();
  second.wait();
  EXPECT_TRUE(is_gone);
  jobs.submit(type).wait();
  EXPECT_EQ(read(results)[0], 2U);
}

TEST_P(OrchestratorTest, JobsThatCannotBeAdmittedAreRefused) {
  open();
  auto cells = filled<u32>(*runtime, 1, 0);
  Node node;
  Orchestrator jobs(*runtime, {.workers = 8, .memory = 1 << 20});
  const JobType type = jobs.define("add", one_add(cells, node),
                                   {.need = {.workers = 0}, .limits = {.workers = 4, .memory = 1 << 16, .at_once = 1, .waiting = 2}});
  const JobType wide = jobs.define("wide", one_add(cells, node));
  EXPECT_GT(type.bytes(), 0U);
  const auto with = [](std::uint32_t workers, std::uint64_t memory) { return JobArguments().need({workers, memory}); };
  DWELL_EXPECT_ERROR(jobs.submit(type, with(5, 0)), errc::resource_limit,
                     AllOf(HasSubstr("'add' needs 5 workers"), HasSubstr("JobLimits::workers is 4")));
  DWELL_EXPECT_ERROR_FIELDS(jobs.submit(type, with(5, 0)), errc::resource_limit, "job", "JobLimits::workers", 5, 4);
  DWELL_EXPECT_ERROR_FIELDS(jobs.submit(type, with(1, 1 << 16)), errc::resource_limit, "job", "JobLimits::memory", (1 << 16) + type.bytes(),
                            1 << 16);
  DWELL_EXPECT_ERROR_FIELDS(jobs.submit(wide, with(9, 0)), errc::resource_limit, "job", "OrchestratorOptions::workers", 9, 8);
  DWELL_EXPECT_ERROR_FIELDS(jobs.try_submit(wide, with(1, 1 << 20)), errc::resource_limit, "job", "OrchestratorOptions::memory",
                            (1 << 20) + wide.bytes(), 1 << 20);
  jobs.submit(wide, with(8, 0)).wait();

  runtime->park();
  std::vector<Job> all;
  for (u32 i = 0; i < 3; ++i) all.push_back(jobs.submit(type));
  DWELL_EXPECT_ERROR(jobs.submit(type), errc::resource_limit,
                     AllOf(HasSubstr("2 jobs of type 'add' wait"), HasSubstr("JobLimits::waiting")));
  DWELL_EXPECT_ERROR_FIELDS(jobs.submit(type), errc::resource_limit, "job", "JobLimits::waiting", 3, 2);
  EXPECT_FALSE(jobs.try_submit(type));
  runtime->resume();
  for (const Job& job : all) job.wait();
  EXPECT_TRUE(jobs.try_submit(type));
  EXPECT_EQ(jobs.statistics().types[0].refused, 6U);

  DWELL_EXPECT_ERROR(jobs.submit(JobType()), errc::invalid_argument, HasSubstr("empty"));
  DWELL_EXPECT_ERROR(Job().wait(), errc::invalid_argument, HasSubstr("empty"));
  {
    Orchestrator other(*runtime);
    DWELL_EXPECT_ERROR(other.submit(type), errc::invalid_argument, HasSubstr("another orchestrator"));
    other.close();
    DWELL_EXPECT_ERROR(other.submit(type), errc::invalid_argument, HasSubstr("another orchestrator"));
    DWELL_EXPECT_ERROR(other.define("x", Graph()), errc::closed, HasSubstr("orchestrator is closed"));
  }
  DWELL_EXPECT_ERROR(jobs.define("add", one_add(cells, node)), errc::invalid_argument, HasSubstr("'add' is defined already"));
  DWELL_EXPECT_ERROR(jobs.define("", one_add(cells, node)), errc::invalid_argument, HasSubstr("no name"));
  DWELL_EXPECT_ERROR(jobs.define("p", one_add(cells, node), {.priority = 8}), errc::invalid_argument, HasSubstr("priority 8"));
  DWELL_EXPECT_ERROR(jobs.define("w", one_add(cells, node), {.weight = 0}), errc::invalid_argument, HasSubstr("weight 0"));
  DWELL_EXPECT_ERROR(jobs.define("m", one_add(cells, node), {.limits = {.memory = 1}}), errc::resource_limit,
                     AllOf(HasSubstr("'m'"), HasSubstr("JobLimits::memory is 1")));
  jobs.close();
  DWELL_EXPECT_ERROR(jobs.submit(type), errc::closed, HasSubstr("orchestrator is closed"));
}

TEST_P(OrchestratorTest, IdleExecsAreReplaced) {
  open();
  auto cells = filled<u32>(*runtime, 1, 0);
  Node node;
  std::uint64_t bytes = 0;
  {
    Orchestrator probe(*runtime);
    bytes = probe.define("add", one_add(cells, node)).bytes();
  }
  Orchestrator jobs(*runtime, {.workers = 100, .memory = 4 * bytes});
  const JobType first = jobs.define("first", one_add(cells, node));
  const JobType second = jobs.define("second", one_add(cells, node));
  const auto run = [&](const JobType& type) {
    runtime->park();
    std::vector<Job> all;
    for (u32 i = 0; i < 10; ++i) all.push_back(jobs.submit(type));
    const OrchestratorStatistics now = jobs.statistics();
    EXPECT_EQ(now.memory, 4 * bytes);
    EXPECT_EQ(now.types[0].execs + now.types[1].execs, 4U) << "execs that no job uses are in the way";
    runtime->resume();
    for (const Job& job : all) job.wait();
    const OrchestratorStatistics then = jobs.statistics();
    EXPECT_LE(then.types[0].idle_memory + then.types[1].idle_memory, 4 * bytes);
  };
  run(first);
  run(second);
  run(first);
  EXPECT_EQ(read(cells)[0], 30U);
  EXPECT_GT(jobs.statistics().types[0].idle_memory, 0U);
  jobs.trim();
  EXPECT_EQ(jobs.statistics().types[0].idle_memory, 0U);
  EXPECT_EQ(jobs.statistics().types[0].execs, 0U);
  jobs.submit(first).wait();
}

TEST_P(OrchestratorTest, ClosingWaitsForJobsOrCancelsThem) {
  for (const Close how : {Close::when_done, Close::now}) {
    open();
    constexpr u32 kJobs = 20;
    auto cells = filled<u32>(*runtime, kJobs, 0);
    Node node;
    std::vector<Job> all;
    std::atomic<u32> called{0};
    {
      Orchestrator jobs(*runtime);
      const JobType type = jobs.define("add", one_add(cells, node), {.need = {.workers = 0}, .limits = {.at_once = 4}});
      runtime->park();
      for (u32 i = 0; i < kJobs; ++i) {
        all.push_back(jobs.submit(type, JobArguments().set(node, 1, i)));
        all.back().then([&](const Job&) { ++called; });
      }
      std::jthread resume([&] {
        std::this_thread::sleep_for(5ms);
        runtime->resume();
      });
      if (how == Close::now) jobs.close(how);
    }
    EXPECT_EQ(called, kJobs);
    for (const Job& job : all) EXPECT_EQ(job.state(), how == Close::now ? JobState::cancelled : JobState::done);
    EXPECT_THAT(read(cells), testing::Each(how == Close::now ? 0U : 1U));
    runtime.reset();
  }
}

TEST_P(OrchestratorTest, JobsEndWhenTheRuntimeIsClosed) {
  for (const Close how : {Close::when_done, Close::now}) {
    open();
    auto cells = filled<u32>(*runtime, 1, 0);
    Node node;
    Orchestrator jobs(*runtime);
    const JobType type = jobs.define("add", one_add(cells, node), {.need = {.workers = 0}, .limits = {.at_once = 4}});
    runtime->park();
    std::vector<Job> all;
    std::atomic<u32> called{0};
    for (u32 i = 0; i < 50; ++i) {
      all.push_back(jobs.submit(type));
      all.back().then([&](const Job&) { ++called; });
    }
    runtime->close(how);
    EXPECT_EQ(called, 50U);
    for (u32 i = 0; i < 50; ++i) {
      ASSERT_TRUE(all[i].done()) << i;
      if (i < 4) {
        EXPECT_EQ(why(all[i]), how == Close::now ? errc::cancelled : errc::ok) << i;
      } else {
        // stale_handle if the buffers went between two steps of the admission.
        EXPECT_THAT(why(all[i]), testing::AnyOf(errc::closed, errc::stale_handle)) << i;
      }
    }
    const JobStatistics found = jobs.statistics().types[0];
    EXPECT_EQ(found.done + found.failed + found.cancelled, 50U);
    EXPECT_EQ(found.waiting + found.admitted, 0U);
    const Job late = jobs.submit(type);
    EXPECT_EQ(after(late), JobState::failed);
    EXPECT_EQ(why(late), errc::closed);
    jobs.close();
    runtime.reset();
  }
}

TEST_P(OrchestratorTest, EverythingAtOnce) {
  constexpr u32 kThreads = 3;
  constexpr u32 kEach = kSanitized ? 150 : 1000;
  open();
  auto cells = filled<u32>(*runtime, kThreads * kEach, 0);
  Orchestrator jobs(*runtime, {.workers = 12, .memory = 1 << 20});
  struct Kind {
    JobType type;
    Node add;
    Node fail;
  };
  std::vector<Kind> kinds(4);
  for (u32 i = 0; i < kinds.size(); ++i) {
    Graph graph;
    kinds[i].fail = graph.add(fail, 0);
    kinds[i].add = graph.add(add, cells, 0U, 1U).after(kinds[i].fail);
    kinds[i].type = jobs.define("type " + std::to_string(i), std::move(graph),
                                {.priority = 2 * i, .weight = 1 + i, .need = {.workers = 1 + i}, .limits = {.at_once = 3 + i}});
  }
  std::vector<Job> all(kThreads * kEach);
  std::vector<u32> fails(all.size());
  std::atomic<u32> called{0};
  std::vector<std::jthread> threads;
  for (u32 me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] {
      Random random(me);
      for (u32 i = 0; i < kEach; ++i) {
        const u32 at = me * kEach + i;
        const Kind& kind = kinds[random() % kinds.size()];
        fails[at] = random() % 8 == 0 ? 1 : 0;
        JobArguments arguments;
        arguments.set(kind.add, 1, at);
        if (fails[at] != 0) arguments.set(kind.fail, 0, 3);
        if (random() % 4 == 0) arguments.need({.workers = 1 + random() % 12, .memory = random() % 100'000});
        all[at] = jobs.submit(kind.type, std::move(arguments));
        all[at].then([&](const Job& job) {
          EXPECT_TRUE(job.done());
          ++called;
        });
        switch (random() % 16) {
          case 0: all[me * kEach + random() % (i + 1)].cancel(); break;
          case 1: static_cast<void>(after(all[at])); break;
          case 2: jobs.trim(); break;
          case 3: static_cast<void>(jobs.statistics().table()); break;
          default: break;
        }
      }
    });
  threads.clear();
  jobs.close();
  EXPECT_EQ(called, all.size());
  const std::vector<u32> found = read(cells);
  u32 done = 0;
  for (u32 at = 0; at < all.size(); ++at) {
    const JobState state = all[at].state();
    done += state == JobState::done ? 1 : 0;
    ASSERT_EQ(found[at], state == JobState::done ? 1U : 0U) << at << " " << text_of(state);
    if (state != JobState::cancelled) {
      ASSERT_EQ(state, fails[at] != 0 ? JobState::failed : JobState::done) << at;
    }
  }
  const OrchestratorStatistics statistics = jobs.statistics();
  std::uint64_t counted = 0;
  for (const JobStatistics& type : statistics.types) {
    counted += type.done;
    EXPECT_EQ(type.submitted, type.done + type.failed + type.cancelled);
    EXPECT_LE(type.most_workers, 12U);
    EXPECT_EQ(type.execs, 0U);
  }
  EXPECT_EQ(counted, done);
  EXPECT_EQ(statistics.workers, 0U);
  EXPECT_EQ(statistics.memory, 0U);
  const std::string table = statistics.table();
  EXPECT_THAT(table, AllOf(HasSubstr("type 3"), HasSubstr("0 of 12 workers, 0 B of 1.00 MiB of memory in use")));
}

}  // namespace
}  // namespace dwell::test
