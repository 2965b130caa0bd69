// Jobs on a device that runs out of memory, and that breaks.
#include <dwell/orchestrator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include <dwell/dwell.hpp>

#include "runtime/generations.hpp"
#include "tests/unit/breakable_backend.hpp"

namespace dwell::test {
namespace {

constexpr const char* kAdd = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], value);
})";
using Add = void(Span<u32>, u32, u32);

class OrchestratorTest : public testing::Test {
 protected:
  OrchestratorTest() {
    cells_ = runtime_.allocate<u32>(64);
    cells_.write(std::vector<u32>(64, 0));
  }
  static Options options() {
    Options options;
    options.workers = 1;
    options.ring_slots = 1024;
    return options;
  }
  JobType define(Orchestrator& jobs, const char* name, const JobOptions& options = {.need = {.workers = 0}}) {
    Graph graph;
    node_ = graph.add(add_, cells_, 0U, 1U);
    return jobs.define(name, std::move(graph), options);
  }
  // An exec like that of a job.
  GraphExec exec() {
    Graph graph;
    graph.add(add_, cells_, 0U, 1U);
    return runtime_.instantiate(graph);
  }
  // Limits the arena's memory to `execs` more execs.
  void leave_room_for(std::size_t execs) {
    if (!measured_) measured_ = exec();  // kept, because its memory would fit one more
    device_->most_arena = device_->arena + execs * device::align_up(measured_.bytes(), 256);
  }
  u32 cell() const {
    std::vector<u32> all(64);
    cells_.read(all);
    return all[0];
  }
  static errc end_of(const Job& job) {
    try {
      job.wait();
      return errc::ok;
    } catch (const Error& error) {
      return error.kind();
    }
  }

  std::shared_ptr<BreakableDevice> device_ = std::make_shared<BreakableDevice>();
  Runtime runtime_ = detail::runtime_on(options(), opener(device_));
  Operator<Add> add_ = runtime_.define<Add>("add", kAdd);
  Buffer<u32> cells_;
  Node node_;
  GraphExec measured_;
};

TEST_F(OrchestratorTest, JobWithoutMemoryWaitsForOthers) {
  Orchestrator jobs(runtime_);
  const JobType type = define(jobs, "add");
  leave_room_for(2);  // beside the type's existing exec
  runtime_.park();
  std::vector<Job> all;
  for (int i = 0; i < 10; ++i) all.push_back(jobs.submit(type));
  EXPECT_EQ(jobs.statistics().types[0].admitted, 3U);
  EXPECT_EQ(jobs.statistics().types[0].waiting, 7U);
  EXPECT_GT(jobs.statistics().types[0].out_of_memory, 0U);
  runtime_.resume();
  for (const Job& job : all) EXPECT_EQ(end_of(job), errc::ok);
  EXPECT_EQ(cell(), 10U);
}

TEST_F(OrchestratorTest, AnotherTypeGetsTheMemoryOfIdleExecs) {
  Orchestrator jobs(runtime_);
  const JobType first = define(jobs, "first");
  const JobType second = define(jobs, "second");
  leave_room_for(0);
  jobs.trim();  // room for two execs
  for (int round = 0; round < 3; ++round) {
    for (const JobType& type : {first, second}) {
      const Job one = jobs.submit(type);
      const Job two = jobs.submit(type);
      EXPECT_EQ(end_of(one), errc::ok);
      EXPECT_EQ(end_of(two), errc::ok);
    }
  }
  EXPECT_EQ(cell(), 12U);
}

TEST_F(OrchestratorTest, JobWithoutMemoryFailsIfNothingIsInFlight) {
  Orchestrator jobs(runtime_);
  const JobType type = define(jobs, "add");
  leave_room_for(0);
  jobs.trim();
  const GraphExec another = exec();  // takes the memory of the type's own exec
  const Job job = jobs.submit(type);
  EXPECT_EQ(end_of(job), errc::out_of_memory);
  EXPECT_EQ(job.state(), JobState::failed);
  device_->most_arena = ~std::size_t{0};
  EXPECT_EQ(end_of(jobs.submit(type)), errc::ok);
}

