#include "runtime/observe/log_format.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <exception>
#include <iterator>
#include <new>

#include "base/utf8.hpp"
#include "device/graph_layout.hpp"
#include "runtime/observe/format_library.hpp"

namespace dwell::runtime {

namespace {

using device::LogType;

static_assert(device::kLogCell == device::kCell && device::kLogHead == offsetof(device::GraphHead, position) &&
                  device::kLogHead + offsetof(device::Quad, word[1]) == offsetof(device::GraphHead, word1) &&
                  device::kLogHead % sizeof(device::Quad) == 0,
              "a line of a node finds its launch in one quad");
static_assert(device::kLogSourceShift == device::Header::kSourceShift && device::kLogNode == device::source::node &&
                  device::kLogNode == device::source::kMade && device::kLogLaunched == device::source::control &&
                  device::kLogMember == device::source::node_member,
              "a line knows the sources of nodes");

LogType type_of(std::uint32_t types, std::uint32_t index) { return static_cast<LogType>(types >> (4 * index) & 0xFU); }

std::uint64_t wide(const std::uint32_t* words) { return words[0] | static_cast<std::uint64_t>(words[1]) << 32U; }

void append_argument(std::string& to, const std::string& placeholder, LogType type, const std::uint32_t* words) {
  switch (type) {
    case LogType::int32: return append_formatted(to, placeholder, static_cast<std::int32_t>(words[0]));
    case LogType::uint32: return append_formatted(to, placeholder, words[0]);
    case LogType::int64: return append_formatted(to, placeholder, static_cast<std::int64_t>(wide(words)));
    case LogType::uint64: return append_formatted(to, placeholder, wide(words));
    case LogType::boolean: return append_formatted(to, placeholder, words[0] != 0);
    case LogType::character: return append_formatted(to, placeholder, static_cast<char>(words[0]));
    case LogType::float32: return append_formatted(to, placeholder, std::bit_cast<float>(words[0]));
    case LogType::float64: return append_formatted(to, placeholder, std::bit_cast<double>(wide(words)));
    case LogType::pointer: return append_formatted(to, placeholder, reinterpret_cast<const void*>(wide(words)));
    case LogType::none: break;
  }
  to += placeholder;
}

// Returns whether a width or a precision exceeds what a compiler accepts: the text could exhaust memory.
bool is_too_wide(std::string_view placeholder) {
  constexpr std::size_t kDigits = 4;
  std::size_t digits = 0;
  return std::ranges::any_of(placeholder, [&](char c) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    return digits > kDigits;
  });
}

// As append_argument; keeps a placeholder that the library rejects.
void append_or_show(std::string& to, const std::string& placeholder, LogType type, const std::uint32_t* words) {
  if (is_too_wide(placeholder)) {
    to += placeholder;
    return;
  }
  const std::size_t before = to.size();
  try {
    append_argument(to, placeholder, type, words);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    to.resize(before);
    to += placeholder;
  }
}

std::uint32_t words_of(std::uint32_t count, std::uint32_t types) {
  std::uint32_t words = 0;
  for (std::uint32_t i = 0; i < count; ++i) words += device::log_words_of(type_of(types, i));
  return words;
}

}  // namespace

std::uint32_t slots_of(const std::uint32_t* words) {
  const auto head = device::LogHead::from(words[0]);
  if (head.severity >= device::kLogSeverities || head.arguments > device::kLogArguments) return 0;
  return device::log_slots_of(words_of(head.arguments, words[7]));
}

bool read_line(const std::uint32_t* words, LogLine& line) {
  if (slots_of(words) == 0) return false;
  line.head = device::LogHead::from(words[0]);
  const auto header = device::Header::from(0, words[1]);
  const bool launched = header.source == device::kLogLaunched;
  line.has_position = launched || !header.is_made();
  line.position = launched ? device::LogLaunch::from(words[1], words[6]).position : words[2];
  line.record = header.is_node() ? std::optional(device::offset_of(words[2])) : std::nullopt;
  line.device_ns = wide(words + 3);
  line.address = wide(words + 5);
  if (launched) line.address &= ~(static_cast<std::uint64_t>(device::LogLaunch::kUpper) << 32U);
  line.types = words[7];
  std::copy_n(words + device::kLogFixedWords, words_of(line.head.arguments, line.types), line.word.begin());
  return true;
}

std::string format_line(std::string_view format, std::uint32_t count, std::uint32_t types, const std::uint32_t* words) {
  std::string text;
  text.reserve(format.size() + 16);
  std::uint32_t used = 0;
  for (std::size_t at = 0; at < format.size();) {
    const char c = format[at];
    const bool twice = at + 1 < format.size() && format[at + 1] == c;
    const std::size_t end = c == '{' && !twice ? format.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos || used == count) {
      text += c;
      at += (c == '{' || c == '}') && twice ? 2 : 1;
      continue;
    }
    const LogType type = type_of(types, used++);
    append_or_show(text, std::string(format.substr(at, end + 1 - at)), type, words);
    words += device::log_words_of(type);
    at = end + 1;
  }
  return valid_utf8(text);
}

std::string format_line(const LogLine& line) {
  if (line.format != nullptr) return format_line(*line.format, line.head.arguments, line.types, line.word.data());
  std::string format = "format at ";
  append_formatted(format, "{:#x}", line.address);
  for (std::uint32_t i = 0; i < line.head.arguments; ++i) format += i == 0 ? "; {}" : ", {}";
  return format_line(format, line.head.arguments, line.types, line.word.data());
}

}  // namespace dwell::runtime
