// Priorities: the order of tasks that wait for a worker.
#include <algorithm>
#include <numeric>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

constexpr u32 kAge = 64;  // tasks of higher priorities that overtake a waiting one at most

// Spawns `count` children, each of which takes a number from the clock.
constexpr const char* kFamily = R"(
DWELL_OPERATOR(child)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> last, dwell::u64 ns) {
  if (g.rank() == 0) {
    last[0] = dwell::device::fetch_add<dwell::device::Order::acq_rel>(&clock[0], 1u);
    const dwell::u64 start = dwell::device::now_ns();
    while (dwell::device::now_ns() - start < ns) {}
  }
  g.sync();
})";
constexpr const char* kParent = R"(
DWELL_USES(child, dwell::Span<dwell::u32>, dwell::Span<dwell::u32>, dwell::u64)
DWELL_OPERATOR(parent)(dwell::Group g, dwell::Span<dwell::u32> clock, dwell::Span<dwell::u32> last, dwell::u32 count, dwell::u64 ns) {
  for (dwell::u32 i = 0; i < count; ++i) g.spawn(uses::child, clock, last, ns);
})";

class PriorityTest : public DeviceTest {
 protected:
  // One worker, so that only the runtime decides the order.
  Options one_worker() const {
    Options one = options();
    one.workers = 1;
    one.priorities = Priorities{};
    return one;
  }

  // Buffers for the stamps.
  struct Stamps {
    Stamps(Runtime& runtime, std::size_t count)
        : clock(filled<u32>(runtime, 1, 0)), began(filled<u32>(runtime, count, ~0U)), ended(filled<u32>(runtime, count, ~0U)) {}
    // The tasks in the order of their begins.
    std::vector<u32> order() const {
      const std::vector<u32> when = read(began);
      std::vector<u32> all(when.size());
      std::iota(all.begin(), all.end(), 0U);
      std::sort(all.begin(), all.end(), [&](u32 a, u32 b) { return when[a] < when[b]; });
      return all;
    }
    Buffer<u32> clock;
    Buffer<u32> began;
    Buffer<u32> ended;
  };

  // Submits tasks of these priorities while the only worker is busy. Returns the order of their begins.
  std::vector<u32> order_of(const Options& options, const std::vector<u32>& priorities) {
    Runtime runtime(options);
    auto stamp = runtime.define<Stamp>("stamp", kStamp);
    auto hold = runtime.define<Hold>("hold", kHold);
    const Stamps stamps(runtime, priorities.size());
    Latch latch(runtime);
    runtime.submit(hold, latch.words());
    latch.await();
    for (u32 i = 0; i < priorities.size(); ++i)
      runtime.submit(stamp, stamps.clock, stamps.began, stamps.ended, i, u64{0}, priority(priorities[i]));
    std::this_thread::sleep_for(20ms);  // until all of them wait for the worker
    latch.release();
    runtime.wait_all();
    return stamps.order();
  }
};
DWELL_ON_EVERY_DEVICE(PriorityTest);

TEST_P(PriorityTest, TheMostUrgentTaskBeginsFirst) {
  // The held worker fetches nothing on the CPU: it finds all tasks afterwards.
  Random random(1);
  std::vector<u32> priorities(kAge - 4);
  for (u32& each : priorities) each = random() % 8;
  std::vector<u32> expected(priorities.size());
  std::iota(expected.begin(), expected.end(), 0U);
  std::stable_sort(expected.begin(), expected.end(), [&](u32 a, u32 b) { return priorities[a] > priorities[b]; });
  EXPECT_EQ(order_of(one_worker(), priorities), expected);
}

TEST_P(PriorityTest, TheLastTaskOfAStackBeginsFirst) {
  Options stacks = one_worker();
  stacks.priorities->order[3] = QueueOrder::lifo;
  stacks.priorities->order[5] = QueueOrder::lifo;
  EXPECT_EQ(order_of(stacks, {3, 5, 6, 3, 5, 6, 3, 5, 6}), (std::vector<u32>{2, 5, 8, 7, 4, 1, 6, 3, 0}));
}

TEST_P(PriorityTest, NoPriorityStarves) {
  std::vector<u32> priorities{0, 2};
  priorities.resize(500, 7);
  const std::vector<u32> order = order_of(one_worker(), priorities);
  const auto at = [&](u32 task) { return std::find(order.begin(), order.end(), task) - order.begin(); };
  EXPECT_LE(at(0), kAge + 8);
  EXPECT_LE(at(1), kAge + 8);
  EXPECT_GE(at(0), kAge);
  EXPECT_GE(at(1), kAge);
}

