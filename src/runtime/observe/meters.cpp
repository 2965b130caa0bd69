#include "runtime/observe/meters.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/caught.hpp"
#include "runtime/observe/device_memory.hpp"

namespace dwell::runtime {

namespace {

using device::OperatorTimes;
using device::WorkerCount;

constexpr std::size_t kFirstOpcodes = 64;
static_assert(OperatorTimes::kBuckets == TimeHistogram::kBuckets);

// Structures of words, as read_words fills them.
template <class T>
std::vector<T> read_all(backend::Backend& backend, const backend::Allocation& from, std::uint64_t offset, std::size_t count) {
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
  std::vector<T> all(count);
  if (count != 0) read_words(backend, from, offset, reinterpret_cast<std::uint64_t*>(all.data()), count * sizeof(T) / 8);
  return all;
}

}  // namespace

void Meters::Sum::add(const Sum& other) {
  tasks += other.tasks;
  failures += other.failures;
  timed += other.timed;
  total_ns += other.total_ns;
  min_ns = std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
  for (std::size_t i = 0; i < times.count.size(); ++i) times.count[i] += other.times.count[i];
  waits += other.waits;
  waited_ns += other.waited_ns;
  longest_wait_ns = std::max(longest_wait_ns, other.longest_wait_ns);
  named.tasks += other.named.tasks;
  named.bytes += other.named.bytes;
}

void Meters::Sum::subtract(const Sum& base) {
  tasks -= base.tasks;
  failures -= base.failures;
  timed -= base.timed;
  total_ns -= base.total_ns;
  for (std::size_t i = 0; i < times.count.size(); ++i) times.count[i] -= base.times.count[i];
  waits -= base.waits;
  waited_ns -= base.waited_ns;
  named.tasks -= base.named.tasks;
  named.bytes -= base.named.bytes;
}

Meters::Meters(backend::Backend& backend, Keeper& keeper, TaskSamples& samples, const backend::Allocation& arena,
               const device::ArenaHeader& layout)
    : backend_(backend), keeper_(keeper), samples_(samples), arena_(arena), layout_(layout) {
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
  Table table{opcodes, backend_.allocate((layout_.max_workers + 1) * opcodes * sizeof(std::uint64_t)), nullptr};
  if (metering_ == Metering::times) add_times(table);
  tables_.push_back(std::move(table));
}

void Meters::add_times(Table& table) {
  if (table.times == nullptr) table.times = backend_.allocate(table.opcodes * OperatorTimes::kShards * sizeof(OperatorTimes));
}

void Meters::tell_leases() {
  const Table& table = tables_.back();
  const Metering metering = metering_;
  keeper_.change_leases([&](device::Lease& lease) {
    lease.observed = static_cast<u32>(table.opcodes);
    lease.calls = reinterpret_cast<u64*>(table.counts->device());
    lease.failures = lease.calls + table.opcodes * layout_.max_workers;
    lease.times = table.times == nullptr ? nullptr : reinterpret_cast<OperatorTimes*>(table.times->device());
    lease.stamps = samples_.stamps();
    lease.counts = metering == Metering::off ? 0 : 1;
    if (metering == Metering::times)
      lease.timed |= device::timed::times;
    else
      lease.timed &= ~device::timed::times;
  });
}

std::vector<Meters::Sum> Meters::sums(std::size_t count, std::vector<std::uint64_t>* by_worker) {
  std::vector<Sum> all(count);
  for (const Table& table : tables_) {
    const std::size_t here = std::min(count, table.opcodes);
    const auto counts = read_all<std::uint64_t>(backend_, *table.counts, 0, (layout_.max_workers + 1) * table.opcodes);
    for (std::size_t worker = 0; worker < layout_.max_workers; ++worker) {
      const std::uint64_t* const row = counts.data() + worker * table.opcodes;
      std::uint64_t its = 0;
      for (std::size_t i = 0; i < here; ++i) {
        all[i].tasks += row[i];
        its += row[i];
      }
      if (by_worker != nullptr) (*by_worker)[worker] += its;
    }
    const std::uint64_t* const failures = counts.data() + layout_.max_workers * table.opcodes;
    for (std::size_t i = 0; i < here; ++i) all[i].failures += failures[i];
    if (table.times == nullptr) continue;
    const auto times = read_all<OperatorTimes>(backend_, *table.times, 0, here * OperatorTimes::kShards);
    for (std::size_t i = 0; i < times.size(); ++i) {
      Sum& sum = all[i / OperatorTimes::kShards];
      sum.total_ns += times[i].total;
      sum.max_ns = std::max<std::uint64_t>(sum.max_ns, times[i].most);
      sum.min_ns = std::min<std::uint64_t>(sum.min_ns, ~times[i].least);
      for (std::size_t k = 0; k < OperatorTimes::kBuckets; ++k) {
        sum.times.count[k] += times[i].bucket[k];
        sum.timed += times[i].bucket[k];
      }
      sum.waits += times[i].waits;
      sum.waited_ns += times[i].waited;
      sum.longest_wait_ns = std::max<std::uint64_t>(sum.longest_wait_ns, times[i].longest_wait);
    }
  }
  for (std::size_t i = 0; i < count; ++i) all[i].named = samples_.bytes_of(static_cast<std::uint32_t>(i));
  return all;
}

Meters::Series& Meters::series_of(std::string_view name, std::uint32_t version) {
  const std::string key(name);
  const std::size_t place = places_.try_emplace(key, places_.size()).first->second;
  return series_.try_emplace({key, version}, Series{key, version, place, {}, 0}).first->second;
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
    series_of(name, 0).closed.add(at->second.closed);
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
      now = sums(opcode + 1).back();
      Sum its = now;
      its.subtract(meaning.base);
      meaning.series->closed.add(its);
      --meaning.series->open;
    }
    ++series.open;
    meaning = {&series, now};
    merge_old(name);
  }));
}

