#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <dwell/metrics.hpp>

#include "tests/unit/sample_metrics.hpp"

namespace dwell {
namespace {

// The text as parsed by a reader: the value of each series, and the lines that describe families. Fails on malformed lines.
struct Exposition {
  std::map<std::string, double> series;
  std::map<std::string, std::string> type, unit, help;
  std::vector<std::string> order;  // of the series
};

Exposition parsed(const std::string& text) {
  static const std::regex description("# (TYPE|UNIT|HELP) ([a-z_]+) (.+)");
  static const std::regex sample("([a-z_]+\\{([a-z]+=\"(\\\\[\\\\\"n]|[^\\\\\"\n])*\"(,(?=[a-z]))?)+\\}) ([0-9.e+-]+)");
  Exposition result;
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line) && line != "# EOF";) {
    if (std::regex_match(line, match, description)) {
      auto& described = match[1] == "TYPE" ? result.type : match[1] == "UNIT" ? result.unit : result.help;
      EXPECT_TRUE(described.emplace(match[2], match[3]).second) << line;
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_TRUE(result.series.emplace(match[1], std::stod(match[5])).second) << "twice: " << line;
      result.order.push_back(match[1]);
    } else {
      ADD_FAILURE() << "neither a description nor a sample: " << line;
    }
  }
  return result;
}

constexpr const char* kAxpy = R"(runtime="1",device="cuda:0",operator="axpy<float>")";

TEST(OpenMetrics, CountersOfOperatorsAndWorkersHaveTheirLabels) {
  Exposition text = parsed(to_openmetrics(test::sample_metrics()));
  const std::string axpy = kAxpy;
  EXPECT_EQ(text.type["dwell_operator_tasks"], "counter");
  EXPECT_EQ(text.series.at("dwell_operator_tasks_total{" + axpy + "}"), 6);
  EXPECT_EQ(text.series.at("dwell_operator_failures_total{" + axpy + "}"), 2);
  EXPECT_EQ(text.series.at("dwell_operator_waits_total{" + axpy + "}"), 4);
  EXPECT_EQ(text.series.at("dwell_operator_waited_seconds_total{" + axpy + "}"), 2);
  EXPECT_EQ(text.series.at("dwell_operator_sampled_tasks_total{" + axpy + "}"), 5);
  EXPECT_EQ(text.series.at("dwell_operator_sampled_bytes_total{" + axpy + "}"), 60'000);
  EXPECT_EQ(text.series.at("dwell_operator_version_tasks_total{" + axpy + R"(,version="1"})"), 6);
  EXPECT_EQ(text.series.at("dwell_operator_version_failures_total{" + axpy + R"(,version="1"})"), 2);
  EXPECT_EQ(text.series.at("dwell_operator_version_duration_seconds_count{" + axpy + R"(,version="1"})"), 6);
  EXPECT_EQ(text.series.at(R"(dwell_worker_tasks_total{runtime="1",device="cuda:0",worker="0"})"), 7);
  EXPECT_EQ(text.series.at(R"(dwell_worker_busy_seconds_total{runtime="1",device="cuda:0",worker="0"})"), 1.5);
  EXPECT_EQ(text.series.at(R"(dwell_worker_busy_seconds_total{runtime="1",device="cuda:0",worker="1"})"), 0);
  EXPECT_EQ(text.series.at(R"(dwell_hand_overs_total{runtime="1",device="cuda:0",tier="lto"})"), 1);
}

TEST(OpenMetrics, CountersOfAnOperatorOnlyGrowWhileVersionsAreFolded) {
  Metrics before = test::sample_metrics();
  before.operators = {test::timed_operator("axpy", 1, {10, 20}), test::timed_operator("axpy", 2, {30, 40, 50})};
  Metrics after = before;
  after.operators = {test::timed_operator("axpy", 0, {10, 20}), test::timed_operator("axpy", 2, {30, 40, 50, 60}),
                     test::timed_operator("axpy", 3, {70})};
  const Exposition earlier = parsed(to_openmetrics(before));
  const Exposition later = parsed(to_openmetrics(after));
  const auto counts = [](const std::string& series) {
    return series.starts_with("dwell_operator_") && series.find("_bucket") == std::string::npos;
  };
  const std::string axpy = R"({runtime="1",device="cuda:0",operator="axpy")";
  EXPECT_EQ(earlier.series.at("dwell_operator_tasks_total" + axpy + "}"), 5);
  EXPECT_EQ(later.series.at("dwell_operator_tasks_total" + axpy + "}"), 7);
  EXPECT_EQ(later.series.at("dwell_operator_duration_seconds_count" + axpy + "}"), 7);
  EXPECT_EQ(later.series.at("dwell_operator_version_tasks_total" + axpy + R"(,version="2"})"), 4);
  for (const auto& [series, value] : later.series) {
    if (!counts(series)) continue;
    EXPECT_EQ(series.find(R"(version="0")"), std::string::npos) << series;
    if (const auto same = earlier.series.find(series); same != earlier.series.end()) {
      EXPECT_GE(value, same->second) << series;
      EXPECT_LE(value - same->second, 2) << series << ": more than has run";
    }
  }
}

TEST(OpenMetrics, OperatorWithWaitsOnlyIsShown) {
  Metrics metrics = test::sample_metrics();
  metrics.operators[0].sampled = 0;
  metrics.operators[0].sampled_bytes = 0;
  const Exposition text = parsed(to_openmetrics(metrics));
  EXPECT_EQ(text.series.at("dwell_operator_waits_total{" + std::string(kAxpy) + "}"), 4);
  metrics.operators[0].waits = 0;
  EXPECT_FALSE(parsed(to_openmetrics(metrics)).series.contains("dwell_operator_waits_total{" + std::string(kAxpy) + "}"));
}

TEST(OpenMetrics, FamiliesAreDescribed) {
  const Exposition text = parsed(to_openmetrics(test::sample_metrics()));
  std::set<std::string> described;
  for (const auto& [name, type] : text.type) {
    EXPECT_TRUE(text.help.contains(name)) << name;
    described.insert(type == "counter" ? name + "_total" : name);
    if (type == "histogram") described.merge(std::set{name + "_bucket", name + "_count", name + "_sum"});
  }
  for (const auto& [series, value] : text.series) EXPECT_TRUE(described.contains(series.substr(0, series.find('{')))) << series;
  for (const auto& [name, unit] : text.unit) EXPECT_TRUE(name.ends_with("_" + unit)) << name;
  EXPECT_EQ(text.unit.at("dwell_operator_duration_seconds"), "seconds");
  EXPECT_EQ(text.unit.at("dwell_buffer_bytes"), "bytes");
  EXPECT_EQ(text.unit.at("dwell_heap_live_bytes"), "bytes");
  EXPECT_EQ(text.type.at("dwell_in_flight_slots"), "gauge");
}

TEST(OpenMetrics, BucketsAreCumulativeWithInclusiveEnds) {
  const Exposition text = parsed(to_openmetrics(test::sample_metrics()));
  const std::string axpy = kAxpy;
  const auto bucket = [&](const std::string& le) {
    return text.series.at("dwell_operator_duration_seconds_bucket{" + axpy + ",le=\"" + le + "\"}");
  };
  EXPECT_EQ(bucket("6.3e-08"), 2) << "5 and 63 ns";
  EXPECT_EQ(bucket("1.27e-07"), 4) << "64 and 127 ns, too";
  EXPECT_EQ(bucket("2.55e-07"), 5);
  EXPECT_EQ(bucket("0.536870911"), 5);
  EXPECT_EQ(bucket("1.073741823"), 6);
  EXPECT_EQ(bucket("+Inf"), 6);
  EXPECT_EQ(text.series.at("dwell_operator_duration_seconds_count{" + axpy + "}"), 6);
  EXPECT_DOUBLE_EQ(text.series.at("dwell_operator_duration_seconds_sum{" + axpy + "}"), 1.000000387);

  double last_end = 0, last_count = 0;
  std::size_t buckets = 0;
  for (const std::string& series : text.order) {
    const auto le = series.find(",le=\"");
    if (le == std::string::npos || !series.starts_with("dwell_operator_duration_seconds_bucket{" + axpy)) continue;
    const std::string end = series.substr(le + 5, series.find('"', le + 5) - le - 5);
    const double number = end == "+Inf" ? std::numeric_limits<double>::infinity() : std::stod(end);
    EXPECT_GT(number, last_end);
    EXPECT_GE(text.series.at(series), last_count);
    last_end = number;
    last_count = text.series.at(series);
    ++buckets;
  }
  EXPECT_EQ(last_end, std::numeric_limits<double>::infinity());
  EXPECT_EQ(buckets, 32U) << "one for each power of two from 64 ns to 69 s, and the last";
}

TEST(OpenMetrics, TimesBeyondTheLastBucketAreCounted) {
  const Exposition text = parsed(to_openmetrics(test::sample_metrics()));
  const std::string slow = R"(dwell_operator_duration_seconds_bucket{runtime="1",device="cuda:0",operator="slow",le=")";
  EXPECT_EQ(text.series.at(slow + "68.719476735\"}"), 0);
  EXPECT_EQ(text.series.at(slow + "+Inf\"}"), 1);
}

