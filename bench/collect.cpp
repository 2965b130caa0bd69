// Collections of a heap with many live objects, and what they cost the work that goes on.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Node {
  Field<Node> left;
  Field<Node> right;
  u64 number;
};
DWELL_OBJECT(Node, left, right);
struct Row {
  Field<Array<Node>> trees;
};
DWELL_OBJECT(Row, trees);
struct Forest {
  Field<Array<Row>> rows;
};
DWELL_OBJECT(Forest, rows);

// Trees of 2^depth leaves each, in rows of kTrees.
constexpr u32 kTrees = 256;
constexpr const char* kForest = R"(
struct Node { dwell::Field<Node> left; dwell::Field<Node> right; dwell::u64 number; };
DWELL_OBJECT(Node, left, right);
struct Row { dwell::Field<dwell::Array<Node>> trees; };
DWELL_OBJECT(Row, trees);
struct Forest { dwell::Field<dwell::Array<Row>> rows; };
DWELL_OBJECT(Forest, rows);
constexpr dwell::u32 kTrees = 256;

inline dwell::Field<Node>& tree_at(dwell::Group g, dwell::Root<Forest> root, dwell::u32 i) {
  const auto rows = g.at(root)->ref.get();
  const auto row = (*g.at(g.at(rows)->rows.get()))[i / kTrees].get();
  return (*g.at(g.at(row)->trees.get()))[i % kTrees];
}
DWELL_OPERATOR(plant)(dwell::Group g, dwell::Root<Forest> root, dwell::u32 rows) {
  if (g.rank() != 0) return;
  const auto forest = g.make<Forest>(dwell::Ref<dwell::Array<Row>>{});
  const auto array = g.make_array<Row>(rows);
  g.at(forest)->rows.publish(g, array);
  for (dwell::u32 i = 0; i < rows; ++i) {
    const auto row = g.make<Row>(dwell::Ref<dwell::Array<Node>>{});
    g.at(row)->trees.publish(g, g.make_array<Node>(kTrees));
    (*g.at(array))[i].publish(g, row);
  }
  g.at(root)->ref.publish(g, forest);
}
// A tree from its leaves up: a tree of each depth waits for its neighbour.
DWELL_OPERATOR(grow)(dwell::Group g, dwell::Root<Forest> root, dwell::u32 count, dwell::u32 depth) {
  for (dwell::u32 i : g.range(count)) {
    dwell::Ref<Node> waiting[24];
    for (dwell::u32 leaf = 0; leaf >> depth == 0; ++leaf) {
      auto node = g.make<Node>(dwell::Ref<Node>{}, dwell::Ref<Node>{}, dwell::u64(1));
      dwell::u32 level = 0;
      for (; (leaf >> level & 1) != 0; ++level) node = g.make<Node>(waiting[level], node, dwell::u64(1));
      waiting[level] = node;
    }
    tree_at(g, root, i).publish(g, waiting[depth]);
  }
}
// Each thread replaces a leaf of a tree of its own, `rounds` times. Cells: how long the task took.
DWELL_OPERATOR(change)(dwell::Group g, dwell::Root<Forest> root, dwell::u32 count, dwell::u32 seed, dwell::u32 rounds, dwell::u32 cell,
                       dwell::Span<dwell::u32> took) {
  const dwell::u64 begin = dwell::device::now_ns();
  dwell::u32 random = (seed * 0x9E3779B9u) ^ (g.rank() * 0x85EBCA6Bu);
  for (dwell::u32 round = 0; round < rounds; ++round) {
    random = random * 1664525u + 1013904223u;
    const dwell::u32 tree = dwell::u32(dwell::u64(random) * count >> 32);
    dwell::Ref<Node> node = tree_at(g, root, tree).get();
    for (dwell::u32 turn = random; ; turn = turn >> 1 | turn << 31) {
      dwell::Field<Node>& next = turn & 1 ? g.at(node)->left : g.at(node)->right;
      const dwell::Ref<Node> below = next.acquire();
      if (!g.at(below)->left.get()) {
        const auto made = g.make<Node>(dwell::Ref<Node>{}, dwell::Ref<Node>{}, dwell::u64(1));
        next.publish(g, made);
        break;
      }
      node = below;
    }
  }
  g.sync();
  if (g.rank() == 0) took[cell] = dwell::u32(dwell::device::now_ns() - begin);
}
DWELL_OPERATOR(count)(dwell::Group g, dwell::Root<Forest> root, dwell::u32 count, dwell::u32 depth, dwell::Span<dwell::u64> sum) {
  dwell::u64 all = 0;
  for (dwell::u32 i : g.range(count)) {
    dwell::Ref<Node> stack[24];
    dwell::u32 held = 0;
    stack[held++] = tree_at(g, root, i).get();
    while (held != 0) {
      const Node& node = *g.at(stack[--held]);
      all += node.number;
      const auto left = node.left.get(), right = node.right.get();
      if (left) stack[held++] = left;
      if (right) stack[held++] = right;
    }
  }
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&sum[0], all);
}
)";
constexpr const char* kNothing = "DWELL_OPERATOR(nothing)(dwell::Group) {}\n";