void Meters::read(Metrics& metrics) {
  const Lock lock(mutex_);
  metrics.metering = metering_;
  struct Row {
    const Series* series;
    Sum sum;
  };
  std::map<const Series*, Sum> open;
  std::vector<std::uint64_t> by_worker(layout_.max_workers);
  const std::vector<Sum> now = sums(meanings_.size(), &by_worker);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (meanings_[i].series == nullptr) continue;
    Sum its = now[i];
    its.subtract(meanings_[i].base);
    open[meanings_[i].series].add(its);
  }
  std::vector<Row> rows;
  for (const auto& [key, series] : series_) {
    Row row{&series, series.closed};
    if (const auto at = open.find(&series); at != open.end()) row.sum.add(at->second);
    rows.push_back(row);
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(row.series->place, row.series->version); });
  metrics.operators.clear();
  for (const Row& row : rows) {
    const Sum& sum = row.sum;
    metrics.operators.push_back({row.series->name, row.series->version, sum.tasks, sum.failures, sum.timed, sum.total_ns,
                                 sum.timed == 0 ? 0 : sum.min_ns, sum.max_ns, sum.times, sum.waits, sum.waited_ns, sum.longest_wait_ns,
                                 sum.named.tasks, sum.named.bytes});
  }
  const auto workers = read_all<WorkerCount>(backend_, arena_, layout_.worker_counts, keeper_.workers());
  metrics.workers.clear();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const WorkerCount& worker = workers[i];
    metrics.workers.push_back(
        {by_worker[i], worker.busy_ns, worker.present_ns, worker.fetched, worker.queued, worker.spawned, worker.leases, {}});
    std::ranges::copy(worker.log_dropped, metrics.workers.back().log_dropped.begin());
  }
  constexpr std::size_t kCounters = offsetof(device::Control, window_turns) / sizeof(device::Counter);
  const auto queue = read_all<device::Counter>(backend_, arena_, layout_.control, kCounters);
  const auto queued = static_cast<std::int32_t>(queue[1].value - queue[0].value);
  metrics.queued = queued > 0 ? static_cast<std::uint64_t>(queued) : 0;
}

}  // namespace dwell::runtime
