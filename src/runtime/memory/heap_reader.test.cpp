// Reads heaps that a test fills as workers do, in memory that the host reaches or does not reach.
#include "runtime/memory/heap_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/heap_fixture.hpp"

namespace dwell::runtime {
namespace {

namespace heap = device::heap;

struct Twins {
  Field<Twins> left;
  Field<Twins> right;
  std::uint64_t number;
};
struct Leaf {
  double value;
};
struct Block {
  std::uint64_t number;
  std::uint8_t bytes[8000] = {};
};
DWELL_OBJECT(Twins, left, right);
DWELL_OBJECT(Leaf);
DWELL_OBJECT(Block);

// A backend of copies; runs nothing.
class CopyBackend final : public backend::Backend {
 public:
  backend::DeviceInfo info() const override { return {}; }
  std::unique_ptr<backend::Allocation> allocate(std::size_t) override { return nullptr; }
  std::unique_ptr<backend::Region> reserve(std::size_t, std::size_t) override { return nullptr; }
  std::unique_ptr<backend::Allocation> allocate_host(std::size_t) override { return nullptr; }
  void copy_to_device(std::uint64_t, const void*, std::size_t) override { ADD_FAILURE() << "nothing is written"; }
  void copy_on_device(std::uint64_t, std::uint64_t, std::size_t) override { ADD_FAILURE() << "nothing moves"; }
  void clear(std::uint64_t, std::size_t) override { ADD_FAILURE() << "nothing is cleared"; }
  void copy_to_host(void* to, std::uint64_t from, std::size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    copied += bytes;
  }
  void copy_all_to_host(std::span<const backend::HostCopy> copies) override {
    ++waits;
    backend::Backend::copy_all_to_host(copies);
  }
  std::unique_ptr<backend::LoadedImage> load(std::span<const std::byte>) override { return nullptr; }
  void start(backend::LoadedImage&, const device::Lease&) override { ADD_FAILURE() << "there is nothing to run"; }
  void finish() override {}
  std::string fault() override { return {}; }
  void abandon() override {}

  int waits = 0;
  std::size_t copied = 0;  // bytes
};

struct Place : backend::Allocation {
  Place(void* at, std::size_t bytes, bool reached) {
    device_ = reinterpret_cast<std::uint64_t>(at);
    host_ = reached ? at : nullptr;
    bytes_ = bytes;
  }
};

class HeapReaderTest : public device::HeapFixture {
 protected:
  // Calls `look` with a reader of the heap in the memory of the host, and with one of a heap elsewhere.
  template <class Look>
  void read_both(const Look& look) {
    for (const bool reached : {true, false}) {
      SCOPED_TRACE(reached ? "the host's memory" : "memory elsewhere");
      const heap::HeapHeader known = heap_.header();
      const Place place(memory_.get(), std::size_t{known.pages} * heap::kPageBytes, reached);
      look(HeapReader(backend_, place, known, workers_));
    }
  }
  device::Context* worker(std::uint32_t number) { return &contexts_[number]; }

