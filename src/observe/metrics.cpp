#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/metrics.hpp>

namespace dwell {

namespace {

constexpr std::size_t kLast = TimeHistogram::kBuckets - 1;

// The device counts while the host reads: of two figures that belong together one may be a little ahead, and no difference is below 0.
std::uint64_t grown(std::uint64_t later, std::uint64_t earlier) { return later - std::min(later, earlier); }

void subtract(TimeHistogram& from, const TimeHistogram& what) {
  for (std::size_t bucket = 0; bucket < TimeHistogram::kBuckets; ++bucket)
    from.count[bucket] = grown(from.count[bucket], what.count[bucket]);
}

void subtract(OperatorMetrics& from, const OperatorMetrics& what) {
  from.tasks = grown(from.tasks, what.tasks);
  from.failures = grown(from.failures, what.failures);
  from.timed = grown(from.timed, what.timed);
  from.total_ns = grown(from.total_ns, what.total_ns);
  subtract(from.times, what.times);
  from.waits = grown(from.waits, what.waits);
  from.waited_ns = grown(from.waited_ns, what.waited_ns);
  from.sampled = grown(from.sampled, what.sampled);
  from.sampled_bytes = grown(from.sampled_bytes, what.sampled_bytes);
}

void subtract(WorkerMetrics& from, const WorkerMetrics& what) {
  from.tasks = grown(from.tasks, what.tasks);
  from.busy_ns = grown(from.busy_ns, what.busy_ns);
  from.idle_ns = grown(from.idle_ns, what.idle_ns);
  from.present_ns = grown(from.present_ns, what.present_ns);
  from.fetched = grown(from.fetched, what.fetched);
  from.queued = grown(from.queued, what.queued);
  from.stolen = grown(from.stolen, what.stolen);
  from.spawned = grown(from.spawned, what.spawned);
  from.leases = grown(from.leases, what.leases);
  from.parks = grown(from.parks, what.parks);
  for (std::size_t i = 0; i < from.log_dropped.size(); ++i) from.log_dropped[i] = grown(from.log_dropped[i], what.log_dropped[i]);
}

void add(OperatorMetrics& to, const OperatorMetrics& more) {
  if (more.timed != 0) to.min_ns = to.timed == 0 ? more.min_ns : std::min(to.min_ns, more.min_ns);
  to.max_ns = std::max(to.max_ns, more.max_ns);
  to.longest_wait_ns = std::max(to.longest_wait_ns, more.longest_wait_ns);
  for (const auto count :
       {&OperatorMetrics::tasks, &OperatorMetrics::failures, &OperatorMetrics::timed, &OperatorMetrics::total_ns, &OperatorMetrics::waits,
        &OperatorMetrics::waited_ns, &OperatorMetrics::sampled, &OperatorMetrics::sampled_bytes})
    to.*count += more.*count;
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
    if (after != operators.end()) subtract(*after->second, before);
  }
  for (OperatorMetrics& op : result.operators) narrow_extremes(op);
  for (std::size_t worker = 0; worker < std::min(result.workers.size(), earlier.workers.size()); ++worker)
    subtract(result.workers[worker], earlier.workers[worker]);

  for (const auto counter : {&Metrics::submitted, &Metrics::credit_waits, &Metrics::leases, &Metrics::parks, &Metrics::pauses,
                             &Metrics::images, &Metrics::hand_overs_relocatable, &Metrics::hand_overs_lto, &Metrics::compiled,
                             &Metrics::linked, &Metrics::cache_hits, &Metrics::log_lines, &Metrics::log_limited, &Metrics::graph_launches,
                             &Metrics::batch_flushes, &Metrics::batch_operations, &Metrics::batch_tasks})
    result.*counter = grown(result.*counter, earlier.*counter);
  for (std::size_t i = 0; i < result.log_dropped.size(); ++i) result.log_dropped[i] = grown(result.log_dropped[i], earlier.log_dropped[i]);
  return result;
}

}  // namespace dwell
