// Shared by tests of processes that inspect each other: a folder to publish in, and snapshots with a value in every field.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <dwell/diagnosis.hpp>
#include <dwell/heap.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

namespace dwell::test {

// Sets DWELL_LIVE_DIR to a folder of its own.
class LiveTest : public testing::Test {
 protected:
  LiveTest() {
    std::string path = std::filesystem::temp_directory_path() / "dwell-live-test-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    // A long path, like some users' folders: a socket address holds 107 characters.
    folder_ = root_ / std::string(120, 'x');
    setenv("DWELL_LIVE_DIR", folder_.c_str(), 1);
    unsetenv("DWELL_LIVE");
  }
  ~LiveTest() override {
    unsetenv("DWELL_LIVE_DIR");
    std::filesystem::remove_all(root_);
  }

  std::size_t files() const {
    std::error_code none;
    std::size_t count = 0;
    for (const auto& item : std::filesystem::directory_iterator(folder_, none)) count += item.path().empty() ? 0 : 1;
    return count;
  }

  std::filesystem::path root_;
  std::filesystem::path folder_;
};

// A snapshot after `seconds`, with two operators and two workers: a thousand calls of "axpy" a second, of 2 us each.
inline Metrics metrics_after(std::uint64_t seconds, Metering metering = Metering::times) {
  Metrics metrics;
  metrics.at = std::chrono::steady_clock::time_point(std::chrono::seconds(100 + seconds));
  metrics.runtime = 1;
  metrics.generation = 1;
  metrics.device = "cpu";
  metrics.metering = metering;
  metrics.operators.resize(2);
  metrics.operators[0].name = "axpy";
  metrics.operators[0].version = 2;
  metrics.operators[0].tasks = 1000 * seconds;
  metrics.operators[1].name = "zip";
  metrics.operators[1].version = 1;
  metrics.operators[1].tasks = 10 * seconds;
  metrics.operators[1].failures = 3;
  metrics.workers.resize(2);
  metrics.workers[0].tasks = 1000 * seconds;
  metrics.workers[1].tasks = 10 * seconds;
  metrics.workers[1].present_ns = 123 * seconds;
  metrics.workers[1].idle_ns = 11 * seconds;
  metrics.workers[1].stolen = 2 * seconds;
  metrics.workers[1].parks = seconds;
  if (metering == Metering::times) {
    OperatorMetrics& axpy = metrics.operators[0];
    axpy.timed = axpy.tasks;
    axpy.total_ns = 2000 * axpy.tasks;
    axpy.min_ns = axpy.max_ns = 2000;
    axpy.times.count[TimeHistogram::bucket_of(2000)] = axpy.tasks;
    OperatorMetrics& zip = metrics.operators[1];
    zip.timed = zip.tasks;
    zip.total_ns = 1'000'000 * zip.tasks;
    zip.min_ns = zip.max_ns = 1'000'000;
    zip.times.count[TimeHistogram::bucket_of(1'000'000)] = zip.tasks;
    metrics.workers[0].busy_ns = axpy.total_ns;
    metrics.workers[1].busy_ns = zip.total_ns;
  }
  metrics.submitted = 1010 * seconds;
  metrics.in_flight_slots = 64;
  metrics.ring_slots = 256;
  metrics.queued = 12;
  metrics.leases = 900 * seconds;
  metrics.parks = 5;
  metrics.pauses = 2;
  metrics.images = 3;
  return metrics;
}

inline Diagnosis diagnosis_of_two() {
  Diagnosis diagnosis;
  diagnosis.total = 2;
  diagnosis.workers = 2;
  diagnosis.busy = 1;
  diagnosis.stalled = true;
  diagnosis.cycles = {{7, 8}};
  TaskState& runs = diagnosis.tasks.emplace_back();
  runs.position = 7;
  runs.name = "axpy (version 2)";
  runs.groups = 4;
  runs.doing = Doing::runs;
  runs.workers = {{1, "left", std::chrono::milliseconds(5)}};
  TaskState& waits = diagnosis.tasks.emplace_back();
  waits.position = 8;
  waits.name = "a graph";
  waits.graph = true;
  waits.cancelled = true;
  waits.doing = Doing::waits_for_host;
  waits.waits_for = {7};
  waits.named = {"the callback of a node"};
  return diagnosis;
}

// A heap with two classes in use and a large allocation.
inline HeapStatistics heap_of_two() {
  HeapStatistics heap;
  heap.reserved = 64U << 20U;
  heap.mapped = 32U << 20U;
  heap.used = 3U << 20U;
  heap.tables = 1U << 20U;
  heap.cached = 4096;
  heap.fragmented = 60'000;
  heap.large = 1;
  heap.large_bytes = 2U << 20U;
  heap.large_failures = 2;
  heap.last_failure = 1'000'000;
  heap.types = 5;
  heap.collections = 3;
  heap.last = {11, 12, 1300, 14, std::chrono::microseconds(1500), std::chrono::microseconds(700)};
  heap.classes = {
      {32, 3, 3 << 16, 6000, 1500, 100, 4400, 2000, 500, 0}, {48, 0, 0, 0, 0, 0, 0, 7, 7, 0}, {8192, 1, 1 << 20, 127, 64, 0, 63, 64, 0, 4}};
  return heap;
}

// The census of a heap that gets 100 nodes a second.
inline HeapCensus census_after(std::uint64_t seconds) {
  return {.types = {{"Node", 100 * seconds, 3200 * seconds}, {"cell", 1, 16}},
          .sizes = {{48, 7}},
          .large = 1,
          .large_bytes = 2U << 20U,
          .slabs = {{1U << 20U, 1U << 16U, 48, 1365, 7}, {2U << 20U, 2U << 20U, 0, 1, 1}}};
}

inline LogRecord log_line(const std::string& text, level severity = level::info) {
  LogRecord record;
  record.severity = severity;
  record.text = text;
  record.op = "axpy (version 2)";
  record.position = 17;
  record.has_position = true;
  record.worker = 1;
  record.node = "left";
  record.graph = "step";
  record.at = std::chrono::steady_clock::time_point(std::chrono::seconds(100));
  return record;
}

}  // namespace dwell::test
