#include "runtime/device/in_flight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/bench.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;
using device::InFlight;
using Record = InFlightTasks::Record;

class InFlightTasksTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kFirst = (1ULL << 32U) - 64;

  std::uint64_t submit() {
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, test::task_of({}), &position));
    return position;
  }
  void write(std::uint32_t worker, std::uint64_t word) {
    device::store<device::Order::relaxed, device::Scope::system>(&bench_.in_flight[worker].word, u64{word});
  }
  void runs(std::uint32_t worker, std::uint64_t position, std::uint64_t opcode = 5) {
    write(worker, static_cast<u32>(position) | opcode << 32U | InFlight::kValid);
  }

  test::Bench bench_{7, 3, kFirst};
  std::atomic<std::uint32_t> alias_{5};
  InFlightTasks tasks_{bench_.in_flight.data(), 3, bench_.queue};
};

TEST_F(InFlightTasksTest, ReadsTheWorkersRecords) {
  for (int i = 0; i < 70; ++i) submit();
  const std::uint64_t wrapped = kFirst + 66;
  runs(0, wrapped, 0x1FFF);
  write(1, InFlight::kValid | InFlight::kNode | 7ULL << 32U | 0x89ABCDEFULL);
  const std::vector<Record> records = tasks_.records(3);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].kind, Record::Kind::task);
  EXPECT_EQ(records[0].position, wrapped);
  EXPECT_EQ(records[0].opcode, 0x1FFFU);
  EXPECT_FALSE(records[0].over);
  EXPECT_EQ(records[1].kind, Record::Kind::node);
  EXPECT_EQ(records[1].offset, 0x89ABCDEFULL * 64);
  EXPECT_EQ(records[1].opcode, 7U);
  EXPECT_EQ(records[2].kind, Record::Kind::other);
  EXPECT_EQ(tasks_.records(1).size(), 1U);
  EXPECT_EQ(tasks_.records(99).size(), 3U) << "no more than there are";
}

TEST_F(InFlightTasksTest, ALaunchOfAGraphHasNoOpcode) {
  const std::uint64_t one = submit();
  const std::uint64_t two = submit();
  runs(0, one, 0);
  write(1, static_cast<u32>(two) | InFlight::kLaunch | InFlight::kValid);
  const auto holders = tasks_.holders(3, false);
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_FALSE(holders[0].launch);
  EXPECT_TRUE(holders[1].launch);
  EXPECT_EQ(holders[1].position, two);
  EXPECT_EQ(tasks_.records(3)[1].kind, Record::Kind::task);
}

TEST_F(InFlightTasksTest, HoldersAreTasksThatRunOrHaveEnded) {
  const std::uint64_t one = submit();
  const std::uint64_t two = submit();
  runs(0, one);
  runs(1, two);
  ASSERT_EQ(tasks_.holders(3, false).size(), 2U);
  bench_.finish(one);
  ASSERT_EQ(tasks_.holders(3, false).size(), 1U);
  EXPECT_EQ(tasks_.holders(3, false)[0].position, two);
  ASSERT_EQ(tasks_.holders(3, true).size(), 1U);
  EXPECT_EQ(tasks_.holders(3, true)[0].position, one);
  EXPECT_TRUE(tasks_.records(3)[0].over);
}

TEST_F(InFlightTasksTest, MarkedRecordsAreOverUntilTheNextRecord) {
  const std::uint64_t one = submit();
  runs(0, one);
  tasks_.mark_over();
  for (const Record& record : tasks_.records(3)) EXPECT_TRUE(record.over);
  EXPECT_TRUE(tasks_.holders(3, false).empty());
  EXPECT_EQ(tasks_.records(3)[0].position, one) << "what it was is still known";
  runs(0, one);
  EXPECT_EQ(tasks_.holders(3, false).size(), 1U);
  write(1, 0);  // a task that an operator made
  EXPECT_FALSE(tasks_.records(3)[1].over);
}

TEST_F(InFlightTasksTest, ReportsTheTimeOfHolders) {
  const std::uint64_t one = submit();
  runs(0, one);
  EXPECT_EQ(tasks_.holders(3, false)[0].since, 0ns) << "nobody has looked yet";
  tasks_.look();
  std::this_thread::sleep_for(5ms);
  tasks_.look();
  EXPECT_GE(tasks_.holders(3, false)[0].since, 5ms);
  EXPECT_LE(tasks_.holders(3, false)[0].since, 50ms) << "longer pauses between looks are stops of the process";
  runs(0, submit());
  EXPECT_EQ(tasks_.holders(3, false)[0].since, 0ns);
  tasks_.look();
  EXPECT_EQ(tasks_.holders(3, false)[0].since, 0ns);
}

}  // namespace
}  // namespace dwell::runtime
