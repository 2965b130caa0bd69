// The heap, through all that goes on beside it: rolls, parks, swaps, growth, collections, moves, failed and cancelled tasks, and the host.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

struct Link {
  Field<Link> next;
  u32 number;
  u32 visits;
  u32 ballast[64];
};
DWELL_MOVABLE(Link, next);
struct Chains {
  Field<Array<Link>> all;
};
DWELL_OBJECT(Chains, all);

struct Slot {
  Ref<u32> memory;
  u32 words;
  u32 tag;
};
using Churn = void(Span<Slot>, u32, u32, u32, u32, i32, Span<u32>);
using Chain = void(Root<Chains>, u32, u32, u32, u32, Span<u32>, i32, Span<u32>);
using FreeAll = void(Span<Slot>, Span<u32>);

constexpr u32 kParts = 16;   // of which each has one task at a time
constexpr u32 kSlots = 64;   // of plain memory, of a part
constexpr u32 kChains = 16;  // of a part
constexpr u32 kLinks = 24;   // of a chain at most

// A slot names its memory, whose first and last words are its owner's tag; of a free one it is 0.
constexpr const char* kWork = R"(
struct Link { dwell::Field<Link> next; dwell::u32 number; dwell::u32 visits; dwell::u32 ballast[64]; };
DWELL_MOVABLE(Link, next);
struct Chains { dwell::Field<dwell::Array<Link>> all; };
DWELL_OBJECT(Chains, all);
struct Slot { dwell::Ref<dwell::u32> memory; dwell::u32 words; dwell::u32 tag; };

DWELL_OPERATOR(begin)(dwell::Group g, dwell::Root<Chains> root, dwell::u32 count) {
  if (g.rank() != 0) return;
  const auto chains = g.make<Chains>(dwell::Ref<dwell::Array<Link>>{});
  g.at(chains)->all.publish(g, g.make_array<Link>(count));
  g.at(root)->ref.publish(g, chains);
}
DWELL_DEVICE_FUNCTION void drop(dwell::Group g, Slot& slot, dwell::Span<dwell::u32> counts) {
  using namespace dwell::device;
  if (!slot.memory) return;
  const dwell::u32* const at = g.at(slot.memory);
  if (at[0] != slot.tag || at[slot.words - 1] != slot.tag) fetch_add<Order::relaxed>(&counts[0], 1u);
  g.free(slot.memory);
  slot.memory = {};
}
// Frees and allocates memory of random sizes.
DWELL_OPERATOR(churn)(dwell::Group g, dwell::Span<Slot> slots, dwell::u32 from, dwell::u32 count, dwell::u32 seed, dwell::u32 rounds, dwell::i32 code,
                      dwell::Span<dwell::u32> counts) {
  using namespace dwell::device;
  dwell::u32 allocated = 0, refused = 0;
  for (dwell::u32 i : g.range(count)) {
    dwell::u32 random = (seed + i) * 0x9E3779B9u;
    for (dwell::u32 round = 0; round < rounds; ++round) {
      random = random * 1664525u + 1013904223u;
      Slot& slot = slots[from + i];
      drop(g, slot, counts);
      const dwell::u32 octave = random >> 29;
      dwell::u32 words = 4 + (random >> 8) % (8u << octave);
      if (random % 4096 == 1) words = 40000;
      if (words > 64 && words <= 80) words = 64;  // plain memory would keep slabs of links
      const auto memory = g.try_allocate(words * 4ull).as<dwell::u32>();
      if (!memory) { ++refused; continue; }
      ++allocated;
      slot = {memory, words, random | 1u};
      g.at(memory)[0] = random | 1u;
      g.at(memory)[words - 1] = random | 1u;
    }
  }
  fetch_add<Order::relaxed>(&counts[1], allocated);
  fetch_add<Order::relaxed>(&counts[2], refused);
  if (code != 0) g.fail(code);
}
// Replaces some chains, shortens others, and goes down the rest.
DWELL_OPERATOR(chain)(dwell::Group g, dwell::Root<Chains> root, dwell::u32 from, dwell::u32 count, dwell::u32 links, dwell::u32 seed,
                      dwell::Span<dwell::u32> expected, dwell::i32 code, dwell::Span<dwell::u32> counts) {
  using namespace dwell::device;
  dwell::u32 made = 0, wrong = 0, refused = 0;
  for (dwell::u32 i : g.range(count)) {
    dwell::Field<Link>& first = (*g.at(g.at(g.at(root)->ref.get())->all.get(g)))[from + i];
    dwell::u32& known = expected[from + i];  // length (8) | visits (24)
    const dwell::u32 random = (seed + i) * 0x85EBCA6Bu >> 8;
    if (random % 4 == 0 || known == 0) {
      dwell::Ref<Link> top{};
      dwell::u32 length = 0;
      for (; length < 1 + random % links; ++length) {
        const auto link = g.try_make<Link>(top, length, 0u);
        if (!link) { ++refused; break; }
        top = link;
        ++made;
        if (random % 2 == 0) g.try_make<Link>(top, ~0u, 0u);  // nobody's
      }
      first.publish(g, top);
      known = length == 0 ? 0 : length << 24;
      continue;
    }
    if (random % 8 == 1 && known >> 24 > 1) {
      first.publish(g, g.at(first.acquire(g))->next.get(g));
      known -= 1u << 24;
    }
    dwell::u32 number = known >> 24;
    for (auto at = first.acquire(g); at; at = g.at(at)->next.get(g)) {
      Link& link = *g.at(at);
      if (number == 0 || link.number != number - 1 || link.visits != (known & 0xFFFFFFu)) { ++wrong; break; }
      ++link.visits;
      --number;
    }
    if (number != 0) ++wrong;
    ++known;
  }
  fetch_add<Order::relaxed>(&counts[0], wrong);
  fetch_add<Order::relaxed>(&counts[1], made);
  fetch_add<Order::relaxed>(&counts[2], refused);
  if (code != 0) g.fail(code);
}
DWELL_OPERATOR(free_all)(dwell::Group g, dwell::Span<Slot> slots, dwell::Span<dwell::u32> counts) {
  for (dwell::u32 i : g.range(slots.size())) drop(g, slots[i], counts);
}
)";

class HeapStressTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 580s; }
};
DWELL_ON_EVERY_DEVICE(HeapStressTest);

// Ten million allocations on a CPU, a billion on a GPU; everywhere as many with DWELL_STRESS=long.
TEST_P(HeapStressTest, NothingIsLostThroughAllChanges) {
  const std::string how = environment("DWELL_STRESS");
  const bool brief = how == "short" || kSanitized;
  const u32 all = brief ? 100'000 : on_cpu() && how != "long" ? 10'000'000 : 1'000'000'000;
  Options options = this->options();
  options.lease = on_cpu() ? 2ms : 500us;
  if (on_cpu()) options.workers = 4;
  options.heap.reserve = std::size_t{512} << 20U;
  options.heap.grow = std::size_t{4} << 20U;
  Runtime runtime(options);
  Heap heap = runtime.heap();
  const auto source = [](u32 number) { return std::string(kWork) + "// " + std::to_string(number) + "\n"; };
  auto churn = runtime.define<Churn>("churn", source(0));
  const auto chain = runtime.define<Chain>("chain", kWork);
  const Root<Chains> root = heap.root<Chains>("chains");
  runtime.submit(runtime.define<void(Root<Chains>, u32)>("begin", kWork), root, kParts * kChains).wait();
  auto slots = runtime.allocate<Slot>(kParts * kSlots);
  slots.write(std::span<const Slot>(std::vector<Slot>(kParts * kSlots)));
  auto expected = filled<u32>(runtime, kParts * kChains, 0);
  auto counts = filled<u32>(runtime, 3, 0);

  std::atomic<bool> over{false};
  std::uint64_t compactions = 0, moved = 0;
  std::vector<std::jthread> others;
  others.emplace_back([&] {
    Random random(1);
    while (!over) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      runtime.park();
      runtime.resume();
    }
  });
  others.emplace_back([&] {
    for (u32 i = 1; !over; ++i) {
      churn.redefine(source(i % 3));
      std::this_thread::sleep_for(20ms);
    }
  });
  others.emplace_back([&] {
    do {
      heap.collect();
      moved += heap.compact().moved;
      ++compactions;
    } while (!over);
  });
  others.emplace_back([&] {
    std::vector<u32> values(100);
    for (u32 i = 0; !over; ++i) {
      for (u32 k = 0; k < values.size(); ++k) values[k] = i * 1000 + k;
      const std::vector<Ref<u32>> refs = heap.make(std::span<const u32>(values));
      for (u32 k = 0; k < values.size(); ++k) EXPECT_EQ(heap.read(refs[k]), values[k]);
      heap.free(std::span<const Ref<u32>>(refs));
      if (i % 4 != 0) continue;
      EXPECT_EQ(heap.verify().mistakes, 0U);
    }
  });
  Random random(7);
  std::vector<Ticket> last(kParts * 2);
  u32 failed = 0;
  u32 cancelled = 0;
  u32 done = 0;
  for (u32 round = 0; done < all; ++round) {
    const u32 rounds = brief ? 8 : 32;
    for (u32 part = 0; part < kParts; ++part) {
      // A task comes behind the one before it in its part, whatever that one's result.
      for (const u32 which : {part, kParts + part})
        if (round != 0) {
          const i32 status = last[which].status();
          failed += status == 5 ? 1 : 0;
          cancelled += status == status::cancelled ? 1 : 0;
          EXPECT_TRUE(status == status::ok || status == 5 || status == status::cancelled) << status;
        }
      const i32 code = random() % 16 == 0 ? 5 : 0;
      last[part] = runtime.submit(churn, slots, part * kSlots, kSlots, static_cast<u32>(random()), rounds, code, counts);
      last[kParts + part] =
          runtime.submit(chain, root, part * kChains, kChains, kLinks, static_cast<u32>(random()), expected, code, counts);
      if (random() % 16 == 0) runtime.cancel(last[random() % 2 == 0 ? part : kParts + part]);
    }
    if (round % 8 == 0) done = read(counts)[1];
  }
  runtime.wait_all();
  over = true;
  others.clear();
  runtime.submit(runtime.define<FreeAll>("free_all", kWork), slots, counts).wait();
  const std::vector<u32> result = read(counts);
  EXPECT_EQ(result[0], 0U) << "wrong tags, or links";
  EXPECT_LT(result[2], result[1] / 100) << "allocations without room";
  EXPECT_GT(failed, 0U);
  heap.set(root, &Cell<Chains>::ref, Ref<Chains>{});
  heap.compact();
  EXPECT_EQ(heap.verify().mistakes, 0U);
  const HeapStatistics left = heap.statistics();
  EXPECT_EQ(left.live_bytes(), 16U) << "the root alone";
  EXPECT_EQ(left.large, 0U);
  std::printf("heap: %u allocations, %u failed and %u cancelled tasks, %llu compactions, %llu objects moved\n", result[1], failed,
              cancelled, static_cast<unsigned long long>(compactions), static_cast<unsigned long long>(moved));
}

}  // namespace
}  // namespace dwell::test
