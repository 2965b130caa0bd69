#include <dwell/metrics.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <dwell/error.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/sample_metrics.hpp"

namespace dwell {
namespace {

using test::timed_operator;

TimeHistogram histogram_of(const std::vector<std::uint64_t>& times) {
  TimeHistogram histogram;
  for (const std::uint64_t ns : times) ++histogram.count[TimeHistogram::bucket_of(ns)];
  return histogram;
}

TEST(TimeHistogram, BucketsFollowEachOtherWithoutGaps) {
  for (std::size_t bucket = 0; bucket < TimeHistogram::kBuckets; ++bucket) {
    EXPECT_EQ(TimeHistogram::bucket_of(TimeHistogram::least_of(bucket)), bucket);
    if (bucket > 0) {
      EXPECT_EQ(TimeHistogram::bucket_of(TimeHistogram::least_of(bucket) - 1), bucket - 1);
    }
  }
  EXPECT_EQ(TimeHistogram::bucket_of(~0ULL), TimeHistogram::kBuckets - 1);
}

TEST(TimeHistogram, EmptyHistogramHasNoQuantile) {
  EXPECT_EQ(TimeHistogram().total(), 0U);
  EXPECT_EQ(TimeHistogram().quantile(0.5), 0);
}

TEST(TimeHistogram, QuantilesAreAccurateToABucket) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> durations(8, 2);
  std::vector<std::uint64_t> times(10'000);
  for (std::uint64_t& ns : times) ns = static_cast<std::uint64_t>(durations(random));
  const TimeHistogram histogram = histogram_of(times);
  EXPECT_EQ(histogram.total(), times.size());
  std::sort(times.begin(), times.end());
  for (const double q : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(times.size())));
    const std::size_t bucket = TimeHistogram::bucket_of(times[rank - 1]);
    EXPECT_GE(histogram.quantile(q), static_cast<double>(TimeHistogram::least_of(bucket))) << q;
    EXPECT_LE(histogram.quantile(q), static_cast<double>(TimeHistogram::least_of(bucket + 1))) << q;
  }
}

TEST(TimeHistogram, QuantilesAreInterpolatedInTheirBucket) {
  const TimeHistogram histogram = histogram_of({1024, 1024, 1024, 1024});  // of 1024 to 1279
  EXPECT_DOUBLE_EQ(histogram.quantile(0), 1024);
  EXPECT_DOUBLE_EQ(histogram.quantile(0.5), 1152);
  EXPECT_DOUBLE_EQ(histogram.quantile(1), 1280);
  EXPECT_DOUBLE_EQ(histogram.quantile(7), 1280);
}

TEST(TimeHistogram, TheLastBucketHasNoEnd) {
  EXPECT_EQ(histogram_of({~0ULL}).quantile(1), static_cast<double>(TimeHistogram::least_of(TimeHistogram::kBuckets - 1)));
}

TEST(MetricsDifference, DifferenceCountsTheInterval) {
  Metrics earlier;
  earlier.submitted = 10;
  earlier.parks = 2;
  earlier.pauses = 1;
  earlier.batch_tasks = 4;
  earlier.in_flight_slots = 5;
  earlier.workers = {
      {.tasks = 3, .busy_ns = 100, .idle_ns = 10, .fetched = 1, .queued = 2, .stolen = 5, .spawned = 1, .leases = 1, .parks = 1}};
  earlier.operators = {timed_operator("add", 1, {100, 200})};
  Metrics later = earlier;
  later.at += std::chrono::seconds(1);
  later.submitted = 25;
  later.parks = 3;
  later.pauses = 5;
  later.in_flight_slots = 1;
  later.metering = Metering::times;
  later.workers = {
      {.tasks = 7, .busy_ns = 400, .idle_ns = 70, .fetched = 2, .queued = 4, .stolen = 9, .spawned = 4, .leases = 6, .parks = 3},
      {.tasks = 5}};
  later.operators = {timed_operator("add", 1, {100, 200, 150, 160}), timed_operator("add", 2, {50})};
  later.operators[0].failures = 1;

  const Metrics interval = difference(later, earlier);
  EXPECT_EQ(interval.at, later.at);
  EXPECT_EQ(interval.submitted, 15U);
  EXPECT_EQ(interval.parks, 1U);
  EXPECT_EQ(interval.pauses, 4U);
  EXPECT_EQ(interval.batch_tasks, 0U);
  EXPECT_EQ(interval.in_flight_slots, 1U) << "is of the later snapshot";
  EXPECT_EQ(interval.metering, Metering::times);
  ASSERT_EQ(interval.workers.size(), 2U);
  EXPECT_EQ(interval.workers[0].tasks, 4U);
  EXPECT_EQ(interval.workers[0].busy_ns, 300U);
  EXPECT_EQ(interval.workers[0].fetched, 1U);
  EXPECT_EQ(interval.workers[0].queued, 2U);
  EXPECT_EQ(interval.workers[0].spawned, 3U);
  EXPECT_EQ(interval.workers[0].leases, 5U);
  EXPECT_EQ(interval.workers[0].idle_ns, 60U);
  EXPECT_EQ(interval.workers[0].stolen, 4U);
  EXPECT_EQ(interval.workers[0].parks, 2U);
  EXPECT_EQ(interval.workers[1].tasks, 5U);
  ASSERT_EQ(interval.operators.size(), 2U);
  EXPECT_EQ(interval.operators[0].tasks, 2U);
  EXPECT_EQ(interval.operators[0].failures, 1U);
  EXPECT_DOUBLE_EQ(interval.operators[0].mean_ns(), 155);
  EXPECT_EQ(interval.operators[0].times.total(), 2U);
  EXPECT_EQ(interval.operators[1].tasks, 1U);
}

