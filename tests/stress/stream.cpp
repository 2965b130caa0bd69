// Millions of tasks from several threads, through full rings, parks and swaps: none is lost or run twice, and each runs the version of its
// ticket.
#include <algorithm>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class StreamTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 800s; }
};
DWELL_ON_EVERY_DEVICE(StreamTest);

// The upper half of a cell counts the tasks that ran there, the lower half identifies the version.
constexpr u32 kOnce = 1U << 16U;
constexpr u32 kSources = 8;  // compiled once each; versions cycle through them

TEST_P(StreamTest, EachTaskRunsOnceByTheVersionOfItsTicket) {
  const bool brief = environment("DWELL_STRESS") == "short";
  const u32 tasks = brief ? 200'000 : 10'000'000;
  const u32 swaps = brief ? 10 : 200;
  constexpr u32 kProducers = 4;
  const u32 each = tasks / kProducers;

  Options some = options();
  some.ring_slots = on_cpu() ? 256 : 1024;
  Runtime runtime(some);
  auto mark = runtime.define<Mark>("mark", mark_with(kOnce + 1));
  auto cells = filled<u32>(runtime, tasks, 0);
  // Compiles the other sources, so that the swaps below do not wait for a compiler.
  for (u32 source = 2; source <= kSources; ++source) mark.redefine(mark_with(kOnce + source));
  while (mark.version() > 1) mark.rollback();

  // Generations count the swaps: generation g writes `value[g]`. A redefine makes a new version, a rollback takes the previous one.
  std::vector<std::atomic<u32>> value(swaps + 1);
  value[0] = 1;
  std::atomic<u32> begun{0};     // the newest generation whose swap has been called
  std::atomic<u32> finished{0};  // the newest generation whose swap has returned
  std::atomic<u32> submitted{0};
  std::atomic<bool> over{false};

  struct Seen {
    std::uint64_t position;  // of its ticket, plus one; 0 if unknown
    u32 least;
    u32 most;
  };
  std::vector<Seen> seen(tasks);
  std::atomic<u32> full{0};
  std::vector<std::jthread> producers;
  for (u32 me = 0; me < kProducers; ++me)
    producers.emplace_back([&, me] {
      Random random(me);
      const u32 end = (me + 1) * each;
      for (u32 at = me * each; at < end;) {
        const u32 least = finished;
        const u32 kind = random() % 64;
        u32 count = 1;
        if (kind == 0) {
          count = std::min<u32>(1 + random() % 200, end - at);
          const Ticket last = runtime.submit_many(mark, count, [&](std::size_t i, auto&& put) { put(cells, at + static_cast<u32>(i)); });
          for (u32 i = 0; i < count; ++i) seen[at + i].position = 0;
          seen[at + count - 1].position = last.position() + 1;
        } else if (kind < 16) {
          const auto ticket = runtime.try_submit(mark, cells, at);
          if (!ticket) {
            ++full;
            std::this_thread::yield();
            continue;
          }
          seen[at].position = ticket->position() + 1;
        } else {
          seen[at].position = runtime.submit(mark, cells, at).position() + 1;
        }
        const u32 most = begun;
        for (u32 i = 0; i < count; ++i) {
          seen[at + i].least = least;
          seen[at + i].most = most;
        }
        at += count;
        submitted += count;
      }
    });
  u32 parks = 0;
  std::jthread parker([&] {
    Random random(99);
    for (; !over; ++parks) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      runtime.park();
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      runtime.resume();
    }
  });
  std::jthread swapper([&] {
    Random random(7);
    std::vector<u32> history{1};  // the value of each version that a rollback may reach
    for (u32 source = 2; source <= kSources; ++source) history.push_back(source);
    std::size_t current = 1;
    for (u32 swap = 1; swap <= swaps; ++swap) {
      // Half of the swaps come alone, the others in fours while the loop is parked: tasks of replaced versions wait in the ring.
      const u32 turn = swap % 8;
      if (turn <= 4)
        while (submitted < static_cast<std::uint64_t>(swap) * tasks / (swaps + 1)) std::this_thread::sleep_for(50us);
      if (turn == 4) runtime.park();
      if (turn == 4) std::this_thread::sleep_for(200us);  // lets the ring fill
      if (current > 1 && random() % 4 == 0) {
        --current;
        value[swap] = history[current - 1];
        begun = swap;
        mark.rollback();
      } else {
        history.push_back(swap % kSources + 1);
        current = history.size();
        value[swap] = history.back();
        begun = swap;
        mark.redefine(mark_with(kOnce + history.back()));
      }
      finished = swap;
      if (turn == 7 || (turn >= 4 && swap == swaps)) runtime.resume();
    }
  });
  producers.clear();
  swapper.join();
  over = true;
  parker.join();
  runtime.wait_all();

  const std::vector<u32> result = read(cells);
  std::vector<u32> order;
  order.reserve(tasks);
  u32 wrong = 0;
  const auto complain = [&](u32 task, const std::string& what) {
    if (++wrong <= 5)
      ADD_FAILURE() << "task " << task << ": " << what << "; its cell holds " << result[task] << ", it may be of generation "
                    << seen[task].least << " to " << seen[task].most;
  };
  for (u32 task = 0; task < tasks; ++task) {
    if (result[task] / kOnce != 1) {
      complain(task, "ran " + std::to_string(result[task] / kOnce) + " times");
      continue;
    }
    bool possible = false;
    for (u32 g = seen[task].least; g <= seen[task].most; ++g) possible = possible || value[g] == result[task] % kOnce;
    if (!possible) complain(task, "ran another version");
    if (seen[task].position != 0) order.push_back(task);
  }
  // Generations never decrease along the tickets.
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return seen[a].position < seen[b].position; });
  u32 generation = 0;
  std::uint64_t last = 0;
  for (const u32 task : order) {
    if (seen[task].position == last) complain(task, "shares its ticket with another");
    last = seen[task].position;
    while (generation < seen[task].most && (generation < seen[task].least || value[generation] != result[task] % kOnce)) ++generation;
    if (value[generation] != result[task] % kOnce) {
      complain(task, "ran the version of an earlier ticket");
      break;
    }
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(runtime.metrics().submitted, tasks);
  // The test was as demanding as intended.
  EXPECT_GE(runtime.metrics().images, swaps / 2);
  EXPECT_GT(parks, 0U);
  EXPECT_GT(full, 0U) << "the ring was never full";
  std::printf("%u tasks, %u swaps, %u parks, %llu leases, %u times no room\n", tasks, swaps, parks,
              static_cast<unsigned long long>(runtime.metrics().leases), full.load());
}

}  // namespace
}  // namespace dwell::test
