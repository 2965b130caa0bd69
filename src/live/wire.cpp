#include "live/wire.hpp"

#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include <dwell/error.hpp>
#include <dwell/metric_rows.hpp>

#include "base/byte_stream.hpp"

namespace dwell::live {

namespace {

template <class T, class Value>
concept Is = std::same_as<std::remove_const_t<T>, Value>;

// The fields of each struct, in wire order: `pass` writes them, or reads into them. The structured bindings name all of a struct's members,
// so a new member does not compile until it is encoded, too.

// Numbers of a snapshot are encoded by their rows; these asserts detect one without a row.
static_assert(sizeof(OperatorMetrics) ==
              offsetof(OperatorMetrics, tasks) + sizeof(std::uint64_t) * std::size(kOperatorRows) + sizeof(TimeHistogram));
static_assert(sizeof(WorkerMetrics) == sizeof(std::uint64_t) * std::size(kWorkerRows) + sizeof(WorkerMetrics::log_dropped));
static_assert(sizeof(Metrics) ==
              offsetof(Metrics, submitted) + sizeof(std::uint64_t) * std::size(kMetricRows) + sizeof(Metrics::log_dropped));

template <Is<OperatorMetrics> T>
void fields(auto& pass, T& value) {
  pass(value.name, value.version, value.times);
  for (const auto& row : kOperatorRows) pass(value.*row.value);
}

template <Is<WorkerMetrics> T>
void fields(auto& pass, T& value) {
  pass(value.log_dropped);
  for (const auto& row : kWorkerRows) pass(value.*row.value);
}

template <Is<Metrics> T>
void fields(auto& pass, T& value) {
  pass(value.at, value.runtime, value.generation, value.device, value.metering, value.clock_error_ns, value.operators, value.workers,
       value.log_dropped);
  for (const auto& row : kMetricRows) pass(value.*row.value);
}

template <Is<TaskState::OnWorker> T>
void fields(auto& pass, T& value) {
  auto& [worker, node, since] = value;
  pass(worker, node, since);
}

template <Is<TaskState> T>
void fields(auto& pass, T& value) {
  auto& [position, name, graph, cancelled, groups, doing, waits_for, named, workers] = value;
  pass(position, name, graph, cancelled, groups, doing, waits_for, named, workers);
}

template <Is<Diagnosis> T>
void fields(auto& pass, T& value) {
  auto& [tasks, total, cycles, workers, busy, parked, stalled] = value;
  pass(tasks, total, cycles, workers, busy, parked, stalled);
}

template <Is<LogRecord> T>
void fields(auto& pass, T& value) {
  auto& [severity, text, op, position, has_position, worker, at, node, graph] = value;
  pass(severity, text, op, position, has_position, worker, at, node, graph);
}

template <Is<LogPage> T>
void fields(auto& pass, T& value) {
  auto& [records, next] = value;
  pass(records, next);
}

template <Is<HeapCollection> T>
void fields(auto& pass, T& value) {
  auto& [marked, freed, freed_bytes, slices, duration, marking] = value;
  pass(marked, freed, freed_bytes, slices, duration, marking);
}

template <Is<HeapClassStatistics> T>
void fields(auto& pass, T& value) {
  auto& [size, slabs, bytes, slots, live, cached, free, allocations, frees, failures] = value;
  pass(size, slabs, bytes, slots, live, cached, free, allocations, frees, failures);
}

template <Is<HeapStatistics> T>
void fields(auto& pass, T& value) {
  auto& [reserved, mapped, used, tables, cached, fragmented, large, large_bytes, large_failures, last_failure, types, collections, last,
         classes] = value;
  pass(reserved, mapped, used, tables, cached, fragmented, large, large_bytes, large_failures, last_failure, types, collections, last,
       classes);
}

template <Is<HeapTypeCensus> T>
void fields(auto& pass, T& value) {
  auto& [name, objects, bytes] = value;
  pass(name, objects, bytes);
}

template <Is<HeapSizeCensus> T>
void fields(auto& pass, T& value) {
  auto& [size, allocations] = value;
  pass(size, allocations);
}

template <Is<HeapSlabCensus> T>
void fields(auto& pass, T& value) {
  auto& [offset, bytes, size, slots, live] = value;
  pass(offset, bytes, size, slots, live);
}

template <Is<HeapCensus> T>
void fields(auto& pass, T& value) {
  auto& [types, sizes, large, large_bytes, slabs] = value;
  pass(types, sizes, large, large_bytes, slabs);
}

template <Is<HeapVerification> T>
void fields(auto& pass, T& value) {
  auto& [mistakes, first_offset, live] = value;
  pass(mistakes, first_offset, live);
}

constexpr auto last_of(Metering) { return Metering::times; }
constexpr auto last_of(Doing) { return Doing::lost; }
constexpr auto last_of(level) { return level::off; }

struct Write {
  ByteWriter bytes;

  void operator()(const auto&... values) { (put(values), ...); }

