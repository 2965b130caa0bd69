#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <dwell/metrics.hpp>

#include "tests/unit/sample_metrics.hpp"

namespace dwell {
namespace {

using nlohmann::json;

TEST(MetricsJson, NamesMatchTheStructure) {
  const json object = json::parse(to_json(test::sample_metrics()));
  EXPECT_EQ(object["at_ns"], 5'000'000'000);
  EXPECT_EQ(object["runtime"], 1);
  EXPECT_EQ(object["generation"], 2);
  EXPECT_EQ(object["device"], "cuda:0");
  EXPECT_EQ(object["metering"], "times");
  EXPECT_EQ(object["submitted"], 100'000);
  EXPECT_EQ(object["in_flight_slots"], 12);
  EXPECT_EQ(object["ring_slots"], 4096);
  EXPECT_EQ(object["queued"], 6);
  EXPECT_EQ(object["credit_waits"], 8);
  EXPECT_EQ(object["leases"], 9);
  EXPECT_EQ(object["parks"], 3);
  EXPECT_EQ(object["pauses"], 21);
  EXPECT_EQ(object["images"], 5);
  EXPECT_EQ(object["hand_overs_relocatable"], 4);
  EXPECT_EQ(object["hand_overs_lto"], 1);
  EXPECT_EQ(object["tasks_relocatable"], 90'000);
  EXPECT_EQ(object["tasks_lto"], 9'000);
  EXPECT_EQ(object["last_hand_over_ns"], 171'000);
  EXPECT_EQ(object["compiled"], 10);
  EXPECT_EQ(object["linked"], 11);
  EXPECT_EQ(object["cache_hits"], 13);
  EXPECT_EQ(object["last_cache_hit_ns"], 200'000);
  EXPECT_EQ(object["arena_bytes"], 1 << 20);
  EXPECT_EQ(object["buffer_bytes"], 4000);
  EXPECT_EQ(object["heap_collections"], 6);
  EXPECT_EQ(object["buffers"], 2);
  EXPECT_EQ(object["graph_launches"], 14);
  EXPECT_EQ(object["batch_flushes"], 15);
  EXPECT_EQ(object["batch_operations"], 17);
  EXPECT_EQ(object["batch_tasks"], 16);
  EXPECT_EQ(object["workers"][0], json({{"tasks", 7},
                                        {"busy_ns", 1'500'000'000},
                                        {"idle_ns", 250'000'000},
                                        {"present_ns", 0},
                                        {"fetched", 4},
                                        {"queued", 3},
                                        {"stolen", 1},
                                        {"spawned", 2},
                                        {"leases", 9},
                                        {"parks", 5},
                                        {"log_dropped", {{"trace", 0}, {"debug", 0}, {"info", 0}, {"warning", 0}, {"error", 0}}}}));
  EXPECT_EQ(object["log_lines"], 18);
  EXPECT_EQ(object["log_limited"], 19);
  EXPECT_EQ(object["log_dropped"]["warning"], 20);
  EXPECT_EQ(object["workers"].size(), 2U);
}

TEST(MetricsJson, OperatorsHaveTheirTimes) {
  const Metrics metrics = test::sample_metrics();
  const json op = json::parse(to_json(metrics))["operators"][0];
  EXPECT_EQ(op["name"], "axpy<float>");
  EXPECT_EQ(op["version"], 1);
  EXPECT_EQ(op["tasks"], 6);
  EXPECT_EQ(op["failures"], 2);
  EXPECT_EQ(op["timed"], 6);
  EXPECT_EQ(op["total_ns"], 1'000'000'387);
  EXPECT_EQ(op["min_ns"], 5);
  EXPECT_EQ(op["max_ns"], 1'000'000'000);
  EXPECT_EQ(op["mean_ns"], metrics.operators[0].mean_ns());
  EXPECT_EQ(op["waits"], 4);
  EXPECT_EQ(op["mean_wait_ns"], 500'000'000);
  EXPECT_EQ(op["longest_wait_ns"], 1'500'000'000);
  EXPECT_EQ(op["sampled"], 5);
  EXPECT_EQ(op["sampled_bytes"], 60'000);
  EXPECT_EQ(op["p50_ns"], metrics.operators[0].times.quantile(0.5));
  EXPECT_EQ(op["p90_ns"], metrics.operators[0].times.quantile(0.9));
  EXPECT_EQ(op["p99_ns"], 1'000'000'000) << "no quantile exceeds the longest time";
}

TEST(MetricsJson, TotalsAreOfAllVersions) {
  Metrics metrics = test::sample_metrics();
  metrics.operators.insert(metrics.operators.begin() + 1, test::timed_operator("axpy<float>", 2, {7, 8}));
  const json object = json::parse(to_json(metrics));
  EXPECT_EQ(object["operators"].size(), 4U);
  ASSERT_EQ(object["totals"].size(), 3U);
  EXPECT_EQ(object["totals"][0]["name"], "axpy<float>");
  EXPECT_EQ(object["totals"][0]["version"], 0);
  EXPECT_EQ(object["totals"][0]["tasks"], 8);
  EXPECT_EQ(object["totals"][0]["failures"], 2);
}

TEST(MetricsJson, EmptyBucketsAreOmitted) {
  const Metrics metrics = test::sample_metrics();
  const json operators = json::parse(to_json(metrics))["operators"];
  TimeHistogram read;
  for (const json& bucket : operators[0]["times"]) {
    EXPECT_NE(bucket["count"], 0);
    read.count[TimeHistogram::bucket_of(bucket["least_ns"])] += bucket["count"].get<std::uint64_t>();
  }
  EXPECT_EQ(read.count, metrics.operators[0].times.count);
  EXPECT_EQ(operators[1]["name"], "never \"run\"\\\n");
  EXPECT_TRUE(operators[1]["times"].empty());
}

}  // namespace
}  // namespace dwell
