#include "bench/openmp/module.hpp"

#include <cstdint>
#include <vector>

#include "bench/openmp/tree.hpp"

namespace {

using dwell::bench::DagView;
using dwell::bench::GraphModule;

// OpenMP keeps no graph: in each run one thread creates the tasks while the others run them.
struct Graph {
  int threads;
  DagView dag;
  GraphModule::Task task;
  void* context;
  std::vector<char> places;    // by node; dependences are between addresses
  std::vector<char> has_edge;  // whether a node has predecessors or successors
};

void* open(int threads) { return new int(threads); }
void close(void* threads) { delete static_cast<int*>(threads); }

void* make(void* threads, const DagView* dag, GraphModule::Task task, void* context) {
  auto* const graph =
      new Graph{*static_cast<int*>(threads), *dag, task, context, std::vector<char>(dag->nodes), std::vector<char>(dag->nodes)};
  for (std::size_t node = 0; node < dag->nodes; ++node) {
    for (std::uint32_t edge = dag->first[node]; edge < dag->first[node + 1]; ++edge)
      graph->has_edge[node] = graph->has_edge[dag->before[edge]] = 1;
  }
  return graph;
}

void drop(void* graph) { delete static_cast<Graph*>(graph); }

void run(void* opaque) {
  Graph& graph = *static_cast<Graph*>(opaque);
  const GraphModule::Task task = graph.task;
  void* const context = graph.context;
  [[maybe_unused]] char* const places = graph.places.data();  // gcc does not count its use in `depend`
#pragma omp parallel num_threads(graph.threads)
#pragma omp single
  for (std::size_t node = 0; node < graph.dag.nodes; ++node) {
    const std::uint32_t* const before = graph.dag.before + graph.dag.first[node];
    const std::uint32_t count = graph.dag.first[node + 1] - graph.dag.first[node];
    if (graph.has_edge[node] == 0) {
#pragma omp task firstprivate(node)
      task(context, node);
    } else if (count == 0) {
#pragma omp task firstprivate(node) depend(out : places[node])
      task(context, node);
    } else if (count == 1) {
#pragma omp task firstprivate(node) depend(in : places[before[0]]) depend(out : places[node])
      task(context, node);
    } else {
#pragma omp task firstprivate(node) depend(iterator(std::uint32_t i = 0 : count), in : places[before[i]]) depend(out : places[node])
      task(context, node);
    }
  }
}

}  // namespace

extern "C" const dwell::bench::OpenMpModule* dwell_bench_openmp() {
  static const GraphModule graph{"OpenMP tasks", open, close, make, drop, run};
  static const dwell::bench::OpenMpModule module{&graph, &dwell::bench::kOpenMpTree};
  return &module;
}
