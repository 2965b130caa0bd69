#include "runtime/observe/meters.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/caught.hpp"
#include "runtime/observe/device_memory.hpp"

namespace dwell::runtime {

namespace {

using device::kCountShards;
using device::OperatorCount;
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
}

void Meters::Sum::subtract(const Sum& base) {
  tasks -= base.tasks;
  failures -= base.failures;
  timed -= base.timed;
  total_ns -= base.total_ns;
  for (std::size_t i = 0; i < times.count.size(); ++i) times.count[i] -= base.times.count[i];
}

Meters::Meters(backend::Backend& backend, Keeper& keeper, const backend::Allocation& arena, const device::ArenaHeader& layout)
    : backend_(backend), keeper_(keeper), arena_(arena), layout_(layout) {
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
  Table table{opcodes, backend_.allocate(opcodes * kCountShards * sizeof(OperatorCount)), nullptr};
  if (metering_ == Metering::times) add_times(table);
  tables_.push_back(std::move(table));
}

void Meters::add_times(Table& table) {
  if (table.times == nullptr) table.times = backend_.allocate(table.opcodes * kCountShards * sizeof(OperatorTimes));
}

void Meters::tell_leases() {
  const Table& table = tables_.back();
  keeper_.change_leases([&](device::Lease& lease) {
    lease.observed = static_cast<u32>(table.opcodes);
    lease.operator_counts = reinterpret_cast<OperatorCount*>(table.counts->device());
    lease.operator_times = table.times == nullptr ? nullptr : reinterpret_cast<OperatorTimes*>(table.times->device());
    lease.observes &= ~(device::observes::counts | device::observes::times);
    if (metering_ != Metering::off) lease.observes |= device::observes::counts;
    if (metering_ == Metering::times) lease.observes |= device::observes::times;
  });
}

std::vector<Meters::Sum> Meters::sums(std::size_t first, std::size_t count) {
  std::vector<Sum> all(count);
  for (const Table& table : tables_) {
    const std::size_t here = std::min(count, table.opcodes - std::min(first, table.opcodes));
    const auto counts = read_all<OperatorCount>(backend_, *table.counts, first * kCountShards * sizeof(OperatorCount), here * kCountShards);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all[i / kCountShards].tasks += counts[i].tasks;
      all[i / kCountShards].failures += counts[i].failures;
    }
    if (table.times == nullptr) continue;
    const auto times = read_all<OperatorTimes>(backend_, *table.times, first * kCountShards * sizeof(OperatorTimes), here * kCountShards);
    for (std::size_t i = 0; i < times.size(); ++i) {
      Sum& sum = all[i / kCountShards];
      sum.timed += times[i].timed;
      sum.total_ns += times[i].total;
      sum.max_ns = std::max<std::uint64_t>(sum.max_ns, times[i].most);
      sum.min_ns = std::min<std::uint64_t>(sum.min_ns, ~times[i].least);
      for (std::size_t k = 0; k < OperatorTimes::kBuckets; ++k) sum.times.count[k] += times[i].bucket[k];
    }
  }
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

void Meters::assign(std::uint32_t opcode, std::string_view name, std::uint32_t version) noexcept {
  static_cast<void>(failure_of(errc::out_of_memory, [&] {
    const Lock lock(mutex_);
    if (meanings_.size() <= opcode) meanings_.resize(opcode + 1);
    Meaning& meaning = meanings_[opcode];
    if (meaning.series != nullptr && meaning.series->name == name && meaning.series->version == version) return;
    Series& series = series_of(name, version);
    const Sum now = sums(opcode, 1).front();
    if (meaning.series != nullptr) {
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
  const std::vector<Sum> now = sums(0, meanings_.size());
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
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(row.series->place, row.series->version); });
  metrics.operators.clear();
  for (const Row& row : rows) {
    const Sum& sum = row.sum;
    metrics.operators.push_back({row.series->name, row.series->version, sum.tasks, sum.failures, sum.timed, sum.total_ns,
                                 sum.timed == 0 ? 0 : sum.min_ns, sum.max_ns, sum.times});
  }
  const auto workers = read_all<WorkerCount>(backend_, arena_, layout_.worker_counts, keeper_.workers());
  metrics.workers.clear();
  for (const WorkerCount& worker : workers)
    metrics.workers.push_back(
        {worker.tasks, worker.busy_ns, worker.present_ns, worker.fetched, worker.queued, worker.spawned, worker.leases});
  constexpr std::size_t kCounters = offsetof(device::Control, window_turns) / sizeof(device::Counter);
  const auto queue = read_all<device::Counter>(backend_, arena_, layout_.control, kCounters);
  const auto queued = static_cast<std::int32_t>(queue[1].value - queue[0].value);
  metrics.queued = queued > 0 ? static_cast<std::uint64_t>(queued) : 0;
}

}  // namespace dwell::runtime
