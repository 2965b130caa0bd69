// Counts of a worker's stays on the device.
#include "device/observe.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/bench.hpp"

namespace dwell::device::observe_test {
namespace {

class ObserveTest : public testing::Test {
 protected:
  ObserveTest() {
    bench_.lease.counts = 1;
    bench_.report.launched = bench_.lease.number;
    bench_.set_up(worker_.get(), 0);
    worker_->observed.begun = 0;
    worker_->way = {};
  }

  // Simulates a stay of `ns` in which the worker was busy for `busy`, and leaves.
  void stay(u64 ns, u64 busy) {
    observe::take_seat(bench_.lease, worker_.get());
    worker_->observed.stay -= ns;
    count().busy_ns += busy;
    observe::leave_seat(bench_.lease, worker_.get());
  }
  WorkerCount& count() { return bench_.lease.worker_counts[0]; }

  test::Bench bench_;
  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

TEST_F(ObserveTest, LeavingWithoutANextLeaseCountsAsPark) {
  worker_->way.may_free = 1;
  stay(1000, 0);
  EXPECT_EQ(count().parks, 1U);
  bench_.report.launched = bench_.lease.number + 1;
  stay(1000, 0);
  EXPECT_EQ(count().parks, 1U) << "its thread goes on in the next lease";
  bench_.report.launched = bench_.lease.number;
  worker_->way.may_free = 0;
  stay(1000, 0);
  EXPECT_EQ(count().parks, 1U) << "it keeps the seat, since nobody takes it";
  EXPECT_EQ(count().leases, 3U);
  bench_.lease.counts = 0;
  worker_->way.may_free = 1;
  stay(1000, 0);
  EXPECT_EQ(count().parks, 1U) << "nothing is counted";
}

TEST_F(ObserveTest, IdleTimeIsStayMinusBusy) {
  constexpr u64 kSlack = 1'000'000'000;  // between two clock readings
  constexpr u64 kStay = 100 * kSlack;
  stay(kStay, 0);
  EXPECT_EQ(count().idle_ns, 0U) << "without times nobody knows";
  bench_.lease.timed = timed::times;
  stay(kStay, kStay / 4);
  EXPECT_GE(count().idle_ns, kStay / 4 * 3);
  EXPECT_LE(count().idle_ns, kStay / 4 * 3 + kSlack);
  const u64 before = count().idle_ns;
  stay(kStay, 2 * kStay);
  EXPECT_EQ(count().idle_ns, before) << "no less than nothing";
  stay(kStay, kStay / 2);
  EXPECT_GE(count().idle_ns - before, kStay / 2);
  EXPECT_LE(count().idle_ns - before, kStay / 2 + kSlack);
}

}  // namespace
}  // namespace dwell::device::observe_test
