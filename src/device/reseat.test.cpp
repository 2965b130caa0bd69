#include "device/reseat.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/bench.hpp"

namespace dwell::device::reseat_test {
namespace {

using test::Bench;

void push(const Bench& bench, u32 position) { ready_queue::push(bench.lease, Bench::quads(Bench::plain(0), position)); }
// Worker `me` claims a place and leaves with it.
void leave_with_a_claim(const Bench& bench, u32 me) { bench.lease.claims[me] = ready_queue::claim_next(bench.lease) | kClaimed; }
// The tasks that the next lease takes, in order.
std::vector<u32> rest(const Bench& bench) {
  std::vector<u32> positions;
  TaskQuads task;
  while (ready_queue::try_take(bench.lease, &task)) positions.push_back(task.quad[0].word[2]);
  return positions;
}
using Positions = std::vector<u32>;

TEST(Reseat, UnfilledClaimsAreRetracted) {
  const Bench bench(7, 3);
  for (u32 me = 0; me < 3; ++me) leave_with_a_claim(bench, me);
  reseat::clear_claims(bench.lease);
  EXPECT_EQ(bench.control().head.value, bench.control().tail.value);
  push(bench, 5);
  EXPECT_EQ(rest(bench), Positions{5});
}

TEST(Reseat, TasksAtClaimedPlacesMoveToTheTail) {
  const Bench bench(7, 2);
  leave_with_a_claim(bench, 0);
  leave_with_a_claim(bench, 1);
  push(bench, 5);
  push(bench, 6);
  reseat::clear_claims(bench.lease);
  EXPECT_EQ(rest(bench), (Positions{5, 6}));
}

TEST(Reseat, UnclaimedTasksStay) {
  const Bench bench(7, 2);
  for (const u32 position : {5U, 6U, 7U}) push(bench, position);
  leave_with_a_claim(bench, 1);
  reseat::clear_claims(bench.lease);
  EXPECT_EQ(rest(bench), (Positions{6, 7, 5}));
}

TEST(Reseat, AWorkerWithoutAClaimLeavesNothing) {
  const Bench bench(7, 2);
  push(bench, 5);
  reseat::clear_claims(bench.lease);
  EXPECT_EQ(rest(bench), Positions{5}) << "no claim is not a claim of place 0";
}

TEST(Reseat, FilledAndUnfilledClaimsMix) {
  const Bench bench(7, 4);
  for (const u32 me : {3U, 1U, 0U, 2U}) leave_with_a_claim(bench, me);
  push(bench, 5);
  push(bench, 6);
  reseat::clear_claims(bench.lease);
  const Positions after = rest(bench);
  EXPECT_EQ(after, (Positions{6, 5})) << "worker 1 comes before worker 3";
  EXPECT_EQ(bench.control().head.value, bench.control().tail.value);
}

TEST(Reseat, ManyLeasesLoseNothing) {
  // Claims at every edge of the queue, with positions that wrap around.
  const Bench bench(7, 3, (1ULL << 32U) - 64);
  u32 pushed = 0;
  u32 found = 0;
  for (u32 lease = 0; lease < 2000; ++lease) {
    for (u32 i = 0; i < lease % 4; ++i) push(bench, pushed++);
    for (u32 me = 0; me < 3; ++me) {
      if ((lease >> me & 1U) != 0)
        leave_with_a_claim(bench, me);
      else
        bench.lease.claims[me] = 0;
    }
    for (u32 i = 0; i < lease % 3; ++i) push(bench, pushed++);
    reseat::clear_claims(bench.lease);
    if (lease % 7 == 0) found += static_cast<u32>(rest(bench).size());
  }
  EXPECT_EQ(found + rest(bench).size(), pushed);
}

TEST(Reseat, FirstWorkerLaysOutTheSeats) {
  Bench bench;
  bench.lease.number = 7;
  bench.lease.lays_out = 1;
  EXPECT_TRUE(reseat::is_for(bench.lease, 0));
  EXPECT_FALSE(reseat::is_for(bench.lease, 1));
  bench.lease.lays_out = 0;
  EXPECT_FALSE(reseat::is_for(bench.lease, 0));
}

TEST(Reseat, TheOtherWorkersWaitForTheFirst) {
  Bench bench;
  bench.lease.number = 7;
  bench.lease.lays_out = 1;
  std::atomic<bool> through{false};
  std::jthread other([&] {
    reseat::await(bench.lease);
    through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(through);
  reseat::lay_out(bench.lease);
  other.join();
  EXPECT_TRUE(through);
}

}  // namespace
}  // namespace dwell::device::reseat_test
