// Tasks that fail or hang, and their results long after.
#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class FailureTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(FailureTest);

TEST_P(FailureTest, AFailedTaskNamesItself) {
  Runtime runtime(options());
  auto fail = runtime.define<Fail>("fail", kFail);
  runtime.submit(fail, 0).wait();
  const Ticket ticket = runtime.submit(fail, 1234);
  DWELL_EXPECT_ERROR(
      ticket.wait(), errc::task_failed,
      AllOf(HasSubstr("ticket " + std::to_string(ticket.position())), HasSubstr("fail (version 1)"), HasSubstr("code 1234")));
  DWELL_EXPECT_ERROR(static_cast<void>(ticket.wait_for(1s)), errc::task_failed, HasSubstr("1234"));
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(ticket.status(), 1234);
  // Category and code work as with any std::system_error.
  try {
    ticket.wait();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::task_failed);
    EXPECT_STREQ(error.code().category().name(), "dwell");
    EXPECT_THAT(error.what(), HasSubstr("the task failed"));
  }
}

TEST_P(FailureTest, WaitAllAndReadReturnDespiteFailedTasks) {
  Runtime runtime(options());
  auto op = runtime.define<void(Span<u32>)>("op", R"(
    DWELL_OPERATOR(op)(dwell::Group g, dwell::Span<dwell::u32> x) {
      g.fail(3);
      if (g.rank() == 0) x[0] = 8;
    })");
  auto x = filled<u32>(runtime, 1, 0);
  runtime.submit(op, x);
  EXPECT_EQ(read(x)[0], 8U);
  runtime.wait_all();
}

TEST_P(FailureTest, FailuresAreKeptAfterManyLaps) {
  Options small = options();
  small.ring_slots = 128;
  Runtime runtime(small);
  auto fail = runtime.define<Fail>("fail", kFail);
  std::vector<Ticket> tickets;
  constexpr i32 kTasks = 2000;
  for (i32 i = 0; i < kTasks; ++i) tickets.push_back(runtime.submit(fail, i % 3 == 0 ? i : 0));
  runtime.wait_all();
  for (i32 i = 0; i < kTasks; ++i) ASSERT_EQ(tickets[static_cast<std::size_t>(i)].status(), i % 3 == 0 ? i : 0);
  DWELL_EXPECT_ERROR(tickets[3].wait(), errc::task_failed, AllOf(HasSubstr("fail (version 1)"), HasSubstr("code 3")));
  tickets[4].wait();
}

TEST_P(FailureTest, FailuresAreKeptAfterClose) {
  std::vector<Ticket> tickets;
  {
    Options small = options();
    small.ring_slots = 128;
    Runtime runtime(small);
    auto fail = runtime.define<Fail>("fail", kFail);
    for (i32 i = 0; i < 300; ++i) tickets.push_back(runtime.submit(fail, i));
  }
  for (i32 i = 0; i < 300; ++i) {
    const Ticket& ticket = tickets[static_cast<std::size_t>(i)];
    ASSERT_TRUE(ticket.done());
    ASSERT_EQ(ticket.status(), i);
  }
  DWELL_EXPECT_ERROR(tickets[299].wait(), errc::task_failed, AllOf(HasSubstr("fail (version 1)"), HasSubstr("code 299")));
  tickets[0].wait();
}

// Runs for `ns`, and cannot be stopped.
constexpr const char* kHang = R"(
DWELL_OPERATOR(hang)(dwell::Group g, dwell::u64 ns) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < ns) {}
  g.sync();
})";

