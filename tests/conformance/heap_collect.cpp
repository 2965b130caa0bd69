// Objects that the collector frees.
#include <future>

#include <dwell/graph.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

struct TreeNode {
  Field<TreeNode> left;
  Field<TreeNode> right;
  u32 number;
  u32 ballast[24] = {};  // few objects fill a heap
};
DWELL_OBJECT(TreeNode, left, right);

#define DWELL_TEST_TREE                                                                                                               \
  "struct TreeNode { dwell::Field<TreeNode> left; dwell::Field<TreeNode> right; dwell::u32 number; dwell::u32 ballast[24] = {}; };\n" \
  "DWELL_OBJECT(TreeNode, left, right);\n"

// Puts a full tree of `depth` into the root.
constexpr const char* kGrowTree = DWELL_TEST_TREE R"(
// From the leaves up: nodes of each depth wait for their neighbours. No recursion, for which a GPU's stack is too small.
DWELL_DEVICE_FUNCTION dwell::Ref<TreeNode> tree(dwell::Group g, dwell::u32 depth) {
  dwell::Ref<TreeNode> waiting[24];
  for (dwell::u32 leaf = 0; leaf >> depth == 0; ++leaf) {
    auto node = g.make<TreeNode>(dwell::Ref<TreeNode>{}, dwell::Ref<TreeNode>{}, (1U << depth) + leaf);
    dwell::u32 level = 0;
    for (; (leaf >> level & 1) != 0; ++level)
      node = g.make<TreeNode>(waiting[level], node, ((1U << depth) + leaf) >> (level + 1));
    waiting[level] = node;
  }
  return waiting[depth];
}
DWELL_OPERATOR(grow)(dwell::Group g, dwell::Root<TreeNode> root, dwell::u32 depth) {
  if (g.rank() == 0) g.at(root)->ref.publish(g, tree(g, depth));
})";
using Grow = void(Root<TreeNode>, u32);

// Counts the nodes below a node, and those whose number is wrong.
constexpr const char* kCountTree = DWELL_TEST_TREE R"(
DWELL_OPERATOR(count)(dwell::Group g, dwell::Ref<TreeNode> top, dwell::Span<dwell::u32> counts) {
  if (g.rank() != 0) return;
  dwell::Ref<TreeNode> stack[64];
  dwell::u32 depth = 0;
  dwell::u32 nodes = 0, wrong = 0;
  if (top) stack[depth++] = top;
  while (depth != 0) {
    const TreeNode& node = *g.at(stack[--depth]);
    ++nodes;
    const dwell::Ref<TreeNode> left = node.left.get(), right = node.right.get();
    if (left && g.at(left)->number != 2 * node.number) ++wrong;
    if (right && g.at(right)->number != 2 * node.number + 1) ++wrong;
    if (left && depth < 63) stack[depth++] = left;
    if (right && depth < 63) stack[depth++] = right;
  }
  counts[0] = nodes;
  counts[1] = wrong;
})";
using Count = void(Ref<TreeNode>, Span<u32>);

class HeapCollectTest : public DeviceTest {
 protected:
  static u64 live(Runtime& runtime) {
    const HeapStatistics now = runtime.heap().statistics();
    u64 all = now.large;
    for (const HeapClassStatistics& one : now.classes) all += one.live;
    return all;
  }
};
DWELL_ON_EVERY_DEVICE(HeapCollectTest);

