#include "device/worker.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::worker_test {
namespace {

using test::Bench;
using test::entry_of;

// The calls of the operators below, in order.
struct Call {
  u32 first;  // argument word
  u32 group;
  u32 groups;
};
std::vector<Call> calls;
u32 last_of_long;

void note(const Group& g, const u32* arguments) { calls.push_back({arguments[0], g.index(), g.count()}); }
void fail(const Group& g, const u32* arguments) {
  note(g, arguments);
  g.fail(static_cast<i32>(g.index()) + 40);
  g.fail(99);
}
void note_long(const Group& g, const u32* arguments) {
  note(g, arguments);
  last_of_long = arguments[kMaxArgumentWords - 1];
}
void take_scratch(const Group& g, const u32* arguments) {
  note(g, arguments);
  EXPECT_EQ(g.shared<u32>(200).size(), 200U);  // 1024 bytes exist
}
enum : u32 { kNote, kFail, kNoteLong, kTakeScratch };

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    calls.clear();
    entries_ = {entry_of<&note>(), entry_of<&fail>(), entry_of<&note_long>(), entry_of<&take_scratch>()};
    bench_.lease.operators = entries_.data();
    bench_.set_up(&worker_, 1);
    worker_.context.scratch = scratch_;
    worker_.context.scratch_bytes = sizeof(scratch_);
  }

  // Runs a task and its linked successors on worker 1.
  void run_task(const TaskQuads& task) {
    for (u32 i = 0; i < kMaxSlots * 4; ++i)
      std::memcpy(frame_at(&worker_, kFrame0)->word + i * 3, task.quad[i].word, sizeof(task.quad[i].word));
    run(bench_.lease, &worker_, kFrame0);
  }
  void run_task(const Header& header, u32 position) { run_task(Bench::quads(header, position)); }
  // Makes a task wait for the one at the previous position.
  void link(const Header& header, u32 position) {
    u32 drains = 0;
    TaskQuads task = Bench::quads(header, position, position - 1);
    ASSERT_EQ(admission::admit(bench_.lease, &task, header, position, &drains), Admission::taken);
  }
  static Header linked(u32 opcode, u32 slots = 1, u32 flags = 0) { return Header{opcode, 1, slots, flag::link | flag::tracked | flags, 0}; }
  // Runs the ready queue until it is empty.
  void run_ready() {
    for (TaskQuads task; ready_queue::try_take(bench_.lease, &task);) run_task(task);
  }

  Bench bench_{7, 2};
  std::vector<const void*> entries_;
  Worker worker_{};
  alignas(64) u8 scratch_[1024];
};

TEST_F(WorkerTest, ATaskRunsWithItsArgumentsAndCompletes) {
  run_task(Bench::plain(kNote), 5);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].first, 5U + 3);
  EXPECT_EQ(calls[0].groups, 1U);
  EXPECT_TRUE(bench_.complete(5));
  EXPECT_EQ(bench_.status(5), 0);
}

TEST_F(WorkerTest, FirstFailureIsTheTasks) {
  run_task(Bench::plain(kFail), 5);
  EXPECT_EQ(bench_.status(5), 40);
  run_task(Bench::plain(kNote), 6);
  EXPECT_EQ(bench_.status(6), 0);
}

TEST_F(WorkerTest, EachTaskHasAllScratch) {
  run_task(Bench::plain(kTakeScratch), 5);
  run_task(Bench::plain(kTakeScratch), 6);
  EXPECT_EQ(bench_.status(6), 0);
}

TEST_F(WorkerTest, LinkedTasksRunNextInOrder) {
  for (u32 position = 6; position < 16; ++position) link(linked(kNote), position);
  run_task(Bench::plain(kNote, flag::tracked), 5);
  ASSERT_EQ(calls.size(), 11U);
  for (u32 i = 0; i < 11; ++i) {
    EXPECT_EQ(calls[i].first, 5 + i + 3);
    EXPECT_TRUE(bench_.complete(5 + i));
  }
}

TEST_F(WorkerTest, TheInFlightRecordNamesALinkedTask) {
  link(linked(kNoteLong, kMaxSlots), 6);
  run_task(Bench::plain(kNote, flag::tracked), 5);
  EXPECT_EQ(bench_.in_flight[1].word, 6U | static_cast<u64>(kNoteLong) << 32U | InFlight::kValid);
}

TEST_F(WorkerTest, ALinkedTaskHasAllItsSlots) {
  link(linked(kNoteLong, kMaxSlots), 6);
  run_task(Bench::plain(kNote, flag::tracked), 5);
  EXPECT_EQ(last_of_long, 6U + kMaxSlots * kSlotWords - 1);
}

