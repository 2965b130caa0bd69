// The deque of a CPU worker: each node is taken once, and none is lost.
#include "device/node_deque.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/sanitized.hpp"

namespace dwell::device::node_deque_test {
namespace {

u32 pop(NodeDeque& deque) {
  u64 put = 0;
  return node_deque::pop(deque, &put);
}
u32 steal(NodeDeque& deque) {
  u64 put = 0;
  return node_deque::steal(deque, &put);
}

TEST(NodeDequeTest, OneEntryInSixteenHasATimestamp) {
  NodeDeque deque{};
  for (u32 node = 1; node <= 34; ++node) ASSERT_TRUE(node_deque::push(deque, node, node <= 20 ? 1000 + node : 0));
  std::vector<u64> put(35);
  for (u32 node = 1; node <= 10; ++node) ASSERT_EQ(node_deque::steal(deque, &put[node]), node);
  for (u32 node = 34; node >= 11; --node) ASSERT_EQ(node_deque::pop(deque, &put[node]), node);
  for (u32 node = 1; node <= 34; ++node)
    EXPECT_EQ(put[node], node == 1 || node == 17 ? 1000 + node : 0) << "nobody has asked for the third";
}

TEST(NodeDequeTest, TheWorkerTakesTheNewestAndOthersTheOldest) {
  NodeDeque deque{};
  EXPECT_TRUE(node_deque::is_empty(deque));
  EXPECT_EQ(pop(deque), 0U);
  EXPECT_EQ(steal(deque), 0U);
  for (u32 node = 1; node <= 4; ++node) EXPECT_TRUE(node_deque::push(deque, node));
  EXPECT_EQ(pop(deque), 4U);
  EXPECT_EQ(steal(deque), 1U);
  EXPECT_EQ(steal(deque), 2U);
  EXPECT_FALSE(node_deque::is_empty(deque));
  EXPECT_EQ(pop(deque), 3U) << "the last one";
  EXPECT_TRUE(node_deque::is_empty(deque));
  EXPECT_EQ(pop(deque), 0U);
  EXPECT_EQ(steal(deque), 0U);
}

TEST(NodeDequeTest, AFullDequeTakesNoMore) {
  NodeDeque deque{};
  deque.oldest = deque.newest = 1000;  // not at the first entry
  for (u32 node = 1; node <= NodeDeque::kMost; ++node) ASSERT_TRUE(node_deque::push(deque, node));
  EXPECT_FALSE(node_deque::push(deque, 1));
  EXPECT_EQ(steal(deque), 1U);
  EXPECT_TRUE(node_deque::push(deque, NodeDeque::kMost + 1));
  EXPECT_FALSE(node_deque::push(deque, 1));
  for (u32 node = NodeDeque::kMost + 1; node >= 2; --node) ASSERT_EQ(pop(deque), node);
  EXPECT_TRUE(node_deque::is_empty(deque));
}

// The worker pushes and pops few nodes at a time, so that it often meets thieves at the last entry.
TEST(NodeDequeTest, EachNodeIsTakenOnceWhileOthersSteal) {
  const u64 nodes = kSanitized ? 20'000 : 300'000;
  NodeDeque deque{};
  const auto taken = std::make_unique<std::atomic<u32>[]>(nodes + 1);
  std::atomic<bool> over{false};
  std::vector<u64> stolen(2);
  {
    std::vector<std::jthread> thieves;
    for (u64& count : stolen) {
      thieves.emplace_back([&] {
        while (!over.load(std::memory_order_acquire)) {
          if (const u32 node = steal(deque)) {
            ++taken[node];
            ++count;
          }
        }
      });
    }
    u32 next = 1;
    for (u32 round = 0; next <= nodes; ++round) {
      for (u32 i = 0; i <= round % 3 && next <= nodes; ++i) ASSERT_TRUE(node_deque::push(deque, next++));
      for (u32 i = 0; i <= round % 4; ++i)
        if (const u32 node = pop(deque)) ++taken[node];
      if (round % 256 == 0) std::this_thread::yield();
    }
    while (const u32 node = pop(deque)) ++taken[node];
    over.store(true, std::memory_order_release);
  }
  for (u32 node = 1; node <= nodes; ++node) ASSERT_EQ(taken[node], 1U) << "node " << node;
  EXPECT_GT(stolen[0] + stolen[1], 0U);
}

}  // namespace
}  // namespace dwell::device::node_deque_test
