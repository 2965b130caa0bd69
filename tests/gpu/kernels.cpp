// Ordinary kernels beside the resident loop: on streams of the runtime and the user, with dropped buffers, wrong arguments, and endless
// tasks.
#include <numeric>

#include "tests/gpu/gpu_test.hpp"
#include "tests/gpu/stream.hpp"

namespace dwell::test {
namespace {

constexpr const char* kKernels = R"(
#include <cuda_fp16.h>
template <class T> __global__ void axpy(T a, const T* x, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void scale(float a, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] *= a;
}
struct Line { float slope; double offset; int shift[3]; };
__global__ void line(Line l, float* y) { y[threadIdx.x] = l.slope * threadIdx.x + float(l.offset) + l.shift[2]; }
__global__ void over(int* x) { *x = 1; }
__global__ void over(float* x) { *x = 2; }
namespace { __global__ void hidden(int* x) { *x = 3; } }
// Sets latch[0], runs until latch[1] is set or for `ns`, and then writes.
__global__ void slow(unsigned* latch, unsigned* to, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  *const_cast<volatile unsigned*>(latch) = 1;
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < ns && const_cast<volatile unsigned*>(latch)[1] == 0);
  *to = 7;
}
__global__ void tile(float* y) {
  extern __shared__ float cells[];
  cells[threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}
// Synchronizes all blocks of the grid `rounds` times. Counts in `wrong` the neighbours' cells that were not yet written, and the waits
// that took ten seconds. `arrived` and `wrong` start at 0; `cells` has one for each block.
__global__ void meet(unsigned* arrived, unsigned* cells, unsigned* wrong, unsigned rounds) {
  __shared__ bool late;
  volatile unsigned* const written = cells;
  late = false;
  for (unsigned round = 1; round <= 2 * rounds; ++round) {
    if (threadIdx.x == 0 && round % 2 == 1) written[blockIdx.x] = round;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1);
      unsigned long long start, now;
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
      do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      while (*const_cast<volatile unsigned*>(arrived) < round * gridDim.x && now - start < 10000000000ULL);
      late = now - start >= 10000000000ULL;
      __threadfence();
      if (late || (round % 2 == 1 && written[(blockIdx.x + 1) % gridDim.x] != round)) atomicAdd(wrong, 1);
    }
    __syncthreads();
    if (late) return;
  }
}
__global__ void __launch_bounds__(64) narrow(float* y) { y[threadIdx.x] = 1; }
struct Large { int words[2000]; };
__global__ void large(Large l, int* y) { y[threadIdx.x] = l.words[threadIdx.x]; }
)";

struct Line {
  float slope;
  double offset;
  int shift[3];
};
struct Large {
  int words[2000];
};

class KernelTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    runtime_.emplace(options());
    module_ = runtime_->compile({kKernels, "kernels.cu"}, {}, {"axpy<float>", "axpy<double>", "hidden"});
  }
  Buffer<float> ramp(std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0F);
    auto buffer = runtime_->allocate<float>(count);
    buffer.write(values);
    return buffer;
  }
  Ticket slow(const Buffer<u32>& latch, const Buffer<u32>& to, std::chrono::milliseconds time) {
    return module_.kernel("slow").launch({}, latch, to, static_cast<u64>(std::chrono::nanoseconds(time).count()));
  }

  // Returns the most blocks of `meet` that a cooperative launch may have.
  u32 most_that_meet(LaunchConfig config) {
    config.grid = {1U << 24U};
    const auto cells = filled<u32>(*runtime_, 1, 0U);
    const Error refused = error_of([&] { module_.kernel("meet").launch(config, cells, cells, cells, 1U); });
    EXPECT_EQ(refused.kind(), errc::invalid_argument) << refused.what();
    EXPECT_EQ(refused.fields().value, 1U << 24U);
    return static_cast<u32>(refused.fields().limit);
  }
  // Lets the blocks of a cooperative launch meet.
  void meet(LaunchConfig config, u32 blocks, u32 rounds) {
    config.grid = {blocks};
    const auto arrived = filled<u32>(*runtime_, 1, 0U);
    const auto cells = filled<u32>(*runtime_, blocks, 0U);
    const auto wrong = filled<u32>(*runtime_, 1, 0U);
    module_.kernel("meet").launch(config, arrived, cells, wrong, rounds).wait();
    EXPECT_EQ(read(wrong)[0], 0U);
    EXPECT_EQ(read(arrived)[0], 2 * rounds * blocks);
    EXPECT_THAT(read(cells), testing::Each(2 * rounds - 1));
  }

  std::optional<Runtime> runtime_;
  Module module_;
};

TEST_F(KernelTest, ATemplateByItsExpressionAndAKernelWithCLinkage) {
  constexpr int kCount = 1000;
  const auto x = ramp(kCount);
  const auto y = filled<float>(*runtime_, kCount, 1.0F);
  const auto axpy = module_.kernel<void(float, const float*, float*, int)>("axpy<float>");
  EXPECT_EQ(axpy.name(), "axpy<float>");
  EXPECT_EQ(module_.lowered_name("axpy<double>"), "_Z4axpyIdEvT_PKS0_PS0_i");
  axpy.launch({.grid = {8}, .block = {128}}, 2.0F, x, y, kCount);
  const Ticket last = module_.kernel("scale").launch({.grid = {8}, .block = {128}}, 10.0F, y, kCount);
  last.wait();
  const std::vector<float> result = read(y);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(result[static_cast<std::size_t>(i)], 10 * (1 + 2 * static_cast<float>(i))) << i;
}

