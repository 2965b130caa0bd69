// Memory that operators and the host allocate.
#include <future>
#include <stdexcept>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Each thread allocates `rounds` objects of different sizes, fills each with its own tag, keeps up to eight of them, and checks an object
// before it frees it. Cells: mistakes, failures, allocations.
constexpr const char* kChurn = R"(
DWELL_OPERATOR(churn)(dwell::Group g, dwell::u32 task, dwell::u32 rounds, dwell::u32 most, dwell::Span<dwell::u32> cells) {
  struct Held { dwell::Ref<dwell::u64> ref; dwell::u32 words; dwell::u64 tag; };
  Held held[8] = {};
  dwell::u32 random = (task * 977 + g.index()) * 4096 + g.rank() * 31 + 7;
  dwell::u32 mistakes = 0;
  dwell::u32 failures = 0;
  dwell::u32 made = 0;
  for (dwell::u32 round = 0; round < rounds + 8; ++round) {
    random = random * 1664525u + 1013904223u;
    Held& one = held[round < rounds ? random >> 29 : round - rounds];
    if (one.ref) {
      dwell::u64* const at = g.at(one.ref);
      for (dwell::u32 i = 0; i < one.words; ++i)
        if (at[i] != one.tag + i) ++mistakes;
      g.free(one.ref);
      one.ref = {};
    }
    if (round >= rounds) continue;
    const dwell::u32 bytes = 8 + (random >> 8) % most;
    one.words = bytes / 8;
    one.tag = (dwell::u64(task) << 40) + (dwell::u64(g.index() * g.size() + g.rank()) << 24) + (dwell::u64(round) << 8);
    one.ref = g.try_allocate(bytes).as<dwell::u64>();
    if (!one.ref) { ++failures; continue; }
    ++made;
    dwell::u64* const at = g.at(one.ref);
    for (dwell::u32 i = 0; i < one.words; ++i) at[i] = one.tag + i;
  }
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[0], mistakes);
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[1], failures);
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[2], made);
})";
using Churn = void(u32, u32, u32, Span<u32>);

// A list of `count` nodes, newest first.
struct ListNode {
  Ref<ListNode> next;
  u32 number;
};
constexpr const char* kList = R"(
struct ListNode { dwell::Ref<ListNode> next; dwell::u32 number; };
DWELL_OPERATOR(list)(dwell::Group g, dwell::u32 count, dwell::Span<dwell::Ref<ListNode>> head) {
  if (g.rank() != 0) return;
  dwell::Ref<ListNode> newest{};
  for (dwell::u32 i = 0; i < count; ++i) newest = g.make<ListNode>(newest, i);
  head[0] = newest;
})";
constexpr const char* kDrop = R"(
struct ListNode { dwell::Ref<ListNode> next; dwell::u32 number; };
DWELL_OPERATOR(drop)(dwell::Group g, dwell::Ref<ListNode> head, dwell::Span<dwell::u64> sum) {
  if (g.rank() != 0) return;
  dwell::u64 all = 0;
  while (head) {
    const ListNode node = *g.at(head);
    all += node.number;
    g.free(head);
    head = node.next;
  }
  sum[0] = all;
})";
constexpr const char* kFree = R"(
DWELL_OPERATOR(give)(dwell::Group g, dwell::Ref<dwell::u32> ref) {
  if (g.rank() == 0) g.free(ref);
})";
constexpr const char* kTake = R"(
DWELL_OPERATOR(take)(dwell::Group g, dwell::u64 bytes, dwell::Span<dwell::Ref<void>> to) {
  if (g.rank() == 0) to[0] = g.allocate(bytes);
})";

class HeapTest : public DeviceTest {
 protected:
  static u64 live(Runtime& runtime) {
    const HeapStatistics now = runtime.heap().statistics();
    u64 all = now.large;
    for (const HeapClassStatistics& one : now.classes) all += one.live;
    return all;
  }
};
DWELL_ON_EVERY_DEVICE(HeapTest);

