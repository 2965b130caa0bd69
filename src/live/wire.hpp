// Snapshots as bytes, between processes that may run different builds of dwell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <dwell/diagnosis.hpp>
#include <dwell/log.hpp>
#include <dwell/metrics.hpp>

namespace dwell::live {

// Each value begins with this. One more with each change of what travels.
inline constexpr std::uint32_t kWireVersion = 4;

// Some lines of a log, and after which to ask for more.
struct LogPage {
  std::vector<LogRecord> records;
  std::uint64_t next = 0;
};

using RuntimeIds = std::vector<std::uint64_t>;  // RuntimeInfo::runtime

std::vector<std::byte> encode(const Metrics& value);
std::vector<std::byte> encode(const Diagnosis& value);
std::vector<std::byte> encode(const LogPage& value);
std::vector<std::byte> encode(const RuntimeIds& value);

// The value that `encode` has made these bytes of: for the types above. The bytes are not trusted. Throws errc::unsupported when they are
// of another version, or make no sense.
template <class Value>
Value decode(std::span<const std::byte> bytes);

}  // namespace dwell::live
