// Runtimes beside other CUDA code on the same device (in the same process and context, like PyTorch) and beside other runtimes. `dwell
// bench coexist` measures the waits; these tests check only that both sides make progress and stay correct.
#include <filesystem>
#include <optional>

#include "bench/cuda_peer.hpp"
#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/stream.hpp"

namespace dwell::test {
namespace {

class CoexistTest : public GpuTest {};

// Calls that wait for every kernel on the device (module loading, cudaFree, synchronising the context, the stack limit), and calls that do
// not, return while a runtime is under full load. Beside a kernel that never leaves they would not return.
TEST_F(CoexistTest, ForeignCallsReturnWithinALease) {
  std::string why;
  const auto peer = bench::open_cuda_peer(cuda_ordinal(), &why);
  ASSERT_NE(peer, nullptr) << why;
  for (const std::chrono::milliseconds lease : {1ms, 8ms}) {
    SCOPED_TRACE("a lease of " + std::to_string(lease.count()) + " ms");
    Options leased = options();
    leased.lease = lease;
    Runtime runtime(leased);
    auto add = runtime.define<Add>("add", kAdd);
    Stream stream(runtime, add);
    // Most of it is the loading of a module.
    const auto bound = lease + 50ms;
    Random random(5);
    for (const bench::CudaCall& call : peer->calls()) {
      SCOPED_TRACE(call.name);
      for (int i = 0; i < 10; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        const std::uint64_t tasks = stream.tasks();
        Clock::duration took{};
        try {
          call.prepare();
          const auto start = Clock::now();
          call.call();
          took = Clock::now() - start;
          call.undo();  // throws if the call had no effect
        } catch (const std::runtime_error& problem) {
          ADD_FAILURE() << problem.what();
        }
        EXPECT_LT(took, bound);
        EXPECT_TRUE(eventually([&] { return stream.tasks() > tasks; })) << "the load stands still";
      }
    }
    stream.expect_all();
  }
}

// Many threads, so that such calls also overlap hand-overs, parks and each other.
TEST_F(CoexistTest, ForeignCallsRunBesideHandOvers) {
  std::string why;
  const auto peer = bench::open_cuda_peer(cuda_ordinal(), &why);
  ASSERT_NE(peer, nullptr) << why;
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 1, 0);
  Stream stream(runtime, add);
  std::atomic<bool> stop{false};
  std::optional<std::string> problem;
  std::jthread caller([&] {
    try {
      peer->enter();
      const std::vector<bench::CudaCall> calls = peer->calls();
      for (std::size_t i = 0; !stop.load(); ++i) {
        const bench::CudaCall& call = calls[i % calls.size()];
        call.prepare();
        call.call();
        call.undo();
      }
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
  });
  std::jthread parker([&] {
    while (!stop.load()) {
      runtime.park();
      runtime.resume();
      std::this_thread::sleep_for(3ms);
    }
  });
  u32 sum = 0;
  for (u32 turn = 2; turn < 60; ++turn) {
    mark.redefine(mark_with(turn));
    runtime.submit(mark, cells, 0U).wait();
    EXPECT_EQ(read(cells)[0], sum += turn);
    // Allocating and freeing buffers meanwhile waits for the end of a lease too.
    EXPECT_THAT(read(filled<u32>(runtime, 100'000, turn)), testing::Each(turn));
  }
  stop = true;
  caller.join();
  parker.join();
  EXPECT_EQ(problem.value_or(""), "");
  stream.expect_all();
}

// Captures in PyTorch's mode, in which an unsafe call of any thread ends the capture with an error.
TEST_F(CoexistTest, ForeignCapturesWorkBesideTasks) {
  const Foreign foreign;
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto mark = runtime.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(runtime, 1, 0);
  Stream stream(runtime, add);
  u32 sum = 0;
  for (u32 turn = 1; turn <= 20; ++turn) {
    CUgraph graph = nullptr;
    DWELL_BENCH_CUDA(foreign.driver, cuStreamBeginCapture, foreign.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    runtime.submit(mark, cells, 0U).wait();
    EXPECT_EQ(read(cells)[0], sum += turn);
    EXPECT_THAT(read(filled<u32>(runtime, 1000, turn)), testing::Each(turn));
    mark.redefine(mark_with(turn + 1));
    runtime.park();
    runtime.resume();
    DWELL_BENCH_CUDA(foreign.driver, cuStreamEndCapture, foreign.stream, &graph);
    DWELL_BENCH_CUDA(foreign.driver, cuGraphDestroy, graph);
  }
  stream.expect_all();
}

// Both need all multiprocessors, which do not hold the workers of both: the leases alternate.
TEST_F(CoexistTest, TwoRuntimesAlternateOnOneDevice) {
  Runtime first(options());
  Runtime second(options());
  auto first_add = first.define<Add>("add", kAdd);
  auto second_add = second.define<Add>("add", kAdd);
  auto mark = second.define<Mark>("mark", mark_with(1));
  auto cells = filled<u32>(second, 1, 0);
  Stream one(first, first_add);
  Stream two(second, second_add);
  u32 sum = 0;
  for (u32 turn = 0; turn < 50; ++turn) {
    const std::uint64_t one_before = one.tasks();
    const std::uint64_t two_before = two.tasks();
    EXPECT_TRUE(eventually([&] { return one.tasks() > one_before + 10'000 && two.tasks() > two_before + 10'000; }));
    // Parks and new images of one runtime do not wait for the other for ever.
    first.park();
    second.submit(mark, cells, 0U).wait();
    EXPECT_EQ(read(cells)[0], sum += turn + 1);
    first.resume();
    mark.redefine(mark_with(turn + 2));
  }
  one.expect_all();
  EXPECT_NO_THROW(first.close());
  const std::uint64_t before = two.tasks();
  EXPECT_TRUE(eventually([&] { return two.tasks() > before + 10'000; }));
  two.expect_all();
}

// A stream of tasks on one runtime, single tasks on the other, which parks and wakes all the time.
TEST_F(CoexistTest, AQuietRuntimeWakesBesideABusyOne) {
  Options shy = options();
  shy.idle = 50us;
  Runtime busy(options());
  Runtime quiet(shy);
  auto busy_add = busy.define<Add>("add", kAdd);
  auto quiet_add = quiet.define<Add>("add", kAdd);
  auto cells = filled<u32>(quiet, 1, 0);
  Stream stream(busy, busy_add);
  Random random(9);
  for (u32 turn = 1; turn <= 1000; ++turn) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    const auto start = Clock::now();
    quiet.submit(quiet_add, cells, 0U, 1U).wait();
    EXPECT_LT(Clock::now() - start, 200ms);
  }
  EXPECT_EQ(read(cells)[0], 1000U);
  stream.expect_all();
}

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void open_use_and_close() {
  Options options;
  options.device = cuda_device();
  Runtime runtime(options);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 1'000'000, 0);
  const auto host = runtime.allocate<u32>(1'000'000, Memory::host);
  for (u32 i = 0; i < 1000; ++i) runtime.submit(add, cells, i, 1U);
  runtime.submit(add, host, 7U, 1U);
  runtime.wait_all();
  EXPECT_EQ(read(cells)[999], 1U);
  EXPECT_EQ(host.host()[7], 1U);
}

// While other code holds the context.
TEST_F(CoexistTest, AClosedRuntimeLeavesNothingBehind) {
  const Foreign foreign;
  const auto free_memory = [&] {
    std::size_t free = 0;
    std::size_t all = 0;
    DWELL_BENCH_CUDA(foreign.driver, cuMemGetInfo, &free, &all);
    return free;
  };
  for (int i = 0; i < 2; ++i) open_use_and_close();
  const std::size_t free = free_memory();
  const std::size_t files = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  for (int i = 0; i < 20; ++i) open_use_and_close();
  EXPECT_LT(free, free_memory() + 4'000'000) << "twenty runtimes have left device memory behind";
  EXPECT_LE(entries("/proc/self/fd"), files);
  EXPECT_LE(entries("/proc/self/task"), threads);
}

// No other code holds the context: each runtime creates and releases it.
TEST_F(CoexistTest, RuntimeReopensAfterItsContextIsGone) {
  for (int i = 0; i < 20; ++i) open_use_and_close();
}

}  // namespace
}  // namespace dwell::test
