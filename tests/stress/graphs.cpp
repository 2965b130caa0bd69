// Random graphs with failing nodes, changed between launches, from several threads, beside redefinitions, parks, tiny leases and plain
// tasks. Each node runs once a launch, in order, in the version of its launch, or is rightly cancelled.
#include <malloc.h>

#include <algorithm>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Takes stamps, counts, records its version, and fails with a code other than 0; each group of a wide node separately.
std::string work_with(u32 version) {
  return R"(
DWELL_OPERATOR(work)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> began, dwell::Span<dwell::u32> ended,
                     dwell::Span<dwell::u32> counts, dwell::Span<dwell::u32> versions, dwell::u32 first, dwell::i32 code, dwell::u64 ns) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    const dwell::u32 at = first + g.index();
    began[at] = fetch_add<Order::acq_rel>(&clock[0], 1u);
    counts[at] = counts[at] + 1;
    versions[at] = )" +
         std::to_string(version) + R"(u;
    const dwell::u64 start = now_ns();
    while (now_ns() - start < ns) {}
    if (code != 0) g.fail(code);
    ended[at] = fetch_add<Order::acq_rel>(&clock[0], 1u);
  }
  g.sync();
})";
}
using Work = void(Span<u32>, Span<u32>, Span<u32>, Span<u32>, Span<u32>, u32, i32, u64);

class GraphChaosTest : public DeviceTest {
 protected:
  static constexpr u32 kMostGroups = 4;
  std::chrono::seconds limit() const override { return 400s; }
  static bool brief() { return environment("DWELL_STRESS") == "short"; }

  // A random graph on the device, and its expected results.
  struct Case {
    Case(Runtime& runtime, const Operator<Work>& work, u32 count, Random& random)
        : clock(filled<u32>(runtime, 1, 0)),
          began(filled<u32>(runtime, std::size_t{count} * kMostGroups, 0)),
          ended(filled<u32>(runtime, std::size_t{count} * kMostGroups, 0)),
          counts(filled<u32>(runtime, std::size_t{count} * kMostGroups, 0)),
          versions(filled<u32>(runtime, std::size_t{count} * kMostGroups, 0)),
          before(count),
          groups_of(count, 1),
          codes(count, 0),
          expected(count, 0) {
      const u32 kind = random() % 4;  // long chains; narrow; wide; a few nodes with very many successors
      for (u32 i = 0; i < count; ++i) {
        if (random() % 10 == 0) groups_of[i] = 1 + random() % kMostGroups;
        const u64 ns = random() % 200 == 0 ? 100'000 : random() % 10 == 0 ? random() % 5'000 : 0;
        nodes.push_back(graph.add(work, clock, began, ended, counts, versions, i * kMostGroups, 0, ns, groups(groups_of[i])));
        const u32 wanted = kind == 0 ? random() % 20 != 0 : random() % 4;
        for (u32 j = 0; j < wanted && i != 0; ++j) {
          const u32 reach = kind == 0 ? 1 : kind == 1 ? 8 : kind == 2 ? i : 0;
          const u32 from = reach == 0 ? random() % (1 + i / 100) : i - 1 - random() % std::min(i, reach);
          if (std::ranges::find(before[i], from) != before[i].end()) continue;
          before[i].push_back(from);
          nodes[i].after(nodes[from]);
        }
      }
      exec = runtime.instantiate(graph);
    }

    // Makes some nodes fail from the next launch on, or succeed again.
    void change(Random& random) {
      for (u32 i = random() % 4; i > 0; --i) {
        const u32 node = random() % static_cast<u32>(nodes.size());
        codes[node] = random() % 3 == 0 ? static_cast<i32>(1 + random() % 100) : 0;
        exec.set(nodes[node], 6, codes[node]);
      }
    }
    // Which nodes are expected to run.
    std::vector<bool> runs() const {
      std::vector<bool> good(nodes.size()), all(nodes.size());
      for (u32 i = 0; i < nodes.size(); ++i) {
        all[i] = std::ranges::all_of(before[i], [&](u32 from) { return good[from]; });
        good[i] = all[i] && codes[i] == 0;
      }
      return all;
    }
    // Checks the results after `launches` more launches.
    void check(u32 launches, i32 status, u32 oldest, u32 newest) {
      const std::vector<bool> ran = runs();
      const auto starts = read(began), ends = read(ended), times = read(counts), seen = read(versions);
      bool fails = false;
      u32 version = 0;
      for (u32 i = 0; i < nodes.size(); ++i) {
        if (ran[i]) expected[i] += launches;
        fails = fails || (ran[i] && codes[i] != 0);
        for (u32 group = 0; group < groups_of[i]; ++group) {
          const u32 at = i * kMostGroups + group;
          ASSERT_EQ(times[at], expected[i]) << "node " << i << ", group " << group;
          if (!ran[i]) continue;
          if (version == 0) version = seen[at];
          ASSERT_EQ(seen[at], version) << "a launch runs with the versions of its ticket";
          for (const u32 from : before[i])
            for (u32 other = 0; other < groups_of[from]; ++other)
              ASSERT_LT(ends[from * kMostGroups + other], starts[at]) << from << " -> " << i;
        }
      }
      if (version != 0) {
        ASSERT_GE(version, oldest);
        ASSERT_LE(version, newest);
      }
      ASSERT_EQ(status != 0, fails);
      if (fails) {
        ASSERT_NE(std::ranges::find(codes, status), codes.end());
      }
    }

