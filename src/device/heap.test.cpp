#include "device/heap.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/heap_census.hpp"
#include "tests/unit/heap_fixture.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::device::heap_test {
namespace {

using HeapTest = HeapFixture;

TEST(HeapClassTest, EachSizeIsHeldByTheSmallestClassThatFits) {
  for (u32 bytes = 1; bytes <= heap::kLargestClass; ++bytes) {
    const u32 number = heap::class_of_size(bytes);
    ASSERT_GE(heap::size_of_class(number), bytes);
    ASSERT_TRUE(number == 0 || heap::size_of_class(number - 1) < bytes) << bytes;
  }
  EXPECT_EQ(heap::size_of_class(heap::kClasses - 1), heap::kLargestClass);
}

TEST(HeapClassTest, SlotsLieBehindTheMapsAndEndWithTheSlab) {
  for (u32 number = 0; number < heap::kClasses; ++number) {
    const heap::Class of = heap::class_at(number, heap::kCacheOnGpu, 4096);
    const u32 units = heap::kPageUnits << of.page_shift;
    EXPECT_EQ(of.first + of.slots * of.units, units);
    EXPECT_LE(heap::kMaps * 4 * of.words, of.first * heap::kUnit);
    EXPECT_GE(of.slots, 120U);
    EXPECT_LE(of.words, 128U);
    for (u32 slot = 0; slot < of.slots; ++slot) {
      ASSERT_EQ(heap::slot_at(of, of.first + slot * of.units), slot);
      ASSERT_EQ(heap::slot_at(of, of.first + slot * of.units + of.units - 1), slot);
    }
  }
}

TEST_F(HeapTest, SlotsAreAsAlignedAsTheirSize) {
  open(256, 1);
  for (u32 bytes : {16U, 48U, 64U, 128U, 192U, 256U, 1024U, 4096U, 8192U}) {
    const u32 unit = heap::allocate(contexts_.get(), bytes);
    ASSERT_NE(unit, 0U);
    EXPECT_EQ(unit * u64{heap::kUnit} % (bytes & ~(bytes - 1)), 0U) << bytes;
  }
}

TEST_F(HeapTest, FreesAreReusedAndCounted) {
  open(256, 1);
  std::vector<u32> units;
  for (u32 i = 0; i < 10'000; ++i) units.push_back(heap::allocate(contexts_.get(), 1 + i % 9000));
  EXPECT_EQ(allocated(), std::ranges::count_if(units, [](u32 unit) { return unit != 0; }));
  for (const u32 unit : units) EXPECT_EQ(heap::free(contexts_.get(), unit), status::ok);
  const heap::Census now = census();
  EXPECT_EQ(now.mistakes, 0U) << now.mistake;
  EXPECT_EQ(allocated(), 0U);
}

TEST_F(HeapTest, FreeOfWhatIsNotAllocatedIsRefused) {
  open(256, 1);
  const u32 unit = heap::allocate(contexts_.get(), 100);
  const u32 run = heap::allocate(contexts_.get(), 100'000);
  EXPECT_EQ(heap::free(contexts_.get(), unit + 1), status::bad_free);  // within a slot
  EXPECT_EQ(heap::free(contexts_.get(), run + 1), status::bad_free);
  EXPECT_EQ(heap::free(contexts_.get(), 1), status::bad_free);    // the heap's own tables
  EXPECT_EQ(heap::free(contexts_.get(), ~0U), status::bad_free);  // beyond the heap
  EXPECT_EQ(heap::free(contexts_.get(), unit), status::ok);
  EXPECT_EQ(heap::free(contexts_.get(), unit), status::bad_free);  // twice
  EXPECT_EQ(heap::free(contexts_.get(), run), status::ok);
  EXPECT_EQ(heap::free(contexts_.get(), run), status::bad_free);
  EXPECT_EQ(heap::free(contexts_.get(), 0), status::ok);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapTest, FullChecksFindWritesBehindTheEnd) {
  open(512, 1, 0, heap::kChecksWrites);
  Context* const context = contexts_.get();
  for (const u64 bytes : {1ULL, 8ULL, 16ULL, 24ULL, 100ULL, 4096ULL, 8180ULL, 8192ULL, 100'000ULL, 65'536ULL - 8, 65'536ULL}) {
    const u32 good = heap::allocate(context, bytes);
    const u32 bad = heap::allocate(context, bytes);
    ASSERT_NE(bad, 0U);
    std::memset(at(good), 0x11, bytes);
    std::memset(at(bad), 0x11, bytes + 1);
    EXPECT_EQ(heap::free(context, good), status::ok);
    EXPECT_EQ(context->status, status::ok) << bytes;
    EXPECT_EQ(heap::free(context, bad), status::ok);
    EXPECT_EQ(std::exchange(context->status, status::ok), status::bad_write) << bytes;
    EXPECT_EQ(heap::free(context, bad), status::bad_free);
  }
  EXPECT_EQ(allocated(), 0U);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapTest, FullChecksFindWritesAfterAFree) {
  open(256, 1, 0, heap::kChecksWrites);
  Context* const context = contexts_.get();
  const u32 unit = heap::allocate(context, 100);
  EXPECT_EQ(heap::free(context, unit), status::ok);
  EXPECT_EQ(at(unit)[50], 0xDD);
  at(unit)[50] = 1;
  u32 again = 0;
  for (u32 i = 0; i < 2000 && again != unit; ++i) again = heap::allocate(context, 100);
  EXPECT_EQ(again, unit);
  EXPECT_EQ(context->status, status::bad_write);
}

TEST_F(HeapTest, FullChecksKeepAlignment) {
  open(1024, 1, 0, heap::kChecksWrites);
  for (u64 bytes = 16; bytes <= 16384; bytes *= 2)
    for (u32 i = 0; i < 5; ++i) EXPECT_EQ(heap::allocate(contexts_.get(), bytes) * heap::kUnit % std::min<u64>(bytes, 4096), 0U) << bytes;
}

// Pages that one class has filled with the pattern serve another.
TEST_F(HeapTest, FullChecksForgetSlabsOfOtherClasses) {
  open(128, 1, 0, heap::kChecksWrites);
  Context* const context = contexts_.get();
  for (const u64 bytes : {40ULL, 3000ULL, 500ULL, 40ULL, 7000ULL}) {
    std::vector<u32> all;
    for (u32 unit = heap::allocate(context, bytes); unit != 0; unit = heap::allocate(context, bytes)) {
      std::memset(at(unit), 0x22, bytes);
      all.push_back(unit);
    }
    EXPECT_GT(all.size(), 100U);
    for (const u32 unit : all) EXPECT_EQ(heap::free(context, unit), status::ok);
    EXPECT_EQ(std::exchange(context->status, status::ok), status::ok) << bytes;
  }
}

TEST_F(HeapTest, MemoryOfOneClassServesAnotherOnceItIsEmpty) {
  open(64, 1);
  const auto fill = [&](u32 bytes) {
    std::vector<u32> units;
    for (u32 unit = heap::allocate(contexts_.get(), bytes); unit != 0; unit = heap::allocate(contexts_.get(), bytes)) units.push_back(unit);
    return units;
  };
  std::size_t first = 0;
  for (u32 round = 0; round < 3; ++round) {
    const std::vector<u32> small = fill(64);
    for (const u32 unit : small) ASSERT_EQ(heap::free(contexts_.get(), unit), status::ok);
    const std::vector<u32> large = fill(1000);
    for (const u32 unit : large) ASSERT_EQ(heap::free(contexts_.get(), unit), status::ok);
    if (round == 0) first = small.size();
    // A slab that a cache has slots of is kept.
    EXPECT_GE(small.size() * 64, first * 64 * 8 / 10);
    EXPECT_GE(large.size() * 1024, 30U * heap::kPageBytes) << round;
    EXPECT_EQ(census().mistakes, 0U);
  }
}

TEST_F(HeapTest, RunsOfPagesComeBack) {
  open(1024, 1);
  for (u32 round = 0; round < 20; ++round) {
    std::vector<u32> units;
    for (const u32 pages : {1U, 3U, 64U, 65U, 130U, 200U, 2U}) {
      const u32 unit = heap::allocate(contexts_.get(), u64{pages} * heap::kPageBytes - 5);
      ASSERT_NE(unit, 0U) << pages;
      std::memset(at(unit), static_cast<int>(pages), u64{pages} * heap::kPageBytes - 5);
      units.push_back(unit);
    }
    EXPECT_EQ(census().runs, units.size());
    for (const u32 unit : units) EXPECT_EQ(heap::free(contexts_.get(), unit), status::ok);
  }
  const heap::Census now = census();
  EXPECT_EQ(now.mistakes, 0U);
  EXPECT_EQ(now.used, 0U);
  EXPECT_EQ(heap::allocate(contexts_.get(), u64{1} << 40U), 0U);
}

// Owner tags: each allocation is filled with its owner's number and checked before it is freed; a third of them are freed by other threads.
TEST_F(HeapTest, NoSlotIsHandedOutTwice) {
  constexpr u32 kThreads = 4;
  constexpr u32 kSteps = kSanitized ? 40'000 : 200'000;
  open(1024, kThreads);
  struct Tagged {
    u32 unit;
    u32 words;
    u64 tag;
  };
  std::vector<Tagged> passed[kThreads];
  std::mutex locks[kThreads];
  std::atomic<u64> mistakes = 0;
  std::atomic<u64> failed = 0;
  const auto run = [&](u32 me) {
    std::minstd_rand random(me + 1);
    std::vector<Tagged> mine;
    const auto drop = [&](const Tagged& one) {
      for (u32 i = 0; i < one.words; ++i)
        if (reinterpret_cast<u64*>(at(one.unit))[i] != one.tag + i) ++mistakes;
      if (heap::free(&contexts_[me], one.unit) != status::ok) ++mistakes;
    };
    for (u32 step = 0; step < kSteps; ++step) {
      const u32 shape = static_cast<u32>(random());
      const u32 bytes = static_cast<u32>(shape % 64 == 0 ? 8 + random() % 200'000 : 8 + (random() % 8192 >> (shape % 9)));
      Tagged one{heap::allocate(&contexts_[me], bytes), bytes / 8, u64{me} << 40U | u64{step} << 12U};
      if (one.unit == 0) {
        ++failed;
      } else {
        for (u32 i = 0; i < one.words; ++i) reinterpret_cast<u64*>(at(one.unit))[i] = one.tag + i;
        const u32 other = (me + 1) % kThreads;
        const std::scoped_lock lock(locks[other]);
        // Bounded: the other thread may not run for a while.
        (shape % 3 == 0 && passed[other].size() < 1000 ? passed[other] : mine).push_back(one);
      }
      while (mine.size() > 300 || (one.unit == 0 && !mine.empty())) {
        std::swap(mine[random() % mine.size()], mine.back());
        drop(mine.back());
        mine.pop_back();
        if (one.unit == 0) break;
      }
      const std::scoped_lock lock(locks[me]);
      for (const Tagged& other : passed[me]) drop(other);
      passed[me].clear();
    }
    for (const Tagged& one : mine) drop(one);
  };
  std::vector<std::thread> threads;
  for (u32 me = 0; me < kThreads; ++me) threads.emplace_back(run, me);
  for (std::thread& thread : threads) thread.join();
  for (u32 me = 0; me < kThreads; ++me)
    for (const Tagged& one : passed[me]) EXPECT_EQ(heap::free(&contexts_[me], one.unit), status::ok);
  EXPECT_EQ(mistakes, 0U);
  EXPECT_LT(failed, kThreads * kSteps / 100);
  const heap::Census now = census();
  EXPECT_EQ(now.mistakes, 0U) << now.mistake;
  EXPECT_EQ(allocated(), 0U);
}

}  // namespace
}  // namespace dwell::device::heap_test
