// An image with inlined operators computes the same as one that calls them, in less time a step.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "jit/cuda/cuda_compiler.hpp"
#include "tests/gpu/gpu_test.hpp"

namespace dwell::test {
namespace {

constexpr Tier kTiers[] = {Tier::relocatable, Tier::lto};

class TiersTest : public GpuTest {
 protected:
  static Options with(Tier tier) {
    Options options = GpuTest::options();
    options.tier = tier;
    return options;
  }
  // Called after a definition: checks the tier of the running image.
  static void expect(const Runtime& runtime, Tier tier) { EXPECT_EQ(runtime.info().tier, tier); }
  // Each link optimises the whole loop with the operators.
  std::chrono::seconds limit() const override { return 180s; }
};

constexpr const char* kAxpy = R"(
DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
  for (auto i : g.range(y.size())) y[i] += a * x[i];
})";
using Axpy = void(float, Span<const float>, Span<float>);

// Each group writes its number, and a sum over its threads.
constexpr const char* kCountGroups = R"(
DWELL_OPERATOR(count_groups)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::Span<dwell::u32> all) {
  const dwell::u32 sum = g.sum(g.rank() + g.index());
  if (g.rank() == 0) cells[g.index()] = sum;
  for (auto i : g.range(all.size())) all[i] += g.count();
})";
using CountGroups = void(Span<u32>, Span<u32>);

// Reverses through the group's shared memory.
constexpr const char* kReverseSource = R"(
DWELL_OPERATOR(reverse)(dwell::Group g, dwell::Span<dwell::u32> x) {
  const auto copy = g.shared<dwell::u32>(x.size());
  if (copy.size() == 0) return;
  for (auto i : g.local_range(x.size())) copy[i] = x[i];
  g.sync();
  for (auto i : g.local_range(x.size())) x[i] = copy[x.size() - 1 - i];
})";
using Reverse = void(Span<u32>);

TEST_F(TiersTest, PlainTasks) {
  constexpr std::size_t kSize = 10'000;
  std::vector<std::vector<float>> results;
  for (const Tier tier : kTiers) {
    Runtime runtime(with(tier));
    auto axpy = runtime.define<Axpy>("axpy", kAxpy);
    expect(runtime, tier);
    std::vector<float> x(kSize);
    std::iota(x.begin(), x.end(), 0.5F);
    auto in = runtime.allocate<float>(kSize);
    in.write(x);
    auto out = filled<float>(runtime, kSize, 3);
    for (int i = 0; i < 5; ++i) runtime.submit(axpy, 0.1F, in, out).wait();
    results.push_back(read(out));
    EXPECT_NEAR(results.back()[1000], 3 + 0.5 * 1000.5, 0.01);
  }
  EXPECT_EQ(results[0], results[1]) << "to the last bit";
}