TEST_P(HeapTest, NoMemoryIsHandedOutTwice) {
  Runtime runtime(options());
  const auto churn = runtime.define<Churn>("churn", kChurn);
  const Buffer<u32> cells = filled<u32>(runtime, 3, 0);
  constexpr u32 kTasks = 64;
  for (u32 task = 0; task < kTasks; ++task) runtime.submit(churn, task, 400U, task % 16 == 15 ? 30'000U : 600U, cells);
  for (u32 task = 0; task < 8; ++task) runtime.submit(churn, kTasks + task, 200U, 200U, cells, groups(3));
  runtime.wait_all();
  EXPECT_EQ(read(cells)[0], 0U);
  EXPECT_EQ(read(cells)[1], 0U);
  EXPECT_GE(read(cells)[2], kTasks * 400);
  EXPECT_EQ(live(runtime), 0U);
  EXPECT_EQ(runtime.heap().verify().mistakes, 0U);
}

TEST_P(HeapTest, ObjectsOutliveTasksAndLeases) {
  Options options = this->options();
  options.lease = 2ms;
  Runtime runtime(options);
  const auto list = runtime.define<void(u32, Span<Ref<ListNode>>)>("list", kList);
  const auto drop = runtime.define<void(Ref<ListNode>, Span<u64>)>("drop", kDrop);
  const Buffer<Ref<ListNode>> head = runtime.allocate<Ref<ListNode>>(1);
  const Buffer<u64> sum = runtime.allocate<u64>(1);
  for (u32 round = 0; round < 20; ++round) {
    runtime.submit(list, 1000U, head).wait();
    if (round % 5 == 0) {
      runtime.park();
      runtime.resume();
    }
    const Ref<ListNode> first = read(head)[0];
    EXPECT_EQ(runtime.heap().read(first).number, 999U);
    EXPECT_EQ(live(runtime), 1000U);
    runtime.submit(drop, first, sum).wait();
    EXPECT_EQ(read(sum)[0], 999U * 1000 / 2);
  }
  EXPECT_EQ(live(runtime), 0U);
}

TEST_P(HeapTest, HostAllocatesReadsWritesAndFrees) {
  Runtime runtime(options());
  EXPECT_EQ(runtime.metrics().heap_mapped_bytes, 0U) << "nothing has used the heap";
  Heap heap = runtime.heap();
  const Ref<ListNode> one = heap.make(ListNode{{}, 7});
  EXPECT_EQ(heap.read(one).number, 7U);
  heap.write(one, ListNode{one, 8});
  EXPECT_EQ(heap.read(one).next, one);
  // An operator frees what the host has made, and the other way round.
  const auto drop = runtime.define<void(Ref<ListNode>, Span<u64>)>("drop", kDrop);
  const Buffer<u64> sum = runtime.allocate<u64>(1);
  heap.write(one, ListNode{{}, 9});
  runtime.submit(drop, one, sum).wait();
  EXPECT_EQ(read(sum)[0], 9U);
  const auto list = runtime.define<void(u32, Span<Ref<ListNode>>)>("list", kList);
  const Buffer<Ref<ListNode>> head = runtime.allocate<Ref<ListNode>>(1);
  runtime.submit(list, 1U, head).wait();
  heap.free(read(head)[0]);

  const std::vector<ListNode> values(1000, ListNode{{}, 3});
  const std::vector<Ref<ListNode>> many = heap.make(std::span(values));
  EXPECT_EQ(live(runtime), 1000U);
  EXPECT_EQ(heap.read(many.back()).number, 3U);
  heap.free(std::span(many));
  const Ref<void> large = heap.allocate(1'000'000, 4096);
  EXPECT_EQ(large.unit() * u64{16} % 4096, 0U);
  heap.free(large);
  heap.free(Ref<void>{});
  EXPECT_EQ(live(runtime), 0U);
  const HeapVerification verified = heap.verify();
  EXPECT_EQ(verified.mistakes, 0U);
  EXPECT_EQ(verified.live, 0U);
}

TEST_P(HeapTest, FreeOfWhatIsNotAllocatedFailsTheTask) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const auto give = runtime.define<void(Ref<u32>)>("give", kFree);
  const Ref<u32> one = heap.make(5U);
  runtime.submit(give, one).wait();
  DWELL_EXPECT_ERROR(runtime.submit(give, one).wait(), errc::task_failed, HasSubstr("not allocated in the heap"));
  DWELL_EXPECT_ERROR(runtime.submit(give, Ref<u32>::at(3)).wait(), errc::task_failed, HasSubstr("not allocated in the heap"));
  DWELL_EXPECT_ERROR(heap.free(Ref<u32>::at(~0U)), errc::task_failed, HasSubstr("not allocated in the heap"));
  DWELL_EXPECT_ERROR(heap.read(Ref<u32>{}), errc::invalid_argument, HasSubstr("names nothing"));
  DWELL_EXPECT_ERROR(heap.read(Ref<u32>::at(~0U)), errc::invalid_argument, HasSubstr("which has allocations from"));
  DWELL_EXPECT_ERROR(heap.allocate(8, 24), errc::invalid_argument, HasSubstr("power of two"));
  EXPECT_EQ(heap.verify().mistakes, 0U);
}

