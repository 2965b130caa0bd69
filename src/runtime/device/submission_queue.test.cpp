// The host's side of the ring; the test plays the device.
#include "runtime/device/submission_queue.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <dwell/device/status.hpp>

#include "runtime/device/membarrier.hpp"
#include "tests/unit/queue_suite.hpp"

namespace dwell::runtime {
namespace {

using device::Header;
using test::task_of;
using testing::ElementsAre;
namespace flag = device::flag;

class SubmissionQueueTest : public QueueSuite {
 protected:
  using QueueSuite::QueueSuite;
};

// ---- Slots ----

TEST_F(SubmissionQueueTest, TasksOfAllLengthsAreWritten) {
  for (u32 words = 0; words <= detail::kMaxWords; ++words) {
    const auto position = submit(counted(words), detail::kMemory, 1);
    ASSERT_TRUE(position);
    const Header header = bench_.header(*position);
    EXPECT_EQ(header.opcode, 5U);
    EXPECT_EQ(header.slots, (words + 3 + 11) / 12);
    EXPECT_EQ(header.flags, flag::memory);
    for (u32 slot = 0; slot < header.slots; ++slot) ASSERT_TRUE(bench_.written(*position + slot));
    for (u32 i = 0; i < words; ++i) ASSERT_EQ(bench_.argument(*position, i), 1000 + i) << "word " << i << " of " << words;
    EXPECT_FALSE(bench_.complete(*position));
    for (u32 slot = 1; slot < header.slots; ++slot) EXPECT_TRUE(bench_.complete(*position + slot)) << "continuation slots are the host's";
    finish_all();
  }
}

TEST_F(SubmissionQueueTest, HeaderHasTheGroups) {
  const auto position = submit({1, 2}, detail::kWide, 0xFFFF);
  EXPECT_EQ(bench_.header(*position).groups, 0xFFFFU);
  EXPECT_EQ(bench_.header(*position).flags, flag::wide);
}

TEST_F(SubmissionQueueTest, BatchUsesConsecutivePositions) {
  EXPECT_EQ(submit(), 0U);
  const std::vector<detail::FirstSlot> slots = {task_of({7}).first, task_of({8}).first, task_of({9}).first};
  std::uint64_t last = 0;
  EXPECT_EQ(queue().try_submit_plain(alias_, slots.data(), 3, &last), 3U);
  EXPECT_EQ(last, 3U);
  EXPECT_EQ(queue().tail(), 4U);
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_EQ(bench_.argument(1 + i, 0), 7 + i);
    EXPECT_EQ(bench_.ring[1 + i].quad[0].word[2], 1 + i) << "word 2 is the position";
  }
}

TEST_F(SubmissionQueueTest, ALongTaskDoesNotCrossTheEndOfAWindow) {
  submit_many(60);
  EXPECT_EQ(submit(counted(detail::kMaxWords)), 64U);
  const Header padding = bench_.header(60);
  EXPECT_EQ(padding.slots, 4U);
  EXPECT_EQ(padding.source, device::source::pass);
  EXPECT_FALSE(bench_.complete(60)) << "the device passes over it before it is the host's again";
  for (u32 at = 61; at < 64; ++at) EXPECT_TRUE(bench_.complete(at));
  EXPECT_EQ(queue().submitted(), 61U) << "padding and further slots are no tasks";
}

TEST_F(SubmissionQueueTest, ALongTaskThatFitsTheWindowIsNotPadded) {
  submit_many(56);
  EXPECT_EQ(submit(counted(detail::kMaxWords)), 56U);
}

// ---- Credit ----

TEST_F(SubmissionQueueTest, FullRingAcceptsAsManyAsFit) {
  EXPECT_EQ(submit_many(100), 100U);
  EXPECT_EQ(submit_many(100), 28U);
  EXPECT_FALSE(submit());
  EXPECT_EQ(queue().tail(), 128U);
  bench_.finish(0);
  EXPECT_EQ(submit(), 128U);
  EXPECT_FALSE(submit());
}

TEST_F(SubmissionQueueTest, CreditIsReturnedInOrder) {
  submit_many(128);
  bench_.finish(1);
  EXPECT_FALSE(submit()) << "the place of 0 is the next one";
  bench_.finish(0);
  EXPECT_EQ(submit_many(5), 2U);
}

TEST_F(SubmissionQueueTest, ALongTaskWithoutRoomLeavesNoTrace) {
  submit_many(124);
  EXPECT_FALSE(submit(counted(detail::kMaxWords))) << "its padding would fit, it would not";
  EXPECT_EQ(queue().tail(), 124U);
  EXPECT_EQ(submit(), 124U);
  EXPECT_EQ(queue().submitted(), 125U);
}

TEST_F(SubmissionQueueTest, DoneStaysTrueWhenThePositionIsReused) {
  EXPECT_EQ(submit(), 0U);
  EXPECT_FALSE(queue().done(0));
  EXPECT_FALSE(queue().succeeded(0));
  bench_.finish(0);
  EXPECT_TRUE(queue().done(0));
  EXPECT_TRUE(queue().succeeded(0));
  submit_many(127);
  finish_all();
  EXPECT_EQ(submit(), 128U);
  EXPECT_TRUE(queue().done(0));
  EXPECT_EQ(queue().result(0).status, status::ok);
  EXPECT_FALSE(queue().done(128));
  EXPECT_FALSE(queue().succeeded(128));
  bench_.finish(128);
  EXPECT_TRUE(queue().done(0)) << "by its entry the place is another task's";
}

TEST_F(SubmissionQueueTest, ReapedCoversConsecutiveCompletions) {
  submit_many(4);
  for (const u32 at : {0U, 1U, 3U}) bench_.finish(at);
  EXPECT_FALSE(queue().reap());
  EXPECT_EQ(queue().reaped(), 2U);
  bench_.finish(2);
  EXPECT_TRUE(queue().reap());
  EXPECT_EQ(queue().reaped(), 4U);
}

class SubmissionQueueAtTheEdge : public SubmissionQueueTest {
 protected:
  static constexpr std::uint64_t kEdge = 1ULL << 32U;
  SubmissionQueueAtTheEdge() : SubmissionQueueTest(7, kEdge - 64) {}
};

TEST_F(SubmissionQueueAtTheEdge, PositionsContinueBeyond32Bits) {
  EXPECT_EQ(submit_many(60), 60U);
  EXPECT_EQ(submit(counted(50)), kEdge) << "behind padding";
  EXPECT_EQ(submit_many(500), 59U);
  EXPECT_FALSE(queue().done(kEdge - 64));
  EXPECT_FALSE(queue().done(kEdge));
  EXPECT_TRUE(bench_.written(kEdge - 1));
  EXPECT_TRUE(bench_.written(kEdge));
  EXPECT_EQ(bench_.ring[64].quad[0].word[2], 0xFFFFFFC0U);
  bench_.finish(kEdge, 3);
  EXPECT_TRUE(queue().done(kEdge));
  finish_all();
  EXPECT_TRUE(queue().reap());
  EXPECT_EQ(queue().tail(), kEdge + 64);
  EXPECT_EQ(queue().result(kEdge).status, 3);
  EXPECT_EQ(queue().submitted(), 120U);
}

// ---- Why a task was cancelled ----

class SubmissionQueueCause : public SubmissionQueueTest {
 protected:
  SubmissionQueueCause() {
    submit();
    submit({}, detail::kLink);
    finish_all();
    queue().reap();  // from here on, tasks are tracked
  }
  void expect_cause(std::uint64_t position, std::uint64_t cause) {
    const Failure failure = queue().result(position);
    EXPECT_EQ(failure.status, status::cancelled);
    ASSERT_TRUE(failure.cause) << position;
    EXPECT_EQ(failure.cause->position, cause);
    EXPECT_EQ(failure.cause->status, 7);
    EXPECT_EQ(failure.cause->ran, "operator 5");
  }
};

TEST_F(SubmissionQueueCause, TheFirstFailureOfAChainIsNamed) {
  submit({}, detail::kLink);
  const auto bad = submit({}, detail::kLink);
  const auto second = submit({}, detail::kLink);
  const auto third = submit(counted(30), detail::kLink | detail::kDrain);
  bench_.finish(*bad, 7);
  bench_.finish(*second, status::cancelled);
  bench_.finish(*third, status::cancelled);
  queue().reap();
  ASSERT_LT(queue().reaped(), *bad) << "an earlier task still runs";
  expect_cause(*third, *bad);
  finish_all();
  queue().reap();
  expect_cause(*second, *bad);
  expect_cause(*third, *bad);
  submit_many(128);
  expect_cause(*third, *bad);
}

TEST_F(SubmissionQueueCause, CauseIsTheFirstFailureOfSeveral) {
  const auto good = *submit();
  const auto hard = *submit();
  const auto bad = *submit();
  const auto worse = *submit();
  const auto position = *submit_after({good, bad, worse}, {hard});
  const auto behind = *submit_after({good, position});
  const auto unharmed = *submit_after({good}, {hard, bad});
  submit();
  bench_.finish(hard, 8);
  bench_.finish(bad, 7);
  bench_.finish(worse, 9);
  bench_.finish(position, status::cancelled);
  bench_.finish(behind, status::cancelled);
  ASSERT_LT(queue().reaped(), bad) << "an earlier task still runs";
  expect_cause(position, bad);
  expect_cause(behind, bad);
  bench_.finish(good);
  queue().reap();
  ASSERT_GT(queue().reaped(), behind);
  expect_cause(position, bad);
  expect_cause(behind, bad);
  queue().close();
  queue().complete_all(Reaper::Begun());
  EXPECT_FALSE(queue().result(unharmed).cause) << "the end of the runtime has cancelled it";
}

TEST_F(SubmissionQueueCause, TaskCancelledByCloseHasNoCause) {
  submit();
  const auto second = submit({}, detail::kLink);
  const auto bad = submit({}, detail::kLink);
  const auto behind = submit({}, detail::kLink);
  const auto hard = submit({}, detail::kLink | detail::kHard);
  bench_.finish(*bad, 7);
  queue().close();
  queue().complete_all(Reaper::Begun());
  EXPECT_FALSE(queue().result(*second).cause);
  expect_cause(*behind, *bad);
  EXPECT_EQ(queue().result(*hard).status, status::cancelled);
  EXPECT_FALSE(queue().result(*hard).cause);
}

// ---- Failures ----

TEST_F(SubmissionQueueTest, FailuresKeepTheirOperator) {
  submit_many(3);
  alias_ = 6;
  submit();
  bench_.finish(1, 42);
  EXPECT_EQ(queue().result(1).status, 42);
  EXPECT_EQ(queue().result(1).ran, "operator 5");
  bench_.finish(3, -4);
  finish_all();
  submit_many(128);
  finish_all();
  queue().reap();
  EXPECT_EQ(queue().result(1).status, 42);
  EXPECT_EQ(queue().result(1).ran, "operator 5");
  EXPECT_EQ(queue().result(3).ran, "operator 6");
  EXPECT_EQ(queue().result(2).status, status::ok);
  EXPECT_THAT(queue().failed_positions(), ElementsAre(1U, 3U));
}

class SubmissionQueueOf65536 : public SubmissionQueueTest {
 protected:
  SubmissionQueueOf65536() : SubmissionQueueTest(16) {}
};

TEST_F(SubmissionQueueOf65536, LatestFailuresAreKept) {
  for (u32 turn = 0; turn < 5; ++turn) {
    for (const std::uint64_t end = queue().tail() + submit_many(65536); queue().reaped() != end; queue().reap())
      for (std::uint64_t at = queue().reaped(); at < end; ++at) bench_.finish(at, 1);
  }
  const std::vector<std::uint64_t> failed = queue().failed_positions();
  ASSERT_EQ(failed.size(), 1U << 18U);
  EXPECT_EQ(failed.front(), 65536U);
  EXPECT_EQ(queue().result(65535).status, status::ok) << "forgotten";
  EXPECT_EQ(queue().result(65536).status, 1);
}

TEST_F(SubmissionQueueTest, AllInFlightCanBeCompletedAtOnce) {
  submit_many(2);
  submit(counted(50));
  bench_.finish(1, 9);
  queue().close();
  queue().complete_all(Reaper::Begun());
  EXPECT_EQ(queue().reaped(), queue().tail());
  EXPECT_EQ(queue().result(0).status, status::cancelled);
  EXPECT_EQ(queue().result(1).status, 9) << "it was complete before";
  EXPECT_EQ(queue().result(2).status, status::cancelled);
  EXPECT_THAT(queue().failed_positions(), ElementsAre(0U, 1U, 2U)) << "further slots are no tasks";
}

TEST_F(SubmissionQueueTest, NobodyHasAPlaceAfterTheClose) {
  submit_many(5);
  queue().close();
  queue().complete_all(Reaper::Begun());
  EXPECT_FALSE(queue().roomy()) << "a thread that waits for room looks whether the runtime is open";
  EXPECT_EQ(submit_many(1), 0U) << "this thread had the tail";
  EXPECT_FALSE(submit(counted(50)));
  EXPECT_FALSE(submit({}, detail::kDrain));
  std::uint64_t position = 0;
  EXPECT_FALSE(queue().try_submit_gate(alias_, &position));
  EXPECT_FALSE(queue().try_submit_request(0, &position));
  EXPECT_FALSE(queue().try_close_lease(1, true));
  EXPECT_FALSE(queue().try_end_burst(1));
  std::jthread([&] { EXPECT_FALSE(submit()); }).join();
  EXPECT_EQ(queue().tail(), 5U);
  EXPECT_EQ(queue().reaped(), 5U);
}

// ---- Tasks that name a buffer ----

class SubmissionQueueNames : public SubmissionQueueTest {
 protected:
  static constexpr std::uint64_t kAddress = 0x7F12'3456'7800;
  // The argument words of a span at kAddress, behind `before` other words.
  static std::vector<u32> span_words(u32 before, std::uint64_t size = 0x123'4567'89AB) {
    std::vector<u32> words(before, 0U);
    words.push_back(static_cast<u32>(kAddress));
    words.push_back(static_cast<u32>(kAddress >> 32U) | static_cast<u32>(size >> 32U) << 20U);
    words.push_back(static_cast<u32>(size));
    return words;
  }
};

TEST_F(SubmissionQueueNames, ArgumentsAreFoundAtAnyPlace) {
  for (u32 before = 0; before + 3 <= detail::kMaxWords; ++before) {
    const auto position = submit(span_words(before), detail::kMemory);
    ASSERT_EQ(queue().names(*position, kAddress, kAddress + 1), true) << before << " words before it";
    EXPECT_EQ(queue().names(*position, kAddress - 100, kAddress + 100), true);
    EXPECT_EQ(queue().names(*position, kAddress + 1, kAddress + 100), false);
    EXPECT_EQ(queue().names(*position, kAddress - 100, kAddress), false);
    finish_all();
  }
}

TEST_F(SubmissionQueueNames, NumbersThatLookLikeAnAddressDoNotCount) {
  EXPECT_EQ(queue().names(*submit(span_words(0)), kAddress, kAddress + 1), false) << "no argument of this task leads to memory";
}

TEST_F(SubmissionQueueNames, OfATaskThatIsNotWrittenYetNothingIsKnown) {
  const auto position = submit(span_words(0), detail::kMemory);
  bench_.ring[0].quad[0].lap = 0;
  EXPECT_EQ(queue().names(*position, kAddress, kAddress + 1), std::nullopt);
}

// ---- Where later tasks may be placed ----

TEST_F(SubmissionQueueTest, FilledFollowsTheSubmitterThatHasTheTail) {
  EXPECT_EQ(queue().filled(), 0U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(submit(), i);
    EXPECT_EQ(queue().filled(), i + 1);
  }
  EXPECT_EQ(submit(counted(50)), 3U);
  EXPECT_EQ(queue().filled(), queue().tail());
}

TEST_F(SubmissionQueueTest, FilledStopsBeforeUnusedPlacesOfAThread) {
  if (!kHaveMembarrier) GTEST_SKIP() << "threads have no places in reserve";
  queue().fast_pace = std::chrono::hours(1000);  // each time a thread is given twice as many
  submit();                                      // this thread gets the tail
  // The other loses it again, so it gets several places at once.
  std::atomic<int> step{0};
  std::uint64_t given = 0;
  const auto reach = [&](int to) {
    while (step.load() != to) std::this_thread::yield();
  };
  std::jthread other([&] {
    for (int i = 0; i < 50 && queue().filled() == queue().tail(); ++i) given = *submit();
    step = 1;
    reach(2);
    EXPECT_EQ(submit(), given + 1) << "a place that it had before";
    step = 3;
    reach(4);  // its end would give its places back
  });
  reach(1);
  EXPECT_EQ(queue().filled(), given + 1);
  EXPECT_GT(queue().tail(), given + 1);
  step = 2;
  reach(3);
  EXPECT_EQ(queue().filled(), given + 2);
  step = 4;
}

// ---- Requests and versions ----

TEST_F(SubmissionQueueTest, ARequestToEndALeaseIsNoTask) {
  submit();
  EXPECT_TRUE(queue().try_close_lease(0x185, true));
  EXPECT_EQ(bench_.header(1).source, device::source::pass);
  EXPECT_EQ(bench_.header(1).flags, flag::pass::close);
  EXPECT_EQ(bench_.header(1).slots, 1U);
  EXPECT_EQ(bench_.named(1), 0x185U);
  EXPECT_EQ(queue().submitted(), 1U);
  submit_many(126);
  EXPECT_FALSE(queue().try_close_lease(1, true)) << "the ring is full";
  EXPECT_EQ(queue().submitted(), 127U);
}

TEST_F(SubmissionQueueTest, ARequestStandsBehindTheDrainsBeforeIt) {
  submit({}, detail::kDrain);
  queue().try_close_lease(1, true);
  EXPECT_EQ(bench_.header(1).drains, 1U);
}

TEST_F(SubmissionQueueTest, AliasSwitchesAtOnePosition) {
  submit_many(3);
  submit(counted(20));
  EXPECT_EQ(bench_.switch_alias(alias_, 8), 5U);
  submit();
  submit(counted(20));
  EXPECT_EQ(bench_.header(2).opcode, 5U);
  EXPECT_EQ(bench_.header(3).opcode, 5U);
  EXPECT_EQ(bench_.header(5).opcode, 8U);
  EXPECT_EQ(bench_.header(6).opcode, 8U);
  EXPECT_EQ(queue().opcode_at(2), 5U);
}

TEST_F(SubmissionQueueTest, AliasesChangeAtOnePosition) {
  // A thread submits tasks of both in turn: no task runs an older opcode than an earlier one.
  std::atomic<std::uint32_t> other{5};
  std::vector<u32> opcodes;
  std::atomic<std::size_t> count{0};
  std::atomic<bool> stop{false};
  std::jthread submitter([&] {
    while (!stop) {
      for (const auto* const alias : {&alias_, &other}) {
        std::uint64_t position = 0;
        while (!queue().try_submit(*alias, test::task_of({}), &position)) {}
        opcodes.push_back(queue().opcode_at(position));
        bench_.finish(position);
      }
      count = opcodes.size();
    }
  });
  for (u32 opcode = 6; opcode < 2000; ++opcode) {
    const SubmissionQueue::Switch both[] = {{&other, opcode}, {&alias_, opcode}};
    queue().switch_aliases(both);
    if (opcode % 2 == 0)
      for (const std::size_t before = count; count == before;) std::this_thread::yield();
  }
  stop = true;
  submitter.join();
  EXPECT_TRUE(std::is_sorted(opcodes.begin(), opcodes.end()));
}

TEST_F(SubmissionQueueTest, AliasSwitchAppliesToOtherThreads) {
  struct Run {
    std::uint64_t position;
    u32 opcode;
  };
  std::vector<Run> runs;
  std::atomic<std::size_t> count{0};
  std::atomic<bool> stop{false};
  std::jthread submitter([&] {
    while (!stop) {
      const auto position = submit();
      runs.push_back({*position, queue().opcode_at(*position)});
      count = runs.size();
      bench_.finish(*position);
    }
  });
  std::vector<Run> switches = {{0, 5}};
  for (u32 opcode = 100; opcode < 1100; ++opcode) {
    switches.push_back({bench_.switch_alias(alias_, opcode), opcode});
    for (const std::size_t before = count; count == before;) std::this_thread::yield();
  }
  stop = true;
  submitter.join();
  std::size_t at = 0;
  for (const Run& run : runs) {
    while (at + 1 < switches.size() && switches[at + 1].position <= run.position) ++at;
    ASSERT_EQ(run.opcode, switches[at].opcode) << "ticket " << run.position;
  }
  EXPECT_GE(at, 900U);
}

}  // namespace
}  // namespace dwell::runtime
