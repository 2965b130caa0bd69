#include "runtime/memory/heap_room.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/heap_layout.hpp"

namespace dwell::runtime {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMiB = 1U << 20U;

HeapStatistics half_full() {
  HeapStatistics heap;
  heap.reserved = 64 * kMiB;
  heap.mapped = 40 * kMiB;
  heap.tables = 2 * kMiB;
  heap.used = 30 * kMiB;
  heap.cached = 512;
  heap.fragmented = 6 * kMiB;
  heap.large = 3;
  heap.large_bytes = 10 * kMiB;
  for (std::uint32_t number = 0; number < device::heap::kClasses; ++number) {
    HeapClassStatistics& one = heap.classes.emplace_back();
    one.size = device::heap::size_of_class(number);
    one.live = number % 8 == 0 ? 128 * (number + 1) : 0;  // of 16, 160, 640, 2560 bytes
    one.free = number == 31 ? 256 : 0;
  }
  return heap;
}

TEST(HeapRoomTest, SaysWhereTheMemoryIs) {
  EXPECT_EQ(room_text(half_full()),
            "of the 64.0 MiB that the heap may have, 19.3 MiB are live, 6.00 MiB free in slots, 512 bytes kept at hand by workers, "
            "8.00 MiB in pages without use, 24.0 MiB not mapped; its tables take 2.00 MiB; most is in 3 large allocations (10.0 MiB), "
            "3200 slots of 2560 bytes (7.81 MiB), 2176 slots of 640 bytes (1.33 MiB), 1152 slots of 160 bytes (180 KiB), "
            "128 slots of 16 bytes (2.00 KiB)");
}

TEST(HeapRoomTest, SaysWhatHadNoRoom) {
  HeapStatistics heap = half_full();
  heap.last_failure = 8192;
  // Those of the class itself would have served it.
  EXPECT_THAT(room_text(heap), testing::AllOf(HasSubstr("the last request without room was for a slot of 8192 bytes; of the"),
                                              HasSubstr(", 4.00 MiB free in slots of other sizes,")));
  heap.last_failure = 8193;
  EXPECT_THAT(room_text(heap), testing::AllOf(HasSubstr("for 8193 bytes, 1 page; "), HasSubstr(", 6.00 MiB free in slots,")));
  heap.last_failure = 65'537;
  EXPECT_THAT(room_text(heap), HasSubstr("for 65537 bytes, 2 pages in a row; "));
}

TEST(HeapRoomTest, NamesFiveHoldersAtMostAndNoneWithoutAny) {
  HeapStatistics heap = half_full();
  for (HeapClassStatistics& one : heap.classes) one.live = 1;
  EXPECT_THAT(room_text(heap), testing::EndsWith("1 slot of 8192 bytes (8.00 KiB), 1 slot of 7168 bytes (7.00 KiB), "
                                                 "1 slot of 6144 bytes (6.00 KiB), 1 slot of 5120 bytes (5.00 KiB)"));
  EXPECT_THAT(room_text(heap), HasSubstr("most is in 3 large allocations (10.0 MiB), "));
  EXPECT_THAT(room_text(HeapStatistics{}), Not(HasSubstr("most is in")));
}

}  // namespace
}  // namespace dwell::runtime