TEST(OpenMetrics, LabelsAreEscaped) {
  const Exposition text = parsed(to_openmetrics(test::sample_metrics()));
  const std::string never = R"({runtime="1",device="cuda:0",operator="never \"run\"\\\n"})";
  EXPECT_EQ(text.series.at("dwell_operator_tasks_total" + never), 0);
  EXPECT_FALSE(text.series.contains("dwell_operator_duration_seconds_count" + never)) << "nothing was timed";
}

TEST(OpenMetrics, UntimedOperatorsHaveNoTimes) {
  Metrics metrics;
  metrics.metering = Metering::counts;
  metrics.operators.resize(1);
  metrics.workers.resize(1);
  Exposition text = parsed(to_openmetrics(metrics));
  EXPECT_FALSE(text.type.contains("dwell_operator_duration_seconds"));
  EXPECT_FALSE(text.type.contains("dwell_worker_busy_seconds"));
  EXPECT_FALSE(text.type.contains("dwell_worker_idle_seconds"));
  metrics.metering = Metering::times;
  text = parsed(to_openmetrics(metrics));
  EXPECT_TRUE(text.type.contains("dwell_worker_busy_seconds"));
  EXPECT_TRUE(text.type.contains("dwell_worker_idle_seconds"));
}

TEST(OpenMetrics, IntegersHaveNoFraction) {
  EXPECT_NE(to_openmetrics(test::sample_metrics()).find("dwell_submitted_tasks_total{runtime=\"1\",device=\"cuda:0\"} 100000\n"),
            std::string::npos);
}

TEST(OpenMetrics, LabelsAreUtf8WithoutControlCharacters) {
  Metrics metrics = test::sample_metrics();
  metrics.operators[0].name = "\x1b[2J\xF6\r";
  const std::string text = to_openmetrics(metrics);
  EXPECT_NE(text.find(R"(operator="?[2J??")"), std::string::npos) << text;
}

}  // namespace
}  // namespace dwell
