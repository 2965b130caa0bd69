// An orchestrator without memory: an accepted job ends, and reports its outcome.
#include <dwell/orchestrator.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/scarcity/harness.hpp"

namespace dwell::test {
namespace {

constexpr auto kLong = std::chrono::seconds(5);

class ScarceJobsTest : public ScarceMemoryTest {
 protected:
  // Jobs that run a world's operator once each.
  struct Jobs {
    explicit Jobs(World& of) : world(of), before(of.runs()) { all.reserve(16); }

    void define() {
      orchestrator.emplace(*world.runtime, OrchestratorOptions{.workers = 3});
      Graph graph;
      graph.add("add", world.op, world.cells, 0U);
      Graph same;
      node = same.add(world.op, world.cells, 0U);
      small = orchestrator->define("small", std::move(graph));
      large = orchestrator->define("large", std::move(same), {.priority = 5, .need = {.workers = 2}});
    }
    void submit(const JobType& type, JobArguments arguments = {}) {
      all.push_back(orchestrator->submit(type, std::move(arguments)));
      ++submitted;
      all.back().then([this](const Job&) { ++called; });
      ++asked;
    }
    // Submits some jobs of each kind while the runtime is parked.
    void submit_some() {
      bool parked = false;
      static_cast<void>(throws([&] { define(); }));
      static_cast<void>(throws([&] {
        world.runtime->park();
        parked = true;
      }));
      static_cast<void>(throws([&] {
        for (int i = 0; i < 6; ++i) submit(i % 2 == 0 ? small : large);
        submit(small, JobArguments().set(node, 0, world.cells));  // names a node of another type's graph: fails
        submit(large, JobArguments().set(node, 0, world.cells));
      }));
      static_cast<void>(throws([&] {
        if (!all.empty()) all.back().cancel();
      }));
      static_cast<void>(throws([&] {
        if (!orchestrator) return;
        static_cast<void>(orchestrator->statistics());
        orchestrator->trim();
      }));
      if (parked) insist([&] { world.runtime->resume(); });
    }
    // Checks that each job has ended, was called back and counted, and has run if it says so.
    void check() {
      for (const Job& job : all) {
        const bool threw = throws([&] { EXPECT_TRUE(job.wait_for(kLong)) << "a job is lost"; });
        EXPECT_EQ(threw, job.error().has_value());
      }
      ScarceMemory::relent();
      if (!orchestrator) return;
      orchestrator->close();
      u64 done = 0;
      u64 counted = 0;
      for (const JobStatistics& type : orchestrator->statistics().types) {
        EXPECT_EQ(type.submitted, type.done + type.failed + type.cancelled) << type.type;
        EXPECT_EQ(type.workers + type.memory, 0U) << type.type;
        done += type.done;
        counted += type.submitted;
      }
      EXPECT_EQ(counted, submitted);
      EXPECT_EQ(world.runs() - before, done) << "a job has run and says that it has not, or the other way round";
      EXPECT_EQ(called, asked);
    }

    World& world;
    const u32 before;
    JobType small;
    JobType large;
    Node node;
    std::vector<Job> all;
    std::atomic<u32> called{0};
    u32 asked = 0;
    u64 submitted = 0;
    std::optional<Orchestrator> orchestrator;  // last: its destructor calls back
  };
};

TEST_F(ScarceJobsTest, Defining) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          std::optional<Orchestrator> jobs(std::in_place, *world.runtime);
          Graph graph("a graph with a long name, of which a copy takes memory");
          graph.add("a node with a long name, of which a copy takes memory", world.op, world.cells, 0U);
          JobType type;
          const bool threw =
              throws([&] { type = jobs->define("a type with a long name, of which a copy takes memory", std::move(graph)); });
          ScarceMemory::relent();
          EXPECT_EQ(jobs->statistics().types.size(), threw ? 0U : 1U);
          if (!threw) jobs->submit(type).wait();
        },
        many);
  }
}

TEST_F(ScarceJobsTest, Submitting) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          Jobs jobs(world);
          jobs.submit_some();
          jobs.check();
        },
        many);
  }
}

TEST_F(ScarceJobsTest, ClosingNow) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          Jobs jobs(world);
          jobs.submit_some();
          if (jobs.orchestrator) jobs.orchestrator->close(Close::now);
          jobs.check();
        },
        many);
  }
}

TEST_F(ScarceJobsTest, ClosingTheRuntime) {
  at_every_allocation([](World& world) {
    Jobs jobs(world);
    jobs.submit_some();
    world.runtime->close(Close::now);
    ScarceMemory::relent();
    for (const Job& job : jobs.all) static_cast<void>(throws([&] { EXPECT_TRUE(job.wait_for(kLong)) << "a job is lost"; }));
    jobs.orchestrator.reset();
    EXPECT_EQ(jobs.called, jobs.asked);
  });
}

}  // namespace
}  // namespace dwell::test
