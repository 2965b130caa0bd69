// Counters of a running runtime.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dwell {

// What the device records of each task: nothing, a count, or also its time. Options::metrics, Runtime::set_metrics.
enum class Metering : std::uint8_t { off, counts, times };

// A histogram of times in ns of the device's clock. Buckets are logarithmic, four for each power of two. 0 to 3 ns have a bucket each, all
// from 2^17 s on share the last one.
class TimeHistogram {
 public:
  static constexpr std::size_t kBuckets = 184;

  // The bucket of a time, and the least time of a bucket.
  static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < 4) return static_cast<std::size_t>(ns);
    std::size_t power = 2;
    while (power < 63 && ns >> (power + 1) != 0) ++power;
    const std::size_t bucket = (power - 1) * 4 + (ns >> (power - 2) & 3U);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static constexpr std::uint64_t least_of(std::size_t bucket) noexcept {
    return bucket < 4 ? bucket : (4ULL + bucket % 4) << (bucket / 4 - 1);
  }

  std::array<std::uint64_t, kBuckets> count = {};

  std::uint64_t total() const noexcept;
  // Returns the quantile `q` (0 to 1), interpolated within its bucket. 0 when nothing was counted.
  double quantile(double q) const noexcept;
};

// One version of an operator, or of one instance of a template. Counts tasks of all sources: the ring, nodes of graphs, tasks that
// operators make. A wide task counts once for each group.
struct OperatorMetrics {
  std::string name;            // "axpy", "axpy<float>"
  std::uint32_t version = 0;   // 0: all versions before the oldest listed one; in Metrics::totals, all versions
  std::uint64_t tasks = 0;     // whose operator was called and has returned
  std::uint64_t failures = 0;  // of these tasks, those that reported a failure
  // With Metering::times alone, while that is on:
  std::uint64_t timed = 0;     // tasks that the following tell of
  std::uint64_t total_ns = 0;  // from the call of the operator to its return in all threads of the group
  std::uint64_t min_ns = 0;    // 0 when none was timed
  std::uint64_t max_ns = 0;
  TimeHistogram times;
  // The same, of a sample. A task in 256 of the ring waits from its submission to the call of its operator, waits for other tasks included.
  // A node, or a task that an operator has made, waits in the ready queue, or in the deque of a CPU worker: of one place in 16, until a
  // worker takes it out. Those that the worker goes on with which has made them ready do not wait. What they name is `sampled` of the nodes
  // of one launch in 256, and of one in 16 of the tasks that an operator has made.
  std::uint64_t waits = 0;  // tasks that the following tell of; a wide task counts once for each group
  std::uint64_t waited_ns = 0;
  std::uint64_t longest_wait_ns = 0;
  std::uint64_t sampled = 0;        // tasks that the following tells of
  std::uint64_t sampled_bytes = 0;  // that the spans among their arguments name

  double mean_ns() const noexcept { return mean(total_ns, timed); }
  double mean_wait_ns() const noexcept { return mean(waited_ns, waits); }
  // Of a task.
  double mean_bytes() const noexcept { return mean(sampled_bytes, sampled); }

 private:
  static double mean(std::uint64_t sum, std::uint64_t count) noexcept {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
  }
};

// One worker, of all leases.
struct WorkerMetrics {
  std::uint64_t tasks = 0;
  std::uint64_t busy_ns = 0;     // inside operators; only with Metering::times
  std::uint64_t idle_ns = 0;     // on the device outside of operators, without the current lease; only with Metering::times
  std::uint64_t present_ns = 0;  // on the device, without the current lease
  std::uint64_t fetched = 0;     // ring slots that it has dequeued, for itself or others; most tasks have one
  std::uint64_t queued = 0;      // tasks dequeued from the ready queue
  std::uint64_t stolen = 0;      // nodes stolen from other workers; CPU only
  std::uint64_t spawned = 0;     // tasks that its operators have made
  std::uint64_t leases = 0;      // it has taken part in
  std::uint64_t parks = 0;       // times that it left the device with no next lease to continue in
  std::array<std::uint64_t, 5> log_dropped = {};  // log lines dropped for lack of room, by severity
};

