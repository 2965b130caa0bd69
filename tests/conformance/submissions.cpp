// The list of tasks submitted by a collector of operations.
#include <dwell/detail/submissions.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class SubmissionsTest : public DeviceTest {};
DWELL_ON_EVERY_DEVICE(SubmissionsTest);

TEST_P(SubmissionsTest, ThrowsForTheFirstFailureOnce) {
  Runtime runtime(options());
  auto fail = runtime.define<Fail>("fail", kFail);
  detail::Submissions submissions;
  submissions.wait();
  for (const i32 code : {0, 7, 0, 8}) submissions.add(runtime.submit(fail, code));
  submissions.wait_until(1);
  EXPECT_TRUE(submissions.failed());
  EXPECT_FALSE(submissions.empty());
  DWELL_EXPECT_ERROR(submissions.wait(), errc::task_failed, HasSubstr("code 7"));
  EXPECT_TRUE(submissions.empty());
  submissions.wait();
}

TEST_P(SubmissionsTest, DropsCompleteTasks) {
  Runtime runtime(options());
  auto fail = runtime.define<Fail>("fail", kFail);
  detail::Submissions submissions;
  submissions.add(Ticket());
  for (const i32 code : {0, 9}) submissions.add(runtime.submit(fail, code));
  runtime.wait_all();
  submissions.drop_done();
  EXPECT_TRUE(submissions.empty());
  EXPECT_TRUE(submissions.failed());
  submissions.clear();
  EXPECT_FALSE(submissions.failed());
  submissions.wait();
}

TEST_P(SubmissionsTest, KeepsTasksBehindARunningOne) {
  Runtime runtime(options());
  auto hold = runtime.define<Hold>("hold", kHold);
  Latch latch(runtime);
  detail::Submissions submissions;
  submissions.add(runtime.submit(hold, latch.words()));
  submissions.add(Ticket());
  submissions.drop_done();
  EXPECT_FALSE(submissions.empty());
  submissions.wait_until(2);
  latch.release();
  submissions.wait();
  EXPECT_TRUE(submissions.empty());
}

}  // namespace
}  // namespace dwell::test
