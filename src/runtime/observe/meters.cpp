#include "runtime/observe/meters.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <tuple>
#include <utility>

#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

using device::OperatorTimes;
using device::WorkerCount;

constexpr std::size_t kFirstOpcodes = 64;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kShardWords = sizeof(OperatorTimes) / kWord;
constexpr std::size_t kTimesBytes = OperatorTimes::kShards * sizeof(OperatorTimes);  // per opcode
// Offsets in a shard, in words.
constexpr std::size_t kTotal = offsetof(OperatorTimes, total) / kWord;
constexpr std::size_t kMost = offsetof(OperatorTimes, most) / kWord;
constexpr std::size_t kLeast = offsetof(OperatorTimes, least) / kWord;
constexpr std::size_t kBuckets = offsetof(OperatorTimes, bucket) / kWord;
constexpr std::size_t kWaits = offsetof(OperatorTimes, waits) / kWord;
constexpr std::size_t kWaited = offsetof(OperatorTimes, waited) / kWord;
constexpr std::size_t kLongestWait = offsetof(OperatorTimes, longest_wait) / kWord;
constexpr std::size_t kNamed = offsetof(OperatorTimes, named) / kWord;
constexpr std::size_t kNamedBytes = offsetof(OperatorTimes, named_bytes) / kWord;
// The two counters of the ready queue come first, one cache line each.
constexpr std::size_t kQueueBytes = 2 * sizeof(device::Counter);
static_assert(offsetof(device::Control, head) == 0 && offsetof(device::Control, tail) == sizeof(device::Counter));
static_assert(OperatorTimes::kBuckets == TimeHistogram::kBuckets);

// Returns the first bucket with the power of two of a time.
std::size_t first_like(std::uint64_t ns) {
  const auto width = static_cast<std::size_t>(std::bit_width(ns));
  return width < 3 ? 0 : (width - 2) * 4;
}

// Adds the times of one shard. Its calls are in the buckets from its least to its longest. All of these only grow: a call being recorded
// may be missed until the next read, but no call seen earlier.
template <class Words, class To>
void add_shard(Words shard, To& to) {
  to.waits += shard[kWaits];
  to.waited_ns += shard[kWaited];
  to.longest_wait_ns = std::max<std::uint64_t>(to.longest_wait_ns, shard[kLongestWait]);
  to.sampled += shard[kNamed];
  to.sampled_bytes += shard[kNamedBytes];
  const std::uint64_t least = shard[kLeast];
  if (least == 0) return;  // no call: the least is stored as its complement
  const std::uint64_t most = shard[kMost];
  to.total_ns += shard[kTotal];
  to.max_ns = std::max(to.max_ns, most);
  to.min_ns = std::min(to.min_ns, ~least);
  const auto buckets = shard.from(kBuckets);
  // The device clamps times to 32 bits.
  const std::size_t end = std::min(first_like(most) + 4, TimeHistogram::kBuckets);
  for (std::size_t i = first_like(std::min<std::uint64_t>(~least, ~0U)); i < end; ++i) {
    const std::uint64_t here = buckets[i];
    to.times.count[i] += here;
    to.timed += here;
  }
}

// Subtracts counts only: the least and the longest stay.
template <class To, class Base>
void subtract(To& to, const Base& base) {
  to.tasks -= base.tasks;
  to.failures -= base.failures;
  to.timed -= base.timed;
  to.total_ns -= base.total_ns;
  to.waits -= base.waits;
  to.waited_ns -= base.waited_ns;
  to.sampled -= base.sampled;
  to.sampled_bytes -= base.sampled_bytes;
  if (base.timed == 0) return;
  for (std::size_t i = 0; i < TimeHistogram::kBuckets; ++i) to.times.count[i] -= base.times.count[i];
}

template <class To, class Other>
void add(To& to, const Other& other) {
  to.tasks += other.tasks;
  to.failures += other.failures;
  to.timed += other.timed;
  to.total_ns += other.total_ns;
  to.min_ns = std::min(to.min_ns, other.min_ns);
  to.max_ns = std::max(to.max_ns, other.max_ns);
  to.waits += other.waits;
  to.waited_ns += other.waited_ns;
  to.longest_wait_ns = std::max(to.longest_wait_ns, other.longest_wait_ns);
  to.sampled += other.sampled;
  to.sampled_bytes += other.sampled_bytes;
  if (other.timed == 0) return;
  for (std::size_t i = 0; i < TimeHistogram::kBuckets; ++i) to.times.count[i] += other.times.count[i];
}

}  // namespace

Meters::Meters(backend::Backend& backend, Keeper& keeper, TaskSamples& samples, Arena& arena)
    : backend_(backend),
      keeper_(keeper),
      samples_(samples),
      arena_(arena),
      layout_(arena.layout()),
      workers_seen_(layout_.worker_counts, layout_.max_workers * sizeof(WorkerCount)),
      queue_seen_(layout_.control, kQueueBytes) {
  const Lock lock(mutex_);
  add_table(kFirstOpcodes);
}

