#include "bench/tbb/graphs.hpp"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "bench/tbb/arena.hpp"

namespace dwell::bench {

namespace {

class FlowGraph {
 public:
  FlowGraph(tbb::task_arena& arena, const DagView& dag, GraphModule::Task task, void* context) : arena_(arena) {
    arena.execute([&] {
      graph_ = std::make_unique<tbb::flow::graph>();
      for (std::size_t node = 0; node < dag.nodes; ++node) {
        Node& made = nodes_.emplace_back(*graph_, [=](const tbb::flow::continue_msg&) { task(context, node); });
        for (std::uint32_t edge = dag.first[node]; edge < dag.first[node + 1]; ++edge) tbb::flow::make_edge(nodes_[dag.before[edge]], made);
        if (dag.first[node] == dag.first[node + 1]) roots_.push_back(&made);
      }
    });
  }

  void run() {
    arena_.execute([&] {
      for (Node* const root : roots_) root->try_put(tbb::flow::continue_msg());
      graph_->wait_for_all();
    });
  }

 private:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  tbb::task_arena& arena_;
  std::unique_ptr<tbb::flow::graph> graph_;
  std::deque<Node> nodes_;
  std::vector<Node*> roots_;
};

class CountedGraph {
 public:
  CountedGraph(tbb::task_arena& arena, const DagView& dag, GraphModule::Task task, void* context)
      : arena_(arena), dag_(dag), task_(task), context_(context), waits_(dag.nodes), first_(dag.nodes + 1), after_(dag.first[dag.nodes]) {
    for (std::uint32_t edge = 0; edge < after_.size(); ++edge) ++first_[dag.before[edge] + 1];
    for (std::size_t node = 0; node < dag.nodes; ++node) first_[node + 1] += first_[node];
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (std::uint32_t node = 0; node < dag.nodes; ++node) {
      for (std::uint32_t edge = dag.first[node]; edge < dag.first[node + 1]; ++edge) after_[next[dag.before[edge]]++] = node;
      if (count_before(node) == 0) roots_.push_back(node);
      waits_[node].store(count_before(node), std::memory_order_relaxed);
    }
  }

  void run() {
    arena_.execute([&] {
      for (const std::uint32_t root : roots_) spawn(root);
      group_.wait();
    });
  }

 private:
  std::uint32_t count_before(std::size_t node) const { return dag_.first[node + 1] - dag_.first[node]; }
  void spawn(std::uint32_t node) {
    group_.run([this, node] {
      task_(context_, node);
      waits_[node].store(count_before(node), std::memory_order_relaxed);  // for the next run
      for (std::uint32_t edge = first_[node]; edge < first_[node + 1]; ++edge) {
        // The last predecessor sees the effects of the others.
        if (waits_[after_[edge]].fetch_sub(1, std::memory_order_acq_rel) == 1) spawn(after_[edge]);
      }
    });
  }

  tbb::task_arena& arena_;
  tbb::task_group group_;
  DagView dag_;
  GraphModule::Task task_;
  void* context_;
  std::vector<std::atomic<std::uint32_t>> waits_;  // by node: predecessors not done
  std::vector<std::uint32_t> first_;               // by node: the first of its successors in after_
  std::vector<std::uint32_t> after_;
  std::vector<std::uint32_t> roots_;
};

template <class Graph>
constexpr GraphModule module_of(const char* name) {
  return {name,
          open_arena,
          close_arena,
          [](void* arena, const DagView* dag, GraphModule::Task task, void* context) -> void* {
            return new Graph(*static_cast<tbb::task_arena*>(arena), *dag, task, context);
          },
          [](void* graph) { delete static_cast<Graph*>(graph); },
          [](void* graph) { static_cast<Graph*>(graph)->run(); }};
}

}  // namespace

const GraphModule kTbbFlowGraph = module_of<FlowGraph>("oneTBB flow graph");
const GraphModule kTbbTaskGroup = module_of<CountedGraph>("oneTBB task_group");

}  // namespace dwell::bench
