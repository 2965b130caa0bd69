#include "observe/metric_families.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <dwell/log.hpp>

#include "base/utf8.hpp"

namespace dwell::observe {

namespace {

using Labels = std::vector<MetricLabel>;
using Type = MetricFamily::Type;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// The ends of buckets are powers of two from 64 ns to 69 s, each time the same ones: whoever adds up series of several operators or
// runtimes needs equal ends. A power's own bucket begins at it, so the bucket before ends 1 ns earlier.
constexpr std::size_t kFirstPower = 6;
constexpr std::size_t kLastPower = 36;

std::vector<MetricBucket> buckets_of(const TimeHistogram& times) {
  std::vector<MetricBucket> buckets;
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (std::size_t power = kFirstPower; power <= kLastPower; ++power) {
    const std::uint64_t end = std::uint64_t{1} << power;
    for (; TimeHistogram::least_of(bucket) < end; ++bucket) seen += times.count[bucket];
    buckets.push_back({seconds(end - 1), seen});
  }
  return buckets;
}

// Every sample carries the labels of the runtime, and then its own.
class Families {
 public:
  explicit Families(const Metrics& metrics) : common_{{"runtime", std::to_string(metrics.runtime)}, {"device", metrics.device}} {}

  // Samples that are added belong to the family begun last.
  void begin(std::string_view name, Type type, std::string_view unit, std::string_view help) {
    families_.push_back({name, type, unit, help, {}});
  }
  void add(const Labels& labels, double value) { add(labels, value, 0, {}); }
  void add(const Labels& labels, double sum, std::uint64_t count, std::vector<MetricBucket> buckets) {
    Labels all = common_;
    all.insert(all.end(), labels.begin(), labels.end());
    // The formats take UTF-8 alone, and a person may look at them on a terminal.
    for (MetricLabel& label : all) label.value = printable(label.value, "\n");
    families_.back().samples.push_back({std::move(all), sum, count, std::move(buckets)});
  }
  void counter(std::string_view name, std::uint64_t value, std::string_view help) {
    begin(name, Type::counter, "", help);
    add({}, static_cast<double>(value));
  }
  void gauge(std::string_view name, std::uint64_t value, std::string_view help, std::string_view unit = "") {
    begin(name, Type::gauge, unit, help);
    add({}, static_cast<double>(value));
  }

  std::vector<MetricFamily> take() && {
    std::erase_if(families_, [](const MetricFamily& family) { return family.samples.empty(); });
    return std::move(families_);
  }