TEST_P(PriorityTest, AnUrgentTaskGetsAWorkerAtTheNextNodeOfALessUrgentGraph) {
  constexpr u32 kNodes = 400;
  constexpr u64 kLong = 200'000;  // ns for each node
  for (const bool chain : {true, false}) {
    Runtime runtime(one_worker());
    auto stamp = runtime.define<Stamp>("stamp", kStamp);
    const Stamps stamps(runtime, kNodes + 1);
    Graph graph;
    Node before;
    for (u32 i = 0; i < kNodes; ++i) {
      Node node = graph.add(stamp, stamps.clock, stamps.began, stamps.ended, i, kLong);
      if (chain && i > 0) node.after(before);
      before = node;
    }
    const GraphExec exec = runtime.instantiate(graph);
    const Ticket launch = runtime.launch(exec, priority(2));
    std::this_thread::sleep_for(2ms);
    runtime.submit(stamp, stamps.clock, stamps.began, stamps.ended, kNodes, u64{0}).wait();
    EXPECT_FALSE(launch.done());
    launch.wait();
    const std::vector<u32> ended = read(stamps.ended);
    EXPECT_LT(ended[kNodes], kNodes / 2) << "chain " << chain;
    for (const u32 stamp_of : ended) EXPECT_NE(stamp_of, ~0U);
  }
}

// Each group waits for the other, at most half a second: less than the graph beside it takes.
constexpr const char* kMeetSoon = R"(
DWELL_OPERATOR(meet)(dwell::Group g, dwell::Span<dwell::u32> arrived) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    fetch_add<Order::relaxed>(&arrived[0], 1u);
    const dwell::u64 start = now_ns();
    for (dwell::u32 round = 0; load<Order::relaxed, Scope::device>(&arrived[0]) != 2; ++round) {
      if (now_ns() - start > 500000000ull) {
        g.fail(1);
        break;
      }
      relax(round);
    }
  }
  g.sync();
})";

TEST_P(PriorityTest, UrgentTaskFromAnotherWorkerGetsAWorker) {
  constexpr u32 kNodes = 1'200;
  constexpr u64 kLong = 1'000'000;  // ns for each node
  Options two = one_worker();
  two.workers = 2;
  two.lease = 10s;  // at the end of a lease, a graph yields to all tasks
  Runtime runtime(two);
  auto spin = runtime.define<Spin>("spin", kSpin);
  auto hold = runtime.define<Hold>("hold", kHold);
  auto meet = runtime.define<void(Span<u32>)>("meet", kMeetSoon);
  const auto arrived = filled<u32>(runtime, 1, 0);
  // Links are in use from here on, so that `after` is no drain.
  runtime.submit(spin, u64{0});
  runtime.submit(spin, u64{0}, link).wait();
  Graph graph;
  Node before;
  for (u32 i = 0; i < kNodes; ++i) {
    Node node = graph.add(spin, kLong);
    if (i != 0) node.after(before);
    before = node;
  }
  const GraphExec exec = runtime.instantiate(graph);
  Latch latch(runtime);
  const Ticket held = runtime.submit(hold, latch.words());
  latch.await();
  const Ticket launch = runtime.launch(exec, priority(2));
  std::this_thread::sleep_for(5ms);
  const Ticket urgent = runtime.submit(meet, arrived, after(held), groups(2));
  std::this_thread::sleep_for(5ms);
  latch.release();
  EXPECT_EQ(urgent.status(), status::ok) << "the graph keeps the second worker";
  EXPECT_EQ(launch.status(), status::ok);
}

TEST_P(PriorityTest, AnUrgentGraphBeginsBeforeOthers) {
  Runtime runtime(one_worker());
  auto stamp = runtime.define<Stamp>("stamp", kStamp);
  auto hold = runtime.define<Hold>("hold", kHold);
  constexpr u32 kNodes = 20;
  const Stamps stamps(runtime, 2 * kNodes);
  GraphExec execs[2];
  for (u32 which = 0; which < 2; ++which) {
    Graph graph;
    for (u32 i = 0; i < kNodes; ++i) graph.add(stamp, stamps.clock, stamps.began, stamps.ended, which * kNodes + i, u64{0});
    execs[which] = runtime.instantiate(graph);
  }
  Latch latch(runtime);
  runtime.submit(hold, latch.words());
  latch.await();
  runtime.launch(execs[0]);
  runtime.launch(execs[1], priority(6));
  std::this_thread::sleep_for(20ms);
  latch.release();
  runtime.wait_all();
  const std::vector<u32> order = stamps.order();
  for (u32 i = 0; i < kNodes; ++i) EXPECT_GE(order[i], kNodes) << "place " << i;
}

