// From a line as operators write it (dwell/device/log_line.hpp) to text.
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

// As a LogRecord has it.
struct NodeName {
  std::string node;
  std::string graph;
};

// A line that was taken out of a ring.
struct LogLine {
  device::LogHead head{};
  std::uint32_t worker = 0;
  std::uint64_t device_ns = 0;
  std::uint64_t position = 0;  // of the ticket
  bool has_position = false;
  std::optional<std::uint64_t> record = {};  // of a node of a graph: where its record lies in the arena
  NodeName node = {};
  std::uint64_t address = 0;                  // of the format
  std::shared_ptr<const std::string> format;  // null when it could not be read
  std::shared_ptr<const std::string> op;
  std::uint32_t types = 0;
  std::array<std::uint32_t, 2 * device::kLogArguments> word{};

  level severity() const { return static_cast<level>(head.severity); }
};

// The line in these words, which lie in one slot or two, without format and operator's name. False when no operator can have written them.
bool read_line(const std::uint32_t* words, LogLine& line);
// How many slots a line takes that begins with such words; 0 when no operator can have written them.
std::uint32_t slots_of(const std::uint32_t* words);

// The text of a format with the arguments in these words, `types` as in a line. What does not fit is shown as it is. UTF-8, whatever
// characters the arguments are. Throws std::bad_alloc.
std::string format_line(std::string_view format, std::uint32_t count, std::uint32_t types, const std::uint32_t* words);
// The same of a line; one without a format shows its address and its arguments.
std::string format_line(const LogLine& line);

}  // namespace dwell::runtime