 private:
  Labels common_;
  std::vector<MetricFamily> families_;
};

// Where versions stand apart, version 0 is left out: it takes in one after the other, and what a counter gains then is no rate.
void add_operators(Families& families, const std::vector<OperatorMetrics>& operators, bool versions) {
  const auto labels_of = [&](const OperatorMetrics& op) {
    Labels labels{{"operator", op.name}};
    if (versions) labels.push_back({"version", std::to_string(op.version)});
    return labels;
  };
  const auto add = [&](std::string_view name, Type type, std::string_view unit, std::string_view help, auto&& has, auto&& put) {
    families.begin(name, type, unit, help);
    for (const OperatorMetrics& op : operators)
      if (has(op) && !(versions && op.version == 0)) put(op);
  };
  const auto any = [](const OperatorMetrics&) { return true; };
  const auto counter = [&](std::string_view name, std::string_view unit, std::string_view help, auto&& has, auto value_of) {
    add(name, Type::counter, unit, help, has, [&](const OperatorMetrics& op) { families.add(labels_of(op), value_of(op)); });
  };
  counter(versions ? "dwell_operator_version_tasks" : "dwell_operator_tasks", "", "Tasks whose operator was called and has returned.", any,
          [](const OperatorMetrics& op) { return static_cast<double>(op.tasks); });
  counter(versions ? "dwell_operator_version_failures" : "dwell_operator_failures", "", "Tasks that have reported a failure.", any,
          [](const OperatorMetrics& op) { return static_cast<double>(op.failures); });
  add(
      versions ? "dwell_operator_version_duration_seconds" : "dwell_operator_duration_seconds", Type::histogram, "seconds",
      "Time from the call of the operator to its return in all threads of the group.",
      [](const OperatorMetrics& op) { return op.timed != 0; },
      [&](const OperatorMetrics& op) { families.add(labels_of(op), seconds(op.total_ns), op.times.total(), buckets_of(op.times)); });
  if (versions) return;
  const auto sampled = [](const OperatorMetrics& op) { return op.waits != 0 || op.sampled != 0; };
  counter("dwell_operator_waits", "",
          "Tasks of a sample of which it is known how long they waited: of the ring one in 256, of others one place of the queue in 16.",
          sampled, [](const OperatorMetrics& op) { return static_cast<double>(op.waits); });
  counter("dwell_operator_waited_seconds", "seconds",
          "Time that these have waited: from their submission to the call, nodes and spawned tasks in the queue.", sampled,
          [](const OperatorMetrics& op) { return seconds(op.waited_ns); });
  counter("dwell_operator_sampled_tasks", "", "Tasks of a sample whose arguments were looked at.", sampled,
          [](const OperatorMetrics& op) { return static_cast<double>(op.sampled); });
  counter("dwell_operator_sampled_bytes", "bytes", "Bytes that the spans among the arguments of these name.", sampled,
          [](const OperatorMetrics& op) { return static_cast<double>(op.sampled_bytes); });
}

void add_workers(Families& families, const Metrics& metrics) {
  const auto add = [&](std::string_view name, std::uint64_t WorkerMetrics::*count, std::string_view help) {
    families.begin(name, Type::counter, "", help);
    for (std::size_t worker = 0; worker < metrics.workers.size(); ++worker)
      families.add({{"worker", std::to_string(worker)}}, static_cast<double>(metrics.workers[worker].*count));
  };
  add("dwell_worker_tasks", &WorkerMetrics::tasks, "Tasks that the worker has run.");
  add("dwell_worker_fetched_slots", &WorkerMetrics::fetched,
      "Slots of the ring that the worker has taken out, for itself or others; most tasks have one.");
  add("dwell_worker_queued_tasks", &WorkerMetrics::queued, "Tasks that the worker has taken from the ready queue.");
  add("dwell_worker_stolen_tasks", &WorkerMetrics::stolen, "Nodes that the worker has taken from another one; on the CPU alone.");
  add("dwell_worker_spawned_tasks", &WorkerMetrics::spawned, "Tasks that operators have made on the worker.");
  add("dwell_worker_leases", &WorkerMetrics::leases, "Leases that the worker has taken part in.");
  add("dwell_worker_parks", &WorkerMetrics::parks, "How often the worker has left the device with no lease there to go on in.");
  const auto add_time = [&](std::string_view name, std::uint64_t WorkerMetrics::*time, std::string_view help) {
    families.begin(name, Type::counter, "seconds", help);
    for (std::size_t i = 0; i < metrics.workers.size(); ++i) {
      const WorkerMetrics& worker = metrics.workers[i];
      if (worker.busy_ns != 0 || metrics.metering == Metering::times) families.add({{"worker", std::to_string(i)}}, seconds(worker.*time));
    }
  };
  add_time("dwell_worker_busy_seconds", &WorkerMetrics::busy_ns, "Time that the worker has spent inside operators.");
  add_time("dwell_worker_idle_seconds", &WorkerMetrics::idle_ns,
           "Time that the worker has spent on the device outside of operators, but for the lease under way.");
}

}  // namespace

std::vector<MetricFamily> metric_families(const Metrics& metrics) {
  Families families(metrics);
  add_operators(families, metrics.totals(), false);
  add_operators(families, metrics.operators, true);
  add_workers(families, metrics);

  families.counter("dwell_submitted_tasks", metrics.submitted, "Tasks and launches of graphs that were submitted.");
  families.gauge("dwell_in_flight_slots", metrics.in_flight_slots,
                 "Slots of the ring that no other task can have yet: of tasks that are not complete, and of those behind such a one.");
  families.gauge("dwell_ring_slots", metrics.ring_slots, "Slots of the ring.");
  families.gauge("dwell_queued_tasks", metrics.queued, "Tasks in the ready queue that no worker has claimed.");
  families.counter("dwell_credit_waits", metrics.credit_waits, "How often a submitter has found the ring full.");

  families.counter("dwell_leases", metrics.leases, "Leases that were started.");
  families.counter("dwell_parks", metrics.parks, "How often the loop was off the device when a lease was started, but for the first.");
  families.counter("dwell_pauses", metrics.pauses,
                   "How often the loop was taken off the device: by a park, an image with another number of workers, the watchdog.");
  families.counter("dwell_images", metrics.images, "Images that have taken over.");
  families.begin("dwell_hand_overs", Type::counter, "", "Images that have taken over, by tier.");
  families.add({{"tier", "relocatable"}}, static_cast<double>(metrics.hand_overs_relocatable));
  families.add({{"tier", "lto"}}, static_cast<double>(metrics.hand_overs_lto));

  families.counter("dwell_compilations", metrics.compiled, "Sources that were compiled.");
  families.counter("dwell_links", metrics.linked, "Images that were linked.");
  families.counter("dwell_cache_hits", metrics.cache_hits, "Sources and images that came from a cache.");

  families.gauge("dwell_arena_bytes", metrics.arena_bytes, "Memory of the loop.", "bytes");
  families.gauge("dwell_buffer_bytes", metrics.buffer_bytes, "Memory of live buffers that the runtime has allocated.", "bytes");
  families.gauge("dwell_buffers", metrics.buffers, "Live buffers that the runtime has allocated.");

  families.counter("dwell_log_lines", metrics.log_lines, "Lines of the log that were handed over.");
  families.counter("dwell_log_limited_lines", metrics.log_limited, "Lines of the log that one site had too many of.");
  families.begin("dwell_log_dropped_lines", Type::counter, "", "Lines of the log that found no room in their worker's ring.");
  for (std::size_t i = 0; i < metrics.log_dropped.size(); ++i)
    families.add({{"severity", std::string(text_of(static_cast<level>(i)))}}, static_cast<double>(metrics.log_dropped[i]));

  families.counter("dwell_graph_launches", metrics.graph_launches, "Launches of graphs.");
  families.counter("dwell_batch_flushes", metrics.batch_flushes, "Batches that were flushed.");
  families.counter("dwell_batch_operations", metrics.batch_operations, "Operations that batches have collected.");
  families.counter("dwell_batch_tasks", metrics.batch_tasks, "Tasks that these operations have become.");
  return std::move(families).take();
}

}  // namespace dwell::observe
