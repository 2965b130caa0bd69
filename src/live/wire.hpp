// Encodes snapshots, between processes that may run different builds of dwell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <dwell/diagnosis.hpp>
#include <dwell/heap.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

namespace dwell::live {

// The first word of each value. Incremented with each change of the encoding.
inline constexpr std::uint32_t kWireVersion = 6;

// Some lines of a log, and the number after which to continue.
struct LogPage {
  std::vector<LogRecord> records;
  std::uint64_t next = 0;
};

using RuntimeIds = std::vector<std::uint64_t>;  // RuntimeInfo::runtime

std::vector<std::byte> encode(const Metrics& value);
std::vector<std::byte> encode(const Diagnosis& value);
std::vector<std::byte> encode(const LogPage& value);
std::vector<std::byte> encode(const RuntimeIds& value);
std::vector<std::byte> encode(const HeapStatistics& value);
std::vector<std::byte> encode(const HeapCensus& value);
std::vector<std::byte> encode(const HeapVerification& value);

// Decodes a value of the types above. The bytes are untrusted. Throws errc::unsupported for another version and for invalid bytes.
template <class Value>
Value decode(std::span<const std::byte> bytes);

}  // namespace dwell::live
