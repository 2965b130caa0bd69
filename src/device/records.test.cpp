#include "device/records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include "device/reseat.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::device::records_test {
namespace {

using Numbers = std::vector<u32>;

// On CUDA lanes load and store these as quads of the record (make_child, load_ahead). Device code has no offsetof.
static_assert(offsetof(Spawned, parent) == spawn::kHeadLane * sizeof(Quad) && offsetof(Spawned, shared) == offsetof(Spawned, parent) + 12);
static_assert(offsetof(Spawned, behind) == spawn::kBehindLane * sizeof(Quad) + 4, "word 0 of its quad, behind the lap");
static_assert(offsetof(Control, idle) % sizeof(Quad) == 0 && sizeof(Counter) >= sizeof(Quad));

class Records : public testing::Test {
 protected:
  // A worker at this seat without records.
  std::unique_ptr<Worker> seated(u32 seat) {
    auto worker = std::make_unique<Worker>();
    worker->me = seat;
    return worker;
  }
  Numbers allocate(Worker& worker, u32 count) {
    Numbers numbers;
    for (u32 i = 0; i < count; ++i) {
      const u32 number = spawn::allocate(bench_.lease, &worker, 0);
      if (number == 0) break;
      numbers.push_back(number);
    }
    return numbers;
  }
  void release(Worker& worker, const Numbers& numbers) {
    for (const u32 number : numbers) spawn::release(bench_.lease, worker.spawn, number);
  }
  u32 fresh() const { return bench_.control().lists.fresh; }
  u32 all() const { return bench_.lease.spawned_records - 1; }
  static Numbers sorted(Numbers numbers) {
    std::ranges::sort(numbers);
    return numbers;
  }
  // All numbers from 1 to `last`.
  static Numbers up_to(u32 last) {
    Numbers numbers(last);
    std::iota(numbers.begin(), numbers.end(), 1U);
    return numbers;
  }

  test::Bench bench_{7, 3};
};

TEST_F(Records, EachIsAllocatedOnce) {
  const auto one = seated(0);
  const auto other = seated(1);
  Numbers numbers = allocate(*one, 100);
  for (const u32 number : allocate(*other, all())) numbers.push_back(number);
  for (const u32 number : allocate(*one, all())) numbers.push_back(number);
  EXPECT_EQ(sorted(numbers), up_to(all()));
  EXPECT_THAT(allocate(*other, 1), testing::IsEmpty());
}

TEST_F(Records, LeavingWorkerLeavesItsRecordsAtItsSeat) {
  const auto first = seated(1);
  const Numbers numbers = allocate(*first, spawn::kBatch);
  release(*first, numbers);
  const u32 touched = fresh();
  spawn::give_up(bench_.lease, first.get());
  EXPECT_EQ(first->spawn.free_count, 0U);
  const auto second = seated(1);
  EXPECT_EQ(sorted(allocate(*second, spawn::kBatch)), sorted(numbers));
  EXPECT_EQ(fresh(), touched);
  EXPECT_EQ(bench_.lease.seats[1].records, 0U);
}

TEST_F(Records, StayingWorkerReclaimsItsRecords) {
  const auto worker = seated(2);
  const Numbers numbers = allocate(*worker, 2 * spawn::kBatch);
  release(*worker, Numbers(numbers.begin(), numbers.begin() + 10));
  spawn::give_up(bench_.lease, worker.get());
  release(*worker, Numbers(numbers.begin() + 10, numbers.end()));
  spawn::give_up(bench_.lease, worker.get());  // the seat has some already: these go to the list
  EXPECT_EQ(sorted(allocate(*worker, 2 * spawn::kBatch)), sorted(numbers));
}

TEST_F(Records, ManyReleasesShareABatch) {
  const auto maker = seated(0);
  const auto ender = seated(1);
  const Numbers numbers = allocate(*maker, kFreeRecords + 1);
  release(*ender, numbers);
  EXPECT_EQ(ender->spawn.free_count, kFreeRecords + 1 - spawn::kBatch);
  maker->spawn.free_count = 0;  // as if they were in use
  const u32 touched = fresh();
  const Numbers again = allocate(*maker, spawn::kBatch);
  EXPECT_THAT(numbers, testing::IsSupersetOf(again));
  EXPECT_EQ(fresh(), touched) << "those that were used before come first";
}

TEST_F(Records, RecordsOfRemovedSeatsAreShared) {
  Numbers numbers;
  for (u32 seat = 0; seat < 3; ++seat) {
    const auto worker = seated(seat);
    const Numbers its = allocate(*worker, spawn::kBatch);
    release(*worker, its);
    spawn::give_up(bench_.lease, worker.get());
    numbers.insert(numbers.end(), its.begin(), its.end());
  }
  const u32 touched = fresh();
  bench_.lease.workers = 1;
  bench_.lease.former_workers = 3;
  reseat::lay_out(bench_.lease);
  const auto last = seated(0);
  EXPECT_EQ(sorted(allocate(*last, 3 * spawn::kBatch)), sorted(numbers));
  EXPECT_EQ(fresh(), touched);
}

}  // namespace
}  // namespace dwell::device::records_test
