// Order of tasks, as encoded in the ring.
#include "runtime/device/task_order.hpp"

#include <dwell/device/status.hpp>

#include "tests/unit/queue_suite.hpp"

namespace dwell::runtime {
namespace {

using testing::ElementsAre;
namespace flag = device::flag;

class TaskOrderTest : public QueueSuite {
 protected:
  using QueueSuite::QueueSuite;
};

TEST_F(TaskOrderTest, FirstTaskHasNoLink) {
  submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(0).flags & (flag::link | flag::drain), 0U);
}

TEST_F(TaskOrderTest, TheFirstLinkBecomesADrain) {
  submit();
  submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(0).flags, 0U) << "it leaves no word to wait for";
  EXPECT_EQ(bench_.header(1).flags, flag::link | flag::drain | flag::tracked);
  EXPECT_EQ(bench_.named(1), 0U) << "unless it fails";
  submit();
  EXPECT_EQ(bench_.header(2).flags, flag::tracked);
  EXPECT_EQ(bench_.header(2).drains, 1U);
}

TEST_F(TaskOrderTest, ALinkNamesTheTaskBefore) {
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

TEST_F(TaskOrderTest, ALinkAcrossPaddingReachesTheTaskBefore) {
  submit();
  submit({}, detail::kLink);
  submit_many(58);
  const auto after = submit(counted(detail::kMaxWords), detail::kLink);
  EXPECT_EQ(after, 64U);
  EXPECT_EQ(bench_.named(64), 59U);
}

class TaskOrderOf512 : public TaskOrderTest {
 protected:
  TaskOrderOf512() : TaskOrderTest(9) {}
};

TEST_F(TaskOrderOf512, ALinkReachesAsFarAsTheRing) {
  submit();
  const auto before = submit({}, detail::kLink);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(queue().try_close_lease(1, true));
  const auto far = submit({}, detail::kLink);
  EXPECT_EQ(bench_.header(*far).flags, flag::link | flag::tracked);
  EXPECT_EQ(bench_.named(*far), *before);
}

TEST_F(TaskOrderTest, LinkToAReapedTaskIsDropped) {
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

class TaskOrderAfter : public TaskOrderTest {
 protected:
  static constexpr std::uint64_t kHard = test::Bench::kHard;
  static constexpr std::uint64_t kFailed = test::Bench::kFailed;
  TaskOrderAfter() {
    submit();
    submit({}, detail::kLink);
    finish_all();
    queue().reap();  // from here on, tasks are tracked
  }
  u32 order_of(std::uint64_t position) const {
    return bench_.header(position).flags & (flag::link | flag::hard | flag::drain | flag::after | flag::failed);
  }
};

TEST_F(TaskOrderAfter, HeaderNamesOneTaskAndAListSeveral) {
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

TEST_F(TaskOrderAfter, TasksThatHaveEndedCostNothing) {
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

TEST_F(TaskOrderAfter, FailedPredecessorCancelsAfterTheOthers) {
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

TEST_F(TaskOrderAfter, LinkAddsAnEntry) {
  const auto a = *submit();
  const auto b = *submit();
  EXPECT_THAT(bench_.waits(*submit_after({a}, {}, 0, detail::kLink)), ElementsAre(a, b));
  const auto c = *submit();
  const auto hard = *submit_after({a}, {}, 0, detail::kLink | detail::kHard);
  EXPECT_THAT(bench_.waits(hard), ElementsAre(a, c + kHard));
  EXPECT_EQ(order_of(hard), flag::after);
}

TEST_F(TaskOrderTest, WaitForAnUntrackedTaskIsADrain) {
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

TEST_F(TaskOrderAfter, LongListUsesAnExtraTask) {
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
  // Without room for both, neither is submitted.
  submit_many(75);
  const std::uint64_t tail = queue().tail();
  EXPECT_FALSE(submit_after(before, {}, 93));
  EXPECT_EQ(queue().tail(), tail);
  // Finds the cause of a failure through the gate.
  bench_.finish(before[4], 7);
  bench_.finish(gate, status::cancelled);
  bench_.finish(position, status::cancelled);
  EXPECT_EQ(queue().result(position).cause.value_or(Failure::Cause{}).position, before[4]);
  finish_all();
  queue().reap();
  EXPECT_EQ(queue().result(position).cause.value_or(Failure::Cause{}).position, before[4]);
}

TEST_F(TaskOrderTest, DrainsAreCountedModulo4096) {
  for (u32 drains = 0; drains < 4100; ++drains) {
    const auto position = submit({}, detail::kDrain);
    ASSERT_EQ(bench_.header(*position).drains, drains % 4096);
    ASSERT_EQ(bench_.header(*position).flags, flag::drain);
    finish_all();
  }
  EXPECT_EQ(bench_.header(*submit()).drains, 4100U % 4096);
}

TEST_F(TaskOrderTest, ALinkedDrainIsADrainThatNamesTheTaskBefore) {
  submit();
  submit({}, detail::kDrain | detail::kLink);
  EXPECT_EQ(bench_.header(1).flags, flag::link | flag::drain | flag::tracked);
  EXPECT_EQ(bench_.named(1), 0U);
}

}  // namespace
}  // namespace dwell::runtime
