// Ordinary kernels: where a device runs them they are checked and waited for as tasks are, elsewhere the refusal says why.
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

TEST_P(KernelsTest, RunBesideTheLoopOrAreRefusedWithTheReason) {
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

TEST_P(KernelsTest, EmptyHandlesSaySo) {
  const Module module;
  const Kernel<> kernel;
  DWELL_EXPECT_ERROR(module.kernel("f"), errc::invalid_argument, HasSubstr("Runtime::compile"));
  DWELL_EXPECT_ERROR(kernel.launch({}), errc::invalid_argument, HasSubstr("Module::kernel"));
}

}  // namespace
}  // namespace dwell::test