// A snapshot. Counts only grow, from the start of the generation; for an interval use difference(later, earlier). Counts of the ring,
// leases, code, memory, graphs and batches are kept with Metering::off, too.
struct Metrics {
  std::chrono::steady_clock::time_point at;  // the time of the snapshot
  std::uint64_t runtime = 0;                 // RuntimeInfo::runtime
  std::uint32_t generation = 0;
  std::string device;
  Metering metering = Metering::counts;
  // With Metering::times: the bound of the device clock's error against the host's, and so of the tasks' waits.
  double clock_error_ns = 0;
  std::vector<OperatorMetrics> operators;  // in the order of their definition; versions of one are adjacent
  std::vector<WorkerMetrics> workers;

  // The ring and the ready queue.
  std::uint64_t submitted = 0;  // tasks and launches
  // Now: ring slots in use. A task takes one to eight. Slots are released in ring order, so those of a complete task behind an incomplete
  // one count too.
  std::uint64_t in_flight_slots = 0;
  std::uint64_t ring_slots = 0;
  std::uint64_t queued = 0;        // now: tasks in the ready queue that no worker has claimed
  std::uint64_t credit_waits = 0;  // times that a submitter found the ring full
  std::uint64_t cancels = 0;       // calls of Runtime::cancel whose task was not complete

  // Leases.
  std::uint64_t leases = 0;
  std::uint64_t parks = 0;   // times that the loop was off the device when a lease was started, the first one excluded
  std::uint64_t pauses = 0;  // times that the loop was taken off the device: by Runtime::park, another number of workers, the watchdog
  std::uint64_t images = 0;  // handed over
  std::uint64_t hand_overs_relocatable = 0;  // images by tier
  std::uint64_t hand_overs_lto = 0;
  std::uint64_t tasks_relocatable = 0;  // tasks completed by images of each tier; tasks in flight at a hand-over count for the later one
  std::uint64_t tasks_lto = 0;
  std::uint64_t last_hand_over_ns = 0;  // the last one: from the loaded image until no lease of another image is on the device; leases roll

  // Code. What is in memory is neither made nor read.
  std::uint64_t compiled = 0;           // sources
  std::uint64_t linked = 0;             // images
  std::uint64_t cache_hits = 0;         // sources and images read from the cache on disk
  std::uint64_t last_cache_hit_ns = 0;  // the last one: lookup, read and verification

  // Memory, in bytes.
  std::uint64_t arena_bytes = 0;   // device memory of the loop, with all graphs that were instantiated and all counters
  std::uint64_t buffer_bytes = 0;  // of live buffers that the runtime has allocated
  std::uint64_t buffers = 0;

  // The heap (dwell/heap.hpp), sizes in bytes; all 0 until it is made.
  std::uint64_t heap_bytes = 0;         // in slabs and large allocations
  std::uint64_t heap_mapped_bytes = 0;  // that it has
  std::uint64_t heap_live_bytes = 0;    // of live allocations: their slots, or their pages
  std::uint64_t heap_collections = 0;
  std::uint64_t heap_failures = 0;  // searches for room that found none

  // The log.
  std::uint64_t log_lines = 0;                    // handed over
  std::uint64_t log_limited = 0;                  // suppressed by Logging::per_site_per_second
  std::array<std::uint64_t, 5> log_dropped = {};  // lines that did not fit, by severity

  // Graphs and batches.
  std::uint64_t graph_launches = 0;
  std::uint64_t batch_flushes = 0;
  std::uint64_t batch_operations = 0;  // collected by batches
  std::uint64_t batch_tasks = 0;       // tasks made of these operations; fewer where some were fused

  // Returns the sum of all versions of each operator, in the order of their definition; `version` is 0. These sums only grow. The counts of
  // one version do so until it is merged into version 0, whose counts jump then.
  std::vector<OperatorMetrics> totals() const;
};

// Returns the changes between two snapshots of one generation. Counts are differences. "Now" values, the longest wait and values of "the
// last one" are those of the later snapshot. Least and longest times of the interval are known to within a bucket. Throws
// errc::invalid_argument for different generations, and for the wrong order.
Metrics difference(const Metrics& later, const Metrics& earlier);

// OpenMetrics text (Prometheus reads it): names begin with dwell_, times are in seconds.
std::string to_openmetrics(const Metrics& metrics);
// One JSON object with the names above.
std::string to_json(const Metrics& metrics);

}  // namespace dwell