TEST_P(HeapCollectTest, RootsKeepWhatTheyLeadTo) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const auto grow = runtime.define<Grow>("grow", kGrowTree);
  const auto count = runtime.define<Count>("count", kCountTree);
  const Root<TreeNode> root = heap.root<TreeNode>("tree");
  EXPECT_EQ(heap.root<TreeNode>("tree"), root);
  for (u32 i = 0; i < 5; ++i) runtime.submit(grow, root, 9U).wait();
  EXPECT_EQ(live(runtime), 5U * 1023 + 1);
  const HeapCollection done = heap.collect();
  EXPECT_EQ(done.freed, 4U * 1023);
  EXPECT_GE(done.marked, 1023U);
  EXPECT_EQ(live(runtime), 1024U);
  const Buffer<u32> counts = runtime.allocate<u32>(2);
  runtime.submit(count, heap.read(root).ref.get(), counts).wait();
  EXPECT_EQ(read(counts), (std::vector<u32>{1023, 0}));
  heap.set(root, &Cell<TreeNode>::ref, Ref<TreeNode>{});
  heap.collect();
  EXPECT_EQ(live(runtime), 1U);
  EXPECT_EQ(heap.verify().mistakes, 0U);
  EXPECT_EQ(heap.statistics().collections, 2U);
}

TEST_P(HeapCollectTest, CensusAndStatisticsTellWhatLives) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const auto grow = runtime.define<Grow>("grow", kGrowTree);
  const Root<TreeNode> root = heap.root<TreeNode>("tree");
  const Ref<void> small = heap.allocate(128);  // of the nodes' class
  const Ref<void> large = heap.allocate(1'000'000);
  for (u32 i = 0; i < 2; ++i) runtime.submit(grow, root, 9U).wait();
  const auto expect_nodes = [&](u64 nodes) {
    const HeapCensus census = heap.census();
    EXPECT_THAT(census.types, testing::ElementsAre(HeapTypeCensus{"TreeNode", nodes, nodes * 128}, HeapTypeCensus{"cell", 1, 16}));
    EXPECT_THAT(census.sizes, testing::ElementsAre(HeapSizeCensus{128, 1}));
    EXPECT_EQ(census.large, 1U);
    EXPECT_EQ(census.large_bytes, 1U << 20U);
  };
  expect_nodes(2 * 1023);
  const HeapCollection done = heap.collect();
  expect_nodes(1023);
  const HeapStatistics now = heap.statistics();
  EXPECT_EQ(now.last.freed, 1023U);
  EXPECT_EQ(now.last.freed_bytes, 1023U * 128);
  EXPECT_EQ(now.last.duration, done.duration);
  EXPECT_EQ(now.types, 2U);
  EXPECT_EQ(now.live_bytes(), 1024U * 128 + 16);
  EXPECT_GE(now.fragmented + now.cached, 1023U * 128);
  EXPECT_EQ(runtime.metrics().heap_collections, 1U);
  EXPECT_EQ(runtime.metrics().heap_bytes, now.used);
  heap.free(small);
  heap.free(large);
}

// What a collection changes is no mistake.
TEST_P(HeapCollectTest, VerifiesAndCountsBesideCollections) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const auto grow = runtime.define<Grow>("grow", kGrowTree);
  const Root<TreeNode> root = heap.root<TreeNode>("tree");
  auto collects = std::async(std::launch::async, [&] {
    for (u32 i = 0; i < (on_cpu() ? 30U : 5U); ++i) {
      runtime.submit(grow, root, 13U).wait();
      heap.collect();
    }
  });
  do {
    EXPECT_EQ(heap.verify().mistakes, 0U);
    EXPECT_LE(heap.census().types.size(), 2U);
  } while (collects.wait_for(0s) != std::future_status::ready);
  collects.get();
  EXPECT_EQ(heap.census().types.at(0).objects, (2U << 13U) - 1);
}

TEST_P(HeapCollectTest, HandlesOfTheHostKeepObjects) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  Handle<TreeNode> leaf = heap.make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 7});
  Handle<TreeNode> top = heap.make(TreeNode{leaf.ref(), Ref<TreeNode>{}, 3});
  const Handle<TreeNode> copy = leaf;
  heap.make(TreeNode{top.ref(), Ref<TreeNode>{}, 1});  // dropped at once
  leaf = {};
  EXPECT_EQ(heap.collect().freed, 1U);
  EXPECT_EQ(heap.read(heap.read(top.ref()).left.get()).number, 7U);
  top = {};
  EXPECT_EQ(heap.collect().freed, 1U);
  EXPECT_EQ(heap.read(copy.ref()).number, 7U);
  const Handle<TreeNode> second = heap.hold(copy.ref());
  EXPECT_EQ(heap.collect().freed, 0U);
  EXPECT_EQ(live(runtime), 1U);
}

