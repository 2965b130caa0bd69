#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <dwell/log.hpp>
#include <dwell/metric_rows.hpp>

#include "base/json_text.hpp"

namespace dwell {

namespace {

std::string_view text_of(Metering metering) {
  switch (metering) {
    case Metering::off: return "off";
    case Metering::counts: return "counts";
    case Metering::times: return "times";
  }
  return "unknown";
}

template <class Of, std::size_t count>
void append_rows(JsonText& json, const Of& of, const MetricRow<Of> (&rows)[count]) {
  for (const MetricRow<Of>& row : rows) json.field(row.name, of.*row.value);
}

void append(JsonText& json, const OperatorMetrics& op) {
  // Interpolation in a bucket may go past what is known to be the end.
  const auto quantile = [&](double q) {
    return std::min(std::max(op.times.quantile(q), static_cast<double>(op.min_ns)), static_cast<double>(op.max_ns));
  };
  json.begin_object();
  json.field("name", op.name);
  json.field("version", op.version);
  append_rows(json, op, kOperatorRows);
  json.field("mean_ns", op.mean_ns());
  json.field("p50_ns", quantile(0.5));
  json.field("p90_ns", quantile(0.9));
  json.field("p99_ns", quantile(0.99));
  json.field("mean_wait_ns", op.mean_wait_ns());
  json.key("times");
  json.begin_array();
  for (std::size_t bucket = 0; bucket < TimeHistogram::kBuckets; ++bucket) {
    if (op.times.count[bucket] == 0) continue;
    json.begin_object();
    json.field("least_ns", TimeHistogram::least_of(bucket));
    json.field("count", op.times.count[bucket]);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

// Lines of the log that found no room, by the name of their severity.
void append_dropped(JsonText& json, const std::array<std::uint64_t, 5>& dropped) {
  json.key("log_dropped");
  json.begin_object();
  for (std::size_t i = 0; i < dropped.size(); ++i) json.field(text_of(static_cast<level>(i)), dropped[i]);
  json.end_object();
}

void append(JsonText& json, const WorkerMetrics& worker) {
  json.begin_object();
  append_rows(json, worker, kWorkerRows);
  append_dropped(json, worker.log_dropped);
  json.end_object();
}

template <typename Parts>
void append(JsonText& json, std::string_view name, const Parts& parts) {
  json.key(name);
  json.begin_array();
  for (const auto& part : parts) append(json, part);
  json.end_array();
}

}  // namespace

std::string to_json(const Metrics& metrics) {
  JsonText json;
  json.begin_object();
  json.field("at_ns", std::chrono::nanoseconds(metrics.at.time_since_epoch()).count());
  json.field("runtime", metrics.runtime);
  json.field("generation", metrics.generation);
  json.field("device", metrics.device);
  json.field("metering", text_of(metrics.metering));
  json.field("clock_error_ns", metrics.clock_error_ns);
  append(json, "operators", metrics.operators);
  append(json, "totals", metrics.totals());
  append(json, "workers", metrics.workers);
  append_rows(json, metrics, kMetricRows);
  append_dropped(json, metrics.log_dropped);
  json.end_object();
  return json.take();
}

}  // namespace dwell
