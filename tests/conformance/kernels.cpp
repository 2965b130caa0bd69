// Ordinary kernels: checked and awaited like tasks where the device runs them; elsewhere the refusal gives the reason.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class KernelsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(KernelsTest);

constexpr const char* kFill = R"(
template <class T> __global__ void fill(T* to, T value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = value;
})";

TEST_P(KernelsTest, RunBesideTheLoopOrAreRefusedWithAReason) {
  Runtime runtime(options());
  if (on_cpu()) {
    DWELL_EXPECT_ERROR(runtime.compile(kFill, {}, {"fill<float>"}), errc::unsupported,
                       AllOf(HasSubstr("CUDA C++"), HasSubstr("define an operator")));
    return;
  }
  const Module module = runtime.compile(kFill, {}, {"fill<float>"});
  const auto to = runtime.allocate<float>(1000);
  const Ticket ticket = module.kernel("fill<float>").launch({.grid = {8}, .block = {128}}, to, 2.0F, 1000);
  ticket.wait();
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), status::ok);
  EXPECT_THAT(read(to), testing::Each(2.0F));
}

TEST_P(KernelsTest, TasksStartAfterLaunches) {
  if (on_cpu()) GTEST_SKIP() << "the CPU runs no kernels";
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  const Module module = runtime.compile(R"(
__global__ void slow_fill(unsigned* to, unsigned value, int n, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < ns);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = value;
})");
  const auto add = runtime.define<void(Span<u32>, u32)>("add_all", R"(
DWELL_OPERATOR(add_all)(dwell::Group g, dwell::Span<dwell::u32> to, dwell::u32 value) {
  for (dwell::u32 i = g.rank(); i < to.size(); i += g.size()) to[i] = to[i] * 3 + value;
  g.sync();
})");
  const auto nothing = runtime.define("nothing", kNothing);
  const auto cells = filled<u32>(runtime, 1000, 0);
  for (u32 round = 1; round < 30; ++round) {
    const Ticket launched =
        module.kernel("slow_fill").launch({.grid = {8}, .block = {128}}, cells, round, 1000, 1'000'000ULL * (round % 3));
    // More tasks than the ring holds, with a drain: the release of the gate must not need a place in the ring.
    const Ticket first = runtime.submit(add, cells, 1U, after(launched));
    const Ticket second = runtime.submit(add, cells, 2U, after(launched, first));
    if (round % 4 == 0) runtime.submit(nothing, drain);
    for (int i = 0; i < 150; ++i) runtime.submit(nothing, after(launched, second));
    EXPECT_EQ(second.status(), status::ok);
    EXPECT_THAT(read(cells), testing::Each((round * 3 + 1) * 3 + 2));
    EXPECT_EQ(runtime.submit(nothing, after(launched)).status(), status::ok) << "it has ended";
  }
}

TEST_P(KernelsTest, ARefusalLeavesTheRuntimeAsItWas) {
  Runtime runtime(options());
  const auto add = runtime.define<Add>("add", kAdd);
  const auto cells = filled<u32>(runtime, 1, 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_THROW(runtime.compile("no program at all"), Error);
    runtime.submit(add, cells, 0U, 1U);
  }
  EXPECT_EQ(read(cells)[0], 10U);
}

TEST_P(KernelsTest, EmptyHandlesAreRefused) {
  const Module module;
  const Kernel<> kernel;
  DWELL_EXPECT_ERROR(module.kernel("f"), errc::invalid_argument, HasSubstr("`compile`"));
  DWELL_EXPECT_ERROR(kernel.launch({}), errc::invalid_argument, HasSubstr("`kernel`"));
}

}  // namespace
}  // namespace dwell::test
