#include "runtime/observe/log_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <vector>

#include <dwell/device/log.hpp>

#include "device/graph_layout.hpp"

namespace dwell::runtime {
namespace {

using device::log_mistake;
using device::LogMistake;
using device::LogType;

// Checks made when an operator is compiled.
static_assert(log_mistake<>("") == LogMistake::none);
static_assert(log_mistake<>("{{}} {{ }}") == LogMistake::none);
static_assert(log_mistake<int>("{}") == LogMistake::none);
static_assert(log_mistake<int, float>("x={} y={:.3f}") == LogMistake::none);
static_assert(log_mistake<int>("{{{}}}") == LogMistake::none);
static_assert(log_mistake<unsigned>("{:*^+#010x}") == LogMistake::none);
static_assert(log_mistake<int>("{:}") == LogMistake::none);
static_assert(log_mistake<int>("{:<<8}") == LogMistake::none);
static_assert(log_mistake<bool, bool, bool>("{} {:s} {:#b}") == LogMistake::none);
static_assert(log_mistake<char, char, char>("{} {:c} {:+d}") == LogMistake::none);
static_assert(log_mistake<double, half, bfloat16>("{:a} {:G} {:9999.9999e}") == LogMistake::none);
static_assert(log_mistake<void*, const float*>("{} {:>20p}") == LogMistake::none);
static_assert(log_mistake<>("{}") == LogMistake::more_placeholders_than_arguments);
static_assert(log_mistake<int>("") == LogMistake::more_arguments_than_placeholders);
static_assert(log_mistake<int>("{{}}") == LogMistake::more_arguments_than_placeholders);
static_assert(log_mistake<int>("}") == LogMistake::a_closing_brace_stands_alone_write_two);
static_assert(log_mistake<int>("{}}") == LogMistake::a_closing_brace_stands_alone_write_two);
static_assert(log_mistake<int>("{") == LogMistake::a_placeholder_neither_ends_nor_begins_with_a_colon);
static_assert(log_mistake<int>("{0}") == LogMistake::a_placeholder_neither_ends_nor_begins_with_a_colon);
static_assert(log_mistake<int>("{:") == LogMistake::a_placeholder_has_an_unknown_type_or_no_end);
static_assert(log_mistake<int>("{:{}}") == LogMistake::a_placeholder_has_an_unknown_type_or_no_end);
static_assert(log_mistake<int>("{:L}") == LogMistake::a_placeholder_has_an_unknown_type_or_no_end);
static_assert(log_mistake<int>("{:xx}") == LogMistake::a_placeholder_has_an_unknown_type_or_no_end);
static_assert(log_mistake<int>("{:{<8}") == LogMistake::a_brace_cannot_fill);
static_assert(log_mistake<float>("{:.}") == LogMistake::a_precision_has_no_digits);
static_assert(log_mistake<float>("{:.12345}") == LogMistake::a_width_or_precision_has_more_than_four_digits);
static_assert(log_mistake<float>("{:12345}") == LogMistake::a_width_or_precision_has_more_than_four_digits);
static_assert(log_mistake<int>("{:f}") == LogMistake::this_type_does_not_fit_the_argument);
static_assert(log_mistake<float>("{:x}") == LogMistake::this_type_does_not_fit_the_argument);
static_assert(log_mistake<int>("{:s}") == LogMistake::this_type_does_not_fit_the_argument);
static_assert(log_mistake<bool>("{:c}") == LogMistake::this_type_does_not_fit_the_argument);
static_assert(log_mistake<void*>("{:x}") == LogMistake::this_type_does_not_fit_the_argument);
static_assert(log_mistake<bool>("{:+}") == LogMistake::a_sign_or_number_sign_or_zero_needs_a_number);
static_assert(log_mistake<char>("{:08}") == LogMistake::a_sign_or_number_sign_or_zero_needs_a_number);
static_assert(log_mistake<void*>("{:#p}") == LogMistake::a_sign_or_number_sign_or_zero_needs_a_number);
static_assert(log_mistake<int>("{:.3}") == LogMistake::a_precision_needs_a_float);

// Words and types of arguments, as an operator lays them out.
class Arguments {
 public:
  void add(LogType type, std::uint64_t value) {
    types |= static_cast<std::uint32_t>(type) << (4 * count++);
    words.push_back(static_cast<std::uint32_t>(value));
    if (device::log_words_of(type) == 2) words.push_back(static_cast<std::uint32_t>(value >> 32U));
  }
  std::string in(std::string_view format) const { return format_line(format, count, types, words.data()); }

  std::uint32_t count = 0;
  std::uint32_t types = 0;
  std::vector<std::uint32_t> words;
};

TEST(LogFormatTest, ArgumentsReplacePlaceholders) {
  Arguments some;
  some.add(LogType::int32, static_cast<std::uint32_t>(-7));
  some.add(LogType::float64, std::bit_cast<std::uint64_t>(0.1));
  some.add(LogType::boolean, 1);
  some.add(LogType::int64, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::min()));
  some.add(LogType::character, 'x');
  EXPECT_EQ(some.in("{} {} {} {} {}"), "-7 0.1 true -9223372036854775808 x");
  EXPECT_EQ(some.in("{{{:>4}}} {:.2f}, {:d}; {:#x}: {:<3}|"), "{  -7} 0.10, 1; -0x8000000000000000: x  |");
}

TEST(LogFormatTest, NumbersOfExtremes) {
  Arguments some;
  some.add(LogType::float32, std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN()));
  some.add(LogType::float32, std::bit_cast<std::uint32_t>(-std::numeric_limits<float>::infinity()));
  some.add(LogType::uint64, ~0ULL);
  some.add(LogType::uint32, ~0U);
  some.add(LogType::pointer, 0);
  EXPECT_EQ(some.in("{} {} {} {} {}"), "nan -inf 18446744073709551615 4294967295 0x0");
}

