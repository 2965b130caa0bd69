#include "bench/cpu_graphs.hpp"

#include <algorithm>
#include <utility>

#include "bench/cpu_pool.hpp"
#include "bench/graph_module.hpp"
#include "bench/openmp/module.hpp"
#include "bench/operators.hpp"
#include "bench/peer_module.hpp"
#include "bench/tbb/module.hpp"

namespace dwell::bench {

namespace {

struct Arrays {
  explicit Arrays(const GraphMemory& memory) : cells(memory.cells), first(memory.floats), second(memory.floats), sums(memory.floats) {}

  std::vector<unsigned> cells;
  std::vector<float> first;
  std::vector<float> second;
  std::vector<float> sums;
};

// Implements Work::visit.
void visit(unsigned* cells, std::size_t node, std::span<const std::uint32_t> before) {
  const unsigned launches = cells[node + 1];
  bool right = true;
  for (const std::uint32_t other : before) right = right && cells[other + 1] == launches + 1;
  unsigned busy = static_cast<unsigned>(node) + 1;
  for (unsigned round = cells[0]; round != 0; --round) {
    busy ^= busy << 13U;
    busy ^= busy >> 17U;
    busy ^= busy << 5U;
  }
  cells[node + 1] = right && busy != 0 ? launches + 1 : kWrongVisit;
}

class ModuleGraph final : public LaunchableGraph {
 public:
  ModuleGraph(const GraphModule& module, void* threads, Arrays& arrays, const Dag& dag, Work work)
      : module_(module), arrays_(arrays), dag_(dag), view_(dag.view()), graph_(module.make(threads, &view_, task_of(work), this)) {}
  ~ModuleGraph() override { module_.drop(graph_); }
  ModuleGraph(const ModuleGraph&) = delete;
  ModuleGraph& operator=(const ModuleGraph&) = delete;

  void launch() override {}
  void wait() override { module_.run(graph_); }

 private:
  static GraphModule::Task task_of(Work work) {
    switch (work) {
      case Work::empty: return [](void*, std::size_t) {};
      case Work::sum: return [](void* graph, std::size_t) { static_cast<ModuleGraph*>(graph)->add(0, true); };
      case Work::slice: return [](void* graph, std::size_t node) { static_cast<ModuleGraph*>(graph)->add(node, false); };
      case Work::visit:
        return [](void* graph, std::size_t node) {
          ModuleGraph& self = *static_cast<ModuleGraph*>(graph);
          visit(self.arrays_.cells.data(), node, self.dag_.before(node));
        };
    }
    return nullptr;
  }
  void add(std::size_t slice, bool in_place) {
    const std::size_t at = slice * Adds::kFloats;
    float* const sums = arrays_.sums.data() + at;
    add_on_cpu(arrays_.first.data() + at, in_place ? sums : arrays_.second.data() + at, sums);
  }

  const GraphModule& module_;
  Arrays& arrays_;
  const Dag& dag_;
  DagView view_;
  void* graph_;
};

class ModuleSide final : public GraphSide {
 public:
  ModuleSide(const GraphModule& module, int threads, std::shared_ptr<Arrays> arrays)
      : module_(module), threads_(module.open(threads)), arrays_(std::move(arrays)) {}
  ~ModuleSide() override { module_.close(threads_); }
  ModuleSide(const ModuleSide&) = delete;
  ModuleSide& operator=(const ModuleSide&) = delete;

  std::string name() const override { return module_.name; }
  std::unique_ptr<LaunchableGraph> make(const Dag& dag, Work work) override {
    return std::make_unique<ModuleGraph>(module_, threads_, *arrays_, dag, work);
  }

  void write_cells(std::span<const unsigned> cells) override { std::copy(cells.begin(), cells.end(), arrays_->cells.begin()); }
  void read_cells(std::span<unsigned> cells) override { std::copy_n(arrays_->cells.begin(), cells.size(), cells.begin()); }
  void write_first(std::span<const float> floats) override { std::copy(floats.begin(), floats.end(), arrays_->first.begin()); }
  void write_second(std::span<const float> floats) override { std::copy(floats.begin(), floats.end(), arrays_->second.begin()); }
  void write_sums(std::span<const float> floats) override { std::copy(floats.begin(), floats.end(), arrays_->sums.begin()); }
  void read_sums(std::span<float> floats) override { std::copy_n(arrays_->sums.begin(), floats.size(), floats.begin()); }

 private:
  const GraphModule& module_;
  void* threads_;
  std::shared_ptr<Arrays> arrays_;  // shared by all sides: one runs at a time
};

}  // namespace

std::vector<std::unique_ptr<GraphSide>> open_cpu_graphs(int threads, const GraphMemory& memory, std::vector<std::string>& missing) {
  std::vector<std::unique_ptr<GraphSide>> sides;
  const auto arrays = std::make_shared<Arrays>(memory);
  std::string why;
  if (auto* const tbb = find_in_module<decltype(dwell_bench_tbb)>("dwell_bench_tbb", &why); tbb != nullptr) {
    for (const GraphModule* const module : {tbb()->flow_graph, tbb()->counted_graph})
      sides.push_back(std::make_unique<ModuleSide>(*module, threads, arrays));
  } else {
    missing.push_back("no oneTBB: " + why);
  }
  if (auto* const openmp = find_in_module<decltype(dwell_bench_openmp)>("dwell_bench_openmp", &why); openmp != nullptr) {
    sides.push_back(std::make_unique<ModuleSide>(*openmp()->graph, threads, arrays));
  } else {
    missing.push_back("no OpenMP: " + why);
  }
  return sides;
}

}  // namespace dwell::bench