TEST_F(WorkerTest, AHardLinkedTaskRunsAfterAFailureWithoutItsCode) {
  link(linked(kNote, 1, flag::hard), 6);
  run_task(Bench::plain(kFail, flag::tracked), 5);
  EXPECT_EQ(bench_.status(5), 40);
  EXPECT_TRUE(bench_.complete(6));
  EXPECT_EQ(bench_.status(6), 0);
}

TEST_F(WorkerTest, AFailureCancelsAllThatIsLinkedBehindIt) {
  link(linked(kNote), 6);
  link(linked(kNoteLong, 3), 7);
  TaskQuads far = Bench::quads(linked(kNote), 10, 7);
  u32 drains = 0;
  ASSERT_EQ(admission::admit(bench_.lease, &far, linked(kNote), 10, &drains), Admission::taken);
  link(Header{kNote, 5, 1, flag::link | flag::tracked | flag::wide, 0}, 11);
  link(linked(kNote, 1, flag::hard), 12);
  link(linked(kNote), 13);
  bench_.control().completed.value = 5;
  run_task(Bench::plain(kFail, flag::tracked), 5);
  run_ready();
  ASSERT_EQ(calls.size(), 3U) << "the failed one, the one with the hard link, and the one behind that";
  EXPECT_EQ(calls[1].first, 12U + 3);
  EXPECT_EQ(calls[2].first, 13U + 3);
  for (const u32 position : {6U, 7U, 10U, 11U}) {
    EXPECT_TRUE(bench_.complete(position));
    EXPECT_EQ(bench_.status(position), status::cancelled) << position;
  }
  EXPECT_EQ(bench_.status(12), 0);
  EXPECT_EQ(bench_.status(13), 0);
  EXPECT_EQ(bench_.control().completed.value, 14U) << "each slot counts once";
  EXPECT_EQ(bench_.control().spare_shares.value, bench_.capacity());
}

TEST_F(WorkerTest, CancelledDrainReleasesLaterTasks) {
  const Header header{kNote, 1, 1, flag::drain | flag::failed, 0};
  TaskQuads task = Bench::quads(header, 0, 0);
  u32 drains = 0;
  ASSERT_EQ(admission::admit(bench_.lease, &task, header, 0, &drains), Admission::taken);
  run_ready();
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(bench_.status(0), status::cancelled);
  EXPECT_EQ(bench_.control().crew.drains, 1U);
}

TEST_F(WorkerTest, ALinkedTaskThatIsWideIsSharedOut) {
  link(Header{kNote, 4, 1, flag::link | flag::tracked | flag::wide, 0}, 6);
  run_task(Bench::plain(kNote, flag::tracked), 5);
  EXPECT_EQ(calls.size(), 1U);
  EXPECT_FALSE(bench_.complete(6));
  EXPECT_EQ(bench_.control().tail.value, 2U) << "a share for each worker";
}

TEST_F(WorkerTest, AShareRunsGroupsUntilNoneIsLeft) {
  const Header wide{kNote, 5, 1, flag::wide, 0};
  share_out(bench_.lease, Bench::quads(wide, 5), wide, 5, false);
  const u32 spare = bench_.control().spare_shares.value;
  TaskQuads share;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
  run_task(share);
  ASSERT_EQ(calls.size(), 5U);
  for (u32 i = 0; i < 5; ++i) {
    EXPECT_EQ(calls[i].group, i);
    EXPECT_EQ(calls[i].groups, 5U);
  }
  EXPECT_FALSE(bench_.complete(5)) << "another share may still run a group";
  EXPECT_EQ(bench_.control().spare_shares.value, spare + 1);
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
  run_task(share);
  EXPECT_EQ(calls.size(), 5U);
  EXPECT_TRUE(bench_.complete(5));
  EXPECT_EQ(bench_.control().spare_shares.value, bench_.capacity()) << "the last share has the task's own place";
}

TEST_F(WorkerTest, ShareRunsOneGroupIfEachGroupHasAShare) {
  const Header wide{kNote, 2, 1, flag::wide, 0};
  share_out(bench_.lease, Bench::quads(wide, 5), wide, 5, false);
  TaskQuads share;
  for (u32 i = 0; i < 2; ++i) {
    ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
    run_task(share);
    ASSERT_EQ(calls.size(), i + 1) << "others run those that are left";
    EXPECT_EQ(calls[i].group, i);
    EXPECT_EQ(bench_.complete(5), i == 1);
  }
  EXPECT_EQ(bench_.control().spare_shares.value, bench_.capacity());
}

