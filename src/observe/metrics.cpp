#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/metric_rows.hpp>

namespace dwell {

namespace {

constexpr std::size_t kLast = TimeHistogram::kBuckets - 1;

// The device counts while the host reads: of two figures that belong together one may be a little ahead, and no difference is below 0.
std::uint64_t grown(std::uint64_t later, std::uint64_t earlier) { return later - std::min(later, earlier); }

// Counters grow from one snapshot to the next; a gauge is the later one's.
template <class Of, std::size_t count>
void subtract(Of& from, const Of& what, const MetricRow<Of> (&rows)[count]) {
  for (const MetricRow<Of>& row : rows)
    if (row.kind == MetricKind::counter) from.*row.value = grown(from.*row.value, what.*row.value);
}

template <std::size_t count>
void subtract(std::array<std::uint64_t, count>& from, const std::array<std::uint64_t, count>& what) {
  for (std::size_t i = 0; i < count; ++i) from[i] = grown(from[i], what[i]);
}

void add(OperatorMetrics& to, const OperatorMetrics& more) {
  if (more.timed != 0) to.min_ns = to.timed == 0 ? more.min_ns : std::min(to.min_ns, more.min_ns);
  to.max_ns = std::max(to.max_ns, more.max_ns);
  to.longest_wait_ns = std::max(to.longest_wait_ns, more.longest_wait_ns);
  for (const auto& row : kOperatorRows)
    if (row.kind == MetricKind::counter) to.*row.value += more.*row.value;
  for (std::size_t bucket = 0; bucket < TimeHistogram::kBuckets; ++bucket) to.times.count[bucket] += more.times.count[bucket];
}

// `op` holds the extremes of all times until now, which no time of the interval exceeds, and the buckets of the interval.
void narrow_extremes(OperatorMetrics& op) {
  const auto& count = op.times.count;
  const auto filled = [](std::uint64_t times) { return times != 0; };
  const auto first = std::find_if(count.begin(), count.end(), filled);
  if (first == count.end()) {
    op.min_ns = op.max_ns = 0;
    return;
  }
  const auto least = static_cast<std::size_t>(first - count.begin());
  const auto most = static_cast<std::size_t>(std::find_if(count.rbegin(), count.rend(), filled).base() - count.begin()) - 1;
  op.min_ns = std::max(op.min_ns, TimeHistogram::least_of(least));
  if (most != kLast) op.max_ns = std::min(op.max_ns, TimeHistogram::least_of(most + 1) - 1);
}

}  // namespace

std::uint64_t TimeHistogram::total() const noexcept { return std::accumulate(count.begin(), count.end(), std::uint64_t{0}); }

double TimeHistogram::quantile(double q) const noexcept {
  const double wanted = std::clamp(q, 0.0, 1.0) * static_cast<double>(total());
  double seen = 0;
  double end = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (count[bucket] == 0) continue;
    const auto here = static_cast<double>(count[bucket]);
    const auto least = static_cast<double>(least_of(bucket));
    if (bucket == kLast) return least;  // it has no end to interpolate to
    end = static_cast<double>(least_of(bucket + 1));
    if (seen + here >= wanted) return std::lerp(least, end, (wanted - seen) / here);
    seen += here;
  }
  return end;
}

std::vector<OperatorMetrics> Metrics::totals() const {
  std::vector<OperatorMetrics> all;
  for (const OperatorMetrics& op : operators) {
    if (!all.empty() && all.back().name == op.name) {
      add(all.back(), op);
    } else {
      all.push_back(op);
      all.back().version = 0;
    }
  }
  return all;
}

Metrics difference(const Metrics& later, const Metrics& earlier) {
  if (later.runtime != earlier.runtime || later.generation != earlier.generation)
    throw Error(errc::invalid_argument, "difference: the snapshots are of runtime " + std::to_string(later.runtime) + ", generation " +
                                            std::to_string(later.generation) + " and of runtime " + std::to_string(earlier.runtime) +
                                            ", generation " + std::to_string(earlier.generation) +
                                            ". Counts begin anew with each; take both of one.");
  if (later.at < earlier.at)
    throw Error(errc::invalid_argument, "difference: the first snapshot is the earlier one. Pass the later one first.");

  Metrics result = later;
  std::map<std::pair<std::string_view, std::uint32_t>, OperatorMetrics*> operators;
  for (OperatorMetrics& op : result.operators) operators[{op.name, op.version}] = &op;
  for (const OperatorMetrics& before : earlier.operators) {
    auto after = operators.find({before.name, before.version});
    // A version that is no longer listed has become part of version 0.
    if (after == operators.end()) after = operators.find({before.name, 0});
    if (after == operators.end()) continue;
    subtract(*after->second, before, kOperatorRows);
    subtract(after->second->times.count, before.times.count);
  }
  for (OperatorMetrics& op : result.operators) narrow_extremes(op);
  for (std::size_t worker = 0; worker < std::min(result.workers.size(), earlier.workers.size()); ++worker) {
    subtract(result.workers[worker], earlier.workers[worker], kWorkerRows);
    subtract(result.workers[worker].log_dropped, earlier.workers[worker].log_dropped);
  }

  subtract(result, earlier, kMetricRows);
  subtract(result.log_dropped, earlier.log_dropped);
  return result;
}

}  // namespace dwell
