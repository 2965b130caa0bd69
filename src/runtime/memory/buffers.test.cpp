// Buffers and leases: which lease may access new memory.
#include "runtime/memory/buffers.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tests/unit/fake_backend.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {
namespace {

TEST(BuffersTest, ATracedDeviceStartsALeaseBeforeMemoryIsHandedOut) {
  auto device = std::make_shared<test::FakeDevice>();
  device->has_memory = true;
  test::FakeBackend backend(device);
  test::Bench bench(7, 1);
  const auto keeper = test::make_keeper(backend, bench);
  keeper->hand_over(backend.load({}));
  Launches launches(backend);
  Notifier notifier({});
  const Graphs graphs;
  Buffers buffers(backend, bench.queue, *keeper, launches, notifier, graphs, nullptr, [](std::uint64_t) {});

  const std::atomic<std::uint32_t> alias{1};
  std::uint64_t position = 0;
  ASSERT_TRUE(bench.queue.try_submit(alias, test::task_of({}), &position));
  keeper->submitted();
  const std::uint32_t before = device->last_lease().number;
  ASSERT_NE(before, 0U);
  const auto buffer = buffers.allocate(4, 4, Memory::device);
  for (const std::uint32_t lease : device->leases()) EXPECT_GT(lease, before) << "it was started before the memory was allocated";
  EXPECT_GT(device->last_lease().number, before);
  bench.finish(position);
  buffers.close();
}

}  // namespace
}  // namespace dwell::runtime
