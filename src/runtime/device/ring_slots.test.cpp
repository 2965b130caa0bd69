#include "runtime/device/ring_slots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "device/gates.hpp"
#include "tests/unit/bench.hpp"

namespace dwell::runtime {
namespace {

using device::Header;
using testing::ElementsAre;
namespace flag = device::flag;

class RingSlotsTest : public testing::Test {
 protected:
  // A quad of the slot at this position, in a ring of 128 slots.
  const device::Quad& quad(std::uint64_t position, std::uint32_t i) const { return bench_.ring[position % 128].quad[i]; }

  test::Bench bench_{7, 1};
  RingSlots slots_{bench_.ring.data(), 7};
};

TEST_F(RingSlotsTest, TaskIsValidOnlyInItsLap) {
  EXPECT_FALSE(slots_.header(5));
  const std::vector<u32> words = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  const detail::Task task = test::task_of(words);
  slots_.write(5, {Header{9, 3, 2, flag::tracked, 0}, 5, false}, task, {});
  ASSERT_TRUE(slots_.header(5));
  EXPECT_EQ(slots_.header(5)->opcode, 9U);
  EXPECT_EQ(slots_.header(5)->groups, 3U);
  EXPECT_EQ(slots_.header(5)->slots, 2U);
  EXPECT_TRUE(slots_.is_tracked(5));
  for (u32 i = 0; i < words.size(); ++i) EXPECT_EQ(slots_.argument(5, i), words[i]);
  EXPECT_FALSE(slots_.header(5 + 128)) << "the next lap's is not written yet";
}

TEST_F(RingSlotsTest, WaitListFollowsTheArguments) {
  const detail::Task task = test::task_of({1, 2, 3, 4});
  WaitingFor list;
  list.add((7ULL << 32U) + 1, WaitingFor::Kind::soft);
  list.add(2, WaitingFor::Kind::hard);
  EXPECT_EQ(RingSlots::first_free_quad(task.words), 3U);
  EXPECT_EQ(RingSlots::slots_for(3 + list.count), 2U);
  slots_.write(0, {Header{1, 1, 2, flag::after, 0}, device::WaitList{3, 2}.word(), true}, task, list);
  EXPECT_THAT(bench_.waits(0), ElementsAre((7ULL << 32U) + 1, 2 + test::Bench::kHard));
}

TEST_F(RingSlotsTest, PlainTasksWrapAroundTheRing) {
  std::vector<detail::FirstSlot> tasks;
  for (u32 i = 0; i < 4; ++i) tasks.push_back(test::task_of({i}).first);
  slots_.write_plain(126, tasks.data(), tasks.size(), 6, 0);
  for (u32 i = 0; i < 4; ++i) {
    ASSERT_TRUE(slots_.header(126 + i)) << i;
    EXPECT_EQ(slots_.header(126 + i)->opcode, 6U);
    EXPECT_EQ(slots_.argument(126 + i, 0), i);
    EXPECT_EQ(quad(126 + i, 0).word[2], 126 + i) << "word 2 is the position";
  }
  EXPECT_FALSE(slots_.header(0)) << "it is of the second lap";
}

TEST_F(RingSlotsTest, PassEntryIsInEachQuad) {
  const Header header{0, 0, 3, 0, 0, 0, device::source::pass};
  slots_.write_entry(20, header, 77);
  for (std::uint64_t at = 20; at < 23; ++at)
    for (std::uint32_t i = 0; i < 4; ++i)
      EXPECT_THAT(quad(at, i).word, ElementsAre(header.word0(), header.word1(), 77U)) << at << ", quad " << i;
}

TEST_F(RingSlotsTest, OpenGateIsMarkedInItsLap) {
  slots_.open_gate(128 + 4);
  EXPECT_EQ(quad(4, device::gates::kQuad).lap, 2U);
  EXPECT_EQ(quad(4, device::gates::kQuad).word[0], device::gates::kOpen);
}

}  // namespace
}  // namespace dwell::runtime