TEST_P(HeapCollectTest, ArgumentsOfTasksInFlightKeepObjects) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const auto count = runtime.define<Count>("count", kCountTree);
  const Buffer<u32> counts = runtime.allocate<u32>(2);
  const Buffer<u32> others = runtime.allocate<u32>(2);
  Handle<TreeNode> made = heap.make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 7});
  Handle<TreeNode> node = heap.make(TreeNode{made.ref(), Ref<TreeNode>{}, 7});
  Handle<TreeNode> in_graph = heap.make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 8});
  // Tasks leave word of their end from the first one on that another waits for; before, `after` would hold up all later tasks.
  runtime.submit(count, made.ref(), counts, after(runtime.submit(count, made.ref(), counts))).wait();
  // Behind a gate that opens later.
  std::promise<void> open;
  Graph graph;
  graph.add_host("gate", [&] { open.get_future().wait(); });
  const GraphExec gate = runtime.instantiate(graph);
  const Ticket first = runtime.launch(gate);
  const Ticket waiting = runtime.submit(count, node.ref(), counts, after(first));
  Graph kept;
  kept.add(count, in_graph.ref(), others);
  const GraphExec exec = runtime.instantiate(kept);
  node = {};
  made = {};
  in_graph = {};
  EXPECT_EQ(heap.collect().freed, 0U);
  open.set_value();
  waiting.wait();
  EXPECT_EQ(read(counts)[0], 2U);
  EXPECT_EQ(heap.collect().freed, 2U);
  runtime.launch(exec).wait();
  EXPECT_EQ(read(others)[0], 1U);
}

// Builds trees and drops them, while collections run by themselves.
TEST_P(HeapCollectTest, TheHeapStaysSmallByItself) {
  Options options = this->options();
  options.lease = 5ms;
  // Many workers fill much in the time of a collection.
  const u32 times = on_cpu() ? 1 : 8;
  options.heap.reserve = (512ULL << 20U) * times;
  Runtime runtime(options);
  Heap heap = runtime.heap();
  heap.collect();  // compiles
  const auto grow = runtime.define<Grow>("grow", kGrowTree);
  const auto count = runtime.define<Count>("count", kCountTree);
  std::vector<Root<TreeNode>> roots;
  for (u32 i = 0; i < 4; ++i) roots.push_back(heap.root<TreeNode>("tree " + std::to_string(i)));
  // Twice what there is, at 128 bytes a node. A tree has 128 KiB, and each worker builds one.
  for (u32 i = 0; i < 8000 * times; ++i) runtime.submit(grow, roots[i % 4], 9U);
  runtime.wait_all();
  const HeapStatistics now = heap.statistics();
  EXPECT_GE(now.collections, 2U);
  EXPECT_LT(now.used, (500ULL << 20U) * times);
  const Buffer<u32> counts = runtime.allocate<u32>(2);
  for (const Root<TreeNode> root : roots) {
    runtime.submit(count, heap.read(root).ref.get(), counts).wait();
    EXPECT_EQ(read(counts), (std::vector<u32>{1023, 0}));
  }
  heap.collect();
  EXPECT_EQ(live(runtime), 4U * 1024);
  EXPECT_EQ(heap.verify().mistakes, 0U);
}

