// The host's side of the ring, with the device played by hand.
#include "runtime/device/submission_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <thread>

#include <dwell/device/status.hpp>

#include "tests/unit/bench.hpp"

namespace dwell::runtime {
namespace {

using device::Header;
using test::task_of;
using testing::ElementsAre;
namespace flag = device::flag;

class SubmissionQueueTest : public testing::Test {
 protected:
  explicit SubmissionQueueTest(std::uint32_t shift = 7, std::uint64_t first = 0) : bench_(shift, 1, first) {}

  std::optional<std::uint64_t> submit(const std::vector<u32>& words = {}, u32 flags = 0, u32 groups = 1) {
    const detail::Task task = task_of(words, flags, groups);
    std::uint64_t position = 0;
    if (!queue().try_submit(alias_, task, &position)) return std::nullopt;
    return position;
  }
  // Submits a task that waits for these; those in `any` may fail.
  std::optional<std::uint64_t> submit_after(const std::vector<std::uint64_t>& tasks, const std::vector<std::uint64_t>& any = {},
                                            u32 words = 0, u32 flags = 0) {
    detail::Waits waits;
    for (const std::uint64_t task : tasks) waits.position[waits.count++] = task;
    for (const std::uint64_t task : any) {
      waits.any_result |= 1U << waits.count;
      waits.position[waits.count++] = task;
    }
    const std::vector<u32> arguments = counted(words);
    const detail::Task task = task_of(arguments, detail::kAfter | flags, 1, &waits);
    std::uint64_t position = 0;
    if (!queue().try_submit(alias_, task, &position)) return std::nullopt;
    return position;
  }
  // Places `count` plain tasks at once; returns how many found room.
  std::size_t submit_many(std::size_t count) {
    const std::vector<detail::FirstSlot> slots(count, task_of({}).first);
    std::uint64_t last = 0;
    return queue().try_submit_plain(alias_, slots.data(), count, &last);
  }
  // Completes all in flight, as a device would that has run it.
  void finish_all() {
    for (std::uint64_t at = queue().reaped(); at < queue().tail(); ++at)
      if (!bench_.complete(at)) bench_.finish(at);
  }
  static std::vector<u32> counted(u32 count) {
    std::vector<u32> words(count);
    std::iota(words.begin(), words.end(), 1000U);
    return words;
  }

  SubmissionQueue& queue() { return bench_.queue; }