// Collects again and again, until it is stopped.
class Collecting {
 public:
  explicit Collecting(const Heap& heap)
      : heap_(heap), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            heap_.collect();
            ++count_;
          }
        }) {}
  // Returns how many collections there were, of which the last one has ended.
  u32 end() {
    thread_.request_stop();
    thread_.join();
    return count_;
  }

 private:
  Heap heap_;
  std::atomic<u32> count_{0};
  std::jthread thread_;
};

class CollectBenchmark {
 public:
  CollectBenchmark(const Context& context, Report& report, u32 trees, u32 depth)
      : context_(context),
        report_(report),
        trees_(trees),
        depth_(depth),
        objects_(static_cast<u64>(trees) * ((u64{2} << depth) - 1)),
        runtime_(options()),
        heap_(runtime_.heap()),
        root_(heap_.root<Forest>("forest")) {
    what_ = text_of_count(objects_) + " objects";
    change_ = runtime_.define("change", kForest);
    nothing_ = runtime_.define<void()>("nothing", kNothing);
    count_ = runtime_.define("count", kForest);
    const auto plant = runtime_.define<void(Root<Forest>, u32)>("plant", kForest);
    const auto grow = runtime_.define("grow", kForest);
    runtime_.submit(plant, root_, (trees + kTrees - 1) / kTrees).wait();
    runtime_.submit(grow, Arguments().add(root_).add(trees).add(depth).add(groups(runtime_.info().workers * 2))).wait();
  }

