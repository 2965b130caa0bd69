// Positions have 64 bits on the host and 32 on the device: tests the wrap-around of the latter.
#include <dwell/detail/open_at.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class WrapTest : public DeviceTest {
 protected:
  struct Long {
    u32 word[40];
  };
  // Runs tasks of all kinds across `first` and some positions beyond, in a ring of `slots`.
  void run_from(std::uint64_t first, unsigned slots) const {
    SCOPED_TRACE("first_position " + std::to_string(first) + ", ring_slots " + std::to_string(slots));
    Options there = options();
    there.ring_slots = slots;
    Runtime runtime = detail::open_at(first, there);
    auto add = runtime.define<Add>("add", kAdd);
    auto append = runtime.define<Append>("append", kAppend);
    auto fail = runtime.define<Fail>("fail", kFail);
    auto multi_slot = runtime.define<void(Span<u32>, u32, Long)>("multi_slot", R"(
      struct Long { dwell::u32 word[40]; };
      DWELL_OPERATOR(multi_slot)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, Long payload) {
        dwell::u32 sum = 0;
        for (auto i : g.local_range(40)) sum += payload.word[i];
        sum = g.sum(sum);
        if (g.rank() == 0) cells[at] += sum;
      })");
    constexpr u32 kTasks = kSanitized ? 600 : 2000;
    auto cells = filled<u32>(runtime, kTasks, 0);
    auto number = filled<u32>(runtime, 1, 0);
    Long all{};
    for (u32 i = 0; i < 40; ++i) all.word[i] = i;
    std::vector<Ticket> failing;
    std::vector<Ticket> cancelled;
    u32 digits = 0;
    std::uint64_t last = 0;
    for (u32 i = 0; i < kTasks; ++i) {
      Ticket ticket;
      switch (i % 10) {
        case 0: ticket = runtime.submit(add, cells, i, 1U, groups(i % 13 + 1)); break;
        case 1: ticket = runtime.submit(multi_slot, cells, i, all); break;
        case 2:
        case 3: ticket = runtime.submit(append, number, digits++, link); break;
        case 5: ticket = runtime.submit(add, cells, i, 1U, drain); break;
        case 6: ticket = runtime.submit(append, number, digits++, drain); break;
        case 7: failing.push_back(ticket = runtime.submit(fail, static_cast<i32>(i))); break;
        case 8: ticket = runtime.submit(multi_slot, cells, i, all, hard_link, groups(1)); break;
        case 9: ticket = runtime.submit(add, cells, i, 1U); break;
        default:
          failing.push_back(runtime.submit(fail, static_cast<i32>(i)));
          cancelled.push_back(ticket = runtime.submit(append, number, 0U, link));
          break;
      }
      ASSERT_GT(ticket.position() + 1, last);
      ASSERT_GE(ticket.position(), first);
      last = ticket.position() + 1;
      if (i % 300 == 299) {
        runtime.park();
        runtime.resume();
      }
      if (i % 100 == 50) {
        ticket.wait();
        ASSERT_TRUE(ticket.done());
      }
    }
    runtime.wait_all();
    const std::vector<u32> result = read(cells);
    for (u32 i = 0; i < kTasks; ++i) {
      const u32 kind = i % 10;
      const u32 expected = kind == 0 ? i % 13 + 1 : kind == 1 || kind == 8 ? 780 : kind == 5 || kind == 9 ? 1 : 0;
      ASSERT_EQ(result[i], expected) << i;
    }
    for (u32 i = 0; i < failing.size(); ++i) ASSERT_EQ(failing[i].status(), static_cast<int>(i / 2 * 10 + (i % 2 == 0 ? 4 : 7)));
    for (const Ticket& ticket : cancelled) ASSERT_EQ(ticket.status(), status::cancelled);
    EXPECT_EQ(read(number)[0], appended(digits));
    EXPECT_EQ(runtime.metrics().submitted, kTasks + cancelled.size());
  }
};
DWELL_ON_EVERY_DEVICE(WrapTest);

constexpr std::uint64_t kEdge = 1ULL << 32U;

TEST_P(WrapTest, ThirtyTwoBitsWrapAround) {
  run_from(kEdge - 64, 128);
  run_from(kEdge - 128, 128);
  run_from(kEdge - 640, 256);
  run_from(kEdge - 1024, 1024);
}

TEST_P(WrapTest, SignsAndLapsChange) {
  run_from((1ULL << 31U) - 192, 128);
  run_from(kEdge, 128);
  run_from(kEdge + 64, 128);
}

TEST_P(WrapTest, LargePositionsWork) {
  run_from((1ULL << 38U) - 256, 128);  // the number of a window wraps around too
  run_from((1ULL << 55U) + 64, 256);
  run_from((1ULL << 56U) - (1ULL << 20U), 256);  // the last ones
}

TEST_P(WrapTest, WaitingTasksAreFoundAcrossTheWrapAround) {
  // A leaving lease records positions of the ring and the queue on both sides of the wrap-around.
  Options there = options();
  there.ring_slots = 128;
  there.lease = 500us;
  Runtime runtime = detail::open_at(kEdge - 64, there);
  auto add = runtime.define<Add>("add", kAdd);
  auto cells = filled<u32>(runtime, 2000, 0);
  for (u32 i = 0; i < 2000; ++i) {
    if (i % 90 == 0) {
      runtime.wait_all();  // otherwise the ring might be full while nothing runs
      runtime.park();
    }
    if (i % 90 == 60) runtime.resume();
    if (i % 31 == 0)
      runtime.submit(add, cells, i, 1U, link);
    else
      runtime.submit(add, cells, i, 1U);
  }
  if (1999 % 90 < 60) runtime.resume();
  EXPECT_THAT(read(cells), testing::Each(1U));
}

}  // namespace
}  // namespace dwell::test