TEST(LogFormatTest, MismatchedArgumentsAreShown) {
  Arguments some;
  some.add(LogType::int32, 1);
  EXPECT_EQ(some.in("{:s} {} {"), "{:s} {} {") << "the first takes the argument, the others have none";
  EXPECT_EQ(some.in("a } b {}"), "a } b 1");
}

// Words of a line as LogWriter lays them out.
std::vector<std::uint32_t> words_of(std::uint32_t severity, std::uint32_t count, std::uint32_t types) {
  std::vector<std::uint32_t> words(2 * device::kLogSlotWords);
  words[0] = device::LogHead{17, severity, count, 99}.word();
  words[1] = device::Header{0, 0, 1, device::flag::tracked, 0}.word1();
  words[2] = 1234;
  words[3] = 5;
  words[4] = 1;
  words[5] = 0xABC;
  words[6] = 2;
  words[7] = types;
  words[8] = 3;
  return words;
}

TEST(LogFormatTest, LineIsDecodedFromWords) {
  LogLine line;
  ASSERT_TRUE(read_line(words_of(3, 1, 1).data(), line));
  EXPECT_EQ(line.head.opcode, 17U);
  EXPECT_EQ(line.severity(), level::warning);
  EXPECT_EQ(line.head.length, 99U);
  EXPECT_TRUE(line.has_position);
  EXPECT_EQ(line.position, 1234U);
  EXPECT_EQ(line.device_ns, 0x100000005ULL);
  EXPECT_EQ(line.address, 0x200000ABCULL);
  EXPECT_EQ(format_line(line), "format at 0x200000abc; 3");
  line.format = std::make_shared<const std::string>("three is {}");
  EXPECT_EQ(format_line(line), "three is 3");
}

TEST(LogFormatTest, NodesHaveTheTicketOfTheirLaunch) {
  auto words = words_of(3, 1, 1);
  for (const std::uint32_t position : {0U, 0xFFFFU, 0x10000U, 0xFFFFFFFU, 0x10000000U, 0x12345678U, ~0U}) {
    const device::LogLaunch launch{position};
    words[1] = launch.word1();
    words[6] = 2 | launch.word6();
    LogLine line;
    ASSERT_TRUE(read_line(words.data(), line));
    EXPECT_TRUE(line.has_position);
    EXPECT_EQ(line.position, position);
    EXPECT_EQ(line.record, 1234 * device::offset_of(1));
    EXPECT_EQ(line.address, 0x200000ABCULL);
  }
}

TEST(LogFormatTest, TasksOfOperatorsAndNodesOfTheirLaunchesHaveNoTicket) {
  LogLine line;
  auto words = words_of(2, 0, 0);
  for (const std::uint32_t source : {device::source::node, device::source::spawned}) {
    words[1] = device::Header{0, 0, 1, 0, 0, 0, source}.word1();
    ASSERT_TRUE(read_line(words.data(), line));
    EXPECT_FALSE(line.has_position);
    EXPECT_EQ(line.record, source == device::source::node ? std::optional(1234 * device::offset_of(1)) : std::nullopt);
  }
}

TEST(LogFormatTest, TheSlotsOfALine) {
  EXPECT_EQ(slots_of(words_of(2, 0, 0).data()), 1U);
  EXPECT_EQ(slots_of(words_of(2, 4, 0x1111).data()), 1U) << "four arguments of 32 bits";
  EXPECT_EQ(slots_of(words_of(2, 4, 0x3111).data()), 2U);
  EXPECT_EQ(slots_of(words_of(2, 8, 0x33333333).data()), 2U);
  EXPECT_EQ(slots_of(words_of(5, 0, 0).data()), 0U) << "no line has this severity";
  EXPECT_EQ(slots_of(words_of(2, 9, 0).data()), 0U);
}

TEST(LogFormat, TextsAreUtf8) {
  const std::uint32_t words[] = {0xF6, 0xC3, 0xB6};
  const auto types = static_cast<std::uint32_t>(LogType::character) * 0x111U;
  EXPECT_EQ(format_line("{} {}{}", 3, types, words), "\xEF\xBF\xBD \xC3\xB6");
}

TEST(LogFormat, WidthsAreLimited) {
  const std::uint32_t words[] = {1};
  const auto types = static_cast<std::uint32_t>(LogType::int32);
  EXPECT_EQ(format_line("{:2000000000}", 1, types, words), "{:2000000000}");
  EXPECT_EQ(format_line("{:9999}", 1, types, words).size(), 9999U);
}

TEST(LogFormat, LinesContainNoLineBreak) {
  LogRecord record;
  record.op = "f\x1b[2J";
  record.text = "a\nb\x9b\n";
  const std::string line = to_string(record);
  EXPECT_TRUE(line.ends_with(" f?[2J worker 0: a?b?")) << line;
}

}  // namespace
}  // namespace dwell::runtime
