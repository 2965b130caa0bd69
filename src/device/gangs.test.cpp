#include "device/gangs.hpp"

#include <gtest/gtest.h>

#include "tests/unit/bench.hpp"

namespace dwell::device {
namespace {

// A gang of two groups of which one has joined, in a lease of two workers.
class GangsTest : public testing::Test {
 protected:
  GangsTest() {
    bench_.lease.lease_ticks = 1;
    came_ = now_ticks() - 1000;
  }

  bool leaves(u32 round = 0) { return gangs::is_to_leave(bench_.lease, 0, came_, round); }
  u32& exits() { return bench_.control().exits[bench_.lease.slot]; }

  test::Bench bench_{7, 2};
  u32 came_;
};

TEST_F(GangsTest, AMemberWaitsWhileTheLeaseLasts) {
  exits() = 1;
  EXPECT_FALSE(leaves());
}

TEST_F(GangsTest, AMemberWaitsInALeaseThatIsOverWhileAllAreThere) {
  seat::call_over(bench_.lease, 1, false);
  EXPECT_FALSE(leaves());
}

TEST_F(GangsTest, AMemberLeavesForItsSuccessor) {
  seat::call_over(bench_.lease, 1, false);
  store<Order::relaxed, Scope::system>(&bench_.report.launched, 2U);
  EXPECT_TRUE(leaves());
}

TEST_F(GangsTest, AMemberLeavesALeaseThatEndsAtOnce) {
  seat::call_over(bench_.lease, 1, true);
  EXPECT_TRUE(leaves());
}

TEST_F(GangsTest, NowAndThenAMemberAsksTheHost) {
  seat::call_over(bench_.lease, 1, false);
  bench_.report.end = 1;
  EXPECT_FALSE(leaves(14));
  EXPECT_TRUE(leaves(15));
}

// The driver may hold the next lease up until this one has left the device: then nobody else will come.
TEST_F(GangsTest, AMemberLeavesWhereOthersHaveLeftForGood) {
  seat::call_over(bench_.lease, 1, false);
  exits() = 1;
  EXPECT_TRUE(leaves());
  bench_.lease.lease_ticks = 1U << 30U;
  EXPECT_FALSE(leaves()) << "their successors may be on their way";
}

TEST_F(GangsTest, AMemberStaysWhileALaterLeaseWorks) {
  seat::call_over(bench_.lease, 1, false);
  exits() = 1;
  Lease next = bench_.lease;
  next.number = 2;
  seat::begin(next);
  EXPECT_FALSE(leaves());
  seat::call_over(next, 2, false);
  EXPECT_TRUE(leaves());
}

TEST_F(GangsTest, AMemberThatLeavesPutsItsShareBack) {
  Wide& wide = bench_.lease.wide[0];
  seat::call_over(bench_.lease, 1, false);
  exits() = 1;
  EXPECT_EQ(gangs::join(bench_.lease, &wide, 2, 0), gangs::kPutBack);
  EXPECT_EQ(wide.joined, 0U);
}

}  // namespace
}  // namespace dwell::device
