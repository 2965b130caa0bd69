#include "device/heap_collect.hpp"

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/heap_collect_fixture.hpp"

namespace dwell::device::heap_collect_test {
namespace {

struct Node {
  dwell::Field<Node> left;
  dwell::Field<Node> right;
  dwell::u64 mark;  // kLive, mixed with its own reference
};
struct Leaf {
  double value;
};
struct alignas(16) Sheet {
  dwell::Field<Leaf> leaf;
  dwell::u64 more;
};

DWELL_OBJECT(Node, left, right);
DWELL_OBJECT(Leaf);
DWELL_OBJECT(Sheet, leaf);

constexpr u64 kLive = 0x11FE11FE11FE11FEULL;

class HeapCollectTest : public HeapCollectFixture {
 protected:
  Ref<Node> node(u32 worker, Ref<Node> left = {}, Ref<Node> right = {}) {
    const Group g = group(worker);
    const Ref<Node> made = g.make<Node>(left, right, u64{0});
    if (made) store<Order::relaxed, Scope::device>(&g.at(made)->mark, kLive ^ made.unit());
    return made;
  }
};

TEST_F(HeapCollectTest, FreesWhatNoRootLeadsTo) {
  open(256, 1);
  const Group g = group(0);
  const Ref<Node> kept = node(0, node(0), node(0, node(0)));
  for (u32 i = 0; i < 1000; ++i) node(0, kept);
  const Ref<Sheet> sheet = g.make<Sheet>(g.make<Leaf>(2.5), u64{1});
  g.make<Sheet>(g.make<Leaf>(1.5), u64{2});
  const Ref<Array<Leaf>> array = g.make_array<Leaf>(5000);  // a run of pages
  (*g.at(array))[4999].set(g, g.make<Leaf>(7.0));
  g.make_array<Leaf>(5000);
  EXPECT_EQ(heap_.header().runs, 2U);
  hold(3, kept.unit());
  hold(4, array.unit());
  collect({sheet.unit(), 12345U, ~0U, sheet.unit() + 1});
  EXPECT_EQ(census().mistakes, 0U);
  EXPECT_EQ(objects(), 4U + 2 + 1);
  EXPECT_EQ(heap_.header().runs, 1U);
  EXPECT_EQ(freed_, 1000U + 2 + 1);
  EXPECT_EQ(g.at(g.at(sheet)->leaf.get())->value, 2.5);
  EXPECT_EQ(g.at((*g.at(array))[4999].get())->value, 7.0);
  EXPECT_EQ(g.at(g.at(kept)->left.get())->mark, kLive ^ g.at(kept)->left.get().unit());
  hold(3, 0);
  hold(4, 0);
  collect();
  EXPECT_EQ(objects(), 0U);
  EXPECT_EQ(heap_.header().runs, 0U);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapCollectTest, CyclesAndLongListsAreVisited) {
  open(1024, 1);
  const Group g = group(0);
  Ref<Node> list{};
  for (u32 i = 0; i < 100'000; ++i) list = node(0, list);
  hold(0, list.unit());
  collect();
  EXPECT_EQ(objects(), 100'000U);
  const Ref<Node> cycle = node(0);
  g.at(cycle)->left.set(g, node(0, cycle, cycle));
  hold(0, cycle.unit());
  collect();
  EXPECT_EQ(objects(), 2U);
}

// A tree with so many branches that the table of chains is full.
TEST_F(HeapCollectTest, WideTreesAreVisited) {
  open(1024, 1);
  const Group g = group(0);
  const Ref<Array<Array<Leaf>>> top = g.make_array<Array<Leaf>>(2000);
  for (u32 i = 0; i < 2000; ++i) {
    const Ref<Array<Leaf>> each = g.make_array<Leaf>(20);
    for (u32 leaf = 0; leaf < 20; ++leaf) (*g.at(each))[leaf].set(g, g.make<Leaf>(1.0));
    (*g.at(top))[i].set(g, each);
  }
  hold(0, top.unit());
  collect();
  EXPECT_EQ(objects(), 2000U * 21 + 1);
  EXPECT_EQ(freed_, 0U);
}

TEST_F(HeapCollectTest, FreeRefusesAnObject) {
  open(256, 1);
  const Group g = group(0);
  const Ref<Leaf> leaf = g.make<Leaf>(1.0);
  EXPECT_EQ(heap::free(contexts_.get(), leaf.unit()), status::bad_free);
  const Ref<Array<Leaf>> array = g.make_array<Leaf>(5000);
  EXPECT_EQ(heap::free(contexts_.get(), array.unit()), status::bad_free);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapCollectTest, TypesAreDeclaredOnce) {
  open(256, 2);
  const u32 nodes = type_of<Node>(&contexts_[0]);
  const u32 leaves = type_of<Leaf>(&contexts_[0]);
  EXPECT_NE(nodes, leaves);
  EXPECT_EQ(type_of<Node>(&contexts_[1]), nodes);
  EXPECT_EQ(heap_.header().types, 2U);
  const TypeRecord& record = heap::types_of(heap_)[nodes - 1];
  EXPECT_STREQ(record.name, "Node");
  EXPECT_EQ(record.bytes, sizeof(ObjectHeader) + sizeof(Node));
}

// Workers move references between objects, make new ones and drop others, while collections follow each other. Each worker has a spine, a
// list that a collection takes long to walk down, and an array, which it visits early: a reference that moves from the one to the other is
// lost without the barrier. An object that is freed too early is overwritten by plain memory.
TEST_F(HeapCollectTest, NothingThatIsReachableIsFreed) {
  constexpr u32 kMutators = 2;
  constexpr u32 kSlots = 16;  // of each worker's array
  constexpr u32 kSpine = 300;
  constexpr u32 kCollections = 200;
  open(2048, kMutators + 1);
  ticks_ = 0;
  seen_ = std::vector<std::atomic<u32>>(kMutators);
  Ref<Array<Node>> arrays[kMutators];
  for (u32 i = 0; i < kMutators; ++i) {
    const Group g = group(i);
    arrays[i] = g.make_array<Node>(kSlots);
    Ref<Node> spine{};
    for (u32 each = 0; each < kSpine; ++each) spine = node(i, spine, node(i));
    (*g.at(arrays[i]))[0].set(g, spine);
    hold(i, arrays[i].unit());
  }
  threads_ = true;
  std::atomic<bool> stop = false;
  std::atomic<u64> mistakes = 0;
  const auto run = [&](u32 me) {
    std::minstd_rand random(me + 1);
    const Group g = group(me);
    const auto check = [&](Ref<Node> ref) {
      if (load<Order::relaxed, Scope::device>(&g.at(ref)->mark) != (kLive ^ ref.unit())) ++mistakes;
    };
    std::vector<u32> plain;
    while (!stop) {
      begin_lease(me);
      if (!may_work()) {
        wait_a_little();
        continue;
      }
      // A task. Its only references are those that it loads and makes. Others move references at the same time.
      const Array<Node>& mine = *g.at(arrays[random() % kMutators]);
      Field<Node>& slot = (*g.at(arrays[random() % kMutators]))[1 + static_cast<u32>(random()) % (kSlots - 1)];
      Ref<Node> at = mine[0].acquire();
      for (u32 depth = static_cast<u32>(random()) % kSpine; depth != 0; --depth) at = g.at(at)->left.acquire();
      check(at);
      Field<Node>& from = g.at(at)->right;
      const Ref<Node> payload = from.acquire();
      ++work_;
      if (payload) {
        check(payload);
        from.publish(g, {});
        const Ref<Node> inner = g.at(payload)->left.acquire();
        if (random() % 2 == 0)
          slot.publish(g, payload);
        else
          slot.publish(g, inner ? inner : node(me, payload));  // by way of a new object, or without the one around it
      } else {
        const Ref<Node> back = slot.acquire();
        if (back) check(back);
        from.publish(g, back ? back : node(me, node(me)));
        slot.publish(g, {});
      }
      for (u32 i = 0; i < 3; ++i) {
        const u32 unit = heap::allocate(&contexts_[me], sizeof(ObjectHeader) + sizeof(Node));
        if (unit != 0) std::memset(this->at(unit), 0xDD, sizeof(ObjectHeader) + sizeof(Node));
        plain.push_back(unit);
      }
      if (plain.size() < 30) continue;
      for (const u32 each : plain) heap::free(&contexts_[me], each);
      plain.clear();
    }
    for (const u32 each : plain) heap::free(&contexts_[me], each);
  };
  std::vector<std::thread> threads;
  for (u32 me = 0; me < kMutators; ++me) threads.emplace_back(run, me);
  // All that is reachable is there, and nothing else is after a collection without work beside it.
  std::set<u32> reachable;
  look_ = [&] {
    reachable.clear();
    const Group g = group(kMutators);
    std::vector<Ref<Node>> rest;
    for (const Ref<Array<Node>> array : arrays)
      for (u32 i = 0; i < kSlots; ++i) rest.push_back((*g.at(array))[i].get());
    while (!rest.empty()) {
      const Ref<Node> at = rest.back();
      rest.pop_back();
      if (!at || !reachable.insert(at.unit()).second) continue;
      if (heap::find_object(heap_, at.unit(), heap_.header().pages).objects == nullptr) ++mistakes;
      if (g.at(at)->mark != (kLive ^ at.unit())) ++mistakes;
      rest.push_back(g.at(at)->left.get());
      rest.push_back(g.at(at)->right.get());
    }
  };
  u64 freed = 0;
  for (u32 i = 0; i < kCollections; ++i) {
    stops_ = i % 2 == 0;
    collect();
    freed += freed_;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  threads_ = false;
  EXPECT_EQ(mistakes, 0U);
  EXPECT_GT(freed, 100U);
  EXPECT_GT(work_, kCollections);
  stops_ = true;
  collect();
  EXPECT_EQ(mistakes, 0U);
  EXPECT_EQ(objects(), reachable.size() + kMutators);
  EXPECT_EQ(census().mistakes, 0U);
}

}  // namespace
}  // namespace dwell::device::heap_collect_test