  void put(bool value) { bytes.number(static_cast<std::uint8_t>(value)); }
  void put(std::integral auto value) { bytes.number(value); }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void put(Enum value) { bytes.number(static_cast<std::underlying_type_t<Enum>>(value)); }
  void put(std::chrono::nanoseconds value) { bytes.number(static_cast<std::int64_t>(value.count())); }
  void put(std::chrono::steady_clock::time_point value) { put(std::chrono::nanoseconds(value.time_since_epoch())); }
  void put(const std::string& value) { bytes.counted(value); }
  // Most buckets are empty: encodes only the others, each with its index.
  void put(const TimeHistogram& value) {
    std::uint8_t used = 0;
    for (const std::uint64_t count : value.count) used = static_cast<std::uint8_t>(used + (count != 0 ? 1 : 0));
    put(used);
    for (std::size_t i = 0; i < TimeHistogram::kBuckets; ++i) {
      if (value.count[i] != 0) (*this)(static_cast<std::uint8_t>(i), value.count[i]);
    }
  }
  template <std::size_t count>
  void put(const std::array<std::uint64_t, count>& values) {
    for (const std::uint64_t value : values) put(value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const T& value) requires std::is_aggregate_v<T> {
    fields(*this, value);
  }
};
static_assert(TimeHistogram::kBuckets <= 255);

struct Read {
  ByteReader bytes;

  void operator()(auto&... values) { (take(values), ...); }

  void take(bool& value) { value = bytes.number<std::uint8_t>() != 0; }
  template <std::integral T>
  void take(T& value) {
    value = bytes.number<T>();
  }
  void take(double& value) { value = std::bit_cast<double>(bytes.number<std::uint64_t>()); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void take(Enum& value) {
    const auto number = bytes.number<std::underlying_type_t<Enum>>();
    if (number > static_cast<std::underlying_type_t<Enum>>(last_of(Enum{}))) return bytes.fail();
    value = static_cast<Enum>(number);
  }
  // Sums and differences of two times must not overflow: they are within 73 years.
  void take(std::chrono::nanoseconds& value) {
    constexpr std::int64_t kMost = std::int64_t{1} << 61U;
    const auto count = bytes.number<std::int64_t>();
    if (count < -kMost || count > kMost) return bytes.fail();
    value = std::chrono::nanoseconds(count);
  }
  void take(std::chrono::steady_clock::time_point& value) {
    std::chrono::nanoseconds since{0};
    take(since);
    value = std::chrono::steady_clock::time_point(since);
  }
  void take(std::string& value) { value = bytes.text(); }
  void take(TimeHistogram& value) {
    for (auto used = bytes.number<std::uint8_t>(); used != 0 && bytes.ok(); --used) {
      const std::size_t bucket = bytes.number<std::uint8_t>();
      if (bucket >= TimeHistogram::kBuckets) return bytes.fail();
      take(value.count[bucket]);
    }
  }
  template <std::size_t count>
  void take(std::array<std::uint64_t, count>& values) {
    for (std::uint64_t& value : values) take(value);
  }
  // Each element takes at least a byte, so a length cannot request more memory than the bytes justify.
  template <class T>
  void take(std::vector<T>& values) {
    const auto size = bytes.number<std::uint64_t>();
    if (size > bytes.left()) return bytes.fail();
    for (std::uint64_t i = 0; i < size && bytes.ok(); ++i) take(values.emplace_back());
  }
  template <class T>
  void take(T& value) requires std::is_aggregate_v<T> {
    fields(*this, value);
  }
};

template <class Value>
std::vector<std::byte> encoded(const Value& value) {
  Write write;
  write(kWireVersion, value);
  return std::move(write.bytes).take();
}

}  // namespace

std::vector<std::byte> encode(const Metrics& value) { return encoded(value); }
std::vector<std::byte> encode(const Diagnosis& value) { return encoded(value); }
std::vector<std::byte> encode(const LogPage& value) { return encoded(value); }
std::vector<std::byte> encode(const RuntimeIds& value) { return encoded(value); }
std::vector<std::byte> encode(const HeapStatistics& value) { return encoded(value); }
std::vector<std::byte> encode(const HeapCensus& value) { return encoded(value); }
std::vector<std::byte> encode(const HeapVerification& value) { return encoded(value); }

template <class Value>
Value decode(std::span<const std::byte> bytes) {
  Read read{ByteReader(bytes)};
  std::uint32_t version = 0;
  read(version);
  if (version != kWireVersion)
    throw Error(errc::unsupported, "the other process runs another version of dwell: use the tool of that version");
  Value value;
  read(value);
  if (!read.bytes.complete()) throw Error(errc::unsupported, "the answer of the other process is invalid");
  return value;
}

template Metrics decode(std::span<const std::byte> bytes);
template Diagnosis decode(std::span<const std::byte> bytes);
template LogPage decode(std::span<const std::byte> bytes);
template RuntimeIds decode(std::span<const std::byte> bytes);
template HeapStatistics decode(std::span<const std::byte> bytes);
template HeapCensus decode(std::span<const std::byte> bytes);
template HeapVerification decode(std::span<const std::byte> bytes);

}  // namespace dwell::live