TEST_F(TiersTest, WideTasks) {
  for (const Tier tier : kTiers) {
    Runtime runtime(with(tier));
    auto count_groups = runtime.define<CountGroups>("count_groups", kCountGroups);
    expect(runtime, tier);
    constexpr u32 kGroups = 700;
    auto cells = filled<u32>(runtime, kGroups, 0);
    auto all = filled<u32>(runtime, 100'003, 0);
    for (int round = 0; round < 20; ++round) runtime.submit(count_groups, cells, all, groups(kGroups), link);
    const std::vector<u32> counted = (runtime.wait_all(), read(cells));
    for (u32 i = 0; i < kGroups; ++i) ASSERT_EQ(counted[i], 127U * 64 + 128 * i) << "group " << i;
    EXPECT_THAT(read(all), testing::Each(20 * kGroups));
  }
}

TEST_F(TiersTest, ChainsThroughManyOperators) {
  for (const Tier tier : kTiers) {
    Runtime runtime(with(tier));
    auto append = runtime.define<Append>("append", kAppend);
    auto count_groups = runtime.define<CountGroups>("count_groups", kCountGroups);
    auto reverse = runtime.define<Reverse>("reverse", kReverseSource);
    expect(runtime, tier);
    auto number = filled<u32>(runtime, 1, 0);
    auto cells = filled<u32>(runtime, 64, 0);
    auto all = filled<u32>(runtime, 1000, 0);
    for (u32 i = 0; i < 600; ++i) {
      runtime.submit(append, number, i, link);
      if (i % 3 == 0) runtime.submit(reverse, cells, link);
      if (i % 5 == 0) runtime.submit(count_groups, cells, all, groups(1 + i % 64), link);
    }
    EXPECT_EQ(read(number)[0], appended(600));
  }
}

TEST_F(TiersTest, SharedMemory) {
  for (const Tier tier : kTiers) {
    Runtime runtime(with(tier));
    auto reverse = runtime.define<Reverse>("reverse", kReverseSource);
    expect(runtime, tier);
    std::vector<u32> x(2000);
    std::iota(x.begin(), x.end(), 0U);
    auto buffer = runtime.allocate<u32>(x.size());
    buffer.write(x);
    for (int i = 0; i < 101; ++i) runtime.submit(reverse, buffer, link);
    std::reverse(x.begin(), x.end());
    EXPECT_EQ(read(buffer), x);
    // Larger than the shared memory; the failure must not affect the next task.
    auto large = filled<u32>(runtime, 100'000, 0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(runtime.submit(reverse, large).status(), status::out_of_scratch);
      runtime.submit(reverse, buffer).wait();
    }
  }
}

TEST_F(TiersTest, FailuresAndVersions) {
  for (const Tier tier : kTiers) {
    Runtime runtime(with(tier));
    auto fail = runtime.define<Fail>("fail", kFail);
    DWELL_EXPECT_ERROR(runtime.submit(fail, 1234).wait(), errc::task_failed, AllOf(HasSubstr("fail (version 1)"), HasSubstr("code 1234")));
    runtime.submit(fail, 0).wait();
    auto mark = runtime.define<Mark>("mark", mark_with(1));
    auto cells = filled<u32>(runtime, 1, 0);
    for (int i = 0; i < 1000; ++i) runtime.submit(mark, cells, 0U);
    mark.redefine(mark_with(10'000));
    expect(runtime, tier);
    for (int i = 0; i < 1000; ++i) runtime.submit(mark, cells, 0U);
    EXPECT_EQ(read(cells)[0], 1000U + 10'000'000U);
  }
}

// An operator that stays native in an image of Tier::lto, beside an inlined one.
TEST_F(TiersTest, NativeOperatorsRunBesideInlinedOnes) {
  Runtime runtime(with(Tier::lto));
  auto inlined = runtime.define<Append>("append", kAppend);
  auto native = runtime.define<Axpy>("axpy", kAxpy, {.options = CompileOptions{.contract = false}});
  expect(runtime, Tier::lto);
  auto number = filled<u32>(runtime, 1, 0);
  auto x = filled<float>(runtime, 1000, 1);
  auto y = filled<float>(runtime, 1000, 0);
  for (u32 i = 0; i < 500; ++i) {
    runtime.submit(inlined, number, i, link);
    runtime.submit(native, 2.0F, x, y, link);
  }
  EXPECT_EQ(read(number)[0], appended(500));
  EXPECT_THAT(read(y), testing::Each(1000.0F));
}

// ---- The step of a plain loop --------------------------------------------------------------------------------------------------

// Runs tasks on one block as the resident loop does, without anything else: descriptors of 16 words, eight of them prefetched to shared
// memory. Stores the total time in ns.
constexpr const char* kPlainLoop = R"(
#include "device/operator_table.hpp"
extern "C" __global__ void __launch_bounds__(128) dwell_steps(const uint4* tasks, dwell::u32 steps, dwell::u64* time) {
  using namespace dwell;
  __shared__ uint4 task[2][8 * 4];
  __shared__ device::Context context;
  const device::Lease lease{};
  if (threadIdx.x == 0) context.share = device::kWholeTask;
  const Group group(&context, 0, 1);
  const u32 lent = device::address_in_shared(&context);
  if (threadIdx.x < 32) task[0][threadIdx.x] = tasks[threadIdx.x];
  __syncthreads();
  const u64 start = device::now_ns();
  for (u32 i = 0; i < steps; i += 8) {
    const u32 turn = i / 8 & 1;
    if (threadIdx.x < 32) task[turn ^ 1][threadIdx.x] = tasks[threadIdx.x];
#pragma unroll 1
    for (u32 k = 0; k < 8; ++k) {
      const u32* const words = reinterpret_cast<const u32*>(&task[turn][k * 4]);
      device::call_operator(device::callee_of(lease, words[0]), lent, words[0], device::address_in_shared(words + 3));
      group.sync();
    }
  }
  if (threadIdx.x == 0) *time = device::now_ns() - start;
}
)";

class PlainLoop {
 public:
  explicit PlainLoop(Tier tier) : compiler_({.arch = arch(), .loop = kPlainLoop, .kernel = "dwell_steps", .cache = {}}) {
    const jit::Object empty = compile("empty", "DWELL_OPERATOR(empty)(dwell::Group) {}\n", tier);
    const jit::Object add = compile("add", kSum, tier);
    const jit::Opcode table[] = {&empty, &add};
    const jit::Image image = compiler_.link(table, tier);
    DWELL_BENCH_CUDA(cuda_.driver, cuModuleLoadData, &module_, image.bytes.data());
    DWELL_BENCH_CUDA(cuda_.driver, cuModuleGetFunction, &kernel_, module_, "dwell_steps");
    for (CUdeviceptr* const memory : {&tasks_, &time_, &ones_, &sums_}) DWELL_BENCH_CUDA(cuda_.driver, cuMemAlloc, memory, kBytes);
    const std::vector<float> ones(kFloats, 1.0F);
    DWELL_BENCH_CUDA(cuda_.driver, cuMemcpyHtoD, ones_, ones.data(), kBytes);
  }
  ~PlainLoop() {
    for (const CUdeviceptr memory : {tasks_, time_, ones_, sums_}) cuda_.driver.cuMemFree(memory);
    cuda_.driver.cuModuleUnload(module_);
  }
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;

  // Nanoseconds for a step of operator `opcode`: the best of several runs.
  double step(u32 opcode) {
    std::vector<u32> words(8 * 16);
    for (u32 k = 0; k < 8; ++k) {
      words[k * 16] = opcode;
      put_span(&words[k * 16 + 3], ones_);
      put_span(&words[k * 16 + 6], sums_);
    }
    DWELL_BENCH_CUDA(cuda_.driver, cuMemcpyHtoD, tasks_, words.data(), words.size() * sizeof(u32));
    double best = 1e9;
    for (int run = 0; run < 5; ++run) best = std::min(best, once());
    return best;
  }
  // The sums, after one run of the add.
  std::vector<float> sums() {
    const std::vector<float> zeros(kFloats, 0.0F);
    DWELL_BENCH_CUDA(cuda_.driver, cuMemcpyHtoD, sums_, zeros.data(), kBytes);
    once();
    std::vector<float> sums(kFloats);
    DWELL_BENCH_CUDA(cuda_.driver, cuMemcpyDtoH, sums.data(), sums_, kBytes);
    return sums;
  }

  static constexpr u32 kSteps = 16'000;

 private:
  static constexpr std::size_t kFloats = 1024;
  static constexpr std::size_t kBytes = kFloats * sizeof(float);
  static constexpr const char* kSum = R"(
struct alignas(16) Four { float value[4]; };
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const float> x, dwell::Span<float> y) {
  const Four* const from = reinterpret_cast<const Four*>(x.data());
  Four* const to = reinterpret_cast<Four*>(y.data());
  for (auto i : g.local_range(y.size() / 4)) {
    const Four a = from[i], b = to[i];
    to[i] = {{a.value[0] + b.value[0], a.value[1] + b.value[1], a.value[2] + b.value[2], a.value[3] + b.value[3]}};
  }
})";

  std::string arch() const {
    int major = 0;
    int minor = 0;
    DWELL_BENCH_CUDA(cuda_.driver, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, cuda_.device);
    DWELL_BENCH_CUDA(cuda_.driver, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, cuda_.device);
    return "sm_" + std::to_string(major) + std::to_string(minor);
  }
  jit::Object compile(const std::string& name, const std::string& text, Tier tier) {
    jit::Unit unit{name, text, name + ".cu", 1, {{name, name + "_1"}}};
    unit.options.lto = tier == Tier::lto;
    return compiler_.compile(unit);
  }
  static void put_span(u32* words, CUdeviceptr address) {
    words[0] = static_cast<u32>(address);
    words[1] = static_cast<u32>(address >> 32U);
    words[2] = static_cast<u32>(kFloats);
  }
  double once() {
    u32 steps = kSteps;
    void* parameters[] = {&tasks_, &steps, &time_};
    DWELL_BENCH_CUDA(cuda_.driver, cuLaunchKernel, kernel_, 1, 1, 1, 128, 1, 1, 0, cuda_.stream, parameters, nullptr);
    DWELL_BENCH_CUDA(cuda_.driver, cuStreamSynchronize, cuda_.stream);
    u64 time = 0;
    DWELL_BENCH_CUDA(cuda_.driver, cuMemcpyDtoH, &time, time_, sizeof(time));
    return static_cast<double>(time) / kSteps;
  }

  Foreign cuda_;
  jit::CudaCompiler compiler_;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr tasks_ = 0;
  CUdeviceptr time_ = 0;
  CUdeviceptr ones_ = 0;
  CUdeviceptr sums_ = 0;
};

TEST_F(TiersTest, AStepOfAPlainLoopIsShorterInlined) {
  double empty[2];
  double add[2];
  for (const Tier tier : kTiers) {
    const auto at = static_cast<std::size_t>(tier);
    PlainLoop loop(tier);
    empty[at] = loop.step(0);
    add[at] = loop.step(1);
    EXPECT_THAT(loop.sums(), testing::Each(static_cast<float>(PlainLoop::kSteps)));
    std::printf("  %s: empty %.1f ns a step, add of 1024 floats %.1f ns a step\n", tier == Tier::lto ? "lto" : "relocatable", empty[at],
                add[at]);
  }
  EXPECT_LT(empty[1], empty[0]);
  EXPECT_LT(add[1], add[0]);
}

}  // namespace
}  // namespace dwell::test
