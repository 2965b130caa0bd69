#include "device/gangs.hpp"

#include <gtest/gtest.h>

#include "tests/unit/bench.hpp"

namespace dwell::device::gangs_test {
namespace {

// A gang of two groups in a lease of two workers.
class GangsTest : public testing::Test {
 protected:
  GangsTest() { bench_.lease.lease_ticks = 1; }

  const Lease& lease() const { return bench_.lease; }
  u32& exits() { return bench_.control().exits[lease().slot]; }
  Wide& wide() { return lease().wide[0]; }

  test::Bench bench_{7, 2};
};

TEST_F(GangsTest, AMemberWaitsWhileTheLeaseLasts) { EXPECT_FALSE(gangs::is_to_leave(lease(), 0, 15)); }

TEST_F(GangsTest, MemberWaitsInAnEndedLeaseWithoutSuccessor) {
  seat::call_over(lease(), 1, false);
  EXPECT_FALSE(gangs::is_to_leave(lease(), 0, 15));
}

TEST_F(GangsTest, AMemberLeavesForItsSuccessor) {
  seat::call_over(lease(), 1, false);
  store<Order::relaxed, Scope::system>(&bench_.report.launched, 2U);
  EXPECT_TRUE(gangs::is_to_leave(lease(), 0, 0));
}

TEST_F(GangsTest, AMemberLeavesALeaseThatEndsAtOnce) {
  seat::call_over(lease(), 1, true);
  EXPECT_TRUE(gangs::is_to_leave(lease(), 0, 0));
}

TEST_F(GangsTest, MembersPollTheHostOccasionally) {
  seat::call_over(lease(), 1, false);
  bench_.report.end = 1;
  EXPECT_FALSE(gangs::is_to_leave(lease(), 0, 14));
  EXPECT_TRUE(gangs::is_to_leave(lease(), 0, 15));
}

TEST_F(GangsTest, LeaseIsDesertedWithoutWorkersAndSuccessors) {
  EXPECT_FALSE(gangs::is_deserted(lease()));
  exits() = 1;
  seat::begin(lease());
  EXPECT_FALSE(gangs::is_deserted(lease())) << "it is not over";
  seat::call_over(lease(), 1, false);
  EXPECT_TRUE(gangs::is_deserted(lease()));
  exits() = 0;
  EXPECT_FALSE(gangs::is_deserted(lease()));
  exits() = 1;
  Lease next = lease();
  next.number = 2;
  seat::begin(next);
  EXPECT_FALSE(gangs::is_deserted(lease())) << "the next one works";
  seat::call_over(next, 2, false);
  EXPECT_TRUE(gangs::is_deserted(lease()));
}

TEST_F(GangsTest, DissolvedGangIsQueuedAgainWithItsLastShare) {
  seat::call_over(lease(), 1, false);
  exits() = 1;
  EXPECT_EQ(gangs::join(lease(), &wide(), 2, 0), gangs::kGone);
  EXPECT_EQ(wide().joined & gangs::kDissolved, gangs::kDissolved);
  exits() = 0;
  EXPECT_EQ(gangs::join(lease(), &wide(), 2, 1), gangs::kAssembles);
}

TEST_F(GangsTest, SharesOfADissolvedGangEndInALeaseThatIsTooSmallForIt) {
  wide().joined = gangs::kDissolved | 1;
  wide().next = 1;
  bench_.lease.workers = 1;
  EXPECT_EQ(gangs::join(lease(), &wide(), 2, 0), gangs::kAssembles);
}

}  // namespace
}  // namespace dwell::device::gangs_test