  test::Bench bench_;
  std::atomic<std::uint32_t> alias_{5};
};

// ---- Slots ----

TEST_F(SubmissionQueueTest, ATaskOfEachLengthStandsInTheRing) {
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

TEST_F(SubmissionQueueTest, GroupsTravelInTheHeader) {
  const auto position = submit({1, 2}, detail::kWide, 0xFFFF);
  EXPECT_EQ(bench_.header(*position).groups, 0xFFFFU);
  EXPECT_EQ(bench_.header(*position).flags, flag::wide);
}

TEST_F(SubmissionQueueTest, ABatchTakesNeighbouringPlaces) {
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

TEST_F(SubmissionQueueTest, AFullRingTakesAsManyAsFit) {
  EXPECT_EQ(submit_many(100), 100U);
  EXPECT_EQ(submit_many(100), 28U);
  EXPECT_FALSE(submit());
  EXPECT_EQ(queue().tail(), 128U);
  bench_.finish(0);
  EXPECT_EQ(submit(), 128U);
  EXPECT_FALSE(submit());
}

TEST_F(SubmissionQueueTest, CreditComesInOrder) {
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

TEST_F(SubmissionQueueTest, DoneStaysDoneWhenThePlaceIsUsedAgain) {
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

TEST_F(SubmissionQueueTest, ReapedIsTheUnbrokenRun) {
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

TEST_F(SubmissionQueueAtTheEdge, PositionsGoOnWhereThirtyTwoBitsEnd) {
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

// ---- Order ----

TEST_F(SubmissionQueueTest, TheFirstTaskOfAllHasNothingToBeLinkedTo) {
  submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(0).flags & (flag::link | flag::drain), 0U);
}

TEST_F(SubmissionQueueTest, TheFirstLinkBecomesADrain) {
  submit();
  submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(0).flags, 0U) << "it leaves no word to wait for";
  EXPECT_EQ(bench_.header(1).flags, flag::link | flag::drain | flag::tracked);
  EXPECT_EQ(bench_.named(1), 0U) << "unless it fails";
  submit();
  EXPECT_EQ(bench_.header(2).flags, flag::tracked);
  EXPECT_EQ(bench_.header(2).drains, 1U);
}

TEST_F(SubmissionQueueTest, ALinkNamesTheTaskBefore) {
  submit();
  submit({}, detail::kLink);
  submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(2).flags, flag::link | flag::tracked);
  EXPECT_EQ(bench_.named(2), 1U);
  const auto longer = submit(counted(30));
  const auto after = submit({}, detail::kLink);
  EXPECT_EQ(bench_.named(*after), *longer);
  submit_many(3);
  EXPECT_EQ(bench_.named(*submit({}, detail::kLink | detail::kHard)), *after + 3) << "the last of the batch";
  EXPECT_EQ(bench_.header(*after + 4).flags, flag::link | flag::hard | flag::tracked);
}

TEST_F(SubmissionQueueTest, ALinkAcrossPaddingReachesTheTaskBefore) {
  submit();
  submit({}, detail::kLink);
  submit_many(58);
  const auto after = submit(counted(detail::kMaxWords), detail::kLink);
  EXPECT_EQ(after, 64U);
  EXPECT_EQ(bench_.named(64), 59U);
}

class SubmissionQueueOf512 : public SubmissionQueueTest {
 protected:
  SubmissionQueueOf512() : SubmissionQueueTest(9) {}
};

TEST_F(SubmissionQueueOf512, ALinkReachesAsFarAsTheRing) {
  submit();
  const auto before = submit({}, detail::kLink);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(queue().try_close_lease(1, true));
  const auto far = submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(*far).flags, flag::link | flag::tracked);
  EXPECT_EQ(bench_.named(*far), *before);
}

TEST_F(SubmissionQueueTest, ALinkToATaskThatHasBeenReapedAsksTheDeviceNothing) {
  for (const u32 drain : {0U, +detail::kDrain}) {
    for (const u32 hard : {0U, +detail::kHard}) {
      for (const i32 status : {0, 7}) {
        const auto before = submit();
        finish_all();
        bench_.finish(*before, status);
        queue().reap();
        const auto position = submit({}, detail::kLink | drain | hard);
        const bool cancelled = status != 0 && hard == 0;
        EXPECT_EQ(bench_.header(*position).flags & ~flag::tracked, drain | (cancelled ? flag::link | flag::failed : 0));
        EXPECT_EQ(bench_.named(*position), cancelled ? *before : *position);
        bench_.finish(*position, cancelled ? status::cancelled : 0);
        queue().reap();
        const Failure failure = queue().result(*position);
        ASSERT_EQ(failure.cause.has_value(), cancelled);
        EXPECT_EQ(failure.cause.value_or(Failure::Cause{*before, 0, ""}).position, *before);
      }
    }
  }
}

class SubmissionQueueAfter : public SubmissionQueueTest {
 protected:
  static constexpr std::uint64_t kHard = test::Bench::kHard;
  static constexpr std::uint64_t kFailed = test::Bench::kFailed;
  SubmissionQueueAfter() {
    submit();
    submit({}, detail::kLink);
    finish_all();
    queue().reap();  // from here on tasks leave word
  }
  u32 order_of(std::uint64_t position) const {
    return bench_.header(position).flags & (flag::link | flag::hard | flag::drain | flag::after | flag::failed);
  }
};

TEST_F(SubmissionQueueAfter, OneTaskIsNamedInTheHeaderAndSeveralInAList) {
  for (u32 words = 0; words <= detail::kMaxWords - 9; words += 3) {
    const auto a = *submit();
    const auto b = *submit(counted(20));
    const auto one = *submit_after({a}, {}, words);
    const auto any = *submit_after({}, {b}, words);
    const auto two = *submit_after({b}, {a}, words);
    EXPECT_EQ(order_of(one), flag::link);
    EXPECT_THAT(bench_.waits(one), ElementsAre(a));
    EXPECT_EQ(order_of(any), flag::link | flag::hard);
    EXPECT_THAT(bench_.waits(any), ElementsAre(b + kHard));
    EXPECT_EQ(order_of(two), flag::after);
    EXPECT_THAT(bench_.waits(two), ElementsAre(b, a + kHard));
    EXPECT_EQ(bench_.header(two).slots, (1 + (words + 2) / 3 + 2 + 3) / 4) << "a quad each";
    for (const std::uint64_t at : {one, any, two})
      for (u32 i = 0; i < words; ++i) ASSERT_EQ(bench_.argument(at, i), 1000 + i);
    finish_all();
  }
}

TEST_F(SubmissionQueueAfter, TasksThatHaveEndedCostNothing) {
  const auto a = *submit();
  const auto b = *submit();
  const auto c = *submit();
  bench_.finish(a);
  const auto position = *submit_after({a, b, c});
  EXPECT_THAT(bench_.waits(position), ElementsAre(b, c));
  bench_.finish(b, 7);
  EXPECT_THAT(bench_.waits(*submit_after({a}, {b, c})), ElementsAre(c + kHard));
  bench_.finish(c);
  const auto plain = *submit_after({a, c}, {b});
  EXPECT_EQ(order_of(plain), 0U);
  EXPECT_EQ(bench_.header(plain).slots, 1U);
  finish_all();
  submit_many(128);
  EXPECT_EQ(order_of(*submit_after({a, c}, {b})), 0U) << "their places are used again";
}

TEST_F(SubmissionQueueAfter, ATaskThatHasFailedMakesItOneToBeCancelledBehindTheOthers) {
  const auto a = *submit();
  const auto b = *submit();
  const auto c = *submit();
  bench_.finish(b, 7);
  bench_.finish(c, 8);
  for (int turn = 0; turn < 2; ++turn) {
    const auto position = *submit_after({a, b, c});
    if (turn == 0) {
      EXPECT_EQ(order_of(position), flag::after);
      EXPECT_THAT(bench_.waits(position), ElementsAre(a, b + kFailed));
    } else {
      EXPECT_EQ(order_of(position), flag::link | flag::failed);
      EXPECT_THAT(bench_.waits(position), ElementsAre(b + kFailed));
    }
    bench_.finish(position, status::cancelled);
    const Failure failure = queue().result(position);
    ASSERT_TRUE(failure.cause);
    EXPECT_EQ(failure.cause->position, b);
    EXPECT_EQ(failure.cause->status, 7);
    finish_all();
    queue().reap();
  }
}

TEST_F(SubmissionQueueAfter, ALinkBesideItIsOneMore) {
  const auto a = *submit();
  const auto b = *submit();
  EXPECT_THAT(bench_.waits(*submit_after({a}, {}, 0, detail::kLink)), ElementsAre(a, b));
  const auto c = *submit();
  const auto hard = *submit_after({a}, {}, 0, detail::kLink | detail::kHard);
  EXPECT_THAT(bench_.waits(hard), ElementsAre(a, c + kHard));
  EXPECT_EQ(order_of(hard), flag::after);
}

TEST_F(SubmissionQueueTest, ATaskAfterOneThatLeavesNoWordIsADrain) {
  const auto a = *submit();
  const auto b = *submit();
  const auto position = *submit_after({a}, {b});
  EXPECT_EQ(bench_.header(position).flags, flag::link | flag::drain | flag::tracked) << "what cannot cancel it is left out";
  EXPECT_THAT(bench_.waits(position), ElementsAre(a));
  const auto second = *submit_after({a, b});
  EXPECT_EQ(bench_.header(second).flags, flag::after | flag::drain | flag::tracked);
  const auto c = *submit();
  EXPECT_EQ(bench_.header(*submit_after({c})).flags, flag::link | flag::tracked);
}

TEST_F(SubmissionQueueAfter, AListThatDoesNotFitWaitsInATaskBefore) {
  std::vector<std::uint64_t> before;
  for (int i = 0; i < 16; ++i) before.push_back(*submit());
  const std::uint64_t submitted = queue().submitted();
  const auto position = *submit_after(before, {}, 93);
  EXPECT_EQ(order_of(position), flag::link);
  const std::uint64_t gate = bench_.waits(position).front();
  EXPECT_EQ(order_of(gate), flag::after);
  EXPECT_EQ(bench_.header(gate).groups, 0U);
  EXPECT_EQ(bench_.header(gate).flags & flag::wide, flag::wide);
  EXPECT_EQ(bench_.waits(gate), before);
  EXPECT_EQ(bench_.header(position).slots, 8U);
  EXPECT_EQ(queue().submitted(), submitted + 1);
  for (u32 i = 0; i < 93; ++i) ASSERT_EQ(bench_.argument(position, i), 1000 + i);
  // Without room for both there is neither.
  submit_many(75);
  const std::uint64_t tail = queue().tail();
  EXPECT_FALSE(submit_after(before, {}, 93));
  EXPECT_EQ(queue().tail(), tail);
  // The cause of a failure is found behind it.
  bench_.finish(before[4], 7);
  bench_.finish(gate, status::cancelled);
  bench_.finish(position, status::cancelled);
  EXPECT_EQ(queue().result(position).cause.value_or(Failure::Cause{}).position, before[4]);
  finish_all();
  queue().reap();
  EXPECT_EQ(queue().result(position).cause.value_or(Failure::Cause{}).position, before[4]);
}

// ---- Why a task was cancelled ----

class SubmissionQueueCause : public SubmissionQueueTest {
 protected:
  SubmissionQueueCause() {
    submit();
    submit({}, detail::kLink);
    finish_all();
    queue().reap();  // from here on links lead to tasks that leave word
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

TEST_F(SubmissionQueueCause, OfSeveralTheFirstThatHasFailedIsNamed) {
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
  queue().complete_all(Reaper::Begun());
  EXPECT_FALSE(queue().result(unharmed).cause) << "the end of the runtime has cancelled it";
}

TEST_F(SubmissionQueueCause, ATaskThatTheEndOfTheRuntimeCancelsHasNone) {
  submit();
  const auto second = submit({}, detail::kLink);
  const auto bad = submit({}, detail::kLink);
  const auto behind = submit({}, detail::kLink);
  const auto hard = submit({}, detail::kLink | detail::kHard);
  bench_.finish(*bad, 7);
  queue().complete_all(Reaper::Begun());
  EXPECT_FALSE(queue().result(*second).cause);
  expect_cause(*behind, *bad);
  EXPECT_EQ(queue().result(*hard).status, status::cancelled);
  EXPECT_FALSE(queue().result(*hard).cause);
}

TEST_F(SubmissionQueueTest, DrainsAreCountedModulo4096) {
  for (u32 drains = 0; drains < 4100; ++drains) {
    const auto position = submit({}, detail::kDrain);
    ASSERT_EQ(bench_.header(*position).drains, drains % 4096);
    ASSERT_EQ(bench_.header(*position).flags, flag::drain);
    finish_all();
  }
  EXPECT_EQ(bench_.header(*submit()).drains, 4100U % 4096);
}

TEST_F(SubmissionQueueTest, ALinkedDrainIsADrainThatNamesTheTaskBefore) {
  submit();
  submit({}, detail::kDrain | detail::kLink);
  EXPECT_EQ(bench_.header(1).flags, flag::link | flag::drain | flag::tracked);
  EXPECT_EQ(bench_.named(1), 0U);
}

// ---- Failures ----

TEST_F(SubmissionQueueTest, AFailureIsRememberedWithItsOperator) {
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

TEST_F(SubmissionQueueOf65536, OfVeryManyFailuresTheLatestAreRemembered) {
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
  queue().complete_all(Reaper::Begun());
  EXPECT_EQ(queue().reaped(), queue().tail());
  EXPECT_EQ(queue().result(0).status, status::cancelled);
  EXPECT_EQ(queue().result(1).status, 9) << "it was complete before";
  EXPECT_EQ(queue().result(2).status, status::cancelled);
  EXPECT_THAT(queue().failed_positions(), ElementsAre(0U, 1U, 2U)) << "further slots are no tasks";
}

// ---- Tasks that name a buffer ----

class SubmissionQueueNames : public SubmissionQueueTest {
 protected:
  static constexpr std::uint64_t kAddress = 0x7F12'3456'7800;
  // The words of a span there, behind `before` other words.
  static std::vector<u32> span_words(u32 before, std::uint64_t size = 0x123'4567'89AB) {
    std::vector<u32> words(before, 0U);
    words.push_back(static_cast<u32>(kAddress));
    words.push_back(static_cast<u32>(kAddress >> 32U) | static_cast<u32>(size >> 32U) << 20U);
    words.push_back(static_cast<u32>(size));
    return words;
  }
};

TEST_F(SubmissionQueueNames, AnArgumentAnywhereIsFound) {
  for (u32 before = 0; before + 3 <= detail::kMaxWords; ++before) {
    const auto position = submit(span_words(before), detail::kMemory);
    ASSERT_TRUE(queue().names(*position, kAddress, kAddress + 1)) << before << " words before it";
    EXPECT_TRUE(queue().names(*position, kAddress - 100, kAddress + 100));
    EXPECT_FALSE(queue().names(*position, kAddress + 1, kAddress + 100));
    EXPECT_FALSE(queue().names(*position, kAddress - 100, kAddress));
    finish_all();
  }
}

TEST_F(SubmissionQueueNames, NumbersThatLookLikeAnAddressDoNotCount) {
  EXPECT_FALSE(queue().names(*submit(span_words(0)), kAddress, kAddress + 1)) << "no argument of this task leads to memory";
}

TEST_F(SubmissionQueueNames, ATaskThatIsNotWrittenYetNamesNothing) {
  const auto position = submit(span_words(0), detail::kMemory);
  bench_.ring[0].quad[0].lap = 0;
  EXPECT_FALSE(queue().names(*position, kAddress, kAddress + 1));
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

TEST_F(SubmissionQueueTest, AnAliasDividesTheTasksByTheirTickets) {
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
  // A thread submits tasks of both in turn: none runs an older opcode than one before it.
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

TEST_F(SubmissionQueueTest, AnAliasDividesTheTasksOfOtherThreads) {
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