TEST_F(OrchestratorTest, AJobThatWaitsForMemoryIsCancelled) {
  Orchestrator jobs(runtime_);
  const JobType type = define(jobs, "add");
  leave_room_for(0);
  runtime_.park();
  const Job first = jobs.submit(type);
  const Job second = jobs.submit(type);
  const Job third = jobs.submit(type);
  EXPECT_EQ(second.state(), JobState::waiting);
  EXPECT_TRUE(second.cancel());
  EXPECT_EQ(end_of(second), errc::cancelled);
  runtime_.resume();
  EXPECT_EQ(end_of(first), errc::ok);
  EXPECT_EQ(end_of(third), errc::ok);
  EXPECT_EQ(cell(), 2U);
}

TEST_F(OrchestratorTest, AllMemoryIsFreed) {
  leave_room_for(100);
  {
    Orchestrator jobs(runtime_);
    const JobType type = define(jobs, "add");
    runtime_.park();
    std::vector<Job> all;
    for (int i = 0; i < 40; ++i) all.push_back(jobs.submit(type));
    runtime_.resume();
    for (const Job& job : all) job.wait();
  }
  // Dropped execs are released when memory is needed.
  leave_room_for(0);
  std::vector<GraphExec> all;
  for (int i = 0; i < 40; ++i) all.push_back(exec());
  EXPECT_EQ(cell(), 40U);
}

TEST_F(OrchestratorTest, AllJobsEndWithTheDevice) {
  auto jobs = std::make_unique<Orchestrator>(runtime_);
  const JobType type = define(*jobs, "add", {.need = {.workers = 0}, .limits = {.at_once = 3}});
  runtime_.park();
  std::vector<Job> all;
  std::atomic<int> called{0};
  for (int i = 0; i < 20; ++i) {
    all.push_back(jobs->submit(type));
    all.back().then([&](const Job&) { ++called; });
  }
  device_->break_now();
  try {
    runtime_.resume();
    runtime_.wait_all();
    ADD_FAILURE() << "the device works";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::device_lost);
  }
  for (const Job& job : all) EXPECT_EQ(end_of(job), errc::device_lost);
  EXPECT_EQ(end_of(jobs->submit(type)), errc::device_lost);
  jobs->close();
  EXPECT_EQ(called, 20);
  const JobStatistics found = jobs->statistics().types[0];
  EXPECT_EQ(found.failed, 21U);
  EXPECT_EQ(found.waiting + found.admitted, 0U);
}

TEST_F(OrchestratorTest, JobsEndWhenTheRuntimeIsRebuilt) {
  Orchestrator jobs(runtime_);
  const JobType type = define(jobs, "add", {.need = {.workers = 0}, .limits = {.at_once = 3}});
  runtime_.park();
  std::vector<Job> all;
  for (int i = 0; i < 20; ++i) all.push_back(jobs.submit(type));
  device_->break_now();
  EXPECT_THROW(
      {
        runtime_.resume();
        runtime_.wait_all();
      },
      Error);
  runtime_.rebuild();
  for (const Job& job : all) {
    EXPECT_TRUE(job.done());
    EXPECT_NE(end_of(job), errc::ok);
  }
  // Its graph belongs to the previous generation; a new orchestrator works.
  EXPECT_EQ(end_of(jobs.submit(type)), errc::stale_handle);
  jobs.close();
  add_ = runtime_.define<Add>("add", kAdd);
  cells_ = runtime_.allocate<u32>(64);
  cells_.write(std::vector<u32>(64, 0));
  Orchestrator again(runtime_);
  EXPECT_EQ(end_of(again.submit(define(again, "add"))), errc::ok);
  EXPECT_EQ(cell(), 1U);
}

}  // namespace
}  // namespace dwell::test
