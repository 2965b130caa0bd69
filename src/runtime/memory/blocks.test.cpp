#include "runtime/memory/blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {
namespace {

class BlocksTest : public testing::Test {
 protected:
  static std::vector<u32> words(u32 count, u32 from = 0) {
    std::vector<u32> all(count);
    std::iota(all.begin(), all.end(), from);
    return all;
  }
  // Reads the address of the task's block as an operator's entry does.
  static const u32* block_of(const detail::Task& task) {
    return reinterpret_cast<const u32*>(task.word(0) | static_cast<std::uint64_t>(task.word(1)) << 32U);
  }
  // Submits a task with these argument words. Returns its position; nothing if there is no block.
  std::optional<std::uint64_t> submit(const std::vector<u32>& arguments) {
    Blocks::Loan loan = blocks_.take(test::task_of(arguments));
    if (!loan) return std::nullopt;
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(alias_, loan.task(), &position));
    loan.submitted(position);
    return position;
  }

  const std::atomic<std::uint32_t> alias_{1};
  const std::unique_ptr<backend::Backend> backend_ = backend::open_cpu();
  test::Bench bench_{10};
  const std::unique_ptr<Keeper> keeper_ = test::make_keeper(*backend_, bench_);
  Blocks blocks_{*backend_, bench_.queue, *keeper_};
};

TEST_F(BlocksTest, ABlockHoldsAllArguments) {
  for (const u32 count : {94U, 128U, 129U, 5000U, detail::kMostWords}) {
    const std::vector<u32> arguments = words(count, count);
    const Blocks::Loan loan = blocks_.take(test::task_of(arguments, detail::kLink | detail::kWide, 7));
    ASSERT_TRUE(loan);
    const detail::Task task = loan.task();
    EXPECT_EQ(task.words, 2U);
    EXPECT_EQ(task.groups, 7U);
    EXPECT_EQ(task.flags, detail::kLink | detail::kWide | detail::kMemory);
    EXPECT_EQ(std::memcmp(block_of(task), arguments.data(), count * 4), 0) << count;
  }
}

TEST_F(BlocksTest, BlockIsReusedAfterItsTask) {
  const std::vector<u32> most = words(detail::kMostWords);
  std::vector<std::uint64_t> positions;
  while (const auto position = submit(most)) {
    positions.push_back(*position);
    ASSERT_LE(positions.size(), 128U);
  }
  EXPECT_EQ(positions.size(), Blocks::kMostBytes / (detail::kMostWords * 4));
  EXPECT_TRUE(submit(words(100))) << "a task with fewer arguments has a block of its own size";
  bench_.finish(positions[77]);
  EXPECT_TRUE(submit(most));
  EXPECT_FALSE(submit(most));
}

TEST_F(BlocksTest, AnUnsubmittedBlockIsGivenBack) {
  const std::vector<u32> most = words(detail::kMostWords);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(blocks_.take(test::task_of(most)));
}

TEST_F(BlocksTest, TasksInFlightAreFoundByTheAddressesTheyHold) {
  std::vector<u32> arguments(200, 0);
  arguments[150] = 0x5000;
  arguments[151] = 0x7;
  const std::uint64_t position = submit(arguments).value();
  submit(words(200));
  const std::uint64_t address = 0x700005000;
  EXPECT_THAT(blocks_.naming(address - 8, address + 1), testing::ElementsAre(position));
  EXPECT_THAT(blocks_.naming(address + 1, address + 100), testing::IsEmpty());
  bench_.finish(position);
  EXPECT_THAT(blocks_.naming(address, address + 1), testing::IsEmpty());
}

}  // namespace
}  // namespace dwell::runtime
