#include "observe/metric_families.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <dwell/log.hpp>
#include <dwell/metric_rows.hpp>

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
  // Adds the number of a row; rows of one family stand together.
  template <class Of>
  void add(const MetricRow<Of>& row, std::string_view family, Labels labels, const Of& of) {
    const bool is_time = std::string_view(row.unit) == "seconds";
    if (families_.empty() || families_.back().name != family)
      begin(family, row.kind == MetricKind::counter ? Type::counter : Type::gauge, row.unit, row.help);
    if (row.label != nullptr) labels.push_back({row.label, row.label_value});
    add(labels, is_time ? seconds(of.*row.value) : static_cast<double>(of.*row.value));
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
template <class Each>
void for_each(const Metrics& metrics, bool versions, Each each) {
  if (!versions) {
    for (const OperatorMetrics& op : metrics.totals()) each(Labels{{"operator", op.name}}, op);
    return;
  }
  for (const OperatorMetrics& op : metrics.operators)
    if (op.version != 0) each(Labels{{"operator", op.name}, {"version", std::to_string(op.version)}}, op);
}

void add_operators(Families& families, const Metrics& metrics, bool versions) {
  for (const auto& row : kOperatorRows) {
    const char* const family = versions ? row.family_by_version : row.family;
    if (family == nullptr) continue;
    for_each(metrics, versions, [&](const Labels& labels, const OperatorMetrics& op) {
      if (row.has == nullptr || row.has(metrics, op)) families.add(row, family, labels, op);
    });
  }
  families.begin(versions ? "dwell_operator_version_duration_seconds" : "dwell_operator_duration_seconds", Type::histogram, "seconds",
                 "Time from the call of the operator to its return in all threads of the group.");
  for_each(metrics, versions, [&](const Labels& labels, const OperatorMetrics& op) {
    if (op.timed != 0) families.add(labels, seconds(op.total_ns), op.times.total(), buckets_of(op.times));
  });
}

void add_workers(Families& families, const Metrics& metrics) {
  for (const auto& row : kWorkerRows) {
    if (row.family == nullptr) continue;
    for (std::size_t i = 0; i < metrics.workers.size(); ++i)
      if (row.has == nullptr || row.has(metrics, metrics.workers[i]))
        families.add(row, row.family, {{"worker", std::to_string(i)}}, metrics.workers[i]);
  }
}

}  // namespace

std::vector<MetricFamily> metric_families(const Metrics& metrics) {
  Families families(metrics);
  add_operators(families, metrics, false);
  add_operators(families, metrics, true);
  add_workers(families, metrics);
  for (const auto& row : kMetricRows)
    if (row.family != nullptr) families.add(row, row.family, {}, metrics);
  families.begin("dwell_log_dropped_lines", Type::counter, "", "Lines of the log that found no room in their worker's ring.");
  for (std::size_t i = 0; i < metrics.log_dropped.size(); ++i)
    families.add({{"severity", std::string(text_of(static_cast<level>(i)))}}, static_cast<double>(metrics.log_dropped[i]));
  return std::move(families).take();
}

}  // namespace dwell::observe