Metering Meters::metering() const {
  const Lock lock(mutex_);
  return metering_;
}

void Meters::set(Metering metering) {
  const Lock lock(mutex_);
  if (metering == Metering::times) add_times(tables_.back());
  metering_ = metering;
  tell_leases();
}

void Meters::reserve(std::size_t opcodes) {
  const Lock lock(mutex_);
  if (opcodes <= tables_.back().opcodes) return;
  add_table(std::max(opcodes, tables_.back().opcodes * 2));
  tell_leases();
}

void Meters::add_table(std::size_t opcodes) {
  auto counts = arena_.take_cleared((layout_.max_workers + 1) * opcodes * kWord);
  Mirror seen(*counts);
  Table table{opcodes, std::move(counts), nullptr, std::move(seen), std::nullopt};
  if (metering_ == Metering::times) add_times(table);
  tables_.push_back(std::move(table));
}

void Meters::add_times(Table& table) {
  if (table.times != nullptr) return;
  table.times = arena_.take_cleared(table.opcodes * kTimesBytes);
  table.times_seen.emplace(*table.times);
}

void Meters::tell_leases() {
  const Table& table = tables_.back();
  const Metering metering = metering_;
  keeper_.change_leases([&](device::Lease& lease) {
    lease.observed = static_cast<u32>(table.opcodes);
    lease.calls = reinterpret_cast<u64*>(lease.arena + table.counts->offset());
    lease.failures = lease.calls + table.opcodes * layout_.max_workers;
    lease.times = table.times == nullptr ? nullptr : reinterpret_cast<OperatorTimes*>(lease.arena + table.times->offset());
    lease.stamps = samples_.stamps();
    lease.counts = metering == Metering::off ? 0 : 1;
    if (metering == Metering::times)
      lease.timed |= device::timed::times;
    else
      lease.timed &= ~device::timed::times;
  });
}

void Meters::want(const backend::Allocation& arena, std::size_t first, std::size_t count) {
  for (Table& table : tables_) {
    if (first >= table.opcodes) continue;
    const std::size_t here = std::min(count, table.opcodes - first);
    table.counts_seen.want(backend_, arena, copies_);
    if (table.times_seen) table.times_seen->want(backend_, arena, first * kTimesBytes, here * kTimesBytes, copies_);
  }
}

template <class To>
void Meters::add_cells(std::size_t opcode, To& to) const {
  const TaskSamples::Bytes named = samples_.bytes_of(static_cast<std::uint32_t>(opcode));
  to.sampled += named.tasks;
  to.sampled_bytes += named.bytes;
  for (const Table& table : tables_) {
    if (opcode >= table.opcodes) continue;
    table.counts_seen.look_with([&](auto words) { to.failures += words[layout_.max_workers * table.opcodes + opcode]; });
    if (!table.times_seen) continue;
    table.times_seen->look_with([&](auto words) {
      for (std::size_t shard = 0; shard < OperatorTimes::kShards; ++shard)
        add_shard(words.from((opcode * OperatorTimes::kShards + shard) * kShardWords), to);
    });
  }
}

Meters::Sum Meters::sum_of(std::size_t opcode) {
  Sum sum;
  arena_.at_rest([&](const backend::Allocation& arena) DWELL_THREAD_SAFETY(no_thread_safety_analysis) {
    copies_.clear();
    want(arena, opcode, 1);
    backend_.copy_all_to_host(copies_);
    add_cells(opcode, sum);
    for (const Table& table : tables_) {
      if (opcode >= table.opcodes) continue;
      table.counts_seen.look_with([&](auto words) {
        for (std::size_t worker = 0; worker < layout_.max_workers; ++worker) sum.tasks += words[worker * table.opcodes + opcode];
      });
    }
  });
  return sum;
}

Meters::Series& Meters::series_of(std::string_view name, std::uint32_t version) {
  const std::string key(name);
  const std::size_t place = places_.try_emplace(key, places_.size()).first->second;
  return series_.try_emplace({key, version}, Series{key, version, place, {}, 0, 0}).first->second;
}

void Meters::merge_old(std::string_view name) {
  const std::string key(name);
  const auto first = series_.lower_bound({key, 1});
  const auto last = series_.upper_bound({key, ~0U});
  auto more = static_cast<std::size_t>(std::distance(first, last));
  for (auto at = first; at != last && more > kMostVersions;) {
    if (at->second.open != 0) {
      ++at;
      continue;
    }
    add(series_of(name, 0).closed, at->second.closed);
    at = series_.erase(at);
    --more;
  }
}