TEST_P(HeapCollectTest, LongArraysKeepTheirElements) {
  constexpr const char* kFill = DWELL_TEST_TREE R"(
struct Holder { dwell::Field<dwell::Array<TreeNode>> array; };
DWELL_OBJECT(Holder, array);
DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Holder> root, dwell::u32 size) {
  if (g.rank() != 0) return;
  g.at(root)->ref.publish(g, g.make<Holder>(dwell::Ref<dwell::Array<TreeNode>>{}));
  g.at(g.at(root)->ref.get())->array.publish(g, g.make_array<TreeNode>(size));
}
DWELL_OPERATOR(fill)(dwell::Group g, dwell::Root<Holder> root) {
  dwell::Array<TreeNode>& all = *g.at(g.at(g.at(root)->ref.get())->array.get());
  for (dwell::u32 i : g.range(all.size())) all[i].set(g, g.make<TreeNode>(dwell::Ref<TreeNode>{}, dwell::Ref<TreeNode>{}, i));
})";
  Runtime runtime(options());
  Heap heap = runtime.heap();
  // The root's cell holds a reference, whatever its type.
  const Root<TreeNode> root = heap.root<TreeNode>("holder");
  const auto begin = runtime.define("begin", kFill);
  const auto fill = runtime.define("fill", kFill);
  constexpr u32 kSize = 10'000;
  runtime.submit(begin, Arguments().add(root).add(kSize)).wait();
  runtime.submit(fill, Arguments().add(root)).wait();
  EXPECT_EQ(heap.collect().freed, 0U);
  runtime.submit(fill, Arguments().add(root)).wait();
  EXPECT_EQ(heap.collect().freed, kSize);
  EXPECT_EQ(heap.verify().mistakes, 0U);
}

// Longer than a handshake's patience at first, and never at their ends at the same time.
TEST_P(HeapCollectTest, CollectsBesideLongTasks) {
  Options options = this->options();
  if (on_cpu()) options.workers = 16;
  Runtime runtime(options);
  Heap heap = runtime.heap();
  const auto last = runtime.define<void(u32, Span<u32>)>("last", R"(
DWELL_OPERATOR(last)(dwell::Group g, dwell::u32 ms, dwell::Span<dwell::u32> over) {
  const dwell::u64 begin = dwell::device::now_ns();
  while (dwell::device::now_ns() - begin < ms * 1'000'000ULL &&
         dwell::device::load<dwell::device::Order::relaxed, dwell::device::Scope::system>(&over[0]) == 0) {}
})");
  const Buffer<u32> over = runtime.allocate<u32>(1, Memory::host);
  over.host()[0] = 0;
  Handle<TreeNode> node = heap.make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 7});
  node = {};
  // As many as the ring holds: 14 s of work for 16 workers.
  Ticket end;
  for (u32 i = 0; i < 1000; ++i) end = runtime.submit(last, 150 + i * 37 % 150, over);
  EXPECT_EQ(heap.collect().freed, 1U);
  EXPECT_TRUE(!on_cpu() || !end.done()) << "it has not waited for all of them";
  device::store<device::Order::relaxed, device::Scope::system>(&over.host()[0], 1U);
  runtime.wait_all();
}

TEST_P(HeapCollectTest, FreeOfAnObjectFails) {
  Runtime runtime(options());
  Heap heap = runtime.heap();
  const Handle<TreeNode> node = heap.make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 7});
  DWELL_EXPECT_ERROR(heap.free(node.ref()), errc::task_failed, HasSubstr("not allocated in the heap"));
  EXPECT_EQ(heap.read(node.ref()).number, 7U);
}

TEST_P(HeapCollectTest, AClosedRuntimeCollectsNothing) {
  std::optional<Handle<TreeNode>> kept;
  {
    Runtime runtime(options());
    kept = runtime.heap().make(TreeNode{Ref<TreeNode>{}, Ref<TreeNode>{}, 7});
    runtime.close();
    DWELL_EXPECT_ERROR(runtime.heap().collect(), errc::closed, HasSubstr("closed"));
  }
  kept.reset();  // outlives the runtime
}

}  // namespace
}  // namespace dwell::test
