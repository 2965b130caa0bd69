#include "live/process.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/unit/child.hpp"

namespace dwell::live {
namespace {

using namespace std::chrono_literals;

TEST(LiveProcess, IsEqualWhileItLives) {
  const Process self = Process::self();
  EXPECT_EQ(self.pid, getpid());
  EXPECT_GT(self.start, 0U);
  EXPECT_EQ(Process::with(getpid()), self);
  EXPECT_TRUE(self.lives());
}

TEST(LiveProcess, ReusedPidIsDetected) {
  Process earlier = Process::self();
  --earlier.start;
  EXPECT_FALSE(earlier.lives());
}

TEST(LiveProcess, IsDeadAfterItsEnd) {
  const pid_t child = test::start_child([] { return 0; });
  test::end_of(child);
  EXPECT_FALSE(Process::with(child));
}

TEST(LiveProcess, NameMayLookLikeFields) {
  EXPECT_TRUE(test::ended_well(test::run_child([] {
    const Process before = Process::self();
    prctl(PR_SET_NAME, ") S 1 2) 3");
    return Process::self() == before ? 0 : 1;
  })));
}

TEST(LiveProcess, KnowsItsAge) {
  const auto age = Process::self().age();
  EXPECT_GE(age, -20ms);  // a tick of the clock that start times use
  EXPECT_LT(age, 1h);
}

}  // namespace
}  // namespace dwell::live