  void run() {
    std::vector<double> whole;
    std::vector<double> marking;
    u64 marked = 0;
    u32 parts = 0;
    for (int round = 0; round < context_.pick(6, 2); ++round) {
      const HeapCollection done = heap_.collect();
      if (round == 0) continue;  // compiles
      whole.push_back(static_cast<double>(done.duration.count()));
      marking.push_back(static_cast<double>(done.marking.count()) / static_cast<double>(done.marked));
      marked = done.marked;
      parts = done.slices;
    }
    report_.note("parts of a collection of " + what_ + ": " + std::to_string(parts));
    report_.check("at least as many objects marked as there are", marked >= objects_);
    report_.add({"a collection of " + what_, "dwell", true, "ns", spread_of(whole)});
    report_.add({"marking one of " + what_, "dwell", true, "ns", spread_of(marking)});
    if (context_.cuda) report_.add(Goal{"marking of " + what_, "G a second", 1 / spread_of(marking).p50, 1.5, 0.7, true});

    const Times alone = work();
    Collecting collecting(heap_);
    const Times beside = work();
    const u32 collections = collecting.end();
    report_.check("collections beside the work", collections != 0);
    const auto add = [&](const std::string& work, const std::vector<double>& rest, const std::vector<double>& during) {
      report_.add({work + ", " + what_, "no collection", true, "ns", spread_of(rest)});
      report_.add({work + ", " + what_, "beside collections", true, "ns", spread_of(during)});
    };
    add("a task that changes objects, in the device's time", alone.changes, beside.changes);
    add("a task that changes objects, fed", alone.fed, beside.fed);
    add("a task alone and a wait", alone.lone, beside.lone);
    if (context_.cuda) {
      // What the longest tasks take longer than the longest without a collection.
      const auto hold = [&](double Spread::*of) {
        return std::max(0.0, spread_of(beside.changes).*of - spread_of(alone.changes).*of) / 1000;
      };
      report_.add(Goal{"hold of a worker by a collection at p99.9, " + what_, "us", hold(&Spread::p999), 20, 100, false});
      report_.add(Goal{"longest hold of a worker by a collection, " + what_, "us", hold(&Spread::most), 100, 1000, false});
      report_.add(Goal{"fed throughput beside a collection, " + what_, "of that without",
                       spread_of(alone.fed).p50 / spread_of(beside.fed).p50, 0.85, 0.7, true});
    }
    Buffer<u64> sum = runtime_.allocate<u64>(1);
    runtime_.submit(count_, Arguments().add(root_).add(trees_).add(depth_).add(sum).add(groups(runtime_.info().workers))).wait();
    std::vector<u64> counted(1);
    sum.read(std::span(counted));
    report_.check("all objects found, " + what_, counted[0] == objects_);
    report_.check_none("contradictions in the heap's tables", heap_.verify().mistakes);
  }

 private:
  struct Times {
    std::vector<double> changes;
    std::vector<double> fed;
    std::vector<double> lone;
  };

  Options options() const {
    Options options = context_.options();
    options.heap.grow = context_.cuda ? std::size_t{8} << 30U : 0;
    return options;
  }

  Times work() {
    const u32 tasks = context_.pick<u32>(context_.cuda ? 20'000 : 2'000, 20);
    const u32 rounds = context_.cuda ? 4 : 64;
    Times times;
    Buffer<u32> took = runtime_.allocate<u32>(tasks);
    std::vector<u32> durations(tasks);
    for (int round = 0; round < context_.pick(5, 1); ++round) {
      const Clock::time_point start = Clock::now();
      for (u32 i = 0; i < tasks; ++i)
        runtime_.submit(change_, Arguments().add(root_).add(trees_).add(++seed_).add(rounds).add(i).add(took));
      runtime_.wait_all();
      times.fed.push_back(nanoseconds_since(start) / tasks);
      took.read(std::span(durations));
      for (const u32 one : durations) times.changes.push_back(one);
    }
    for (u32 i = 0; i < context_.pick<u32>(5'000, 20); ++i) {
      const Clock::time_point start = Clock::now();
      runtime_.submit(nothing_).wait();
      times.lone.push_back(nanoseconds_since(start));
    }
    return times;
  }

  const Context& context_;
  Report& report_;
  const u32 trees_;
  const u32 depth_;
  const u64 objects_;
  Runtime runtime_;
  Heap heap_;
  Root<Forest> root_;
  std::string what_;
  Operator<> change_;
  Operator<> count_;
  Operator<void()> nothing_;
  u32 seed_ = 0;
};

void run(const Context& context, Report& report) {
  // Trees of 63 objects.
  constexpr u32 kDepth = 5;
  const std::vector<u32> forests = context.brief  ? std::vector<u32>{300}
                                   : context.cuda ? std::vector<u32>{80'000, 800'000}
                                                  : std::vector<u32>{20'000};
  for (const u32 trees : forests) CollectBenchmark(context, report, trees, kDepth).run();
}

const Registration kRegistration{{42, "collect", "collections of a heap with many objects, and work beside them", 90, run}};

}  // namespace

}  // namespace dwell::bench
