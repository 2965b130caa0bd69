// Binary trees that operators build and drop, after the program of the Computer Language Benchmarks Game: nodes that the collector frees,
// and nodes of malloc and free.
#include <cstdint>
#include <string>
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
};
DWELL_OBJECT(Node, left, right);

// Both programs are the same but for these.
constexpr const char* kCollected = R"(
struct Node { dwell::Field<Node> left; dwell::Field<Node> right; };
DWELL_OBJECT(Node, left, right);
using Handle = dwell::Ref<Node>;
#define MAKE(left, right) g.make<Node>(left, right)
#define LEFT(node) g.at(node)->left.get()
#define RIGHT(node) g.at(node)->right.get()
#define IS_THERE(node) bool(node)
#define GIVE(node) static_cast<void>(node)
)";
constexpr const char* kFreed = R"(
#include <cstdlib>
struct Node { Node* left; Node* right; };
using Handle = Node*;
#define MAKE(left, right) made(left, right)
#define LEFT(node) node->left
#define RIGHT(node) node->right
#define IS_THERE(node) (node != nullptr)
#define GIVE(node) drop(node)
inline Node* made(Node* left, Node* right) {
  Node* const node = static_cast<Node*>(malloc(sizeof(Node)));
  node->left = left;
  node->right = right;
  return node;
}
inline void drop(Node* node) {
  if (node->left != nullptr) { drop(node->left); drop(node->right); }
  free(node);
}
)";
constexpr const char* kTrees = R"(
inline Handle tree(dwell::Group g, dwell::u32 depth) {
  if (depth == 0) return MAKE(Handle{}, Handle{});
  const Handle left = tree(g, depth - 1);
  return MAKE(left, tree(g, depth - 1));
}
inline dwell::u64 nodes(dwell::Group g, Handle at) {
  return IS_THERE(LEFT(at)) ? 1 + nodes(g, LEFT(at)) + nodes(g, RIGHT(at)) : 1;
}
DWELL_OPERATOR(trees)(dwell::Group g, dwell::u32 depth, dwell::u32 count, dwell::Span<dwell::u64> sum) {
  dwell::u64 all = 0;
  for (dwell::u32 i = 0; i < count; ++i) {
    const Handle top = tree(g, depth);
    all += nodes(g, top);
    GIVE(top);
  }
  dwell::device::fetch_add<dwell::device::Order::relaxed>(&sum[0], all);
}
)";
constexpr const char* kKeep = R"(
DWELL_OPERATOR(keep)(dwell::Group g, dwell::Root<Node> root, dwell::u32 depth) {
  g.at(root)->ref.publish(g, tree(g, depth));
}
)";

constexpr u64 nodes_of(u32 depth) { return (u64{2} << depth) - 1; }

// Trees of depths from 4 on in steps of 4, as many nodes of each depth. A tree of the greatest one is kept meanwhile.
void run(const Context& context, Report& report) {
  if (context.cuda) {
    report.note("the program is written for one thread a worker, and its peer is the C library: it runs on the CPU alone");
    return;
  }
  const u32 most = context.brief ? 8 : 16;
  std::vector<double> times[2];
  u64 collections = 0;
  for (int round = 0; round < (context.brief ? 1 : 5); ++round)
    for (const bool collected : {true, false}) {
      Runtime runtime(context.options());
      const std::string calls = collected ? kCollected : kFreed;
      const auto trees = runtime.define<void(u32, u32, Span<u64>)>("trees", calls + kTrees);
      Buffer<u64> sum = runtime.allocate<u64>(1);
      u64 expected = 0;
      Root<Node> root{};
      if (collected) {
        root = runtime.heap().root<Node>("kept");
        runtime.submit(runtime.define<void(Root<Node>, u32)>("keep", calls + kTrees + kKeep), root, most).wait();
      }
      const Clock::time_point start = Clock::now();
      for (u32 depth = 4; depth <= most; depth += 4) {
        const u32 count = 1U << (most - depth + 4U);
        const u32 tasks = count < 64 ? count : 64;  // several for each worker
        for (u32 task = 0; task < tasks; ++task) runtime.submit(trees, depth, count / tasks, sum);
        expected += count * nodes_of(depth);
      }
      runtime.wait_all();
      times[collected ? 0 : 1].push_back(nanoseconds_since(start) / static_cast<double>(expected));
      std::vector<u64> counted(1);
      sum.read(std::span(counted));
      report.check_none("nodes that are missing", expected - counted[0]);
      if (!collected) continue;
      collections += runtime.heap().statistics().collections;
      runtime.heap().collect();
      report.check_none("objects left but for the tree that is kept", runtime.heap().statistics().live_bytes() / 16 - nodes_of(most) - 1);
      report.check_none("contradictions in the heap's tables", runtime.heap().verify().mistakes);
    }
  report.add({"a node: made, visited, dropped", "dwell, collected", true, "ns", spread_of(times[0])});
  report.add({"a node: made, visited, dropped", "malloc and free", false, "ns", spread_of(times[1])});
  if (!context.brief) {
    report.note("collections by themselves: " + text_of_count(collections));
    report.add(
        Goal{"trees collected, by malloc and free", "of its time", spread_of(times[0]).p50 / spread_of(times[1]).p50, 1.0, 1.5, false});
  }
}

const Registration kRegistration{{40, "trees", "binary trees that a collector frees", 60, run}};

}  // namespace

}  // namespace dwell::bench
