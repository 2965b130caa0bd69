// Objects that move when the heap is compacted.
#include <chrono>
#include <thread>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

struct Stone {
  Field<Stone> below;
  u32 number;
  u32 touched;
  u32 ballast[24];
};
DWELL_MOVABLE(Stone, below);
struct Piles {
  Field<Array<Stone>> all;
};
DWELL_OBJECT(Piles, all);

#define DWELL_TEST_STONE                                                                                          \
  "struct Stone { dwell::Field<Stone> below; dwell::u32 number; dwell::u32 touched; dwell::u32 ballast[24]; };\n" \
  "DWELL_MOVABLE(Stone, below);\n"                                                                                \
  "struct Piles { dwell::Field<dwell::Array<Stone>> all; };\n"                                                    \
  "DWELL_OBJECT(Piles, all);\n"

// Makes a pile of `height` stones in each place from `from` on; of `waste` times as many more, nothing remains.
constexpr const char* kPile = DWELL_TEST_STONE R"(
DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Piles> root, dwell::u32 count) {
  if (g.rank() != 0) return;
  const auto piles = g.make<Piles>(dwell::Ref<dwell::Array<Stone>>{});
  g.at(piles)->all.publish(g, g.make_array<Stone>(count));
  g.at(root)->ref.publish(g, piles);
}
DWELL_OPERATOR(pile)(dwell::Group g, dwell::Root<Piles> root, dwell::u32 from, dwell::u32 to, dwell::u32 height, dwell::u32 waste) {
  for (dwell::u32 i : g.range(to - from)) {
    dwell::Ref<Stone> top{};
    for (dwell::u32 number = 0; number < height; ++number) {
      top = g.make<Stone>(top, number, 0U);
      for (dwell::u32 k = 0; k < waste; ++k) g.make<Stone>(dwell::Ref<Stone>{}, ~0U, 0U);
    }
    (*g.at(g.at(g.at(root)->ref.get())->all.get(g)))[from + i].publish(g, top);
  }
}
// Goes down each pile, touches its stones, and counts them; wrong ones in counts[1].
DWELL_OPERATOR(touch)(dwell::Group g, dwell::Root<Piles> root, dwell::u32 from, dwell::u32 to, dwell::u32 height, dwell::u32 touched,
                      dwell::Span<dwell::u32> counts) {
  dwell::u32 stones = 0, wrong = 0;
  for (dwell::u32 i : g.range(to - from)) {
    dwell::u32 expected = height;
    for (dwell::Ref<Stone> at = (*g.at(g.at(g.at(root)->ref.get())->all.get(g)))[from + i].acquire(g); at; at = g.at(at)->below.get(g)) {
      Stone& stone = *g.at(at);
      ++stones;
      --expected;
      if (stone.number != expected || stone.touched != touched) ++wrong;
      stone.touched = touched + 1;
      if (expected == 0) break;
    }
    if (expected != 0) ++wrong;
  }
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&counts[0], stones);
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&counts[1], wrong);
})";
// The number of the stone on top of a pile.
constexpr const char* kTop = DWELL_TEST_STONE R"(
DWELL_OPERATOR(top)(dwell::Group g, dwell::Ref<Stone> stone, dwell::Span<dwell::u32> number) {
  if (g.rank() == 0) number[0] = g.at(stone)->number;
})";

class HeapCompactTest : public DeviceTest {
 protected:
  static constexpr u32 kPiles = 256;
  static constexpr u32 kHeight = 20;

  // `rests`: the loop parks soon, and then the heap is compacted by itself.
  void open(std::size_t reserve = 0, bool rests = false) {
    Options options = this->options();
    options.heap.reserve = reserve;
    if (!rests) options.idle = 60s;
    runtime_.emplace(options);
    heap_.emplace(runtime_->heap());
    root_ = heap_->root<Piles>("piles");
    pile_ = runtime_->define("pile", kPile);
    touch_ = runtime_->define("touch", kPile);
    runtime_->submit(runtime_->define("begin", kPile), Arguments().add(root_).add(kPiles)).wait();
  }
  Ticket pile(u32 from, u32 to, u32 waste) {
    return runtime_->submit(pile_, Arguments().add(root_).add(from).add(to).add(kHeight).add(waste));
  }
  // Touches all stones, which have been touched so often before.
  void expect_stones(u32 touched) {
    Buffer<u32> counts = runtime_->allocate<u32>(2);
    fill(counts, 0U);
    runtime_->submit(touch_, Arguments().add(root_).add(0U).add(kPiles).add(kHeight).add(touched).add(counts)).wait();
    EXPECT_EQ(read(counts), (std::vector<u32>{kPiles * kHeight, 0}));
  }
  static void fill(Buffer<u32>& counts, u32 value) {
    const std::vector<u32> values(counts.size(), value);
    counts.write(std::span<const u32>(values));
  }

  std::optional<Runtime> runtime_;
  std::optional<Heap> heap_;
  Root<Piles> root_{};
  Operator<> pile_;
  Operator<> touch_;
};
DWELL_ON_EVERY_DEVICE(HeapCompactTest);