TEST_P(HeapTest, ExhaustionFailsTheTaskAndLosesNothing) {
  Options options = this->options();
  options.heap.reserve = 64U << 20U;
  Runtime runtime(options);
  Heap heap = runtime.heap();
  const auto take = runtime.define<void(u64, Span<Ref<void>>)>("take", kTake);
  const Buffer<Ref<void>> to = runtime.allocate<Ref<void>>(1);
  std::vector<Ref<void>> held;
  std::optional<Error> failure;
  for (u32 i = 0; i < 1000 && !failure; ++i) {
    const Ticket ticket = runtime.submit(take, u64{1} << 20U, to);
    try {
      ticket.wait();
      held.push_back(read(to)[0]);
    } catch (const Error& error) {
      failure = error;
    }
  }
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), errc::task_failed);
  EXPECT_THAT(failure->what(),
              testing::AllOf(HasSubstr("of operator take (version 1) failed: the heap had no room"),
                             HasSubstr("the last request without room was for 1048576 bytes, 16 pages in a row"),
                             HasSubstr("of the 64.0 MiB that the heap may have, " + std::to_string(held.size()) + ".0 MiB are live"),
                             HasSubstr("most is in " + std::to_string(held.size()) + " large allocations")));
  EXPECT_GE(held.size(), 20U);
  DWELL_EXPECT_ERROR(heap.allocate(u64{40} << 20U), errc::out_of_memory,
                     HasSubstr("the option heap.reserve; the last request without room was for 41943040 bytes"));
  const Metrics metrics = runtime.metrics();
  EXPECT_EQ(metrics.heap_live_bytes, held.size() << 20U);
  EXPECT_EQ(metrics.heap_mapped_bytes, 64U << 20U);
  EXPECT_GE(metrics.heap_failures, 2U);
  heap.free(std::span<const Ref<void>>(held));
  heap.free(heap.allocate(u64{20} << 20U));
  EXPECT_EQ(live(runtime), 0U);
  EXPECT_EQ(heap.verify().mistakes, 0U);
}

