// A snapshot with values in all parts, for tests of the metrics formats.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <dwell/metrics.hpp>

namespace dwell::test {

inline OperatorMetrics timed_operator(std::string name, std::uint32_t version, const std::vector<std::uint64_t>& times) {
  OperatorMetrics op;
  op.name = std::move(name);
  op.version = version;
  op.tasks = op.timed = times.size();
  if (times.empty()) return op;
  op.min_ns = *std::min_element(times.begin(), times.end());
  op.max_ns = *std::max_element(times.begin(), times.end());
  for (const std::uint64_t ns : times) {
    op.total_ns += ns;
    ++op.times.count[TimeHistogram::bucket_of(ns)];
  }
  return op;
}

inline Metrics sample_metrics() {
  Metrics metrics;
  metrics.at = std::chrono::steady_clock::time_point(std::chrono::seconds(5));
  metrics.runtime = 1;
  metrics.generation = 2;
  metrics.device = "cuda:0";
  metrics.metering = Metering::times;
  metrics.operators = {timed_operator("axpy<float>", 1, {5, 63, 64, 127, 128, 1'000'000'000}), timed_operator("never \"run\"\\\n", 3, {}),
                       timed_operator("slow", 1, {100'000'000'000})};
  metrics.operators[0].failures = 2;
  metrics.operators[0].waits = 4;
  metrics.operators[0].waited_ns = 2'000'000'000;
  metrics.operators[0].longest_wait_ns = 1'500'000'000;
  metrics.operators[0].sampled = 5;
  metrics.operators[0].sampled_bytes = 60'000;
  metrics.clock_error_ns = 700;
  metrics.workers = {{.tasks = 7,
                      .busy_ns = 1'500'000'000,
                      .idle_ns = 250'000'000,
                      .fetched = 4,
                      .queued = 3,
                      .stolen = 1,
                      .spawned = 2,
                      .leases = 9,
                      .parks = 5},
                     {}};
  metrics.submitted = 100'000;
  metrics.in_flight_slots = 12;
  metrics.ring_slots = 4096;
  metrics.queued = 6;
  metrics.credit_waits = 8;
  metrics.leases = 9;
  metrics.parks = 3;
  metrics.pauses = 21;
  metrics.images = 5;
  metrics.hand_overs_relocatable = 4;
  metrics.hand_overs_lto = 1;
  metrics.tasks_relocatable = 90'000;
  metrics.tasks_lto = 9'000;
  metrics.last_hand_over_ns = 171'000;
  metrics.compiled = 10;
  metrics.linked = 11;
  metrics.cache_hits = 13;
  metrics.last_cache_hit_ns = 200'000;
  metrics.arena_bytes = 1 << 20;
  metrics.buffer_bytes = 4000;
  metrics.heap_bytes = 3 << 20;
  metrics.heap_mapped_bytes = 4 << 20;
  metrics.heap_live_bytes = 2 << 20;
  metrics.heap_collections = 6;
  metrics.heap_failures = 1;
  metrics.buffers = 2;
  metrics.graph_launches = 14;
  metrics.batch_flushes = 15;
  metrics.batch_operations = 17;
  metrics.batch_tasks = 16;
  metrics.log_lines = 18;
  metrics.log_limited = 19;
  metrics.log_dropped[3] = 20;
  return metrics;
}

}  // namespace dwell::test
