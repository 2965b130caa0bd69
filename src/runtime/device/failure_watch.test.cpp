#include "runtime/device/failure_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "tests/unit/bench.hpp"
#include "tests/unit/fake_backend.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FailureWatchTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kWorkers = 16;

  explicit FailureWatchTest(std::uint64_t first = 0) : bench_(7, kWorkers, first) { open(0ms); }

  void open(std::chrono::nanoseconds task_timeout) {
    watch_ = std::make_unique<FailureWatch>(FailureWatch::Parts{
        backend_, in_flight_,
        [](std::string text, const std::vector<FailureWatch::Holder>& holders, bool running) {
          for (const FailureWatch::Holder& holder : holders)
            text += "; worker " + std::to_string(holder.worker) + (running ? " ran " : " last ran ") + std::to_string(holder.opcode) +
                    " at " + std::to_string(holder.position);
          return text;
        },
        task_timeout, [] { return kWorkers; }, [this] { told_ += watch_->failed() || device_->abandoned ? " late" : " leave"; },
        [this] { told_ += watch_->failed() ? " failed" : " early"; }});
  }
  std::uint64_t submit() {
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, test::task_of({}), &position));
    return position;
  }
  void runs(std::uint32_t worker, std::uint64_t position, std::uint64_t opcode) {
    device::store<device::Order::relaxed, device::Scope::system>(
        &bench_.in_flight[worker].word, u64{static_cast<u32>(position) | opcode << 32U | device::InFlight::kValid});
  }

  test::Bench bench_;
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  InFlightTasks in_flight_{bench_.in_flight.data(), kWorkers, bench_.queue};
  std::unique_ptr<FailureWatch> watch_;
  std::string told_;  // requests and announcements, in order
  std::atomic<std::uint32_t> alias_{7};
};

TEST_F(FailureWatchTest, AFaultNamesAllRunningTasks) {
  for (int i = 0; i < 5; ++i) submit();
  bench_.finish(2);
  runs(0, 1, 7);
  runs(5, 2, 7);  // complete
  runs(9, 4, 8);
  EXPECT_FALSE(watch_->lost());
  EXPECT_FALSE(watch_->failed());
  device_->set_fault("illegal address");
  EXPECT_TRUE(watch_->lost());
  ASSERT_TRUE(watch_->failed());
  EXPECT_EQ(watch_->failure().kind(), errc::device_lost);
  EXPECT_THAT(watch_->failure().message(),
              AllOf(HasSubstr("illegal address; worker 0 ran 7 at 1; worker 9 ran 8 at 4"), Not(HasSubstr("at 2"))));
  EXPECT_EQ(told_, " failed");
  EXPECT_TRUE(watch_->lost());
  EXPECT_EQ(told_, " failed") << "told once";
}

TEST_F(FailureWatchTest, AFaultWithoutRunningTasksNamesTheLastOnes) {
  for (int i = 0; i < 3; ++i) bench_.finish(submit());
  runs(4, 1, 7);
  runs(2, 2, 8);
  device_->set_fault("illegal address");
  watch_->look();
  ASSERT_TRUE(watch_->failed());
  EXPECT_THAT(watch_->failure().message(), HasSubstr("; worker 2 last ran 8 at 2; worker 4 last ran 7 at 1")) << "the youngest first";
}

TEST_F(FailureWatchTest, AnOverstayingTaskIsNamedAndTheDeviceAbandoned) {
  open(30ms);
  for (int i = 0; i < 3; ++i) submit();
  runs(3, 1, 7);
  for (int i = 0; i < 1000 && !watch_->failed(); ++i) {
    watch_->look();
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_TRUE(watch_->failed());
  EXPECT_EQ(watch_->failure().kind(), errc::task_timeout);
  EXPECT_THAT(watch_->failure().message(), AllOf(HasSubstr("30 ms"), HasSubstr("; worker 3 ran 7 at 1")));
  EXPECT_TRUE(device_->abandoned);
  EXPECT_EQ(told_, " leave failed");
}

TEST_F(FailureWatchTest, ManyTasksOnOneWorkerDoNotOverstay) {
  open(400ms);
  for (int i = 0; i < 40; ++i) {
    runs(3, submit(), 7);
    watch_->look();
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_FALSE(watch_->failed());
}

TEST_F(FailureWatchTest, TheFirstFailureStays) {
  watch_->give_up(Error(errc::task_timeout, "a kernel hangs"));
  watch_->give_up(Error(errc::task_timeout, "another one does"));
  watch_->fail(Error(errc::device_lost, "the launch is refused"));
  EXPECT_EQ(watch_->failure().message(), "a kernel hangs");
  EXPECT_EQ(told_, " leave failed");
}

TEST_F(FailureWatchTest, ErrorsOfALostDeviceAreTheFailure) {
  const Error refused(errc::invalid_argument, "no such memory");
  const Error failing(errc::device_lost, "the copy failed");
  EXPECT_EQ(watch_->explain(failing).message(), "the copy failed") << "the device is well";
  device_->set_fault("illegal address");
  EXPECT_EQ(watch_->explain(refused).message(), "no such memory");
  EXPECT_FALSE(watch_->failed()) << "nobody has asked the device";
  EXPECT_THAT(watch_->explain(failing).message(), HasSubstr("illegal address"));
  EXPECT_TRUE(watch_->failed());
}

class FailureWatchAtLargePositions : public FailureWatchTest {
 protected:
  FailureWatchAtLargePositions() : FailureWatchTest((3ULL << 32U) - 64) {}
};

TEST_F(FailureWatchAtLargePositions, TheFailureNamesThe64BitTicket) {
  for (int i = 0; i < 100; ++i) submit();
  runs(0, (3ULL << 32U) - 1, 7);
  runs(1, 3ULL << 32U, 7);
  runs(2, (3ULL << 32U) + 36, 7);  // not submitted yet: a record left by another lease
  device_->set_fault("illegal address");
  ASSERT_TRUE(watch_->lost());
  EXPECT_THAT(watch_->failure().message(),
              AllOf(HasSubstr("worker 0 ran 7 at 12884901887"), HasSubstr("worker 1 ran 7 at 12884901888"), Not(HasSubstr("worker 2"))));
}

}  // namespace
}  // namespace dwell::runtime