TEST_F(KernelTest, StructuresSlicesAndPointersAreArguments) {
  auto y = filled<float>(*runtime_, 64, 0.0F);
  module_.kernel("line").launch({.block = {32}}, Line{2, 0.5, {0, 0, 100}}, y.slice(32, 32));
  std::vector<float> result = read(y);
  EXPECT_EQ(result[31], 0.0F);
  EXPECT_EQ(result[32 + 5], 110.5F);
  module_.kernel("line").launch({.block = {32}}, Line{0, 3, {0, 0, 0}}, y.data());
  result = read(y);
  EXPECT_EQ(result[0], 3.0F) << "read waits for a launch that was given a bare pointer into the buffer";
  Large words{};
  std::iota(std::begin(words.words), std::end(words.words), 7);
  const auto to = filled<int>(*runtime_, 32, 0);
  module_.kernel("large").launch({.block = {32}}, words, to);
  EXPECT_EQ(read(to)[31], 38);
}

TEST_F(KernelTest, OverloadsAndHiddenKernels) {
  const auto x = filled<int>(*runtime_, 1, 0);
  const auto y = filled<float>(*runtime_, 1, 0);
  module_.kernel("over(i32*)").launch({}, x);
  module_.kernel("over(float*)").launch({}, y);
  EXPECT_EQ(read(x)[0], 1);
  EXPECT_EQ(read(y)[0], 2.0F);
  module_.kernel("hidden").launch({}, x);
  EXPECT_EQ(read(x)[0], 3);
  DWELL_EXPECT_ERROR(module_.kernel("over"), errc::operator_not_found, AllOf(HasSubstr("over(i32*)"), HasSubstr("over(float*)")));
  DWELL_EXPECT_ERROR(module_.kernel("absent"), errc::operator_not_found, AllOf(HasSubstr("scale"), HasSubstr("axpy<float>")));
}

