// Foreign memory as a buffer, and the list of devices.
#include <dwell/devices.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class ForeignTest : public DeviceTest {
 protected:
  // Memory that the device reaches and that belongs to another runtime.
  struct Others {
    explicit Others(const Options& options) : runtime(options) {}
    Runtime runtime;
    template <class T>
    std::shared_ptr<Buffer<T>> allocate(std::size_t count, T value, Memory memory = Memory::device) {
      auto buffer = std::make_shared<Buffer<T>>(runtime.allocate<T>(count, memory));
      buffer->write(std::vector<T>(count, value));
      return buffer;
    }
  };
};
DWELL_ON_EVERY_DEVICE(ForeignTest);

TEST_P(ForeignTest, TasksWorkOnMemoryOfOthers) {
  Runtime runtime(options());
  Others others(little());
  auto add = runtime.define<Add>("add", kAdd);
  for (const Memory memory : {Memory::device, Memory::host}) {
    const auto theirs = others.allocate<u32>(1000, 5, memory);
    {
      auto mine = runtime.wrap(theirs->data(), 1000, theirs);
      EXPECT_EQ(mine.size(), 1000U);
      EXPECT_EQ(mine.bytes(), 4000U);
      EXPECT_EQ(mine.data(), theirs->data());
      EXPECT_EQ(mine.memory(), on_cpu() ? Memory::host : memory);
      for (u32 i = 0; i < 1000; ++i) runtime.submit(add, mine.slice(i, 1), 0U, i);
      const std::vector<u32> seen = read(mine);
      for (u32 i = 0; i < 1000; ++i) ASSERT_EQ(seen[i], 5 + i);
      mine.write(std::vector<u32>(500, 9), 500);
      if (mine.memory() == Memory::host) {
        EXPECT_EQ(mine.host()[999], 9U);
      }
    }
    EXPECT_EQ(read(*theirs)[499], 504U);
    EXPECT_EQ(read(*theirs)[500], 9U);
  }
}

TEST_P(ForeignTest, ViewGivesForeignBytesAType) {
  Runtime runtime(options());
  Others others(little());
  auto fill = runtime.define("fill", R"(
    DWELL_OPERATOR(fill)(dwell::Group g, dwell::Span<float> to) { for (auto i : g.range(to.size())) to[i] = 2.5f; })");
  const auto theirs = others.allocate<float>(64, 0.0F);
  void* const pointer = theirs->data();
  auto bytes = runtime.wrap(pointer, 256);
  runtime.submit(fill, Arguments().add(BufferView(bytes, ElementType::f32))).wait();
  EXPECT_THAT(read(*theirs), testing::Each(2.5F));
}

TEST_P(ForeignTest, AnyMemoryWorksOnTheCpu) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  std::vector<u32> plain(100, 1);
  if (on_cpu()) {
    auto wrapped = runtime.wrap(plain.data(), plain.size());
    runtime.submit(add, wrapped, 99U, 4U).wait();
    EXPECT_EQ(plain[99], 5U);
    EXPECT_EQ(wrapped.host().data(), plain.data());
  } else {
    DWELL_EXPECT_ERROR(runtime.wrap(plain.data(), plain.size()), errc::invalid_argument, HasSubstr("cudaHostRegister"));
  }
}

TEST_P(ForeignTest, IsKeptAliveUntilItsTasksHaveRun) {
  Runtime runtime(options());
  Others others(little());
  auto hold = runtime.define<Hold>("hold", kHold);
  auto add = runtime.define<Add>("add", kAdd);
  const auto theirs = others.allocate<u32>(2, 0, Memory::host);
  std::atomic<int> dropped{0};
  const auto keep_alive = [&] { return std::shared_ptr<void>(&dropped, [&dropped, theirs](void*) { ++dropped; }); };
  // Released at once if no task names it.
  auto wrapped = runtime.wrap(theirs->data(), 2, keep_alive());
  EXPECT_EQ(dropped, 0);
  wrapped = {};
  EXPECT_EQ(dropped, 1);
  // Released soon after the task that names it is complete, without a call.
  wrapped = runtime.wrap(theirs->data(), 2, keep_alive());
  const std::span<u32> words = wrapped.host();
  const Ticket ticket = runtime.submit(hold, wrapped);
  EXPECT_TRUE(eventually([&] { return std::atomic_ref(words[0]).load() != 0; }));
  wrapped = {};
  EXPECT_EQ(dropped, 1);
  EXPECT_FALSE(ticket.done());
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(dropped, 1);
  std::atomic_ref(words[1]).store(1);
  EXPECT_TRUE(eventually([&] { return dropped == 2; }));
  EXPECT_TRUE(ticket.done());
  // Released with the runtime, even while its handle lives.
  auto left = runtime.wrap(theirs->data(), 2, keep_alive());
  runtime.close();
  EXPECT_EQ(dropped, 3);
  DWELL_EXPECT_ERROR(read(left), errc::stale_handle, HasSubstr("closed"));
}