TEST_P(FailureTest, TimeoutOfATaskFailsTheRuntime) {
  Options strict = options();
  strict.task_timeout = 100ms;
  std::vector<Ticket> tickets;
  Ticket done;
  std::uint64_t culprit = 0;
  Buffer<u32> buffer;
  {
    Runtime runtime(strict);
    auto hang = runtime.define<Spin>("hang", kHang);
    auto nothing = runtime.define("nothing", kNothing);
    buffer = filled<u32>(runtime, 1000, 1);
    runtime.submit(hang, u64{30'000'000}).wait();  // below the timeout
    done = runtime.submit(nothing);
    done.wait();
    tickets.push_back(runtime.submit(hang, u64{2'000'000'000}));
    culprit = tickets[0].position();
    for (int i = 0; i < 10; ++i) tickets.push_back(runtime.submit(nothing, drain));
    const auto message =
        AllOf(HasSubstr("100 ms"), HasSubstr("hang (version 1)"), HasSubstr("ticket " + std::to_string(culprit)), HasSubstr("on worker "));
    const auto start = Clock::now();
    for (const Ticket& ticket : tickets) {
      DWELL_EXPECT_ERROR(ticket.wait(), errc::task_timeout, message);
      EXPECT_TRUE(ticket.done());
      EXPECT_EQ(ticket.status(), status::timed_out);
    }
    EXPECT_LT(Clock::now() - start, 1500ms) << "the tickets failed only when the task was over";
    EXPECT_EQ(done.status(), status::ok);
    // New tasks are refused, and no call waits for the hanging one.
    DWELL_EXPECT_ERROR(runtime.submit(nothing), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.try_submit(nothing), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.wait_all(), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.park(), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.allocate<u32>(1), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.define("other", "DWELL_OPERATOR(other)(dwell::Group) {}"), errc::task_timeout, message);
    DWELL_EXPECT_ERROR(runtime.close(), errc::task_timeout, message);
    EXPECT_LT(Clock::now() - start, 1800ms) << "close waited for the task";
  }
  // The task keeps running: the memory that it uses must still exist.
  for (const Ticket& ticket : tickets) {
    EXPECT_TRUE(ticket.done());
    EXPECT_EQ(ticket.status(), status::timed_out);
    DWELL_EXPECT_ERROR(ticket.wait(), errc::task_timeout, HasSubstr("hang (version 1)"));
  }
  EXPECT_EQ(done.status(), status::ok) << "a task that had ended well";
  EXPECT_NO_THROW(done.wait());
  buffer = {};
  std::this_thread::sleep_for(2500ms);
  // On CUDA the device is free only now.
  Runtime again(options());
  auto nothing = again.define("nothing", kNothing);
  again.submit(nothing).wait();
}

TEST_P(FailureTest, TimeoutNamesAWideTask) {
  Options strict = options();
  strict.task_timeout = 60ms;
  Runtime runtime(strict);
  auto hang = runtime.define<Spin>("hang", kHang);
  const Ticket ticket = runtime.submit(hang, u64{800'000'000}, groups(2));
  DWELL_EXPECT_ERROR(ticket.wait(), errc::task_timeout, AllOf(HasSubstr("hang (version 1), ticket 0"), HasSubstr("on worker")));
  DWELL_EXPECT_ERROR(runtime.close(Close::now), errc::task_timeout, HasSubstr("hang"));
  std::this_thread::sleep_for(1200ms);
}

TEST_P(FailureTest, RuntimeIsRebuiltAfterATimeout) {
  Options strict = options();
  strict.task_timeout = 100ms;
  Runtime runtime(strict);
  auto hang = runtime.define<Spin>("hang", kHang);
  auto add = runtime.define<Add>("add", kAdd);
  auto old = filled<u32>(runtime, 10, 1);
  DWELL_EXPECT_ERROR(runtime.rebuild(), errc::invalid_argument, HasSubstr("the device works"));
  const Ticket good = runtime.submit(add, old, 0U, 1U);
  good.wait();
  const Ticket lost = runtime.submit(hang, u64{2'000'000'000});
  DWELL_EXPECT_ERROR(lost.wait(), errc::task_timeout, HasSubstr("hang (version 1)"));
  if (!on_cpu()) {
    // The task holds the device until it ends.
    DWELL_EXPECT_ERROR(runtime.rebuild(), errc::device_lost, HasSubstr("hangs"));
    DWELL_EXPECT_ERROR(runtime.submit(add, old, 0U, 1U), errc::task_timeout, HasSubstr("hang (version 1)"));
    std::this_thread::sleep_for(2500ms);
  }
  runtime.rebuild();
  const std::string name =
      "belongs to generation 1 of runtime " + std::to_string(runtime.info().runtime) + ", which is at generation 2 since it was rebuilt";
  EXPECT_EQ(runtime.info().generation, 2U);
  EXPECT_NO_THROW(good.wait());
  if (on_cpu()) {
    DWELL_EXPECT_ERROR(lost.wait(), errc::stale_handle, AllOf(HasSubstr(name), HasSubstr("hang (version 1)")));
    EXPECT_EQ(lost.status(), status::timed_out);
  } else {
    EXPECT_NO_THROW(lost.wait()) << "it has run to its end after all";
  }
  auto fresh = filled<u32>(runtime, 10, 1);
  DWELL_EXPECT_ERROR(read(old), errc::stale_handle, HasSubstr("buffer of 40 bytes " + name));
  DWELL_EXPECT_ERROR(runtime.submit(add, fresh, 0U, 1U), errc::stale_handle, HasSubstr("operator 'add' " + name));
  add = runtime.define<Add>("add", kAdd);
  DWELL_EXPECT_ERROR(runtime.submit(add, old, 0U, 1U), errc::stale_handle, HasSubstr("buffer of 40 bytes " + name));
  for (u32 i = 0; i < 3000; ++i) runtime.submit(add, fresh, i % 10, 1U);
  EXPECT_THAT(read(fresh), testing::Each(301U));
  EXPECT_GT(runtime.submit(add, fresh, 0U, 1U).position(), lost.position());
  old = {};
  runtime.close();
  if (on_cpu()) std::this_thread::sleep_for(2200ms);  // the abandoned worker still runs the task, whose memory must exist
}

TEST_P(FailureTest, WithoutATimeoutTasksRunAsLongAsTheyNeed) {
  Options lenient = options();
  lenient.task_timeout = 0ns;
  Runtime runtime(lenient);
  auto hang = runtime.define<Spin>("hang", kHang);
  runtime.submit(hang, u64{300'000'000}).wait();
}

TEST_P(FailureTest, ManyShortTasksTogetherAreNoTimeout) {
  // Each task is short; a timeout needs the same position for the whole time.
  Options strict = options();
  strict.task_timeout = 80ms;
  Runtime runtime(strict);
  auto spin = runtime.define<Spin>("spin", kSpin);
  for (int i = 0; i < 40; ++i) runtime.submit(spin, u64{10'000'000}, link);
  runtime.wait_all();
}

}  // namespace
}  // namespace dwell::test
