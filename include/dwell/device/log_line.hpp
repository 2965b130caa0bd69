// Layout of a log line in the ring of its worker, from which the host reads it.
//
// A line takes one or two slots of the ring, each of four quads with the slot's tag. Quads are stored in any order; the line is complete
// when all have the tag. Their words, in order:
//   0       LogHead
//   1, 2    words 1 and 2 of the task's header
//   3, 4    when, in ns of the device's clock
//   5, 6    address of the format's text, which lies in the image
//   7       the types of the arguments, a LogType each, 4 bits
//   8 ...   the arguments, one word each or two, the lower one first
// A node of a graph that the host has launched has the launch's position in words 1 and 6 too (LogLaunch): by the time the host reads the
// line, the next launch may have overwritten the graph's head.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/level.hpp>

namespace dwell {
namespace device {

// The stored type of an argument. Types of 64 bits take two words.
enum class LogType : u32 { none, int32, uint32, int64, uint64, boolean, character, float32, float64, pointer };

// Word 0: opcode (13) | severity (3) | arguments (4) | length of the format's text (12).
struct LogHead {
  u32 opcode;
  u32 severity;
  u32 arguments;
  u32 length;

  DWELL_HOST_DEVICE u32 word() const { return opcode | severity << 13U | arguments << 16U | length << 20U; }
  static DWELL_HOST_DEVICE LogHead from(u32 word) { return LogHead{word & 0x1FFFU, word >> 13U & 7U, word >> 16U & 0xFU, word >> 20U}; }
};

// Constants of headers and graphs that lines need (src/device/header.hpp, graph_layout.hpp). log_format.cpp compares them.
DWELL_CONSTANT u32 kLogSourceShift = 16;
DWELL_CONSTANT u32 kLogNode = 8;      // source of a node with an operator; its bit is set in all sources of tasks made on the device
DWELL_CONSTANT u32 kLogMember = 13;   // source of a share of a node that a gang runs
DWELL_CONSTANT u32 kLogLaunched = 9;  // source of a node without an operator, which logs nothing
DWELL_CONSTANT u32 kLogCell = 64;     // bytes
DWELL_CONSTANT u32 kLogHead = 32;     // offset in a graph's head of the launch's position and header, in bytes

DWELL_HOST_DEVICE u32 log_source_in(u32 word1) { return word1 >> kLogSourceShift & 0xFU; }
DWELL_HOST_DEVICE u32 log_made_in(u32 word1) { return word1 & kLogNode << kLogSourceShift; }  // not 0: made on the device

// The launch by the host that runs the node of a line:
//   word 1   bits 0 to 15 of its position (16) | kLogLaunched (4) | bits 16 to 27 (12)
//   word 6   bits 28 to 31, above the address, which has 60 bits at most
struct LogLaunch {
  u32 position;

  static constexpr u32 kUpper = 0xF0000000U;  // of word 6
  DWELL_HOST_DEVICE u32 word1() const { return (position & 0xFFFFU) | kLogLaunched << kLogSourceShift | (position << 4U & 0xFFF00000U); }
  DWELL_HOST_DEVICE u32 word6() const { return position & kUpper; }
  static DWELL_HOST_DEVICE LogLaunch from(u32 word1, u32 word6) {
    return LogLaunch{(word1 & 0xFFFFU) | (word1 >> 4U & 0xFFF0000U) | (word6 & kUpper)};
  }
};

DWELL_CONSTANT u32 kLogSeverities = 5;  // of lines
DWELL_CONSTANT u32 kLogArguments = 8;   // at most
DWELL_CONSTANT u32 kLogFormat = 4095;   // characters at most
DWELL_CONSTANT u32 kLogFixedWords = 8;  // before the arguments
DWELL_CONSTANT u32 kLogSlotWords = 12;  // without the tags
DWELL_CONSTANT u32 kLogSlotQuads = 4;
DWELL_CONSTANT u32 kLogTaskHeader = 3;  // words of a task before its arguments

DWELL_HOST_DEVICE u32 log_words_of(LogType type) {
  return type == LogType::int64 || type == LogType::uint64 || type == LogType::float64 || type == LogType::pointer ? 2 : 1;
}
DWELL_HOST_DEVICE u32 log_slots_of(u32 argument_words) { return (kLogFixedWords + argument_words + kLogSlotWords - 1) / kLogSlotWords; }
static_assert(kLogFixedWords + 2 * kLogArguments <= 2 * kLogSlotWords, "a line takes two slots at most");

// The tag in place of a quad's lap (src/device/ring.hpp). It differs between slots and laps, and needs no shift to compute.
DWELL_HOST_DEVICE u32 log_tag_of(u32 position) { return position + 1; }

// Returns how many of `slots` slots lines of a severity may fill: less severe lines leave room for more severe ones.
DWELL_HOST_DEVICE u32 log_room_of(u32 severity, u32 slots) {
  return severity >= static_cast<u32>(level::error)     ? slots
         : severity == static_cast<u32>(level::warning) ? slots - slots / 8
                                                        : slots - slots / 4;
}

}  // namespace device
}  // namespace dwell