TEST_P(PriorityTest, TasksOfAnOperatorHaveItsPriority) {
  Runtime runtime(one_worker());
  static_cast<void>(runtime.define("child", kFamily));
  auto parent = runtime.define<void(Span<u32>, Span<u32>, u32, u64)>("parent", kParent);
  auto stamp = runtime.define<Stamp>("stamp", kStamp);
  const Stamps stamps(runtime, 1);
  auto last = filled<u32>(runtime, 1, 0);
  const Ticket family = runtime.submit(parent, stamps.clock, last, 500U, u64{100'000}, priority(1));
  std::this_thread::sleep_for(2ms);
  runtime.submit(stamp, stamps.clock, stamps.began, stamps.ended, 0U, u64{0}, priority(2)).wait();
  EXPECT_FALSE(family.done());
  family.wait();
  EXPECT_LT(read(stamps.began)[0], 400U);
  EXPECT_GE(read(last)[0], 490U);
}

TEST_P(PriorityTest, TasksOfAllKindsRunOnceWithPriorities) {
  constexpr u32 kTasks = kSanitized ? 4'000 : 20'000;
  Options small = options();
  small.priorities = Priorities{{QueueOrder::lifo, QueueOrder::fifo, QueueOrder::lifo}};
  Runtime runtime(small);
  auto add = runtime.define<Add>("add", kAdd);
  auto fail = runtime.define<Fail>("fail", kFail);
  auto padded = runtime.define("add_padded", kAddPadded);
  constexpr u32 kNodes = 50;
  auto cells = filled<u32>(runtime, kTasks, 0);
  auto nodes = filled<u32>(runtime, kNodes, 0);
  Graph graph;
  Node before;
  for (u32 i = 0; i < kNodes; ++i) {
    Node node = graph.add(add, nodes, i, 1U);
    if (i % 3 != 0) node.after(before);
    before = node;
  }
  const GraphExec exec = runtime.instantiate(graph);
  Random random(7);
  std::vector<u32> expected(kTasks);
  u32 launches = 0;
  for (u32 i = 0; i < kTasks; ++i) {
    const Priority level = priority(random() % 8);
    switch (random() % 8) {
      case 0: runtime.submit(add, cells, i, 1U, level, groups(1 + random() % 20)); break;
      case 1: runtime.submit(add, cells, i, 1U, level, hard_link); break;
      case 2: runtime.submit(padded, cells, i, Padded(1), level); break;
      case 3:
        runtime.launch(exec, level);
        ++launches;
        break;
      case 4:
        runtime.submit(fail, 3, level);
        runtime.submit(add, cells, i, 1U, level, link);
        break;
      case 5: runtime.submit(add, cells, i, 1U); break;
      default: runtime.submit(add, cells, i, 1U, level);
    }
    if (i % 5000 == 2500) add.redefine(kAdd);
  }
  runtime.wait_all();
  EXPECT_EQ(read(nodes), std::vector<u32>(kNodes, launches));
  // Repeats the random choices.
  Random again(7);
  for (u32 i = 0; i < kTasks; ++i) {
    static_cast<void>(again());
    const u32 kind = again() % 8;
    expected[i] = kind == 0 ? 1 + again() % 20 : kind == 3 || kind == 4 ? 0 : 1;
  }
  EXPECT_EQ(read(cells), expected);
}

TEST_P(PriorityTest, TasksThatWaitByPriorityAreCancelled) {
  Options two = one_worker();
  two.workers = 2;
  Runtime runtime(two);
  auto stamp = runtime.define<Stamp>("stamp", kStamp);
  auto hold = runtime.define<Hold>("hold", kHold);
  constexpr u32 kTasks = 120;
  const Stamps stamps(runtime, kTasks);
  Latch latch(runtime);
  runtime.submit(hold, latch.words());
  latch.await();
  // The other worker moves the ring's tasks to their levels, and runs them one by one.
  Random random(3);
  std::vector<Ticket> tickets;
  for (u32 i = 0; i < kTasks; ++i)
    tickets.push_back(runtime.submit(stamp, stamps.clock, stamps.began, stamps.ended, i, u64{500'000}, priority(random() % 8)));
  std::this_thread::sleep_for(5ms);
  for (u32 i = 0; i < kTasks; i += 2) runtime.cancel(tickets[i]);
  latch.release();
  runtime.wait_all();
  const std::vector<u32> began = read(stamps.began);
  u32 cancelled = 0;
  for (u32 i = 0; i < kTasks; i += 2) {
    cancelled += tickets[i].status() == status::cancelled ? 1 : 0;
    EXPECT_EQ(tickets[i].status() == status::cancelled, began[i] == ~0U) << i;
  }
  EXPECT_GT(cancelled, kTasks / 4);
}

TEST_P(PriorityTest, PrioritiesAreChecked) {
  Runtime with(one_worker());
  auto nothing = with.define<void()>("nothing", kNothing);
  DWELL_EXPECT_ERROR(with.submit(nothing, priority(8)), errc::invalid_argument, HasSubstr("priority is 8"));
  with.submit(nothing, priority(7)).wait();
  Runtime without(options());
  auto same = without.define<void()>("nothing", kNothing);
  without.submit(same, priority(3)).wait();  // the default priority
  DWELL_EXPECT_ERROR(without.submit(same, priority(4)), errc::unsupported, HasSubstr("the option priorities"));
  Graph graph;
  graph.add(same);
  const GraphExec exec = without.instantiate(graph);
  DWELL_EXPECT_ERROR(without.launch(exec, priority(4)), errc::unsupported, HasSubstr("the option priorities"));
  Arguments arguments;
  arguments.add(priority(5));
  with.submit(with.define("untyped", "DWELL_OPERATOR(untyped)(dwell::Group) {}\n"), arguments).wait();
}

}  // namespace
}  // namespace dwell::test
