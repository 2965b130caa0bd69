#include "device/ring.hpp"

#include <gtest/gtest.h>

namespace dwell::device::ring_test {
namespace {

Header through_words(const Header& header) { return Header::from(header.word0(), header.word1()); }

TEST(Ring, HeaderRoundTripsThroughTwoWords) {
  const Header all{Header::kOpcodeMask, 0xFFFF, kMaxSlots, Header::kFlagMask, Header::kDrainMask, Header::kLevelMask, source::kCount - 1};
  const Header back = through_words(all);
  EXPECT_EQ(back.opcode, all.opcode);
  EXPECT_EQ(back.groups, all.groups);
  EXPECT_EQ(back.slots, all.slots);
  EXPECT_EQ(back.flags, all.flags);
  EXPECT_EQ(back.drains, all.drains);
  EXPECT_EQ(back.level, all.level);
  EXPECT_EQ(back.source, all.source);
}

TEST(Ring, HeaderFieldsAreIndependent) {
  const Header alone[] = {{Header::kOpcodeMask, 0, 0, 0, 0},
                          {0, 0xFFFF, 0, 0, 0},
                          {0, 0, kMaxSlots, 0, 0},
                          {0, 0, 0, Header::kFlagMask, 0},
                          {0, 0, 0, 0, Header::kDrainMask},
                          {0, 0, 0, 0, 0, Header::kLevelMask},
                          {0, 0, 0, 0, 0, 0, source::kCount - 1}};
  for (const Header& header : alone) {
    const Header back = through_words(header);
    EXPECT_EQ(back.word0(), header.word0());
    EXPECT_EQ(back.word1(), header.word1());
    EXPECT_EQ((back.opcode != 0) + (back.groups != 0) + (back.slots != 0) + (back.flags != 0) + (back.drains != 0) + (back.level != 0) +
                  (back.source != 0),
              1);
  }
}

TEST(Ring, LapIsOnePassOverTheRing) {
  EXPECT_EQ(lap_of(0, 7), 1U);
  EXPECT_EQ(lap_of(127, 7), 1U);
  EXPECT_EQ(lap_of(128, 7), 2U);
  EXPECT_EQ(index_of(127, 7), 127U);
  EXPECT_EQ(index_of(128, 7), 0U);
}

TEST(Ring, NoPositionHasTheLapOfClearedMemory) {
  for (const u32 position : {0U, 1U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFFFU})
    for (const u32 shift : {kMinRingShift, 16U, 24U}) EXPECT_NE(lap_of(position, shift), 0U);
}

TEST(Ring, ASlotChangesItsLapWhenPositionsWrapAround) {
  for (u32 i = 0; i < 128; ++i) {
    const u32 before = 0U - 128 + i;
    ASSERT_EQ(index_of(before, 7), index_of(i, 7));
    EXPECT_NE(lap_of(before, 7), lap_of(i, 7));
  }
}

TEST(Ring, OnlyPlainTasksAreSimple) {
  const u32 harmless = flag::system | flag::tracked | flag::memory;
  EXPECT_TRUE(Header::simple(Header{0, 1, 1, 0, 5}.word1(), 5));
  EXPECT_TRUE(Header::simple(Header{0, 1, 1, harmless, 5}.word1(), 5));
  EXPECT_FALSE(Header::simple(Header{0, 1, 1, 0, 5}.word1(), 4)) << "it comes behind a drain";
  EXPECT_FALSE(Header::simple(Header{0, 1, 2, 0, 5}.word1(), 5)) << "it has two slots";
  for (const u32 flag : {flag::link, flag::drain, flag::wide, flag::after, flag::share, flag::hard, flag::ranked, flag::cancelled})
    EXPECT_FALSE(Header::simple(Header{0, 1, 1, flag, 5}.word1(), 5)) << "flag " << flag;
  for (u32 source = 1; source < source::kCount; ++source)
    EXPECT_FALSE(Header::simple(Header{0, 1, 1, 0, 5, 0, source}.word1(), 5)) << "source " << source;
}

TEST(Ring, SourceInWord1ChangesIndependently) {
  const Header all{Header::kOpcodeMask, 0xFFFF, kMaxSlots, Header::kFlagMask, Header::kDrainMask, Header::kLevelMask, source::kCount - 1};
  EXPECT_EQ(source_in(with_source(all.word1(), source::control)), source::control);
  EXPECT_EQ(with_source(with_source(all.word1(), source::control), all.source), all.word1());
}

}  // namespace
}  // namespace dwell::device::ring_test
