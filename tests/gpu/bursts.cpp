// Bursts in the order of CUDA streams.
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "bench/cuda_peer.hpp"
#include "tests/gpu/gpu_test.hpp"

namespace dwell::test {
namespace {

constexpr const char* kSource = R"(
// Writes once the latch is set, or after ten seconds.
__global__ void late(const unsigned* latch, unsigned* to) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < 10000000000ull && *const_cast<const volatile unsigned*>(latch) == 0);
  *to = 7;
}
__global__ void square(unsigned* x) { *x *= *x; }
)";

class BurstTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Options with = options();
    with.bursts = true;
    runtime_.emplace(with);
    add_ = runtime_->define<Add>("add", kAdd);
    module_ = runtime_->compile({kSource, "bursts.cu"});
    cells_ = filled<u32>(*runtime_, 4, 0);
    latch_ = runtime_->allocate<u32>(1, Memory::host);
    latch_.write(std::vector<u32>{0});
  }
  // Stores directly: Buffer::write would wait for the kernel that names the buffer.
  void let_go() { std::atomic_ref(*latch_.data()).store(1, std::memory_order_release); }

  std::optional<Runtime> runtime_;
  Operator<Add> add_;
  Module module_;
  Buffer<u32> cells_;
  Buffer<u32> latch_;
};

TEST_F(BurstTest, ABurstRunsBetweenTheKernelsOfAStream) {
  const Foreign user;
  module_.kernel("late").launch({.stream = user.stream}, latch_, cells_);
  const Ticket task = runtime_->submit(add_, cells_, 0U, 1U);
  runtime_->burst(user.stream);
  module_.kernel("square").launch({.stream = user.stream}, cells_);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(task.done());
  let_go();
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_TRUE(task.done());
  EXPECT_EQ(read(cells_)[0], 64U);
}

TEST_F(BurstTest, TasksBehindAWaitingBurstWaitForTheNext) {
  const Foreign user;
  module_.kernel("late").launch({.stream = user.stream}, latch_, cells_);
  runtime_->submit(add_, cells_, 0U, 1U);
  runtime_->burst(user.stream);
  module_.kernel("square").launch({.stream = user.stream}, cells_);
  const Ticket behind = runtime_->submit(add_, cells_, 0U, 5U);
  let_go();
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_FALSE(behind.done());
  runtime_->burst(user.stream);
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_EQ(read(cells_)[0], 69U);
}

TEST_F(BurstTest, BurstsOfSeveralStreamsFollowEachOther) {
  const Foreign first;
  const Foreign second;
  module_.kernel("late").launch({.stream = first.stream}, latch_, cells_);
  runtime_->submit(add_, cells_, 0U, 1U);
  runtime_->burst(first.stream);
  const Ticket task = runtime_->submit(add_, cells_, 0U, 1U);
  runtime_->burst(second.stream);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(task.done());
  let_go();
  DWELL_BENCH_CUDA(second.driver, cuStreamSynchronize, second.stream);
  EXPECT_EQ(read(cells_)[0], 9U);
}

TEST_F(BurstTest, ManyBurstsKeepTheOrderOfTheirStream) {
  const Foreign user;
  u32 expected = 3;
  cells_.write(std::vector<u32>(4, expected));
  for (u32 i = 0; i < 500; ++i) {
    runtime_->submit(add_, cells_, 0U, i);
    runtime_->burst(user.stream);
    module_.kernel("square").launch({.stream = user.stream}, cells_);
    expected += i;
    expected *= expected;
  }
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_EQ(read(cells_)[0], expected);
}

TEST_F(BurstTest, CallsThatWaitForTheDeviceEndWithTheBurst) {
  const Foreign user;
  CUdeviceptr memory = 0;
  DWELL_BENCH_CUDA(user.driver, cuMemAlloc, &memory, 1024);
  for (u32 i = 0; i < 1000; ++i) runtime_->submit(add_, cells_, i % 4, 1U);
  runtime_->burst(user.stream);
  DWELL_BENCH_CUDA(user.driver, cuMemFree, memory);
  EXPECT_EQ(read(cells_)[3], 250U);
}

// Such a call keeps driver locks until the burst has ended; other calls, including those of Runtime::burst, wait for them.
class BurstBesideCallsTest : public BurstTest {
 protected:
  // Calls `burst` for a while, beside a thread that makes driver calls, some of which wait for the device.
  template <class Burst>
  u32 bursts(Burst&& burst) {
    std::string why;
    const auto peer = bench::open_cuda_peer(cuda_ordinal(), &why);
    if (peer == nullptr) throw std::runtime_error(why);
    u32 calls = 0;
    std::optional<std::string> problem;
    std::jthread caller([&](const std::stop_token& stop) {
      try {
        peer->enter();
        for (const std::vector<bench::CudaCall> all = peer->calls(); !stop.stop_requested(); ++calls) {
          const bench::CudaCall& call = all[calls % all.size()];
          call.prepare();
          call.call();
          call.undo();
        }
      } catch (const std::runtime_error& error) {
        problem = error.what();
      }
    });
    u32 count = 0;
    for (const auto until = Clock::now() + 3s; Clock::now() < until; ++count) burst();
    caller.request_stop();
    caller.join();
    EXPECT_EQ(problem, std::nullopt);
    EXPECT_GE(calls, 100U);
    return count;
  }
};

TEST_F(BurstBesideCallsTest, BurstsEndBesideDriverCalls) {
  const Foreign user;
  const u32 count = bursts([&] {
    runtime_->submit(add_, cells_, 0U, 1U);
    runtime_->burst(user.stream);
  });
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_EQ(read(cells_)[0], count);
}

TEST_F(BurstBesideCallsTest, BurstsThatWaitForLaunchesEnd) {
  const Foreign user;
  auto other = filled<u32>(*runtime_, 1, 1);
  const u32 count = bursts([&] {
    const Ticket launch = module_.kernel("square").launch({}, other);
    runtime_->submit(add_, after(launch), cells_, 0U, 1U);
    runtime_->burst(user.stream);
  });
  DWELL_BENCH_CUDA(user.driver, cuStreamSynchronize, user.stream);
  EXPECT_EQ(read(cells_)[0], count);
}

}  // namespace
}  // namespace dwell::test
