#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

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

void append(JsonText& json, const OperatorMetrics& op) {
  // Interpolation in a bucket may go past what is known to be the end.
  const auto quantile = [&](double q) {
    return std::min(std::max(op.times.quantile(q), static_cast<double>(op.min_ns)), static_cast<double>(op.max_ns));
  };
  json.begin_object();
  json.field("name", op.name);
  json.field("version", op.version);
  json.field("tasks", op.tasks);
  json.field("failures", op.failures);
  json.field("timed", op.timed);
  json.field("total_ns", op.total_ns);
  json.field("min_ns", op.min_ns);
  json.field("max_ns", op.max_ns);
  json.field("mean_ns", op.mean_ns());
  json.field("p50_ns", quantile(0.5));
  json.field("p90_ns", quantile(0.9));
  json.field("p99_ns", quantile(0.99));
  json.field("waits", op.waits);
  json.field("waited_ns", op.waited_ns);
  json.field("longest_wait_ns", op.longest_wait_ns);
  json.field("mean_wait_ns", op.mean_wait_ns());
  json.field("sampled", op.sampled);
  json.field("sampled_bytes", op.sampled_bytes);
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
  json.field("tasks", worker.tasks);
  json.field("busy_ns", worker.busy_ns);
  json.field("idle_ns", worker.idle_ns);
  json.field("present_ns", worker.present_ns);
  json.field("fetched", worker.fetched);
  json.field("queued", worker.queued);
  json.field("stolen", worker.stolen);
  json.field("spawned", worker.spawned);
  json.field("leases", worker.leases);
  json.field("parks", worker.parks);
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
  json.field("submitted", metrics.submitted);
  json.field("in_flight_slots", metrics.in_flight_slots);
  json.field("ring_slots", metrics.ring_slots);
  json.field("queued", metrics.queued);
  json.field("credit_waits", metrics.credit_waits);
  json.field("leases", metrics.leases);
  json.field("parks", metrics.parks);
  json.field("pauses", metrics.pauses);
  json.field("images", metrics.images);
  json.field("hand_overs_relocatable", metrics.hand_overs_relocatable);
  json.field("hand_overs_lto", metrics.hand_overs_lto);
  json.field("compiled", metrics.compiled);
  json.field("linked", metrics.linked);
  json.field("cache_hits", metrics.cache_hits);
  json.field("arena_bytes", metrics.arena_bytes);
  json.field("buffer_bytes", metrics.buffer_bytes);
  json.field("buffers", metrics.buffers);
  json.field("log_lines", metrics.log_lines);
  json.field("log_limited", metrics.log_limited);
  append_dropped(json, metrics.log_dropped);
  json.field("graph_launches", metrics.graph_launches);
  json.field("batch_flushes", metrics.batch_flushes);
  json.field("batch_operations", metrics.batch_operations);
  json.field("batch_tasks", metrics.batch_tasks);
  json.end_object();
  return json.take();
}

}  // namespace dwell