TEST_P(ForeignTest, TheOwnerOfForeignMemoryMayUseTheRuntime) {
  Runtime runtime(options());
  auto add = runtime.define<Add>("add", kAdd);
  auto own = std::make_shared<Buffer<u32>>(filled<u32>(runtime, 4, 1));
  u32* const address = own->data();
  // The owner holds a buffer of this runtime: released after its task, and by close.
  auto wrapped = runtime.wrap(address, 4, std::exchange(own, nullptr));
  runtime.submit(add, wrapped, 0U, 1U);
  wrapped = {};
  own = std::make_shared<Buffer<u32>>(filled<u32>(runtime, 4, 1));
  auto last = runtime.wrap(own->data(), 4, std::shared_ptr<void>(own.get(), [own](void*) { static_cast<void>(own->memory()); }));
  own = nullptr;
  runtime.close();
}

TEST_P(ForeignTest, AnInvalidAddressIsRefused) {
  Runtime runtime(options());
  Others others(little());
  const auto theirs = others.allocate<u32>(8, 0);
  u32* const none = nullptr;
  int dropped = 0;
  const auto keep_alive = [&] { return std::shared_ptr<void>(&dropped, [&](void*) { ++dropped; }); };
  DWELL_EXPECT_ERROR(runtime.wrap(none, 4, keep_alive()), errc::invalid_argument, HasSubstr("null"));
  EXPECT_EQ(dropped, 1);
  DWELL_EXPECT_ERROR(runtime.wrap(nullptr, 1), errc::invalid_argument, HasSubstr("null"));
  DWELL_EXPECT_ERROR(runtime.wrap(theirs->data(), SIZE_MAX), errc::invalid_argument, HasSubstr("too large"));
  DWELL_EXPECT_ERROR(runtime.wrap(theirs->data(), SIZE_MAX / 4 + 2), errc::invalid_argument, HasSubstr("too large"));
  DWELL_EXPECT_ERROR(runtime.wrap(reinterpret_cast<u32*>(SIZE_MAX - 3), 1), errc::invalid_argument, HasSubstr("2^52"));
  DWELL_EXPECT_ERROR(runtime.wrap(reinterpret_cast<u32*>((1ULL << 52U) - 4), 2), errc::invalid_argument, HasSubstr("2^52"));
  DWELL_EXPECT_ERROR(runtime.wrap(reinterpret_cast<double*>(theirs->data() + 1), 1), errc::invalid_argument, HasSubstr("aligned to 8"));
  if (!on_cpu()) {
    DWELL_EXPECT_ERROR(runtime.wrap(theirs->data(), 1U << 30U), errc::invalid_argument, HasSubstr("bytes"));
  }
  auto nothing = runtime.wrap(none, 0, keep_alive());
  EXPECT_EQ(nothing.size(), 0U);
  EXPECT_EQ(dropped, 2);
  runtime.close();
  DWELL_EXPECT_ERROR(runtime.wrap(theirs->data(), 1), errc::closed, HasSubstr("closed"));
}

TEST_P(ForeignTest, DeviceIsListed) {
  const std::vector<DeviceSummary> all = dwell::devices();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].device, "cpu");
  const auto at = std::ranges::find(all, GetParam(), &DeviceSummary::device);
  ASSERT_NE(at, all.end());
  EXPECT_EQ(at->problem, "");
  EXPECT_GT(at->memory_bytes, 1U << 28U);
  EXPECT_GT(at->workers, 0U);
  EXPECT_EQ(at->multiprocessors == 0, on_cpu());
  Options any = options();
  any.workers = 0;
  const RuntimeInfo info = Runtime(any).info();
  EXPECT_EQ(at->name, info.device_name);
  EXPECT_EQ(at->target.starts_with("sm_"), !on_cpu());
}

TEST(Devices, AreListedWithoutADriver) { EXPECT_NO_THROW(EXPECT_EQ(dwell::devices().front().device, "cpu")); }

TEST(Devices, BuildWithoutCudaGivesReasonAndAdvice) {
#if DWELL_WITH_CUDA
  EXPECT_EQ(dwell::without_cuda(), "");
#else
  EXPECT_THAT(dwell::without_cuda(), AllOf(HasSubstr("headers were not found when it was built ("), HasSubstr("DWELL_CUDA_PATH")));
  Options options;
  options.device = "cuda:0";
  DWELL_EXPECT_ERROR(Runtime{options}, errc::device_unavailable, dwell::without_cuda());
#endif
}

}  // namespace
}  // namespace dwell::test