void Meters::assign(std::uint32_t opcode, std::string_view name, std::uint32_t version, const Signature& signature) noexcept {
  static_cast<void>(failure_of(errc::out_of_memory, [&] {
    samples_.assign(opcode, signature);
    const Lock lock(mutex_);
    if (meanings_.size() <= opcode) meanings_.resize(opcode + 1);
    Meaning& meaning = meanings_[opcode];
    if (meaning.series != nullptr && meaning.series->name == name && meaning.series->version == version) return;
    Series& series = series_of(name, version);
    Sum now;
    if (meaning.series != nullptr) {
      now = sum_of(opcode);
      Sum its = now;
      subtract(its, meaning.base);
      add(meaning.series->closed, its);
      --meaning.series->open;
    }
    ++series.open;
    meaning = {&series, now};
    merge_old(name);
  }));
}

void Meters::read_operators(Metrics& metrics, const std::vector<std::uint64_t>& calls) {
  std::vector<Series*> order;
  order.reserve(series_.size());
  for (auto& [key, series] : series_) order.push_back(&series);
  std::ranges::sort(order, {}, [](const Series* series) { return std::tuple(series->place, series->version); });
  metrics.operators.clear();
  metrics.operators.reserve(order.size());
  for (Series* const series : order) {
    const Sum& closed = series->closed;
    series->row = metrics.operators.size();
    metrics.operators.push_back({series->name, series->version, closed.tasks, closed.failures, closed.timed, closed.total_ns, closed.min_ns,
                                 closed.max_ns, closed.times, closed.waits, closed.waited_ns, closed.longest_wait_ns, closed.sampled,
                                 closed.sampled_bytes});
  }
  for (std::size_t i = 0; i < meanings_.size(); ++i) {
    if (meanings_[i].series == nullptr) continue;
    OperatorMetrics& row = metrics.operators[meanings_[i].series->row];
    row.tasks += calls[i];
    add_cells(i, row);
    subtract(row, meanings_[i].base);
  }
  for (OperatorMetrics& row : metrics.operators)
    if (row.timed == 0) row.min_ns = 0;
}

void Meters::read(Metrics& metrics) {
  const Lock lock(mutex_);
  metrics.metering = metering_;
  arena_.at_rest([&](const backend::Allocation& arena) DWELL_THREAD_SAFETY(no_thread_safety_analysis) { look(arena, metrics); });
}

void Meters::look(const backend::Allocation& arena, Metrics& metrics) {
  const std::size_t opcodes = meanings_.size();
  const std::size_t workers = keeper_.workers();
  copies_.clear();
  want(arena, 0, opcodes);
  workers_seen_.want(backend_, arena, 0, workers * sizeof(WorkerCount), copies_);
  queue_seen_.want(backend_, arena, copies_);
  backend_.copy_all_to_host(copies_);

  std::vector<std::uint64_t> calls(opcodes);
  std::vector<std::uint64_t> by_worker(layout_.max_workers);
  for (const Table& table : tables_) {
    const std::size_t here = std::min(opcodes, table.opcodes);
    table.counts_seen.look_with([&](auto words) {
      for (std::size_t worker = 0; worker < layout_.max_workers; ++worker) {
        const auto row = words.from(worker * table.opcodes);
        std::uint64_t its = 0;
        for (std::size_t i = 0; i < here; ++i) {
          const std::uint64_t cell = row[i];
          calls[i] += cell;
          its += cell;
        }
        by_worker[worker] += its;
      }
    });
  }
  read_operators(metrics, calls);

  metrics.workers.clear();
  metrics.workers.reserve(workers);
  workers_seen_.look_with([&](auto words) {
    for (std::size_t i = 0; i < workers; ++i) {
      std::array<std::uint64_t, sizeof(WorkerCount) / kWord> copy;
      for (std::size_t k = 0; k < copy.size(); ++k) copy[k] = words[i * copy.size() + k];
      const auto worker = std::bit_cast<WorkerCount>(copy);
      WorkerMetrics& made = metrics.workers.emplace_back();
      made.tasks = by_worker[i];
      made.busy_ns = worker.busy_ns;
      made.idle_ns = worker.idle_ns;
      made.present_ns = worker.present_ns;
      made.fetched = worker.fetched;
      made.queued = worker.queued;
      made.stolen = worker.stolen;
      made.spawned = worker.spawned;
      made.leases = worker.leases;
      made.parks = worker.parks;
      std::ranges::copy(worker.log_dropped, made.log_dropped.begin());
    }
  });
  queue_seen_.look_with([&](auto words) {
    const auto head = static_cast<std::uint32_t>(words[0]);
    const auto tail = static_cast<std::uint32_t>(words[sizeof(device::Counter) / kWord]);
    const auto queued = static_cast<std::int32_t>(tail - head);
    metrics.queued = queued > 0 ? static_cast<std::uint64_t>(queued) : 0;
  });
}

}  // namespace dwell::runtime
