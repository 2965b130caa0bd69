#include "device/heap_move.hpp"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/heap_collect_fixture.hpp"
#include "tests/unit/sanitized.hpp"

namespace dwell::device::heap_move_test {
namespace {

// A list whose nodes know their places in it.
struct Node {
  dwell::Field<Node> next;
  dwell::u64 number;
  dwell::u64 writes;
};
struct Still {
  dwell::u64 number;
};

DWELL_MOVABLE(Node, next);
DWELL_OBJECT(Still);

constexpr u32 kHandle = 0;

class HeapMoveTest : public HeapCollectFixture {
 protected:
  // Makes a list of every `step`-th of `count` nodes, newest first, and frees the others.
  Ref<Node> sparse_list(u32 count, u32 step) {
    const Group g = group(0);
    Ref<Node> list{};
    for (u32 i = 0; i < count; ++i) {
      const Ref<Node> made = g.make<Node>(i % step == 0 ? list : Ref<Node>{}, u64{i}, u64{0});
      if (i % step == 0) list = made;
    }
    empty_caches();
    hold(kHandle, list.unit());
    collect();
    return list;
  }
  // Slots in a cache keep their slab.
  void empty_caches() {
    for (u32 number = 0; number < heap::kClasses; ++number) {
      const heap::Cache cache(contexts_[0], number);
      for (; cache.of->count != 0; --cache.of->count) {
        const u32 unit = cache.slots[cache.of->count - 1];
        const heap::Place place = heap::find_place(heap_, unit, heap_.header().pages);
        heap::give_to_slabs(heap_, number, place.slab, place.slot);
      }
    }
  }
  void expect_list(Ref<Node> list, u32 count, u32 step) {
    const Group g = group(0);
    u32 expected = (count - 1) / step * step;
    u32 seen = 0;
    for (Ref<Node> at = list; at; at = g.at(at)->next.get(g), expected -= step, ++seen) ASSERT_EQ(g.at(at)->number, expected);
    EXPECT_EQ(seen, (count + step - 1) / step);
  }
  u32 used() const { return heap_.header().used - heap_.header().first_page; }
};

TEST_F(HeapMoveTest, SparseSlabsAreEmptied) {
  open(1024, 2);
  const Ref<Node> list = sparse_list(100'000, 8);
  part(heap::verb::trim);
  const u32 before = used();
  move_objects(50);
  EXPECT_EQ(census().mistakes, 0U);
  EXPECT_EQ(objects(), 12'500U);
  EXPECT_GT(moved_, 12'000U);
  EXPECT_GT(before, 40U);
  EXPECT_LE(used(), 8U);
  expect_list(list, 100'000, 8);
  // All is as before for the collector.
  collect();
  EXPECT_EQ(objects(), 12'500U);
  expect_list(list, 100'000, 8);
  hold(kHandle, 0);
  collect();
  EXPECT_EQ(objects(), 0U);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapMoveTest, WhatTheHostNamesStays) {
  open(1024, 2);
  const Group g = group(0);
  const Ref<Node> list = sparse_list(10'000, 4);
  const Ref<Node> second = g.at(list)->next.get(g);
  const Ref<Node> third = g.at(second)->next.get(g);
  move_objects(50, {third.unit(), third.unit() + 1, ~0U, 5});
  EXPECT_NE(g.at(list)->next.get(g), second);
  EXPECT_EQ(g.at(g.at(list)->next.get(g))->next.get(g), third);
  expect_list(list, 10'000, 4);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapMoveTest, WhatATaskHasLoadedStays) {
  open(1024, 2);
  const Group g = group(0);
  const Ref<Node> list = sparse_list(10'000, 4);
  enter(heap::phase::clearing);
  on_all_pages(heap::verb::choose, {50, 1});
  EXPECT_GT(leaving_, 0U);
  enter(heap::phase::moving);
  const Ref<Node> second = g.at(list)->next.get(g);
  on_all_pages(heap::verb::move);
  g.at(second)->writes = 7;
  EXPECT_EQ(g.at(list)->next.get(g), second);
  // Its next one has moved. The field still names the former place, the loaded reference the new one.
  Field<Node>& next = g.at(second)->next;
  const Ref<Node> third = next.get(g);
  EXPECT_NE(third, next.stored());
  EXPECT_EQ(next.acquire(g), third);
  EXPECT_EQ(next.compare_exchange(g, list, list), third);
  EXPECT_EQ(next.compare_exchange(g, third, third), third);
  EXPECT_EQ(next.stored(), third);
  on_all_pages(heap::verb::renew);
  handshake();
  part(heap::verb::phase, heap::phase::rest);
  on_all_pages(heap::verb::release);
  EXPECT_EQ(g.at(g.at(list)->next.get(g))->writes, 7U);
  expect_list(list, 10'000, 4);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapMoveTest, OtherMemoryKeepsItsSlab) {
  open(1024, 2);
  const Group g = group(0);
  std::vector<u32> plain;
  Ref<Node> list{};
  for (u32 i = 0; i < 20'000; ++i) {
    list = g.make<Node>(i % 10 == 0 ? Ref<Node>{} : list, u64{i}, u64{0});
    if (i % 500 == 0) plain.push_back(heap::allocate(contexts_.get(), sizeof(ObjectHeader) + sizeof(Node)));
  }
  hold(kHandle, list.unit());
  empty_caches();
  collect();
  move_objects(100);
  EXPECT_EQ(leaving_, 0U);
  for (const u32 each : plain) EXPECT_EQ(heap::free(contexts_.get(), each), status::ok);
  empty_caches();
  move_objects(100);
  EXPECT_GT(leaving_, 0U);
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapMoveTest, ObjectsOfOtherTypesStay) {
  open(1024, 2);
  const Group g = group(0);
  std::vector<Ref<Still>> still;
  for (u32 i = 0; i < 20'000; ++i) still.push_back(g.make<Still>(u64{i}));
  for (u32 i = 0; i < 20'000; i += 8) hold(i / 8, still[i].unit());
  empty_caches();
  collect();
  move_objects(100);
  EXPECT_EQ(leaving_, 0U);
  for (u32 i = 0; i < 20'000; i += 8) EXPECT_EQ(g.at(still[i])->number, i);
}

TEST_F(HeapMoveTest, ArraysAndLargeOnesFollow) {
  open(2048, 2);
  const Group g = group(0);
  const Ref<Array<Node>> large = g.make_array<Node>(5000);  // a run of pages
  const Ref<Array<Array<Node>>> top = g.make_array<Array<Node>>(50);
  hold(0, large.unit());
  hold(1, top.unit());
  std::vector<Ref<Array<Node>>> drop;
  for (u32 i = 0; i < 50 * 8; ++i) {
    const Ref<Array<Node>> each = g.make_array<Node>(100);
    for (u32 k = 0; k < 100; ++k) (*g.at(each))[k].set(g, g.make<Node>(Ref<Node>{}, u64{i * 100 + k}, u64{0}));
    if (i % 8 == 0) (*g.at(top))[i / 8].set(g, each);
    if (i % 8 == 0)
      for (u32 k = 0; k < 100; ++k) (*g.at(large))[i / 8 * 100 + k].set(g, (*g.at(each))[k].get(g));
  }
  empty_caches();
  collect();
  move_objects(75);
  EXPECT_GT(moved_, 4500U);
  for (u32 i = 0; i < 50; ++i)
    for (u32 k = 0; k < 100; ++k) {
      const Ref<Node> at = (*g.at((*g.at(top))[i].get(g)))[k].get(g);
      ASSERT_EQ(g.at(at)->number, i * 800 + k);
      ASSERT_EQ((*g.at(large))[i * 100 + k].get(g), at);
    }
  EXPECT_EQ(census().mistakes, 0U);
}

TEST_F(HeapMoveTest, AFullHeapLosesNothing) {
  open(160, 2);
  const Group g = group(0);
  Ref<Node> list{};
  u32 count = 0;
  hold(kHandle, 0);
  for (;; ++count) {
    const Ref<Node> made = g.try_make<Node>(count % 4 == 0 ? list : Ref<Node>{}, u64{count}, u64{0});
    if (!made) break;
    if (count % 4 == 0) list = made;
  }
  empty_caches();
  hold(kHandle, list.unit());
  collect();
  EXPECT_EQ(heap_.header().used, 160U);
  move_objects(75);  // all of them: there is no room for one object
  EXPECT_EQ(moved_, 0U);
  expect_list(list, count, 4);
  move_objects(75, {}, 4);
  move_objects(75);
  EXPECT_LT(used(), 160U / 3);
  expect_list(list, count, 4);
  EXPECT_EQ(census().mistakes, 0U);
}

// Workers build lists, walk down them and count in their nodes, while collections and moves follow each other. A task rests between loading
// a reference and writing to its object, so that a move that did not wait for it would lose what it writes.
TEST_F(HeapMoveTest, NothingIsLostBesideWork) {
  constexpr u32 kWorkers = 2;
  constexpr u32 kLists = 4;  // of each worker
  constexpr u32 kNodes = 100;
  constexpr u32 kMoves = kSanitized ? 40 : 200;
  open(2048, kWorkers + 1);
  seen_ = std::vector<std::atomic<u32>>(kWorkers);
  const Ref<Array<Node>> lists = group(0).make_array<Node>(kWorkers * kLists);
  hold(kHandle, lists.unit());
  threads_ = true;
  std::atomic<bool> stop = false;
  std::atomic<u64> mistakes = 0;
  const auto run = [&](u32 me) {
    std::minstd_rand random(me + 1);
    const Group g = group(me);
    std::vector<std::vector<u64>> writes(kLists, std::vector<u64>(kNodes));
    while (!stop) {
      begin_lease(me);
      if (!may_work()) {
        wait_a_little();
        continue;
      }
      const u32 which = static_cast<u32>(random()) % kLists;
      Field<Node>& list = (*g.at(lists))[me * kLists + which];
      if (random() % 8 == 0) {
        Ref<Node> made{};
        for (u32 i = 0; i < kNodes; ++i) {
          made = g.make<Node>(made, u64{i}, u64{0});
          for (u32 k = 0; k < 8; ++k) g.make<Node>(made, u64{i}, ~0ULL);  // nobody's, which makes slabs sparse
        }
        list.set(g, made);
        writes[which].assign(kNodes, 0);
      } else {
        u32 expected = kNodes;
        for (Ref<Node> at = list.get(g); at; at = g.at(at)->next.get(g)) {
          Node& node = *g.at(at);
          if (node.number != --expected) ++mistakes;
          if (node.number >= kNodes) break;
          if (random() % 256 == 0) wait_a_little();
          const u64 before = load<Order::relaxed, Scope::device>(&node.writes);
          if (before != writes[which][node.number]++) ++mistakes;
          if (random() % 256 == 0) wait_a_little();
          store<Order::relaxed, Scope::device>(&node.writes, before + 1);
        }
      }
      ++work_;
    }
  };
  std::vector<std::thread> threads;
  for (u32 me = 0; me < kWorkers; ++me) threads.emplace_back(run, me);
  u64 moved = 0;
  for (u32 i = 0; i < kMoves; ++i) {
    if (i % 4 == 0) collect();
    move_objects(75);
    moved = std::max(moved, moved_);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  threads_ = false;
  EXPECT_EQ(mistakes, 0U);
  EXPECT_GT(moved, 0U);
  handshake();
  collect();
  EXPECT_EQ(census().mistakes, 0U);
}

}  // namespace
}  // namespace dwell::device::heap_move_test
