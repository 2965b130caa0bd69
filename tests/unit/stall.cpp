// Runtimes that stall: on a device that does not see submitted tasks, and by callbacks that wait for each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dwell/device/status.hpp>
#include <dwell/dwell.hpp>

#include "runtime/generations.hpp"
#include "tests/unit/breakable_backend.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNothing = "DWELL_OPERATOR(nothing)(dwell::Group) {}\n";

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

class StallTest : public testing::Test {
 protected:
  void open(std::chrono::milliseconds timeout = 200ms) {
    Options options;
    options.workers = 2;
    options.ring_slots = 128;
    options.lease = 4ms;
    options.task_timeout = 0ns;
    options.stall_timeout = timeout;
    options.warn = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
    runtime_.emplace(detail::runtime_on(options, opener(device_), 64));
    nothing_ = runtime_->define<void()>("nothing", kNothing);
  }
  // From here on, the device does not see submitted tasks.
  void blind() {
    runtime_->park();
    device_->blind = true;
    runtime_->resume();
  }
  // Ends blind() with the next lease.
  void see() { device_->blind = false; }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  std::shared_ptr<BreakableDevice> device_ = std::make_shared<BreakableDevice>();
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::optional<Runtime> runtime_;
  Operator<void()> nothing_;
};

TEST_F(StallTest, AWaitForALostTaskEndsWithItsName) {
  open();
  blind();
  const auto start = std::chrono::steady_clock::now();
  const Ticket lost = runtime_->submit(nothing_);
  const Ticket behind = runtime_->submit(nothing_, after(lost));
  const Error error = error_of([&] { behind.wait(); });
  EXPECT_EQ(error.kind(), errc::stalled) << error.what();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  const std::string first = "ticket " + std::to_string(lost.position());
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("200 ms (the option stall_timeout)"), HasSubstr("2 tasks are not complete"),
                    HasSubstr(first + " of operator nothing (version 1) could run, and no worker runs it"),
                    HasSubstr("ticket " + std::to_string(behind.position()) + " of operator nothing (version 1) waits for " + first),
                    HasSubstr("`cancel`")));
  EXPECT_EQ(error.fields().what, "task");
  EXPECT_EQ(error.fields().which, "nothing (version 1)");
  EXPECT_EQ(error.fields().value, lost.position());
  const Diagnosis diagnosis = runtime_->diagnose();
  EXPECT_TRUE(diagnosis.stalled);
  EXPECT_EQ(diagnosis.tasks[0].doing, Doing::lost);
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(lines()[0], AllOf(HasSubstr("has stalled"), HasSubstr(first), Not(HasSubstr("\n"))));

  // A verdict is not final: if the task runs after all, waits work again.
  see();
  EXPECT_TRUE(eventually([&] { return behind.done(); }));
  behind.wait();
  runtime_->submit(nothing_).wait();
  EXPECT_FALSE(runtime_->diagnose().stalled);
}

TEST_F(StallTest, EveryWaitEnds) {
  open();
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  std::promise<errc> called;
  lost.then([&](const Ticket& ticket) {
    EXPECT_FALSE(ticket.done());
    called.set_value(error_of([&] { ticket.wait(); }).kind());
  });
  std::vector<std::jthread> waiting;
  std::atomic<int> ended{0};
  const auto in_thread = [&](const std::function<void()>& wait) {
    waiting.emplace_back([&ended, wait] {
      EXPECT_EQ(error_of(wait).kind(), errc::stalled);
      ++ended;
    });
  };
  in_thread([&] { lost.wait(); });
  in_thread([&] { lost.wait_for(1h); });
  in_thread([&] { static_cast<void>(lost.status()); });
  in_thread([&] { runtime_->wait_all(); });
  in_thread([&] {
    for (int i = 0; i < 1000; ++i) runtime_->submit(nothing_);  // more tasks than the ring holds
  });
  waiting.clear();
  EXPECT_EQ(ended, 5);
  EXPECT_EQ(called.get_future().get(), errc::stalled);
  EXPECT_FALSE(lost.wait_for(0ns)) << "a wait that is over at once is none";
}

