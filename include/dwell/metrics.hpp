// What a runtime has done, in numbers, as they stand while it works.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dwell {

// What the device notes of each task: nothing; that it was run; how long it took, too. Options::metrics, Runtime::set_metrics.
enum class Metering : std::uint8_t { off, counts, times };

// How long things took, in ns of the device's clock: buckets of a log scale, four for each power of two. 0 to 3 ns have a bucket each, all
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
  // The time that the share `q` (0 to 1) of all does not exceed, to within a bucket: interpolated there. 0 when nothing was counted.
  double quantile(double q) const noexcept;
};

// One version of an operator (of a template: one instance of it). Tasks of all sources count: of the ring, nodes of graphs, those that
// operators make; a wide task counts once for each group.
struct OperatorMetrics {
  std::string name;            // "axpy", "axpy<float>"
  std::uint32_t version = 0;   // 0: all versions before the oldest one that is listed; of Metrics::totals, all versions
  std::uint64_t tasks = 0;     // whose operator was called, and has returned
  std::uint64_t failures = 0;  // of them, those that have reported a failure
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
  std::uint64_t busy_ns = 0;     // inside operators; with Metering::times alone
  std::uint64_t idle_ns = 0;     // on the device outside of operators, but for the lease under way; with Metering::times alone
  std::uint64_t present_ns = 0;  // on the device, but for the lease under way
  std::uint64_t fetched = 0;     // slots of the ring that it has taken out, for itself or others; most tasks have one
  std::uint64_t queued = 0;      // tasks that it has taken from the ready queue
  std::uint64_t stolen = 0;      // nodes that it has taken from another worker; on the CPU alone
  std::uint64_t spawned = 0;     // tasks that its operators have made
  std::uint64_t leases = 0;      // that it has taken part in
  std::uint64_t parks = 0;       // how often it has left the device with no lease there to go on in
  std::array<std::uint64_t, 5> log_dropped = {};  // lines of the log that found no room, by severity
};

// A snapshot. Counts only grow, from the start of the generation on: what happened in an interval is difference(later, earlier). Those of
// the ring, leases, code, memory, graphs and batches are kept with Metering::off, too.
struct Metrics {
  std::chrono::steady_clock::time_point at;  // when it was taken
  std::uint64_t runtime = 0;                 // RuntimeInfo::runtime
  std::uint32_t generation = 0;
  std::string device;
  Metering metering = Metering::counts;
  double clock_error_ns = 0;  // with Metering::times: how far the device's clock may be off the host's, and so the tasks' waits
  std::vector<OperatorMetrics> operators;  // in the order of their definition; versions of one stand together
  std::vector<WorkerMetrics> workers;

  // The ring and the ready queue.
  std::uint64_t submitted = 0;  // tasks and launches
  // Now: slots of the ring that no other task can have yet. A task takes one to eight, and they come back in the order of the ring: those
  // of a task that is complete, behind one that is not, count too.
  std::uint64_t in_flight_slots = 0;
  std::uint64_t ring_slots = 0;
  std::uint64_t queued = 0;        // now: tasks in the ready queue that no worker has claimed
  std::uint64_t credit_waits = 0;  // how often a submitter has found the ring full
  std::uint64_t cancels = 0;       // calls of Runtime::cancel whose task was not complete

  // Leases.
  std::uint64_t leases = 0;
  std::uint64_t parks = 0;   // how often the loop was off the device when a lease was started, but for the first
  std::uint64_t pauses = 0;  // how often it was taken off the device: by Runtime::park, another number of workers, the watchdog
  std::uint64_t images = 0;  // handed over
  std::uint64_t hand_overs_relocatable = 0;  // images by tier
  std::uint64_t hand_overs_lto = 0;
  std::uint64_t tasks_relocatable = 0;  // tasks completed by images of each tier; those in flight at a hand-over count as the later's
  std::uint64_t tasks_lto = 0;
  std::uint64_t last_hand_over_ns = 0;  // the last one: from the loaded image until no lease of another is on the device; leases roll

  // Code. What is in memory is neither made nor read.
  std::uint64_t compiled = 0;           // sources
  std::uint64_t linked = 0;             // images
  std::uint64_t cache_hits = 0;         // sources and images out of the cache on disk
  std::uint64_t last_cache_hit_ns = 0;  // the last of these: looked up, read, verified

  // Memory, in bytes.
  std::uint64_t arena_bytes = 0;   // device memory of the loop, with all graphs that were instantiated and all counters
  std::uint64_t buffer_bytes = 0;  // of live buffers that the runtime has allocated
  std::uint64_t buffers = 0;

  // The log.
  std::uint64_t log_lines = 0;                    // handed over
  std::uint64_t log_limited = 0;                  // left out by Logging::per_site_per_second
  std::array<std::uint64_t, 5> log_dropped = {};  // that found no room, by severity

  // Graphs and batches.
  std::uint64_t graph_launches = 0;
  std::uint64_t batch_flushes = 0;
  std::uint64_t batch_operations = 0;  // collected by batches
  std::uint64_t batch_tasks = 0;       // that they became: less than operations where some were fused

  // All versions of each operator together, in the order of their definition; `version` is 0. Their counts only grow, as those of one
  // version do until it becomes part of version 0, which jumps then.
  std::vector<OperatorMetrics> totals() const;
};

// What has happened between two snapshots of one generation: counts are differences, what is "now" is the later one's, and so are the
// longest wait and what is of the last one. Least and longest times of the interval are known to within a bucket. Throws
// errc::invalid_argument when they are of different generations, or the other way round.
Metrics difference(const Metrics& later, const Metrics& earlier);

// OpenMetrics text (Prometheus reads it): names begin with dwell_, times are in seconds.
std::string to_openmetrics(const Metrics& metrics);
// One JSON object with the names above.
std::string to_json(const Metrics& metrics);

}  // namespace dwell
