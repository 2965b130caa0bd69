// Launches in flight, on a device that ends them on request.
#include "runtime/kernels/launches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/fake_backend.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LaunchesTest : public testing::Test {
 protected:
  std::uint64_t launch(std::vector<std::uint64_t> addresses = {}, std::shared_ptr<const void> keep = nullptr) {
    return launches_.launch(*kernels_, {}, {"axpy<float>", std::move(addresses), std::move(keep)});
  }

  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  std::unique_ptr<backend::LoadedModule> kernels_ = backend_.load_kernels({}, {});
  Launches launches_{backend_};
};

TEST_F(LaunchesTest, LaunchIsDoneWhenTheDeviceReportsIt) {
  const std::uint64_t number = launch();
  EXPECT_FALSE(launches_.done(number));
  EXPECT_FALSE(launches_.wait(number, Launches::Clock::now() + 5ms));
  device_->end_launch(0);
  EXPECT_TRUE(launches_.done(number));
  EXPECT_TRUE(launches_.wait(number, std::nullopt));
  EXPECT_FALSE(launches_.error_of(number));
}

TEST_F(LaunchesTest, WaitReturnsWhenAnotherThreadsLaunchEnds) {
  const std::uint64_t number = launch();
  std::jthread end([&] {
    std::this_thread::sleep_for(20ms);
    device_->end_launch(0);
  });
  EXPECT_TRUE(launches_.wait(number, std::nullopt));
}

TEST_F(LaunchesTest, LaunchesEndInAnyOrder) {
  const std::uint64_t one = launch();
  const std::uint64_t two = launch();
  device_->end_launch(1);
  EXPECT_TRUE(launches_.done(two));
  EXPECT_FALSE(launches_.done(one));
  EXPECT_EQ(launches_.settled(), one);
  device_->end_launch(0);
  EXPECT_EQ(launches_.settled(), launches_.next());
}

TEST_F(LaunchesTest, ALaunchKeepsItsNeedsUntilItEnds) {
  auto memory = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = memory;
  const std::uint64_t number = launch({}, std::move(memory));
  launches_.collect();
  EXPECT_FALSE(watched.expired());
  device_->end_launch(0);
  EXPECT_TRUE(launches_.done(number));
  EXPECT_FALSE(watched.expired()) << "done must not free: that may take long";
  launches_.collect();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(device_->completions, 0);
}

TEST_F(LaunchesTest, CollectFindsLaunchesWithoutWaiters) {
  for (int i = 0; i < 100; ++i) launch();
  for (int i = 0; i < 100; ++i) device_->end_launch(i);
  launches_.collect();
  EXPECT_EQ(device_->completions, 0);
}

TEST_F(LaunchesTest, CollectFindsLaunchesBehindALongOne) {
  launch();
  for (int i = 1; i <= 100; ++i) {
    launch();
    device_->end_launch(i);
  }
  for (int i = 0; i < 100; ++i) launches_.collect();
  EXPECT_EQ(device_->completions, 1);
  EXPECT_EQ(launches_.settled(), 0U);
}

TEST_F(LaunchesTest, ALaunchWithoutMemoryDelaysNoOther) {
  device_->no_memory = true;
  EXPECT_THROW(launch({}, std::make_shared<int>(7)), std::bad_alloc);
  EXPECT_EQ(launches_.settled(), launches_.next());
  device_->no_memory = false;
  device_->end_launch(0);
  const std::uint64_t number = launch();
  EXPECT_TRUE(launches_.done(number));
  EXPECT_EQ(launches_.close({}), "");
}

TEST_F(LaunchesTest, FindsLaunchesByTheirMemory) {
  launch({1000, 2000});
  launch({1999});
  launch({3000});
  EXPECT_THAT(launches_.naming(1000, 2000), ElementsAre(0, 1));
  EXPECT_THAT(launches_.naming(2000, 2001), ElementsAre(0));
  EXPECT_THAT(launches_.naming(2001, 3000), IsEmpty());
  device_->end_launch(0);
  EXPECT_TRUE(launches_.done(0));
  EXPECT_THAT(launches_.naming(1000, 2000), ElementsAre(1));
}

TEST_F(LaunchesTest, ARefusedLaunchLeavesNothingBehind) {
  device_->refuses_launch = true;
  auto memory = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = memory;
  EXPECT_THROW(launch({1000}, std::move(memory)), Error);
  EXPECT_THAT(launches_.naming(1000, 1001), IsEmpty());
  EXPECT_EQ(launches_.settled(), launches_.next());
  launches_.collect();
  EXPECT_TRUE(watched.expired());
}

TEST_F(LaunchesTest, AFaultNamesTheKernel) {
  const std::uint64_t number = launch();
  EXPECT_THAT(launches_.in_flight(), "axpy<float> (launch 0)");
  device_->break_launch(0, "an illegal address");
  EXPECT_TRUE(launches_.wait(number, std::nullopt));
  const auto error = launches_.error_of(number);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), errc::device_lost);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("axpy<float>"), HasSubstr("launch 0"), HasSubstr("an illegal address")));
  EXPECT_EQ(launches_.errors().size(), 1U);
  EXPECT_EQ(launches_.in_flight(), "");
}

TEST_F(LaunchesTest, CloseWaitsAndRefusesLaunches) {
  launch();
  launch();
  std::atomic<bool> closed{false};
  std::jthread closer([&] {
    EXPECT_EQ(launches_.close({}), "");
    closed = true;
  });
  device_->end_launch(0);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(closed);
  device_->end_launch(1);
  closer.join();
  DWELL_EXPECT_ERROR(launch(), errc::closed, testing::_);
  EXPECT_EQ(device_->launches, 2);
}

TEST_F(LaunchesTest, CloseNamesTheHangingKernel) {
  launch();
  launch();
  const Launches::Clock::time_point start = Launches::Clock::now();
  std::jthread end([&] {
    std::this_thread::sleep_for(100ms);
    device_->end_launch(0);
  });
  EXPECT_EQ(launches_.close(500ms), "axpy<float> (launch 1)");
  EXPECT_GE(Launches::Clock::now() - start, 600ms) << "as long as some end, it waits for the others";
  device_->break_launch(1, "it was given up");
  EXPECT_EQ(launches_.close({}), "");
}

TEST_F(LaunchesTest, ManyThreadsLaunchAndWait) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  for (int i = 0; i < kThreads * kEach; ++i) device_->end_launch(i);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          launches_.wait(launch(), std::nullopt);
          launches_.collect();
        }
      });
  }
  EXPECT_EQ(launches_.next(), kThreads * kEach);
  EXPECT_EQ(launches_.settled(), kThreads * kEach);
  launches_.collect();
  EXPECT_EQ(device_->completions, 0);
}

}  // namespace
}  // namespace dwell::runtime