TEST_F(StallTest, CloseCancelsLostTasksAndReportsIt) {
  open();
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  const Error error = error_of([&] { runtime_->close(); });
  EXPECT_EQ(error.kind(), errc::stalled) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("ticket " + std::to_string(lost.position())));
  EXPECT_EQ(lost.status(), status::cancelled);
  EXPECT_EQ(error_of([&] { lost.wait(); }).kind(), errc::cancelled);
  EXPECT_EQ(error_of([&] { runtime_->submit(nothing_); }).kind(), errc::closed);
  EXPECT_EQ(device_->alive, 0);
}

TEST_F(StallTest, CloseNowDoesNotWaitForAVerdict) {
  open(1h);
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  EXPECT_EQ(runtime_->diagnose().total, 1U);
  runtime_->close(Close::now);
  EXPECT_EQ(lost.status(), status::cancelled);
  EXPECT_EQ(error_of([&] { static_cast<void>(runtime_->diagnose()); }).kind(), errc::closed);
}

TEST_F(StallTest, OldVerdictDoesNotCoverNewTasks) {
  open();
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  EXPECT_EQ(error_of([&] { lost.wait(); }).kind(), errc::stalled);
  const auto start = std::chrono::steady_clock::now();
  const Ticket late = runtime_->submit(nothing_);
  EXPECT_FALSE(late.wait_for(20ms));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_EQ(error_of([&] { late.wait(); }).kind(), errc::stalled) << "but under one of its own";
  see();
  EXPECT_TRUE(eventually([&] { return late.done(); }));
  late.wait();
}

TEST_F(StallTest, CloseEndsWaitsForLaterTasks) {
  open();
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  EXPECT_EQ(error_of([&] { lost.wait(); }).kind(), errc::stalled);
  const Ticket late = runtime_->submit(nothing_);
  std::promise<void> waits;
  std::jthread waiting([&] {
    waits.set_value();
    EXPECT_NE(error_of([&] { late.wait(); }).kind(), errc::ok);
  });
  waits.get_future().wait();
  EXPECT_EQ(error_of([&] { runtime_->close(); }).kind(), errc::stalled);
  waiting.join();
  EXPECT_EQ(late.status(), status::cancelled);
}

TEST_F(StallTest, RunningKernelIsNoStall) {
  device_->kernels_hang = true;
  open();
  const Ticket launch = runtime_->compile("spin").kernel("spin").launch({});
  const Ticket behind = runtime_->submit(nothing_, after(launch));
  EXPECT_FALSE(behind.wait_for(1500ms));
  const Diagnosis diagnosis = runtime_->diagnose();
  ASSERT_EQ(diagnosis.tasks.size(), 1U);
  EXPECT_EQ(diagnosis.tasks[0].doing, Doing::waits_for_host);
  EXPECT_THAT(to_string(diagnosis), HasSubstr("waits for launch 0 of kernel spin"));
  device_->kernels_hang = false;
  behind.wait();
  EXPECT_TRUE(lines().empty());
}

TEST_F(StallTest, CallbackThatBlocksItsOwnThreadStalls) {
  device_->kernels_hang = true;
  open();
  const Ticket launch = runtime_->compile("spin").kernel("spin").launch({});
  const Ticket behind = runtime_->submit(nothing_, after(launch));
  std::promise<void> runs;
  std::promise<errc> ended;
  // The thread that runs callbacks also detects the end of kernels.
  runtime_->submit(nothing_).then([&](const Ticket&) {
    runs.set_value();
    ended.set_value(error_of([&] { behind.wait(); }).kind());
  });
  runs.get_future().wait();
  device_->kernels_hang = false;
  EXPECT_EQ(ended.get_future().get(), errc::stalled);
  EXPECT_TRUE(eventually([&] { return behind.done(); })) << "and goes on then";
  behind.wait();
}

TEST_F(StallTest, DiagnosisWorksWithoutAWatchdog) {
  open(0ms);
  blind();
  const Ticket lost = runtime_->submit(nothing_);
  EXPECT_FALSE(lost.wait_for(300ms));
  const Diagnosis diagnosis = runtime_->diagnose();
  ASSERT_EQ(diagnosis.total, 1U);
  EXPECT_EQ(diagnosis.tasks[0].position, lost.position());
  EXPECT_EQ(diagnosis.tasks[0].doing, Doing::waits_to_run);
  EXPECT_FALSE(diagnosis.stalled);
  see();
  lost.wait();
}

}  // namespace
}  // namespace dwell::test