TEST_F(WorkerTest, ATaskBehindAShareHasOneGroup) {
  const Header wide{kNote, 5, 1, flag::wide, 0};
  share_out(bench_.lease, Bench::quads(wide, 5), wide, 5, false);
  TaskQuads share;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
  run_task(share);
  run_task(Bench::plain(kNote), 6);
  ASSERT_EQ(calls.size(), 6U);
  EXPECT_EQ(calls[5].group, 0U);
  EXPECT_EQ(calls[5].groups, 1U);
}

TEST_F(WorkerTest, TooLargeGangsFailAndLeaveTheQueue) {
  const Header gang{kNote, 5, 1, flag::wide, 0, 0, source::gang};
  bench_.control().gangs.memories = 0xFF;
  for (const u32 position : {5U, 6U}) share_out(bench_.lease, Bench::quads(gang, position), gang, position, false);
  run_ready();
  EXPECT_EQ(bench_.control().gangs.last, 7U) << "the second stands behind the first, which waits for a memory";
  EXPECT_FALSE(bench_.complete(5));
  gangs::end(bench_.lease, 3);
  EXPECT_EQ(bench_.control().gangs.last, 0U);
  EXPECT_EQ(bench_.control().gangs.memories, 0xF7U);
  run_ready();
  EXPECT_TRUE(calls.empty());
  for (const u32 position : {5U, 6U}) EXPECT_EQ(bench_.status(position), status::too_large);
}

TEST_F(WorkerTest, ADissolvedGangIsSharedOutAnew) {
  const Header gang{kNote, 2, 1, flag::wide, 0, 0, source::gang};
  share_out(bench_.lease, Bench::quads(gang, 5), gang, 5, false);
  TaskQuads share;
  ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
  run_task(share);  // the first in the queue: its two shares are in the ready queue
  bench_.lease.lease_ticks = 1;
  seat::call_over(bench_.lease, bench_.lease.number, false);
  bench_.control().exits[bench_.lease.slot] = 1;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(bench_.control().tail.value - bench_.control().head.value, 2U - static_cast<u32>(i));
    ASSERT_TRUE(ready_queue::try_take(bench_.lease, &share));
    run_task(share);
  }
  EXPECT_EQ(bench_.control().tail.value - bench_.control().head.value, 2U);
  EXPECT_EQ(bench_.lease.wide[5].joined, 0U);
  EXPECT_TRUE(calls.empty());
  EXPECT_FALSE(bench_.complete(5));
}

TEST_F(WorkerTest, TheFirstFailureOfAGroupIsTheWideTasks) {
  const Header wide{kFail, 3, 1, flag::wide, 0};
  share_out(bench_.lease, Bench::quads(wide, 5), wide, 5, false);
  for (TaskQuads share; ready_queue::try_take(bench_.lease, &share);) run_task(share);
  EXPECT_EQ(bench_.status(5), 40);
}

TEST_F(WorkerTest, TheInFlightRecordNamesTheTaskThatRuns) {
  in_flight::note(&worker_, 0xFFFFFFF0U, 0xABCD);
  EXPECT_EQ(bench_.in_flight[1].word, 0xFFFFFFF0ULL | 0xABCDULL << 32U | InFlight::kValid);
  EXPECT_EQ(bench_.in_flight[0].word, 0U);
}

TEST_F(WorkerTest, LaunchRecordReplacesTheLastRecord) {
  constexpr u32 kEntries = 1U << kFlightShift;
  std::vector<Quad> flight(kEntries);
  worker_.flight = flight.data();
  worker_.flight_notes = kEntries - 1;
  worker_.context.lease = 12;
  in_flight::note(&worker_, 6, 0);
  in_flight::note_launch(&worker_, 6);
  constexpr u32 kHigh = static_cast<u32>((InFlight::kLaunch | InFlight::kValid) >> 32U);
  EXPECT_EQ(bench_.in_flight[1].word, 6 | InFlight::kLaunch | InFlight::kValid);
  EXPECT_EQ(worker_.flight_notes, kEntries);
  const Quad& noted = flight.back();
  EXPECT_EQ(noted.lap, kEntries);
  EXPECT_EQ(noted.word[0], 6U);
  EXPECT_EQ(noted.word[1], kHigh);
  EXPECT_EQ(noted.word[2], 12U) << "the lease";
  EXPECT_EQ(flight.front().lap, 0U);
}

}  // namespace
}  // namespace dwell::device::worker_test
