// Buffers: which lease may access new memory, and for which tasks reads and writes wait.
#include "runtime/memory/buffers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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

// ---- For which tasks reads and writes wait ----

class BufferUsersTest : public testing::Test {
 protected:
  BufferUsersTest() { device_->has_memory = true; }
  ~BufferUsersTest() override {
    for (std::uint64_t at = bench_.queue.reaped(); at < bench_.queue.tail(); ++at)
      if (!bench_.complete(at)) bench_.finish(at);
    buffers_.close();
  }

  // Submits a task with an argument in the buffer, or one without.
  std::uint64_t submit(std::uint64_t address) {
    const std::vector<std::uint32_t> words{static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32U), 4};
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, test::task_of(words, detail::kMemory), &position));
    return position;
  }
  std::uint64_t use(const detail::BufferState& buffer) { return submit(buffer.allocation->device() + 4); }
  std::uint64_t use_none() { return submit(0x1234'5678); }
  // Reads the buffer. Returns the tasks that were waited for.
  std::vector<std::uint64_t> read(const detail::BufferState& buffer) {
    waited_.clear();
    buffers_.read(buffer, 0, nullptr, 0);
    return waited_;
  }
  // Returns a buffer, and keeps it until `buffers_` is closed: without a runtime nobody else releases it.
  const detail::BufferState& keep(std::shared_ptr<detail::BufferState> buffer) { return *kept_.emplace_back(std::move(buffer)); }
  const detail::BufferState& allocate(Memory memory = Memory::device) { return keep(buffers_.allocate(16, 4, memory)); }

  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  test::Bench bench_{7, 1};
  std::unique_ptr<Keeper> keeper_ = test::make_keeper(backend_, bench_);
  Launches launches_{backend_};
  Notifier notifier_{{}};
  const Graphs graphs_;
  bool waits_ = true;  // or waits are omitted, as in a callback
  std::vector<std::uint64_t> waited_;
  std::vector<std::shared_ptr<detail::BufferState>> kept_;
  Buffers buffers_{backend_, bench_.queue, *keeper_, launches_, notifier_, graphs_, nullptr, [this](std::uint64_t position) {
                     waited_.push_back(position);
                     if (waits_) bench_.finish(position);
                   }};
  const std::atomic<std::uint32_t> alias_{1};
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(BufferUsersTest, ReadsWaitForUsersAndLookAtATaskOnce) {
  const detail::BufferState& buffer = allocate();
  const detail::BufferState& other = allocate();
  EXPECT_EQ(buffer.used_from, 0U);
  use_none();
  const std::uint64_t user = use(buffer);
  const std::uint64_t others = use(other);
  EXPECT_THAT(read(buffer), ElementsAre(user));
  EXPECT_EQ(buffer.used_from, bench_.queue.tail());
  EXPECT_EQ(other.used_from, 0U);
  EXPECT_THAT(read(buffer), IsEmpty());
  const std::uint64_t later = use(buffer);
  use_none();
  EXPECT_THAT(read(buffer), ElementsAre(later));
  EXPECT_EQ(buffer.used_from, bench_.queue.tail());
  EXPECT_THAT(read(other), ElementsAre(others));
}

TEST_F(BufferUsersTest, NewMemoryHasNoUsersBefore) {
  for (int i = 0; i < 5; ++i) use_none();
  EXPECT_EQ(allocate().used_from, 5U);
  EXPECT_EQ(allocate(Memory::host).used_from, 5U);
}

TEST_F(BufferUsersTest, ForeignMemoryMayHaveThem) {
  alignas(4) std::uint32_t memory[4] = {};
  const std::uint64_t user = submit(reinterpret_cast<std::uint64_t>(&memory[1]));
  EXPECT_THAT(read(keep(buffers_.wrap(memory, 4, 4, 4, nullptr))), ElementsAre(user));
}

TEST_F(BufferUsersTest, SoMayMemoryOfAResource) {
  struct Pool : MemoryResource {
    alignas(256) std::uint32_t memory[64] = {};
    void* allocate(std::size_t) override { return memory; }
    void deallocate(void*, std::size_t) noexcept override {}
  };
  const auto pool = std::make_shared<Pool>();
  const std::uint64_t user = submit(reinterpret_cast<std::uint64_t>(&pool->memory[1]));
  std::vector<std::uint64_t> waited;
  Buffers buffers(
      backend_, bench_.queue, *keeper_, launches_, notifier_, graphs_, nullptr, [&](std::uint64_t position) { waited.push_back(position); },
      pool);
  buffers.read(keep(buffers.allocate(4, 4, Memory::device)), 0, nullptr, 0);
  EXPECT_THAT(waited, ElementsAre(user));
  buffers.close();
}

TEST_F(BufferUsersTest, AUserThatWasNotWaitedForRemainsOne) {
  const detail::BufferState& buffer = allocate();
  const std::uint64_t first = use(buffer);
  const std::uint64_t second = use(buffer);
  use_none();
  waits_ = false;
  EXPECT_THAT(read(buffer), ElementsAre(first, second));
  EXPECT_EQ(buffer.used_from, first);
  bench_.finish(first);
  EXPECT_THAT(read(buffer), ElementsAre(second));
  EXPECT_EQ(buffer.used_from, second);
  waits_ = true;
  EXPECT_THAT(read(buffer), ElementsAre(second));
  EXPECT_EQ(buffer.used_from, bench_.queue.tail());
}

TEST_F(BufferUsersTest, APlaceThatIsStillToBeFilledMayGetAUser) {
  const detail::BufferState& buffer = allocate();
  use_none();
  const std::uint64_t place = use(buffer);
  use_none();
  // As a submitter leaves it that has the place and has not filled it.
  std::uint32_t& lap = bench_.ring[place].quad[0].lap;
  const std::uint32_t written = std::exchange(lap, 0);
  EXPECT_THAT(read(buffer), IsEmpty());
  EXPECT_EQ(buffer.used_from, place);
  lap = written;
  EXPECT_THAT(read(buffer), ElementsAre(place));
  EXPECT_EQ(buffer.used_from, bench_.queue.tail());
}

}  // namespace
}  // namespace dwell::runtime
