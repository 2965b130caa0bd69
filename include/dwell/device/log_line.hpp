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
