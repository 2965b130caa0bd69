// The arena: tasks of every kind continue while it moves or grows.
#include <algorithm>

#include <dwell/detail/move_arena.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

// Runs for some microseconds, so that moves find it running.
constexpr const char* kSlowAdd = R"(
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 value) {
  if (g.rank() != 0) return;
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], value);
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 5000) {}
})";

// More words than a record holds: the arguments lie in a block of the exec.
struct Block {
  u32 word[200];
};
constexpr const char* kAddBlock = R"(
struct Block { dwell::u32 word[200]; };
DWELL_OPERATOR(add_block)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, const Block& block) {
  if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], block.word[199]);
})";
using AddBlock = void(Span<u32>, u32, Block);

// A tree of tasks: each leaf adds 1 and launches the graph, if it has one. The root's continuation adds 1.
constexpr const char* kTree = R"(
DWELL_USES(tree, dwell::Span<dwell::u32>, dwell::u32, dwell::u32, dwell::Exec)
DWELL_USES(add, dwell::Span<dwell::u32>, dwell::u32, dwell::u32)
DWELL_OPERATOR(tree)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 levels, dwell::Exec exec) {
  if (levels == 0) {
    if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
    if (exec) g.launch(exec);
    return;
  }
  g.spawn(uses::tree, cells, at, levels - 1, exec);
  g.spawn(uses::tree, cells, at, levels - 1, exec);
  g.then(uses::add, cells, at, 1u);
})";
using Tree = void(Span<u32>, u32, u32, Exec);

// Adds 1 in each step, and yields when asked.
constexpr const char* kYielding = R"(
DWELL_OPERATOR(yielding)(dwell::Group g, dwell::Span<dwell::u32> cells, dwell::u32 at, dwell::u32 steps) {
  const dwell::Gang gang = g.gang();
  for (dwell::u32 step = gang.resume(0u); step < steps; ++step) {
    if (g.rank() == 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[at], 1u);
    const dwell::u64 start = dwell::device::now_ns();
    while (dwell::device::now_ns() - start < 5000) {}
    gang.sync();
    if (gang.should_yield()) return gang.yield(step + 1);
  }
})";
using Yielding = void(Span<u32>, u32, u32);

class ArenaTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 300s; }

  // One cell for each kind of task.
  static constexpr u32 plain = 0, linked = 1, wide = 2, repeated = 3, tree = 4, launched = 5, in_gang = 6, inside = 7, behind_kernel = 8,
                       kKinds = 9;

  void open(Options given) {
    if (on_cpu()) given.workers = 4;
    runtime.emplace(std::move(given));
    add = runtime->define<Add>("add", kSlowAdd);
    add_block = runtime->define<AddBlock>("add_block", kAddBlock);
    make_tree = runtime->define<Tree>("tree", kTree);
    yielding = runtime->define<Yielding>("yielding", kYielding);
    if (!on_cpu())
      kernels = runtime->compile(R"(
__global__ void slow(unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < ns);
})");
    cells = filled<u32>(*runtime, kKinds, 0);
    exec = graph_into(launched);
    inner = graph_into(inside);
  }

  // A graph with chains, a join, more successors than one worker makes ready, wide nodes, a callback and a block. Adds kEach.
  static constexpr u32 kEach = 40 + 40 + 3 + 5 + 6;
  GraphExec graph_into(u32 cell) {
    Block block{};
    block.word[199] = 5;
    Graph graph;
    const Node first = graph.add(add, cells, cell, 1U);
    const Node second = graph.add(add, cells, cell, 1U).after(first);
    Node join = graph.add(add, cells, cell, 1U, groups(3));
    for (u32 i = 0; i < 40; ++i) {
      const Node one = graph.add(add, cells, cell, 1U).after(second);
      join.after(graph.add(add, cells, cell, 1U).after(one));
    }
    Node called = graph.add_host("called", [this] { ++calls; }).after(join);
    graph.add(add, cells, cell, 4U).after(graph.add(add_block, cells, cell, block).after(called));
    return runtime->instantiate(graph);
  }

  // Submits some tasks of each kind.
  void submit_some(Random& random) {
    for (u32 i = 0; i < 20; ++i) newest[plain] = runtime->submit(add, cells, plain, 1U);
    expected[plain] += 20;
    const u32 shares = 1 + random() % 9;
    newest[wide] = runtime->submit(add, cells, wide, 1U, groups(shares));
    expected[wide] += shares;
    newest[repeated] = runtime->submit(add, cells, repeated, 1U, repeat(100));
    expected[repeated] += 100;
    newest[tree] = newest[inside] = runtime->submit(make_tree, cells, tree, 4U, inner);
    expected[tree] += 16 + 15;
    expected[inside] += 16 * kEach;
    for (u32 i = 0; i < 3; ++i) newest[launched] = runtime->launch(exec);
    expected[launched] += 3 * kEach;
    expected_calls += 16 + 3;
    const u32 size = 1 + random() % std::min(runtime->info().workers, 8U);
    newest[in_gang] = runtime->submit(yielding, cells, in_gang, 50U, gang(size), after(newest[wide]));
    expected[in_gang] += 50 * size;
    // Linked behind the gang.
    for (u32 i = 0; i < 40; ++i) newest[linked] = runtime->submit(add, cells, linked, 1U, link);
    expected[linked] += 40;
    // Wait for a gate that the host opens when the kernel has ended.
    if (on_cpu()) return;
    const Ticket kernel = kernels.kernel("slow").launch({}, 20'000'000ULL);
    for (u32 i = 0; i < 3; ++i) newest[behind_kernel] = runtime->submit(add, cells, behind_kernel, 1U, after(kernel));
    expected[behind_kernel] += 3;
  }
  void expect_all() {
    runtime->wait_all();
    EXPECT_EQ(read(cells), expected);
    EXPECT_EQ(calls, expected_calls);
  }

  std::optional<Runtime> runtime;
  Operator<Add> add;
  Operator<AddBlock> add_block;
  Operator<Tree> make_tree;
  Operator<Yielding> yielding;
  Buffer<u32> cells;
  GraphExec exec;
  GraphExec inner;
  Module kernels;
  std::vector<u32> expected = std::vector<u32>(kKinds);
  std::atomic<u32> calls{0};
  u32 expected_calls = 0;
  std::vector<Ticket> newest = std::vector<Ticket>(kKinds);
};
DWELL_ON_EVERY_DEVICE(ArenaTest);