TEST(MetricsTotals, AddUpAllVersionsOfAnOperator) {
  Metrics metrics;
  metrics.operators = {timed_operator("add", 0, {100}), timed_operator("add", 3, {}), timed_operator("add", 4, {50, 300}),
                       timed_operator("mul", 1, {7})};
  metrics.operators[0].longest_wait_ns = 9;
  metrics.operators[1].tasks = 5;
  metrics.operators[2].failures = 2;
  metrics.operators[2].waits = 3;
  const std::vector<OperatorMetrics> totals = metrics.totals();
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].name, "add");
  EXPECT_EQ(totals[0].version, 0U);
  EXPECT_EQ(totals[0].tasks, 8U);
  EXPECT_EQ(totals[0].failures, 2U);
  EXPECT_EQ(totals[0].timed, 3U);
  EXPECT_EQ(totals[0].total_ns, 450U);
  EXPECT_EQ(totals[0].min_ns, 50U);
  EXPECT_EQ(totals[0].max_ns, 300U);
  EXPECT_EQ(totals[0].times.total(), 3U);
  EXPECT_EQ(totals[0].waits, 3U);
  EXPECT_EQ(totals[0].longest_wait_ns, 9U);
  EXPECT_EQ(totals[1].name, "mul");
  EXPECT_EQ(totals[1].version, 0U);
  EXPECT_EQ(totals[1].min_ns, 7U);
}

TEST(MetricsDifference, DifferenceHasSamplesOfTheInterval) {
  Metrics earlier, later;
  earlier.operators = {timed_operator("add", 1, {10})};
  earlier.operators[0].waits = 2;
  earlier.operators[0].waited_ns = 100;
  earlier.operators[0].sampled = 3;
  earlier.operators[0].sampled_bytes = 300;
  later = earlier;
  later.operators[0].waits = 4;
  later.operators[0].waited_ns = 700;
  later.operators[0].longest_wait_ns = 400;
  later.operators[0].sampled = 5;
  later.operators[0].sampled_bytes = 1300;
  const OperatorMetrics op = difference(later, earlier).operators[0];
  EXPECT_EQ(op.waits, 2U);
  EXPECT_DOUBLE_EQ(op.mean_wait_ns(), 300);
  EXPECT_EQ(op.longest_wait_ns, 400U);
  EXPECT_EQ(op.sampled, 2U);
  EXPECT_DOUBLE_EQ(op.mean_bytes(), 500);
}

TEST(MetricsDifference, DifferenceHasExtremesToABucket) {
  Metrics earlier, later;
  earlier.operators = {timed_operator("add", 1, {10, 9000})};
  later.operators = {timed_operator("add", 1, {10, 9000, 1030, 2050})};
  OperatorMetrics op = difference(later, earlier).operators[0];
  EXPECT_EQ(op.min_ns, 1024U);
  EXPECT_EQ(op.max_ns, 2559U);

  later.operators = {timed_operator("add", 1, {10, 9000, 11, 8999})};
  op = difference(later, earlier).operators[0];
  EXPECT_EQ(op.min_ns, 10U);
  EXPECT_EQ(op.max_ns, 9000U) << "no time can be longer than the longest of all";

  op = difference(earlier, earlier).operators[0];
  EXPECT_EQ(op.min_ns, 0U);
  EXPECT_EQ(op.max_ns, 0U);
}

TEST(MetricsDifference, RemovedVersionsArePartOfVersionZero) {
  Metrics earlier, later;
  earlier.operators = {timed_operator("add", 1, {5, 5, 5}), timed_operator("add", 2, {7}), timed_operator("mul", 1, {9})};
  later.operators = {timed_operator("add", 0, {5, 5, 5, 6}), timed_operator("add", 2, {7, 8}), timed_operator("mul", 1, {9})};
  const Metrics interval = difference(later, earlier);
  EXPECT_EQ(interval.operators[0].tasks, 1U);
  EXPECT_EQ(interval.operators[1].tasks, 1U);
  EXPECT_EQ(interval.operators[2].tasks, 0U);
}

TEST(MetricsDifference, RefusesIncomparableSnapshots) {
  Metrics earlier, later;
  later.at = earlier.at + std::chrono::seconds(1);
  EXPECT_NO_THROW(static_cast<void>(difference(later, earlier)));
  DWELL_EXPECT_ERROR(static_cast<void>(difference(earlier, later)), errc::invalid_argument, testing::HasSubstr("the later one first"));
  Metrics rebuilt = later;
  ++rebuilt.generation;
  DWELL_EXPECT_ERROR(static_cast<void>(difference(rebuilt, earlier)), errc::invalid_argument, testing::HasSubstr("both of one"));
  Metrics other = later;
  ++other.runtime;
  DWELL_EXPECT_ERROR(static_cast<void>(difference(other, earlier)), errc::invalid_argument, testing::HasSubstr("both of one"));
}

}  // namespace
}  // namespace dwell