TEST_P(HeapCompactTest, PagesOfSparseSlabsComeBack) {
  open();
  pile(0, kPiles, 15).wait();
  expect_stones(0);
  heap_->collect();
  const HeapStatistics before = heap_->statistics();
  const HeapCompaction done = heap_->compact();
  const HeapStatistics after = heap_->statistics();
  EXPECT_GT(done.moved, kPiles * kHeight * 3U / 4);
  EXPECT_EQ(done.freed_bytes, before.used - after.used);
  EXPECT_LT(after.used * 3, before.used);
  EXPECT_EQ(after.live_bytes(), before.live_bytes());
  expect_stones(1);
  EXPECT_EQ(heap_->verify().mistakes, 0U);
  // Again: hardly anything is left to do.
  EXPECT_LT(heap_->compact().moved, kPiles * kHeight / 4U);
  expect_stones(2);
  heap_->set(root_, &Cell<Piles>::ref, Ref<Piles>{});
  heap_->compact();
  EXPECT_EQ(heap_->statistics().live_bytes(), 16U);
  EXPECT_EQ(heap_->verify().mistakes, 0U);
}

TEST_P(HeapCompactTest, WhatAHandleNamesStays) {
  open();
  const Handle<Stone> made = heap_->make(Stone{Ref<Stone>{}, 7, 0, {}});
  const Handle<Stone> above = heap_->make(Stone{made.ref(), 8, 0, {}});
  pile(0, kPiles, 15).wait();
  const auto top = runtime_->define<void(Ref<Stone>, Span<u32>)>("top", kTop);
  const Buffer<u32> number = runtime_->allocate<u32>(1);
  const Handle<Stone> held = heap_->hold(above.ref(), &Stone::below);
  EXPECT_EQ(held.ref(), made.ref());
  runtime_->submit(top, above.ref(), number);
  EXPECT_GT(heap_->compact().moved, 0U);
  EXPECT_EQ(heap_->read(above.ref()).below.stored(), made.ref());
  EXPECT_EQ(heap_->read(made.ref()).number, 7U);
  runtime_->submit(top, made.ref(), number).wait();
  EXPECT_EQ(read(number), std::vector<u32>{7});
  EXPECT_FALSE(heap_->hold(made.ref(), &Stone::below));
  expect_stones(0);
}

// Tasks make, touch and drop stones while the heap is compacted again and again. A task waits for the one before it on the same piles.
TEST_P(HeapCompactTest, TasksGoOn) {
  open();
  pile(0, kPiles, 15).wait();
  Buffer<u32> counts = runtime_->allocate<u32>(2);
  fill(counts, 0U);
  constexpr u32 kParts = 8;
  constexpr u32 kRounds = 40;
  std::vector<Ticket> last(kParts);
  std::jthread worker([&] {
    for (u32 round = 0; round < kRounds; ++round)
      for (u32 part = 0; part < kParts; ++part) {
        const u32 from = part * (kPiles / kParts);
        const auto touch = [&](u32 touched) {
          return Arguments().add(root_).add(from).add(from + kPiles / kParts).add(kHeight).add(touched).add(counts);
        };
        if (round != 0) last[part].wait();
        Ticket at = pile(from, from + kPiles / kParts, part % 4);
        for (u32 touched = 0; touched < 3; ++touched) at = runtime_->submit(touch_, touch(touched).add(after(at)));
        last[part] = at;
      }
  });
  for (u32 i = 0; i < 20; ++i) heap_->compact();
  worker.join();
  runtime_->wait_all();
  EXPECT_EQ(read(counts), (std::vector<u32>{kRounds * 3 * kPiles * kHeight, 0}));
  heap_->compact();
  expect_stones(3);
  EXPECT_EQ(heap_->verify().mistakes, 0U);
}

// An allocation of a size that the heap has not had before finds the pages that others have left.
TEST_P(HeapCompactTest, OtherSizesFindRoom) {
  open(std::size_t{64} << 20U);
  const HeapStatistics now = heap_->statistics();
  const std::size_t stones = (now.reserved - now.tables) / 128;
  pile(0, kPiles, static_cast<u32>(stones / kPiles / kHeight * 9 / 10)).wait();
  heap_->collect();
  heap_->compact();
  std::vector<Ref<void>> large;
  for (std::size_t i = 0; i < (now.reserved - now.tables) / 2; i += 1U << 20U) large.push_back(heap_->allocate(1U << 20U));
  heap_->free(std::span<const Ref<void>>(large));
  expect_stones(0);
}

TEST_P(HeapCompactTest, ASparseHeapIsCompactedWhenTheLoopRests) {
  open(0, true);
  pile(0, kPiles, 60).wait();
  const std::size_t before = heap_->statistics().used;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (heap_->statistics().used * 2 > before && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(heap_->statistics().used * 2, before);
  expect_stones(0);
}

TEST_P(HeapCompactTest, AClosedRuntimeCompactsNothing) {
  open();
  runtime_->close();
  DWELL_EXPECT_ERROR(heap_->compact(), errc::closed, HasSubstr("closed"));
}

}  // namespace
}  // namespace dwell::test