TEST_P(ArenaTest, WorkContinuesThroughAThousandMoves) {
  Options given = options();
  given.lease = 1ms;
  given.metrics = Metering::times;
  open(given);
  Random random(1);
  const u32 moves = kSanitized ? 60 : 1000;
  std::vector<u32> busy(kKinds);  // by kind: moves with a task in flight before and after
  // At least `moves` moves, until enough of them have found each kind of task in flight.
  const auto enough = [&] {
    return std::ranges::all_of(std::vector{linked, repeated, tree, launched, in_gang, on_cpu() ? in_gang : behind_kernel},
                               [&](u32 kind) { return busy[kind] > moves / 100; });
  };
  for (u32 move = 0; move < moves || !enough(); ++move) {
    if (move == 0 || std::ranges::all_of(newest, [](const Ticket& ticket) { return ticket.done(); })) submit_some(random);
    // Moves at a random time: with tasks in the ring, in the queue, held, queued at an exec, or between two steps of a gang.
    const auto until = Clock::now() + std::chrono::microseconds(random() % 500);
    while (Clock::now() < until) {}
    detail::move_arena(*runtime);
    for (u32 kind = 0; kind < kKinds; ++kind) busy[kind] += newest[kind].done() ? 0 : 1;
    if (move % 50 == 49) expect_all();
  }
  expect_all();
  // The counters have moved too.
  std::uint64_t tasks = 0;
  for (const OperatorMetrics& op : runtime->metrics().operators)
    if (op.name == "yielding") tasks += op.tasks;
  EXPECT_GT(tasks, 0U);
}

TEST_P(ArenaTest, MovesWhileTasksWaitInOrderOfTheirPriorities) {
  Options given = options();
  given.priorities.emplace();
  open(given);
  Random random(2);
  for (u32 move = 0; move < (kSanitized ? 10 : 50); ++move) {
    submit_some(random);
    for (u32 i = 0; i < 100; ++i) runtime->submit(add, cells, plain, 1U, priority(random() % 8));
    expected[plain] += 100;
    detail::move_arena(*runtime);
  }
  expect_all();
}

TEST_P(ArenaTest, MovesWhileItIsParkedAndTraced) {
  open(options());
  Random random(3);
  runtime->park();
  submit_some(random);
  const Ticket waits = runtime->submit(add, cells, plain, 1U);
  ++expected[plain];
  detail::move_arena(*runtime);
  std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(waits.done()) << "a move starts nothing";
  runtime->resume();
  expect_all();
  std::vector<TraceEvent> events;
  class Keep : public TraceWriter {
   public:
    explicit Keep(std::vector<TraceEvent>& to) : to_(to) {}
    void write(const Trace& piece) override { to_.insert(to_.end(), piece.events.begin(), piece.events.end()); }
    void finish() override {}

   private:
    std::vector<TraceEvent>& to_;
  };
  runtime->start_trace(std::make_shared<Keep>(events));
  for (u32 i = 0; i < 10; ++i) {
    submit_some(random);
    detail::move_arena(*runtime);
  }
  expect_all();
  runtime->stop_trace();
  const auto nodes = std::ranges::count_if(events, [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::node; });
  EXPECT_GT(nodes, 0);
}

TEST_P(ArenaTest, GrowsForGraphsWhileTasksRun) {
  open(options());
  Random random(4);
  const Metrics before = runtime->metrics();
  std::vector<GraphExec> execs;
  const u32 rounds = kSanitized ? 60 : 600;
  u32 sum = 0;
  for (u32 round = 0; round < rounds; ++round) {
    if (round % 20 == 0) submit_some(random);
    if (round % 97 == 96) detail::move_arena(*runtime);
    if (!execs.empty() && random() % 3 == 0) execs.erase(execs.begin() + static_cast<std::ptrdiff_t>(random() % execs.size()));
    // Small graphs, and some with a thousand nodes or more.
    const u32 nodes = random() % 10 == 0 ? 1000 + random() % 3000 : 1 + random() % 40;
    Graph graph;
    Node last = graph.add(add, cells, plain, 1U);
    for (u32 i = 1; i < nodes; ++i) last = i % 3 != 0 ? graph.add(add, cells, plain, 1U).after(last) : graph.add(add, cells, plain, 1U);
    execs.push_back(runtime->instantiate(graph));
    runtime->launch(execs.back());
    sum += nodes;
  }
  expected[plain] += sum;
  expect_all();
  EXPECT_GT(runtime->metrics().arena_bytes, before.arena_bytes);
  EXPECT_EQ(runtime->metrics().buffer_bytes, before.buffer_bytes) << "graphs count with the arena alone";
  // Freed memory is reused.
  execs.clear();
  runtime->wait_all();
  const std::uint64_t grown = runtime->metrics().arena_bytes;
  for (u32 round = 0; round < 100; ++round) execs.assign(1, graph_into(plain));
  EXPECT_EQ(runtime->metrics().arena_bytes, grown);
}

}  // namespace
}  // namespace dwell::test
