// What operators log (dwell/device/log.hpp), as the host reads it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dwell {

// How much a line matters. `off` is no line's: as a threshold it lets none pass.
enum class level : std::uint8_t { trace, debug, info, warning, error, off };

// "trace", "debug", "info", "warning", "error", "off".
std::string_view text_of(level severity) noexcept;

// One line.
struct LogRecord {
  level severity = level::info;
  std::string text;            // formatted
  std::string op;              // "add (version 2)"
  std::uint64_t position = 0;  // of the ticket from which the task descends, where `has_position`
  bool has_position = false;   // false of nodes of graphs and of tasks that operators have made
  std::uint32_t worker = 0;
  std::chrono::steady_clock::time_point at;  // the device's clock, aligned to within Trace::clock_error_ns
};

// "12:34:56.789012 warning add (version 2) worker 3 ticket 17: text"
std::string to_string(const LogRecord& record);

}  // namespace dwell
