// LogWriter on a ring in plain memory.
#include <dwell/device/log.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "device/graph_layout.hpp"
#include "runtime/observe/log_format.hpp"

namespace dwell::device::log_test {
namespace {

class LogWriterTest : public testing::Test {
 protected:
  static constexpr u32 kShift = 4;

  void SetUp() override {
    context_.log.slots = ring_.data();
    context_.log.read = &read_;
    context_.log.dropped = dropped_.data();
    context_.log.from = 0;
    context_.log.mask = (1U << kShift) - 1;
    context_.log.limit = log_room_of(0, 1U << kShift);
    context_.arguments = task_.data() + kLogTaskHeader;
  }
  Group group() { return {&context_, 0, 1, 321}; }
  bool is_written(u32 position) const {
    const Slot& slot = ring_[index_of(position, kShift)];
    for (const Quad& quad : slot.quad)
      if (quad.lap != log_tag_of(position)) return false;
    return true;
  }
  // The line that begins at this slot, with its format.
  runtime::LogLine line(u32 position) const {
    std::array<u32, 2 * kLogSlotWords> words{};
    for (u32 i = 0; i < words.size(); ++i)
      words[i] = ring_[index_of(position + i / kLogSlotWords, kShift)].quad[i % kLogSlotWords / 3].word[i % 3];
    runtime::LogLine line;
    EXPECT_TRUE(runtime::read_line(words.data(), line));
    line.format = std::make_shared<const std::string>(reinterpret_cast<const char*>(line.address), line.head.length);
    return line;
  }
  // Marks `position` as read by the host, and lets the worker check again.
  void reads(u32 position) {
    read_ = position;
    context_.log.looked = now_ticks() - 1000;
  }

