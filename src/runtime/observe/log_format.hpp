// Formats operators' lines (dwell/device/log_line.hpp) as text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <dwell/device/log_line.hpp>
#include <dwell/log.hpp>

#include "device/ring.hpp"

namespace dwell::runtime {

// As in LogRecord.
struct NodeName {
  std::string node;
  std::string graph;
};

// A line read from a ring.
struct LogLine {
  device::LogHead head{};
  std::uint32_t worker = 0;
  std::uint64_t device_ns = 0;
  std::uint64_t position = 0;  // of the ticket
  bool has_position = false;
  std::optional<std::uint64_t> record = {};  // for a graph node, the place of its record in the arena
  NodeName node = {};
  std::uint64_t address = 0;                  // of the format
  std::shared_ptr<const std::string> format;  // null when it could not be read
  std::shared_ptr<const std::string> op;
  std::uint32_t types = 0;
  std::array<std::uint32_t, 2 * device::kLogArguments> word{};

  level severity() const { return static_cast<level>(head.severity); }
};

// Decodes a line from the words of one or two slots, without format and operator's name. False for words that no operator can have written.
bool read_line(const std::uint32_t* words, LogLine& line);
// Returns the number of slots of the line that begins with these words; 0 for words that no operator can have written.
std::uint32_t slots_of(const std::uint32_t* words);

// Formats the arguments in these words, `types` as in a line. Placeholders that do not fit are shown verbatim. Always returns UTF-8. Throws
// std::bad_alloc.
std::string format_line(std::string_view format, std::uint32_t count, std::uint32_t types, const std::uint32_t* words);
// Formats a line; without a format, shows its address and its arguments.
std::string format_line(const LogLine& line);

}  // namespace dwell::runtime