    Graph graph;
    std::vector<Node> nodes;
    Buffer<u32> clock, began, ended, counts, versions;
    std::vector<std::vector<u32>> before;
    std::vector<u32> groups_of;
    std::vector<i32> codes;
    std::vector<u32> expected;
    GraphExec exec;
  };

  static void run(const Options& options, u32 rounds, u32 seed) {
    constexpr u32 kThreads = 3;
    Runtime runtime(options);
    auto work = runtime.define<Work>("work", work_with(1));
    const auto fail = runtime.define<Fail>("fail", kFail);
    const auto add = runtime.define<Add>("add", kAdd);
    const auto plain = filled<u32>(runtime, kThreads, 0);
    std::vector<u32> plain_expected(kThreads, 0);
    std::atomic<u32> begun{1}, done{1};  // versions whose redefinition has begun, has returned
    std::atomic<bool> over{false};
    std::vector<std::jthread> disturbers;
    disturbers.emplace_back([&] {
      Random random(seed + 1000);
      while (!over) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
        runtime.park();
        runtime.resume();
      }
    });
    disturbers.emplace_back([&] {
      for (u32 version = 2; !over; ++version) {
        begun = version;
        work.redefine(work_with(version));
        done = version;
        std::this_thread::sleep_for(20ms);
      }
    });
    std::vector<std::jthread> threads;
    for (u32 me = 0; me < kThreads; ++me)
      threads.emplace_back([&, me] {
        Random random(seed * 16 + me);
        std::vector<std::unique_ptr<Case>> cases;
        for (u32 round = 0; round < rounds && !HasFatalFailure(); ++round) {
          if (cases.size() < 4 || random() % 40 == 0) {
            cases.push_back(std::make_unique<Case>(runtime, work, 1 + random() % 600, random));
            if (cases.size() > 4) cases.erase(cases.begin());
          }
          Case& one = *cases[random() % cases.size()];
          one.change(random);
          if (random() % 6 == 0) {  // cancelled, with its changes
            const Ticket bad = runtime.submit(fail, 7);
            ASSERT_EQ(runtime.launch(one.exec, after(bad)).status(), status::cancelled);
            one.change(random);
          }
          const u32 launches = 1 + random() % 3;
          Ticket last;
          u32 oldest = 0;
          for (u32 i = 0; i < launches; ++i) {
            for (u32 j = random() % 4; j > 0; --j) {
              const u32 many = 1 + random() % 3;
              runtime.submit(add, plain, me, 1U, groups(many));
              plain_expected[me] += many;
            }
            oldest = done;
            last = random() % 3 == 0 ? runtime.launch(one.exec, after_any_result(last)) : runtime.launch(one.exec);
          }
          const u32 newest = begun;
          const i32 status = last.status();
          one.check(launches, status, oldest, newest);
        }
      });
    threads.clear();
    over = true;
    disturbers.clear();
    runtime.wait_all();
    EXPECT_EQ(read(plain), plain_expected);
  }
};
DWELL_ON_EVERY_DEVICE(GraphChaosTest);

TEST_P(GraphChaosTest, NodesRunOnceAndInOrderUnderTinyLeases) {
  Options options = this->options();
  options.ring_slots = 128;
  options.lease = 100us;
  options.idle = 50us;
  if (on_cpu()) options.workers = 3;
  run(options, brief() ? 20 : 2'000, 1);
}

TEST_P(GraphChaosTest, NodesRunOnceAndInOrderWithManyWorkers) {
  Options options = this->options();
  options.lease = 2ms;
  if (on_cpu()) options.workers = 8;
  run(options, brief() ? 20 : 2'000, 2);
}

TEST_P(GraphChaosTest, NodesRunOnceAndInOrderWithOneWorker) {
  Options options = this->options();
  options.lease = 300us;
  options.workers = 1;
  run(options, brief() ? 20 : 1'000, 3);
}

TEST_P(GraphChaosTest, MemoryOfDroppedExecsIsFreed) {
  if (!on_cpu()) GTEST_SKIP() << "other programs take and give memory of the device too";
  Runtime runtime(options());
  const auto add = runtime.define<Add>("add", kAdd);
  const auto cells = filled<u32>(runtime, 1, 0);
  const u32 rounds = brief() ? 50 : 1000;
  constexpr u32 kNodes = 5000;
  const auto in_use = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  std::size_t before = 0, bytes = 0;
  for (u32 round = 0; round < rounds; ++round) {
    Graph graph;
    const Node first = graph.add(add, cells, 0U, 1U);
    for (u32 i = 1; i < kNodes; ++i) graph.add(add, cells, 0U, 1U).after(first);
    {
      GraphExec exec = runtime.instantiate(graph);
      bytes = exec.bytes();
      for (u32 i = round % 3; i > 0; --i) runtime.launch(exec);
    }
    if (round == 10) {
      runtime.wait_all();
      before = in_use();
    }
  }
  runtime.wait_all();
  runtime.launch(runtime.instantiate(Graph())).wait();
  EXPECT_LT(in_use(), before + 16 * bytes);
}

}  // namespace
}  // namespace dwell::test