TEST_F(KernelTest, SharedMemoryUpToTheDevicesLimit) {
  const auto y = filled<float>(*runtime_, 128, 0.0F);
  const auto tile = module_.kernel("tile");
  tile.launch({.block = {128}, .shared = 100'000}, y).wait();
  EXPECT_EQ(read(y)[0], 127.0F);
  DWELL_EXPECT_ERROR(tile.launch({.block = {128}, .shared = 1U << 30U}, y), errc::invalid_argument,
                     AllOf(HasSubstr("kernel 'tile'"), HasSubstr("shared memory"), HasSubstr("1073741824"), HasSubstr("limit")));
}

TEST_F(KernelTest, ARefusedLaunchNamesTheLimit) {
  const auto y = filled<float>(*runtime_, 128, 0.0F);
  const auto narrow = module_.kernel("narrow");
  DWELL_EXPECT_ERROR(narrow.launch({.block = {65}}, y), errc::invalid_argument,
                     AllOf(HasSubstr("threads"), HasSubstr("65"), HasSubstr("64")));
  DWELL_EXPECT_ERROR(narrow.launch({.grid = {1, 70'000}}, y), errc::invalid_argument, AllOf(HasSubstr("grid's y"), HasSubstr("65535")));
  DWELL_EXPECT_ERROR(narrow.launch({.block = {1, 1, 65}}, y), errc::invalid_argument, HasSubstr("block's z"));
  DWELL_EXPECT_ERROR(narrow.launch({.grid = {0}}, y), errc::invalid_argument, HasSubstr("grid"));
  DWELL_EXPECT_ERROR(narrow.launch({}, 1), errc::signature_mismatch, HasSubstr("float*"));
  DWELL_EXPECT_ERROR(module_.kernel("axpy<float>").launch({}, 2.0, y, y, 1), errc::signature_mismatch,
                     AllOf(HasSubstr("(float, const float*, float*, i32)"), HasSubstr("(double, float*, float*, i32)")));
  DWELL_EXPECT_ERROR(module_.kernel("scale").launch({}, 2.0F, 4, y), errc::signature_mismatch, HasSubstr("argument 2"));
  narrow.launch({.block = {64}}, y).wait();
  Runtime other(options());
  const auto foreign = other.allocate<float>(64);
  DWELL_EXPECT_ERROR(narrow.launch({.block = {64}}, foreign), errc::invalid_argument, HasSubstr("another runtime"));
}

TEST_F(KernelTest, BlocksOfACooperativeLaunchMeet) {
  for (const u32 shared : {0U, 100'000U}) {
    SCOPED_TRACE(std::to_string(shared) + " bytes of shared memory");
    const LaunchConfig config{.block = {128}, .shared = shared, .cooperative = true};
    const u32 most = most_that_meet(config);
    ASSERT_GT(most, 0U);
    meet(config, most, 100);
    meet(config, 1, 10);
  }
}

TEST_F(KernelTest, ACooperativeLaunchThatDoesNotFitIsRefused) {
  LaunchConfig config{.block = {128}, .cooperative = true};
  const u32 most = most_that_meet(config);
  const auto cells = filled<u32>(*runtime_, 1, 0U);
  const auto kernel = module_.kernel("meet");
  config.grid = {most + 1};
  DWELL_EXPECT_ERROR(kernel.launch(config, cells, cells, cells, 1U), errc::invalid_argument,
                     AllOf(HasSubstr("kernel 'meet'"), HasSubstr(std::to_string(most + 1) + " blocks"),
                           HasSubstr("at most " + std::to_string(most) + " run at once")));
  config.cooperative = false;
  kernel.launch(config, cells, cells, cells, 0U).wait();
}

TEST_F(KernelTest, CooperativeLaunchesBesideEndlessTasks) {
  const auto add = runtime_->define<Add>("add", kAdd);
  Stream stream(*runtime_, add);
  const LaunchConfig config{.block = {128}, .cooperative = true};
  const u32 most = most_that_meet(config);
  for (int i = 0; i < 20; ++i) meet(config, most, 10);
  EXPECT_TRUE(eventually([&, before = stream.tasks()] { return stream.tasks() > before; })) << "the load stands still";
  stream.expect_all();
}

TEST_F(KernelTest, UsersStreamOrdersItsLaunches) {
  const Foreign foreign;
  const auto y = filled<float>(*runtime_, 64, 1.0F);
  const LaunchConfig config{.block = {64}, .stream = foreign.stream};
  Ticket last;
  for (int i = 0; i < 10; ++i) last = module_.kernel("scale").launch(config, 2.0F, y, 64);
  std::vector<float> seen(64);
  foreign.copy_to_host(seen.data(), static_cast<const float*>(y.data()), seen.size());
  EXPECT_EQ(seen[63], 1024.0F) << "the copy on the user's stream came before the kernels on it";
  last.wait();
  EXPECT_EQ(read(y)[0], 1024.0F);
}

TEST_F(KernelTest, ATicketIsNotDoneBeforeItsKernelAndReadWaits) {
  Latch latch(*runtime_);
  auto to = filled<u32>(*runtime_, 1, 0U);
  const Ticket ticket = slow(latch.words(), to, 10s);
  latch.await();
  EXPECT_FALSE(ticket.done());
  EXPECT_FALSE(ticket.wait_for(5ms));
  std::jthread release([&] {
    std::this_thread::sleep_for(30ms);
    latch.release();
  });
  EXPECT_EQ(read(to)[0], 7U);
  EXPECT_TRUE(ticket.done());
}

TEST_F(KernelTest, DroppedBuffersAndProgramsLiveUntilTheKernelEnds) {
  const std::vector<u32> fives(1 << 20, 5U);
  for (u32 round = 0; round < 10; ++round) {
    Latch latch(*runtime_);
    Ticket ticket;
    {
      Module module = runtime_->compile({std::string(kKernels) + "// " + std::to_string(round % 2), "kernels.cu"});
      const auto to = runtime_->allocate<u32>(1 << 20);
      ticket = module.kernel("slow").launch({}, latch.words(), to.slice(std::size_t{round} * 1000, 1), u64{5'000'000});
    }
    std::vector<Buffer<u32>> others;
    for (int i = 0; i < 10; ++i) others.push_back(filled<u32>(*runtime_, 1 << 20, 5U));
    ticket.wait();
    for (const auto& other : others) ASSERT_TRUE(read(other) == fives) << "the kernel wrote to memory that was given away";
  }
}

TEST_F(KernelTest, ManyLaunchesBesideEndlessTasks) {
  const auto add = runtime_->define<Add>("add", kAdd);
  Stream stream(*runtime_, add);
  const auto y = filled<float>(*runtime_, 1024, 0.0F);
  const auto x = filled<float>(*runtime_, 1024, 1.0F);
  const auto axpy = module_.kernel<void(float, const float*, float*, int)>("axpy<float>");
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2000; ++i) tickets.push_back(axpy.launch({.grid = {8}, .block = {128}}, 1.0F, x, y, 1024));
  for (const Ticket& ticket : tickets) ticket.wait();
  EXPECT_THAT(read(y), testing::Each(2000.0F));
  EXPECT_TRUE(eventually([&] { return stream.tasks() > 100'000; }));
  stream.expect_all();
}

TEST_F(KernelTest, CloseWaitsForLaunchesAndCompletesTheirTickets) {
  Latch latch(*runtime_);
  const auto to = filled<u32>(*runtime_, 1, 0U);
  const Ticket ticket = slow(latch.words(), to, 50ms);
  const Kernel<> kernel = module_.kernel("slow");
  runtime_->close(Close::now);
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
  ticket.wait();
  EXPECT_THROW(kernel.launch({}), Error);
  EXPECT_THROW(module_.kernel("slow"), Error);
  EXPECT_FALSE(module_.cubin().empty()) << "what was compiled can still be looked at";
}

}  // namespace
}  // namespace dwell::test