TEST_P(HeapTest, FullChecksNameTheTaskThatFreesDamagedMemory) {
  Options options = this->options();
  options.heap.checks = HeapChecks::full;
  Runtime runtime(options);
  const auto write = runtime.define<void(u32, u32)>("write", R"(
DWELL_OPERATOR(write)(dwell::Group g, dwell::u32 bytes, dwell::u32 written) {
  if (g.rank() != 0) return;
  const auto memory = g.allocate(bytes).as<dwell::u8>();
  for (dwell::u32 i = 0; i < written; ++i) g.at(memory)[i] = 1;
  g.free(memory);
})");
  for (const u32 bytes : {1U, 100U, 5000U, 300'000U}) {
    runtime.submit(write, bytes, bytes).wait();
    DWELL_EXPECT_ERROR(runtime.submit(write, bytes, bytes + 1).wait(), errc::task_failed,
                       HasSubstr("of operator write (version 1) failed: the memory that it freed was written behind its end"));
  }
  EXPECT_EQ(live(runtime), 0U);
  EXPECT_EQ(runtime.heap().verify().mistakes, 0U);
}

TEST_P(HeapTest, PoolsEndWithTheirTask) {
  Options options = this->options();
  options.heap.checks = HeapChecks::full;
  options.heap.reserve = 64U << 20U;
  Runtime runtime(options);
  // Each thread builds lists of nodes of three sizes, one of them larger than a chunk; a code fails the task in the middle.
  const auto lists = runtime.define<void(u32, i32, Span<u32>)>("lists", R"(
struct Node { Node* before; dwell::u32 number; dwell::u32 words; };
DWELL_OPERATOR(lists)(dwell::Group g, dwell::u32 count, dwell::i32 code, dwell::Span<dwell::u32> wrong) {
  dwell::Pool pool(g, 512);
  for (dwell::u32 round = 0; round < 3; ++round) {
    Node* list = nullptr;
    for (dwell::u32 i = 0; i < count; ++i) {
      const dwell::u32 words = i % 16 == 5 ? 400 : i % 3 * 7;
      Node* const node = static_cast<Node*>(pool.allocate(sizeof(Node) + words * 4));
      if (node == nullptr) return;
      *node = Node{list, i ^ round, words};
      for (dwell::u32 k = 0; k < words; ++k) reinterpret_cast<dwell::u32*>(node + 1)[k] = i + k;
      list = node;
    }
    dwell::u32 expected = count;
    for (const Node* at = list; at != nullptr; at = at->before) {
      bool right = at->number == (--expected ^ round);
      for (dwell::u32 k = 0; k < at->words; ++k) right = right && reinterpret_cast<const dwell::u32*>(at + 1)[k] == expected + k;
      if (!right) dwell::device::fetch_add<dwell::device::Order::relaxed>(&wrong[0], 1u);
    }
    if (expected != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&wrong[0], 1u);
    if (round == 1) pool.clear();
    if (code != 0) { g.fail(code); return; }
  }
  if (pool.make<Node>(nullptr, 7u, 0u)->number != 7) g.fail(9);
})");
  auto wrong = filled<u32>(runtime, 1, 0);
  for (u32 i = 0; i < 20; ++i) EXPECT_EQ(runtime.submit(lists, 40U, i % 4 == 3 ? 5 : 0, wrong, groups(4)).status(), i % 4 == 3 ? 5 : 0);
  EXPECT_EQ(read(wrong), std::vector<u32>{0});
  EXPECT_EQ(live(runtime), 0U);
  EXPECT_EQ(runtime.submit(lists, 10'000'000U, 0, wrong).status(), status::out_of_memory);
  EXPECT_EQ(live(runtime), 0U);
  EXPECT_EQ(runtime.heap().verify().mistakes, 0U);
}

TEST_P(HeapTest, PressureIsToldBeforeTheHeapIsFull) {
  Options options = this->options();
  options.heap.reserve = 64U << 20U;
  std::promise<HeapStatistics> told;
  std::atomic<u32> calls{0};
  std::atomic<u32> warnings{0};
  options.heap.on_pressure = [&](const HeapStatistics& now) {
    if (++calls == 1) told.set_value(now);
    throw std::runtime_error("not my fault");
  };
  options.warn = [&](std::string_view line) {
    warnings += line.find("heap.on_pressure has thrown: not my fault") != std::string_view::npos ? 1U : 0U;
  };
  Runtime runtime(options);
  Heap heap = runtime.heap();
  std::vector<Ref<void>> held;
  const auto room = [&] {
    const HeapStatistics now = heap.statistics();
    return static_cast<double>(now.tables + now.used) / static_cast<double>(now.reserved);
  };
  while (room() < 0.9) held.push_back(heap.allocate(1U << 20U));
  std::future<HeapStatistics> first = told.get_future();
  ASSERT_EQ(first.wait_for(60s), std::future_status::ready);
  const HeapStatistics at = first.get();
  EXPECT_GT(at.tables + at.used, at.reserved / 4 * 3);
  EXPECT_GT(at.large, 0U);
  heap.free(std::span<const Ref<void>>(held));
  while (warnings == 0) std::this_thread::sleep_for(1ms);
  EXPECT_LT(calls, 10U);
}

TEST_P(HeapTest, GrowsWhileOperatorsAllocate) {
  Options options = this->options();
  options.heap.grow = 4U << 20U;
  options.heap.reserve = 1U << 30U;
  Runtime runtime(options);
  const auto list = runtime.define<void(u32, Span<Ref<ListNode>>)>("list", kList);
  const auto take = runtime.define<void(u64, Span<Ref<void>>)>("take", kTake);
  const Buffer<Ref<ListNode>> head = runtime.allocate<Ref<ListNode>>(1);
  const Buffer<Ref<void>> to = runtime.allocate<Ref<void>>(1);
  runtime.submit(list, 1U, head).wait();
  const std::size_t before = runtime.heap().statistics().mapped;
  for (u32 i = 0; i < 60; ++i) runtime.submit(take, u64{1} << 20U, to).wait();
  runtime.submit(take, u64{100} << 20U, to).wait();
  const HeapStatistics now = runtime.heap().statistics();
  EXPECT_GE(now.mapped, before + (100U << 20U));
  EXPECT_EQ(now.large, 61U);
  EXPECT_EQ(runtime.heap().read(read(head)[0]).number, 0U);
  EXPECT_EQ(runtime.heap().verify().mistakes, 0U);
}

TEST_P(HeapTest, TooSmallReserveIsRefused) {
  Options options = this->options();
  options.heap.reserve = 1000;
  Runtime runtime(options);
  DWELL_EXPECT_ERROR(runtime.define("take", kTake), errc::invalid_argument, HasSubstr("heap.reserve"));
}

}  // namespace
}  // namespace dwell::test