  CopyBackend backend_;
};

TEST_F(HeapReaderTest, StatisticsAddUp) {
  open(256, 2);
  std::vector<std::uint32_t> units;
  for (int i = 0; i < 1000; ++i) units.push_back(heap::allocate(worker(0), 100));
  for (int i = 0; i < 400; ++i) ASSERT_EQ(heap::free(worker(1), units[static_cast<std::size_t>(i)]), status::ok);
  ASSERT_NE(heap::allocate(worker(1), 5000), 0U);
  ASSERT_NE(heap::allocate(worker(0), 100'000), 0U);
  read_both([&](const HeapReader& reader) {
    backend_.waits = 0;
    const HeapStatistics now = reader.statistics();
    EXPECT_LE(backend_.waits, 1);
    ASSERT_EQ(now.classes.size(), heap::kClasses);
    const HeapClassStatistics& one = now.classes[heap::class_of_size(100)];
    EXPECT_EQ(one.size, 112U);
    EXPECT_EQ(one.live, 600U);
    EXPECT_EQ(one.allocations, 1000U);
    EXPECT_EQ(one.frees, 400U);
    EXPECT_GT(one.cached, 0U);
    EXPECT_EQ(one.slots, one.live + one.cached + one.free);
    EXPECT_EQ(one.bytes, one.slabs * heap::kPageBytes);
    EXPECT_EQ(now.classes[heap::class_of_size(5000)].live, 1U);
    EXPECT_EQ(now.live_bytes(), 600U * 112 + heap::size_of_class(heap::class_of_size(5000)));
    EXPECT_EQ(now.large, 1U);
    EXPECT_EQ(now.large_bytes, 2 * heap::kPageBytes);
    std::size_t slabs = 0;
    std::size_t slots = 0;
    for (const HeapClassStatistics& each : now.classes) {
      slabs += each.bytes;
      slots += each.slots * each.size;
    }
    EXPECT_EQ(now.used, slabs + now.large_bytes);
    EXPECT_EQ(slots, now.live_bytes() + now.cached + now.fragmented);
    EXPECT_EQ(now.mapped, std::size_t{256} * heap::kPageBytes);
    EXPECT_EQ(now.tables, std::size_t{heap_.header().first_page} * heap::kPageBytes);
  });
}

TEST_F(HeapReaderTest, StatisticsTellWhatHadNoRoom) {
  open(64, 1);
  EXPECT_EQ(HeapReader(backend_, Place(memory_.get(), 1, true), heap_.header(), workers_).statistics().last_failure, 0U);
  while (heap::allocate(worker(0), 1000) != 0) {}
  read_both([&](const HeapReader& reader) {
    const HeapStatistics now = reader.statistics();
    EXPECT_EQ(now.last_failure, 1024U) << "the class's size";
    EXPECT_EQ(now.classes[heap::class_of_size(1000)].failures, 1U);
    EXPECT_EQ(now.large_failures, 0U);
  });
  EXPECT_EQ(heap::allocate(worker(0), 100'000), 0U);
  EXPECT_EQ(heap::allocate(worker(0), std::uint64_t{1} << 40U), 0U) << "more than the heap may have";
  read_both([&](const HeapReader& reader) {
    const HeapStatistics now = reader.statistics();
    EXPECT_EQ(now.last_failure, std::uint64_t{1} << 40U);
    EXPECT_EQ(now.large_failures, 2U);
    EXPECT_EQ(now.failures(), 3U);
  });
}

TEST_F(HeapReaderTest, CensusCountsObjectsByTypeAndOthersBySize) {
  open(1024, 2);
  const Group g(worker(0), 0, 1);
  for (std::uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(g.make<Twins>(Ref<Twins>{}, Ref<Twins>{}, i));
  // More than is copied at once.
  for (std::uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(g.make<Block>(i));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(g.make<Leaf>(1.0));
  ASSERT_TRUE(g.make_array<Leaf>(40'000));
  ASSERT_TRUE(g.make_array<Leaf>(3));
  for (int i = 0; i < 5; ++i) ASSERT_NE(heap::allocate(worker(1), 32), 0U);  // of Twins's class
  ASSERT_NE(heap::allocate(worker(0), 100'000), 0U);
  heap::free(worker(0), heap::allocate(worker(0), 500));
  const std::size_t array = 3 * heap::kPageBytes;
  read_both([&](const HeapReader& reader) {
    const HeapCensus census = reader.census();
    EXPECT_THAT(census.types, testing::ElementsAre(
                                  HeapTypeCensus{"Block", 3000, std::size_t{3000} * 8192}, HeapTypeCensus{"array", 2, array + 32},
                                  HeapTypeCensus{"Twins", 300, std::size_t{300} * 32}, HeapTypeCensus{"Leaf", 20, std::size_t{20} * 16}));
    EXPECT_THAT(census.sizes, testing::ElementsAre(HeapSizeCensus{32, 5}));
    EXPECT_EQ(census.large, 1U);
    EXPECT_EQ(census.large_bytes, 2 * heap::kPageBytes);
    const HeapVerification verified = reader.verify();
    EXPECT_EQ(verified.mistakes, 0U);
    EXPECT_EQ(verified.live, 300U + 3000 + 20 + 2 + 5 + 1);
  });
}

TEST_F(HeapReaderTest, CensusHasObjectsOfNoKnownType) {
  open(256, 1);
  const Group g(worker(0), 0, 1);
  const Ref<Leaf> leaf = g.make<Leaf>(1.0);
  *reinterpret_cast<std::uint32_t*>(at(leaf.unit())) = 70'000;  // its header's type
  read_both([](const HeapReader& reader) { EXPECT_THAT(reader.census().types, testing::ElementsAre(HeapTypeCensus{"", 1, 16})); });
}

TEST_F(HeapReaderTest, VerifyNamesTheFirstMistake) {
  open(256, 1);
  const std::uint32_t unit = heap::allocate(worker(0), 100);
  const std::uint32_t slab = unit >> heap::kPageUnitsShift;
  heap_.live(slab, heap_.header().classes[heap::class_of_size(100)])[10] |= 1U;  // of a slot that is free
  read_both([&](const HeapReader& reader) {
    EXPECT_GT(reader.verify().mistakes, 0U);
    EXPECT_EQ(reader.verify().first_offset, std::size_t{slab} * heap::kPageBytes);
  });
}

// A thread sanitizer reports what is read and written at once without atomics.
TEST_F(HeapReaderTest, StatisticsAreReadWhileWorkersAllocate) {
  open(256, 2);
  std::atomic<bool> over{false};
  const auto churn = [&](std::uint32_t me) {
    while (!over.load()) {
      std::uint32_t units[64];
      for (std::uint32_t i = 0; i < 64; ++i) units[i] = heap::allocate(worker(me), 16U << (i % 9));
      for (const std::uint32_t unit : units) heap::free(worker(me), unit);
      heap::free(worker(me), heap::allocate(worker(me), 100'000));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t me = 0; me < 2; ++me) threads.emplace_back(churn, me);
  const heap::HeapHeader known = heap::lay_out({256, 2, 1, heap::kCacheOnCpu});
  const Place place(memory_.get(), std::size_t{256} * heap::kPageBytes, true);
  const HeapReader reader(backend_, place, known, 2);
  std::uint64_t allocations = 0;
  for (int i = 0; i < 200 || allocations == 0; ++i) {
    const HeapStatistics now = reader.statistics();
    std::uint64_t its = 0;
    for (const HeapClassStatistics& one : now.classes) its += one.allocations;
    EXPECT_GE(its, allocations);
    allocations = its;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  const HeapStatistics now = reader.statistics();
  EXPECT_EQ(now.live_bytes(), 0U);
  EXPECT_EQ(now.large, 0U);
}

}  // namespace
}  // namespace dwell::runtime