  std::array<Slot, 1U << kShift> ring_{};
  u32 read_ = 0;
  std::array<u64, kLogSeverities> dropped_{};
  std::array<u32, 8> task_{1, 2, 77};
  Context context_{};
};

TEST_F(LogWriterTest, ALineTakesOneSlotOrTwo) {
  const u64 before = now_ns();
  log(group(), level::info, "{} {} {} {}", 1, 2U, 3.0F, true);
  EXPECT_EQ(context_.log.next, 1U);
  EXPECT_TRUE(is_written(0));
  log(group(), level::error, "{} {} {} {} {}", 1, 2, 3, 4, 5);
  EXPECT_EQ(context_.log.next, 3U);
  EXPECT_TRUE(is_written(1));
  EXPECT_TRUE(is_written(2));
  const runtime::LogLine first = line(0);
  EXPECT_EQ(first.head.opcode, 321U);
  EXPECT_EQ(first.position, 77U);
  EXPECT_EQ(first.severity(), level::info);
  EXPECT_GE(first.device_ns, before);
  EXPECT_LE(first.device_ns, now_ns());
  EXPECT_EQ(runtime::format_line(first), "1 2 3 true");
  EXPECT_EQ(line(1).severity(), level::error);
  EXPECT_EQ(runtime::format_line(line(1)), "1 2 3 4 5");
}

// A graph of one node, whose record begins in the second cell behind the head.
struct OneNode {
  GraphHead head{};
  Slot other{};
  Slot record{};
};

TEST_F(LogWriterTest, NodesNameTheirLaunch) {
  constexpr u32 kBefore = 3;  // cells of the arena before the exec
  constexpr u32 kCellOfRecord = kFirstRecord + 1;
  OneNode exec;
  exec.record.quad[0].lap = kCellOfRecord;
  context_.arena = reinterpret_cast<u64>(&exec) - kBefore * kCell;
  // Flags, slots and drains that a line of a node does without.
  task_[1] = Header{0, 0, 15, Header::kFlagMask, Header::kDrainMask, 0, source::node}.word1();
  task_[2] = kBefore + kCellOfRecord;
  u32 at = 0;
  for (const u32 position : {0U, 1U, 0xFFFFU, 0x10000U, 0xFFF0000U, 0x10000000U, 0x12345678U, 0xA5C30FF0U, ~0U}) {
    exec.head.position = position;
    exec.head.word1 = Header{0, 1, 15, flag::tracked, Header::kDrainMask, 0, source::launch}.word1();
    log(group(), level::info, "{}", position);
    const runtime::LogLine its = line(at++);
    EXPECT_TRUE(its.has_position);
    EXPECT_EQ(its.position, position);
    EXPECT_EQ(its.record, offset_of(kBefore + kCellOfRecord));
    EXPECT_EQ(runtime::format_line(its), std::to_string(position)) << "the address of the format is whole";
  }
  for (const u32 source : {source::spawned, source::spawned_launch}) {
    exec.head.word1 = Header{0, 1, 15, 0, 0, 0, source}.word1();
    log(group(), level::info, "made");
    EXPECT_FALSE(line(at).has_position);
    EXPECT_EQ(line(at).record, offset_of(kBefore + kCellOfRecord));
    EXPECT_EQ(runtime::format_line(line(at++)), "made");
  }
}

TEST_F(LogWriterTest, LowSeveritiesLeaveRoom) {
  const auto fill = [&](level severity) {
    for (int i = 0; i < 40; ++i) log(group(), severity, "{}", i);
    return context_.log.next;
  };
  EXPECT_EQ(fill(level::trace), 12U);
  EXPECT_EQ(fill(level::warning), 14U);
  EXPECT_EQ(fill(level::error), 16U);
  EXPECT_EQ(dropped_, (std::array<u64, 5>{28, 0, 0, 38, 38}));
  log(group(), level::error, "{} {} {} {} {}", 1, 2, 3, 4, 5);
  EXPECT_EQ(context_.log.next, 16U) << "a line without room leaves no hole";
  reads(16);
  EXPECT_EQ(fill(level::info), 28U);
}

TEST_F(LogWriterTest, SlotsOfTheNextLapAreWrittenWhenTheHostHasReadThem) {
  for (u32 i = 0; i < 1000; ++i) {
    if (context_.log.next - read_ >= 8) reads(context_.log.next);
    const u32 at = context_.log.next;
    if (i % 3 == 0)
      log(group(), level::info, "{} {} {}", i, 1.5, 2.5);
    else
      log(group(), level::info, "{}", i);
    ASSERT_TRUE(is_written(at));
    ASSERT_EQ(line(at).word[0], i);
  }
  EXPECT_EQ(dropped_, (std::array<u64, 5>{}));
}

TEST_F(LogWriterTest, NumbersWrapAround) {
  context_.log.next = read_ = 0U - 3U;
  context_.log.limit += read_;
  for (u32 i = 0; i < 6; ++i) log(group(), level::info, "{}", i);
  EXPECT_EQ(context_.log.next, 3U);
  for (u32 i = 0; i < 6; ++i) {
    EXPECT_TRUE(is_written(0U - 3U + i));
    EXPECT_EQ(line(0U - 3U + i).word[0], i);
  }
}

TEST_F(LogWriterTest, HostPositionIsReadRarely) {
  for (int i = 0; i < 16; ++i) log(group(), level::error, "{}", i);
  log(group(), level::error, "finds no room, and looks");
  EXPECT_LE(now_ticks() - context_.log.looked, 10'000'000U) << "it has not looked";
  read_ = 16;
  const u32 begin = now_ticks();
  context_.log.looked = begin;  // independent of the time the calls above took
  log(group(), level::error, "does not look again");
  if (now_ticks() - begin >= 10) GTEST_SKIP() << "the machine has held the test up";
  EXPECT_EQ(dropped_[4], 2U);
  reads(16);
  log(group(), level::error, "looks");
  EXPECT_EQ(dropped_[4], 2U);
  EXPECT_EQ(context_.log.next, 17U);
}

TEST_F(LogWriterTest, BelowTheThresholdNothingIsWritten) {
  context_.log.from = static_cast<u32>(level::error);
  log(group(), level::warning, "not this");
  EXPECT_EQ(context_.log.next, 0U);
  EXPECT_FALSE(group().logs(level::warning));
  EXPECT_TRUE(group().logs(level::error));
  context_.log.from = static_cast<u32>(level::off);
  EXPECT_FALSE(group().logs(level::error));
}

}  // namespace
}  // namespace dwell::device::log_test
